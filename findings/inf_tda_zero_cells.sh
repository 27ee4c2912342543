#!/usr/bin/env bash
# inf-tda 0.1, opendp 0.12.0: a TopDown release leaves out the cells of 0, so its means are those of the other cells.
#
# Guess, written down first: "The result is a pandas Series with the same index as the input data" (README), which must hold
#   all cells, empty ones too; so each cell has a row, and a mean over the result is a mean over the cells.
# Behaviour: cells whose estimate is 0 have no row, and the index loses its names. At an epsilon of 10,000, practically
#   without noise, 120 cells with 131 persons in 81 of them come back as 81 rows: 1.62 persons a cell in place of 1.09. The
#   more noise, the fewer rows: 10 at an epsilon of 1 in one run. The total is right, and nothing warns; the difference from
#   the input is missing, not wrong, for the cells that are left out.
# What to do: result.reindex(data.index, fill_value=0).
# Fails where this changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check inf-tda==0.1 opendp==0.12.0 pandas==2.3.3 numpy==2.2.6
cat > "$folder/cells.py" <<'PYTHON'
import numpy as np
import pandas as pd
from InfTDA import inf_tda

cells = pd.MultiIndex.from_product([["01", "02"], ["001", "003", "005"], range(20)], names=["state", "county", "age"])
data = pd.Series(np.random.default_rng(1).poisson(1.0, len(cells)), cells)
result = inf_tda(data=data, budget=(1e4, 1e-6), contribution=1)
whole = result.reindex(data.index, fill_value=0)
print("cells", len(data), "with persons", int((data > 0).sum()), "rows", len(result), "names", list(result.index.names))
print("total", int(data.sum()), int(result.sum()), "mean", round(data.mean(), 2), round(result.mean(), 2))
print("reindexed, mean", round(whole.mean(), 2), "same counts", bool((whole == data).all()))
noisy = inf_tda(data=data, budget=(1.0, 1e-6), contribution=1)
print("at an epsilon of 1", "fewer rows than cells" if len(noisy) < len(data) else "all cells")
PYTHON
seen=$("$folder/env/bin/python" "$folder/cells.py")
echo "$seen"
[ "$seen" = "cells 120 with persons 81 rows 81 names [None, None, None]
total 131 131 mean 1.09 1.62
reindexed, mean 1.09 same counts True
at an epsilon of 1 fewer rows than cells" ] || { echo "this has changed"; exit 1; }
