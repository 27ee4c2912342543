#!/usr/bin/env bash
# numpy 2.4.6, unique(): the distinct values of millions of different integers take many times as long as these values
# together with how often each occurs.
#
# Guess, written down first: unique(a) is never dearer than unique(a, return_counts=True), which answers more about the
#   same array.
# Behaviour: for 4,000,000 different int64 unique(a) takes 5 to 25 times the processor time of unique(a,
#   return_counts=True): without other results integers go through a hash table (since numpy 2.3), with counts they are
#   sorted. Both give the same values. Where few values repeat often (here 100) the hash table is the faster one.
#   union1d and setdiff1d call unique. Sort keys of rows that are mostly different, such as region x iteration.
# Fails where this changes: printed are words, not seconds, since these depend on the machine.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check numpy==2.4.6
cat > "$folder/unique.py" <<'PYTHON'
import time

import numpy as np


def seconds(call):
    """Return the least processor time of three calls."""
    taken = []
    for _ in range(3):
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return min(taken)


draw = np.random.default_rng(0)
for name, a in (("different", draw.permutation(4_000_000)), ("repeated", draw.integers(0, 100, 4_000_000))):
    assert np.array_equal(np.unique(a), np.unique(a, return_counts=True)[0])
    ratio = seconds(lambda: np.unique(a)) / seconds(lambda: np.unique(a, return_counts=True))
    print(name, "4 times as long or longer" if ratio > 4 else "no longer" if ratio < 1 else f"{ratio:.1f} times as long")
PYTHON
seen=$("$folder/env/bin/python" "$folder/unique.py")
echo "$seen"
[ "$seen" = "different 4 times as long or longer
repeated no longer" ] || { echo "this has changed"; exit 1; }
