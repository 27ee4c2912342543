#!/usr/bin/env bash
# pyjstat 2.4.0: a data frame whose rows are not sorted becomes a JSON-stat dataset in which numbers have other categories.
#
# Guess, written down first: each row of the frame names its categories, so Dataset.read puts its number there, whatever
#   the order of the rows; or it refuses an order that it cannot take.
# Behaviour: categories are listed in the order in which they first occur, and numbers in the order of the rows. Unless the
#   rows happen to come with the last column varying fastest, these two disagree. Four rows with the numbers 1 to 4, of
#   which two swap places, come back with the same categories and other numbers. Nothing warns, and all totals are right.
# What to do: give Dataset.read(frame.sort_values(dimensions)), with a row for every combination.
# Fails where this changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check pyjstat==2.4.0 pandas==3.0.3
cat > "$folder/order.py" <<'PYTHON'
from itertools import product

import pandas as pd
from pyjstat import pyjstat


def wrong(frame):
    """Return how many of the frame's numbers have other categories once written as JSON-stat and read again."""
    text = pyjstat.Dataset.read(frame).write()
    again = pyjstat.Dataset.read(text).write("dataframe")
    keys = list(frame.columns[:-1])
    both = frame.merge(again, on=keys, suffixes=("", "_again"))
    assert len(both) == len(frame) == len(again) and frame["value"].sum() == again["value"].sum()
    return int((both["value"] != both["value_again"]).sum())


rows = [("01", "female", 1), ("01", "male", 2), ("02", "female", 3), ("02", "male", 4)]
small = pd.DataFrame(rows, columns=["state", "sex", "value"])
print("small, sorted:", wrong(small), "of 4")
print("small, two rows swapped:", wrong(small.iloc[[0, 2, 1, 3]].reset_index(drop=True)), "of 4")
cells = list(product(["01", "02", "04", "05"], ["female", "male"], range(2000, 2020, 10)))
large = pd.DataFrame([(*cell, number) for number, cell in enumerate(cells)], columns=["state", "sex", "year", "value"])
large["year"] = large["year"].astype(str)
print("large, sorted:", wrong(large), "of 16")
print("large, by year first:", wrong(large.sort_values(["year", "state", "sex"], ignore_index=True)), "of 16")
PYTHON
seen=$("$folder/env/bin/python" "$folder/order.py")
echo "$seen"
[ "$seen" = "small, sorted: 0 of 4
small, two rows swapped: 2 of 4
large, sorted: 0 of 16
large, by year first: 14 of 16" ] || { echo "this has changed"; exit 1; }
