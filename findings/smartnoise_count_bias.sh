#!/usr/bin/env bash
# smartnoise-sql 1.0.10, opendp 0.14.2: noisy counts and integer sums lie half a unit too low on average.
#
# Guess, written down first: the map of mechanisms gives counts and integer sums `discrete_laplace`, so the noise is an
#   integer with mean 0. At an epsilon of 20, where all but 4e-9 of this law is at 0, every cell of 5 persons answers 5.
# Behaviour: the names discrete_laplace and geometric both stand for the class of the continuous Laplace law, and its
#   answer is made an integer towards zero. At an epsilon of 20 half of the cells of 5 persons answer 4, the others 5. At
#   an epsilon of 1 cells of 5 and of 20 persons answer 4.5 and 19.5 on average. Sums of a float column have no such bias.
#   So a total that is added up from a thousand cells lacks five hundred persons, which no margin of the noise covers.
# What to do: declare a column of ones as float, and take its SUM in place of COUNT.
# Fails where this changes: the chance that a run fails for its draws is below 1e-8.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check smartnoise-sql==1.0.10 opendp==0.14.2 pandas==2.3.3 numpy==2.4.6
cat > "$folder/counts.py" <<'PYTHON'
import warnings

import numpy as np
import pandas as pd
from snsql import Privacy, from_df

warnings.simplefilter("ignore")  # opendp's, of features by their maturity
CELLS = 2_000


def answers(what, persons, epsilon):
    """Return the noisy answers of all cells, each of which holds so many persons."""
    rows = CELLS * persons
    people = pd.DataFrame({"id": range(rows), "cell": np.arange(rows) % CELLS, "flag": 1, "weight": 1.0})
    columns = {
        "id": {"type": "int", "private_id": True},
        "cell": {"type": "int"},
        "flag": {"type": "int", "lower": 0, "upper": 1},
        "weight": {"type": "float", "lower": 0.0, "upper": 1.0},
    }
    table = {"rows": rows, "max_ids": 1, "censor_dims": False, "clamp_counts": False, **columns}
    reader = from_df(people, metadata={"": {"": {"people": table}}}, privacy=Privacy(epsilon=epsilon, delta=1e-6))
    header, *cells = reader.execute(f"SELECT cell, {what} AS answer FROM people GROUP BY cell")
    assert len(cells) == CELLS
    return np.array([answer for _, answer in cells])


few = answers("COUNT(*)", 5, 20.0)
print(*np.unique(few), "half of the cells too low" if 0.4 < np.mean(few == 4) < 0.6 else "otherwise")
for persons in (5, 20):
    for what in ("COUNT(*)", "SUM(flag)", "SUM(weight)"):
        bias = answers(what, persons, 1.0).mean() - persons
        print(persons, what, "half too low" if abs(bias + 0.5) < 0.2 else "right on average" if abs(bias) < 0.2 else bias)
PYTHON
seen=$("$folder/env/bin/python" "$folder/counts.py")
echo "$seen"
[ "$seen" = "4 5 half of the cells too low
5 COUNT(*) half too low
5 SUM(flag) half too low
5 SUM(weight) right on average
20 COUNT(*) half too low
20 SUM(flag) half too low
20 SUM(weight) right on average" ] || { echo "this has changed"; exit 1; }
