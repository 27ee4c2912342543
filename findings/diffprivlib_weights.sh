#!/usr/bin/env bash
# diffprivlib 0.6.6: a histogram of weighted records drops the fraction of each bin's sum before it adds noise.
#
# Guess, written down first: `weights` are survey weights as in numpy.histogram, so a bin's noisy sum lies around the sum
#   of its weights, to a step of the noise.
# Behaviour: the sum is made an integer towards zero, bin by bin, and the result has type float64 all the same. 1,000 bins
#   of one record of weight .9 hold 900; at an epsilon that leaves practically no noise, 0 comes back. A table of many
#   small cells loses half a unit a cell on average, which no margin of the noise covers.
# Fails where this changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check diffprivlib==0.6.6 scikit-learn==1.5.2 numpy==2.2.6
cat > "$folder/weighted.py" <<'PYTHON'
import numpy as np
from diffprivlib.tools import histogram, histogramdd

bins = 1000
values = np.arange(bins) + 0.5
for weight in (0.9, 1.0, 1.9):
    weights = np.full(bins, weight)
    exact, _ = np.histogram(values, bins=bins, range=(0, bins), weights=weights)
    noisy, _ = histogram(values, epsilon=60.0, bins=bins, range=(0, bins), weights=weights, random_state=1)
    several, _ = histogramdd(
        values[:, np.newaxis], epsilon=60.0, bins=[bins], range=[(0, bins)], weights=weights, random_state=1
    )
    print(weight, round(exact.sum()), noisy.dtype, round(noisy.sum()), round(several.sum()))
PYTHON
seen=$(cd "$folder" && "$folder/env/bin/python" weighted.py)
echo "$seen"
[ "$seen" = "0.9 900 float64 0 0
1.0 1000 float64 1000 1000
1.9 1900 float64 1000 1000" ] || { echo "this has changed"; exit 1; }
