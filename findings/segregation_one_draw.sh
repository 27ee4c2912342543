#!/usr/bin/env bash
# segregation 2.6.0 (PySAL; on Python 3.11 the last is 2.5.4, alike): a modified index averages one random draw with itself.
#
# Guess, written down first: ModifiedDissim and ModifiedGini subtract what the index is under evenness, an average over
#   `iterations` simulations (500 by default), so the more iterations, the less the answer depends on the draws.
# Behaviour: every simulation starts from the same seed, so all of them are the same one. In 100 blocks of 5 to 14 persons
#   the modified dissimilarity is the same for 2 and for 200 iterations, and ten seeds give from -.08 to .09, where an average
#   over 500 different simulations gives .04 each time. (The correction is made for small units.) The modified Gini does the
#   same, and its .data holds the simulated counts in place of the given ones. Besides, Atkinson answers for b=.1 and .9 as
#   for .5, its default: the classes take any argument by name, and ignore those that they do not know.
# What to do: average the index over seeds, or simulate by hand; use Atkinson for b=.5 alone.
# Fails where this changes: the draws are seeded.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check pandas==3.0.3 \
    "segregation==2.6.0; python_version >= '3.12'" "segregation==2.5.4; python_version < '3.12'"
cat > "$folder/evenness.py" <<'PYTHON'
import warnings

import numpy as np
import pandas as pd

warnings.simplefilter("ignore")  # of optional packages that are missing
from segregation.singlegroup import Atkinson, Dissim, ModifiedDissim, ModifiedGini  # noqa: E402

rng = np.random.default_rng(0)
total = rng.integers(5, 15, 100)
blocks = pd.DataFrame({"group": rng.binomial(total, 0.2), "total": total})


def modified(index, iterations, seed):
    np.random.seed(seed)
    return index(blocks, "group", "total", iterations=iterations, n_jobs=1)


def by_hand(seed):
    """Return the modified dissimilarity, with 500 different simulations."""
    draws = np.random.default_rng(seed).binomial(total, blocks["group"].sum() / total.sum(), (500, len(blocks)))
    even = np.mean([Dissim(blocks.assign(group=draw), "group", "total").statistic for draw in draws])
    index = Dissim(blocks, "group", "total").statistic
    return (index - even) / (1 - even if index >= even else even)


def spread(answers):
    return f"{min(answers):.2f} to {max(answers):.2f}"


for index in (ModifiedDissim, ModifiedGini):
    few, many = modified(index, 2, 1), modified(index, 200, 1)
    kept = (many.data["group"] == blocks["group"]).all()
    print(index.__name__, "the same" if abs(few.statistic - many.statistic) < 1e-9 else "differs", "counts", "kept" if kept else "replaced")
print("ten seeds:", spread([modified(ModifiedDissim, 200, seed).statistic for seed in range(10)]))
print("by hand:", spread([by_hand(seed) for seed in range(3)]))
print("Atkinson:", *(f"{Atkinson(blocks, 'group', 'total', b=b).statistic:.3f}" for b in (0.1, 0.5, 0.9)))
PYTHON
seen=$("$folder/env/bin/python" "$folder/evenness.py")
echo "$seen"
[ "$seen" = "ModifiedDissim the same counts kept
ModifiedGini the same counts replaced
ten seeds: -0.08 to 0.09
by hand: 0.04 to 0.04
Atkinson: 0.250 0.250 0.250" ] || { echo "this has changed"; exit 1; }
