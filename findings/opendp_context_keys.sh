#!/usr/bin/env bash
# opendp 0.16.0, polars 1.36.1: making a Context query takes time in proportion to the public keys, if these are in memory.
#
# Guess, written down first: `with_keys` takes a frame of public keys, and the scale of the noise does not depend on them.
#   So `query.release()`, before any record is read, takes the same time for a thousand keys as for many, in memory or in
#   a file.
# Behaviour: it searches for the scale by making the measurement over and over, and a frame in memory is part of the plan
#   that is serialized each time. Seen here, processor seconds of `release()` over ten records: 1,000 keys 3.3; 27,000
#   keys 12.8; 216,000 keys 104. With the same keys as a scan of a Parquet file: 3.2, 3.5, 3.6.
# What to do: write the keys to a file, and give `with_keys(polars.scan_parquet(path))`.
# Fails where this changes: 27,000 keys in memory then take less than twice as long as the same in a file.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check "opendp[polars]==0.16.0" polars==1.36.1
cat > "$folder/keys.py" <<'PYTHON'
import time
from itertools import product

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")
names = ["a", "b", "c"]


def seconds(keys):
    context = dp.Context.compositor(
        data=pl.LazyFrame({name: ["0"] * 10 for name in names}),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=0.1),
        split_evenly_over=1,
    )
    query = context.query().group_by(names).agg(dp.len(signed=True)).with_keys(keys)
    start = time.process_time()
    query.release()
    return time.process_time() - start


def keys_of(size):
    values = [str(value) for value in range(size)]
    frame = pl.DataFrame(list(product(values, values, values)), schema=names, orient="row")
    frame.write_parquet(f"{size}.parquet")
    return seconds(frame.lazy()), seconds(pl.scan_parquet(f"{size}.parquet"))


for size in (10, 30):
    memory, file = keys_of(size)
    print(f"{size**3:,} keys: {memory:.1f} s in memory, {file:.1f} s in a file")
print("the more keys in memory, the longer" if memory > 2 * file else "the same")
PYTHON
cd "$folder"
"$folder/env/bin/python" keys.py | tee seen
[ "$(tail -1 seen)" = "the more keys in memory, the longer" ] || { echo "this has changed"; exit 1; }
