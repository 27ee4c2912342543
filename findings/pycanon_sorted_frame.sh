#!/usr/bin/env bash
# pycanon 1.3.6: l-diversity and t-closeness are of other records if the frame was sorted, and k leaves out missing ages.
#
# Guess, written down first: k-anonymity, l-diversity and t-closeness are properties of the records, so neither the order of
#   the rows nor the frame's index changes them; a record without an age is in a class of its own.
# Behaviour: a class is a list of the index's labels, which are taken for positions in the frame. After sort_values, which
#   keeps each row's label, two classes of three records, one of which has the same illness three times, are said to be
#   2-diverse, not 1-diverse, and t halves. (A filtered frame raises IndexError.) With one quasi-identifier, records without
#   a value are in no class: k is 3 where one person is alone. With two quasi-identifiers k is 1.
# What to do: give it frame.reset_index(drop=True), with missing values written as a value of their own.
# Fails where this changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check pycanon==1.3.6 pandas==2.3.3 numpy==2.0.2
cat > "$folder/classes.py" <<'PYTHON'
import warnings

import pandas as pd
from pycanon.anonymity import k_anonymity, l_diversity, t_closeness

warnings.simplefilter("ignore")  # pandas', of groups that are not observed
rows = {"age": [40, 30, 40, 30, 40, 30], "ill": ["flu", "flu", "flu", "cold", "flu", "gout"], "zip": ["01"] * 6}
records = pd.DataFrame(rows)
by_age = records.sort_values("age", kind="stable")
for name, frame in (("as read", records), ("sorted", by_age), ("sorted, reset", by_age.reset_index(drop=True))):
    l, t = l_diversity(frame, ["age"], ["ill"]), t_closeness(frame, ["age"], ["ill"])
    print(f"{name}: k {k_anonymity(frame, ['age'])}, l {l}, t {t:.2f}")
alone = pd.DataFrame({"age": [*rows["age"], None], "zip": "01"})
print("one age missing: k", k_anonymity(alone, ["age"]), "by age,", k_anonymity(alone, ["age", "zip"]), "by age and zip")
print("written as -1: k", k_anonymity(alone.fillna({"age": -1}), ["age"]), "by age")
PYTHON
seen=$("$folder/env/bin/python" "$folder/classes.py")
echo "$seen"
[ "$seen" = "as read: k 3, l 1, t 0.33
sorted: k 3, l 2, t 0.17
sorted, reset: k 3, l 1, t 0.33
one age missing: k 3 by age, 1 by age and zip
written as -1: k 1 by age" ] || { echo "this has changed"; exit 1; }
