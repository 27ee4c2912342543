#!/usr/bin/env bash
# ipfn 1.4.4: a data frame is said to have converged after one round if the first category of the first margin is zero.
#
# Guess, written down first: iterative proportional fitting ends when all margins are met, or says that it did not converge
#   (with verbose=1 a flag of "0 for failure and 1 for success"); a category without persons gets zeros.
# Behaviour: a category whose margin is 0 has the error 0/0, which is not a number. Where it is the first in sorted order,
#   Python's max() of the errors is not a number either and counts as no error, so the other margin decides, which the
#   round has just met: the first round is the last one. Of ages a to d with margins 0, 20, 30 and 50 the table sums to 0, 25.2,
#   23.6 and 51.2, and the flag is 1. Where the same category is the last, and for the same numbers as an array, all margins
#   are met.
# What to do: leave out the categories without persons, or give an array; compare the table's sums with the margins.
# Fails where this changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check ipfn==1.4.4 pandas==3.0.3 numpy==2.4.6
cat > "$folder/fit.py" <<'PYTHON'
import warnings

import numpy as np
import pandas as pd
from ipfn import ipfn

warnings.simplefilter("ignore", RuntimeWarning)  # of 0/0 for the array
START = np.array([[2.0, 3.0], [8.0, 1.0], [2.0, 7.0], [5.0, 4.0]])
AGES, SEXES = np.array([0.0, 20.0, 30.0, 50.0]), np.array([70.0, 30.0])


def fit(names):
    """Fit START to AGES, the categories of which have these names, and SEXES; return what a frame and an array give."""
    rows = [(age, sex, START[a, s]) for a, age in enumerate(names) for s, sex in enumerate("fm")]
    frame = pd.DataFrame(rows, columns=["age", "sex", "total"])
    margins = [pd.Series(AGES, pd.Index(list(names), name="age")), pd.Series(SEXES, pd.Index(["f", "m"], name="sex"))]
    table, flag = ipfn.ipfn(frame, margins, [["age"], ["sex"]], verbose=1).iteration()
    array, array_flag = ipfn.ipfn(START.copy(), [AGES, SEXES], [[0], [1]], verbose=1).iteration()
    sums = table.groupby("age")["total"].sum().loc[list(names)]
    assert np.allclose(table.groupby("sex")["total"].sum(), SEXES)
    return f"frame {flag} {sums.round(1).tolist()} array {array_flag} {array.sum(axis=1).round(1).tolist()}"


print("zero first:", fit("abcd"))
print("zero last:", fit("dabc"))
PYTHON
seen=$("$folder/env/bin/python" "$folder/fit.py")
echo "$seen"
[ "$seen" = "zero first: frame 1 [0.0, 25.2, 23.6, 51.2] array 1 [0.0, 20.0, 30.0, 50.0]
zero last: frame 1 [0.0, 20.0, 30.0, 50.0] array 1 [0.0, 20.0, 30.0, 50.0]" ] || { echo "this has changed"; exit 1; }
