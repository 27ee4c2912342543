#!/usr/bin/env bash
# Prefect 3.9.1 (and 3.8.8): a task that is given an iterator finds it empty, or without its first item.
#
# Guess, written down first: a task is a function, so what it is called with arrives as it is; a cache policy decides only
#   whether the result of an earlier call is taken, and without persisted results there is none to take.
# Behaviour: the key of the cache is computed before each call, even where no result is stored, and for it a generator, a
#   csv.DictReader, a map or a zip is written as JSON to its end. The task counts 0 of 3 rows, and its run is Completed.
#   Items that JSON cannot hold, such as the chunks of pandas.read_csv, fail at the first of them: the log says that the
#   result "will not be persisted", and the task goes on with 2 of 3 chunks. A list is right.
# What to do: give tasks lists, or open files inside them, or declare task(cache_policy=NO_CACHE).
# Starts a temporary server of Prefect on this machine. Fails where this changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check prefect==3.9.1 pandas==3.0.3
cat > "$folder/rows.py" <<'PYTHON'
import csv
import io

import pandas as pd
from prefect import flow, task
from prefect.cache_policies import NO_CACHE

TEXT = "block,persons\n1001,3\n1002,4\n1003,5\n"
MAKERS = {
    "list": lambda: [3, 4, 5],
    "generator": lambda: (persons for persons in (3, 4, 5)),
    "csv.DictReader": lambda: csv.DictReader(io.StringIO(TEXT)),
    "chunks of read_csv": lambda: pd.read_csv(io.StringIO(TEXT), chunksize=1),
}


def count(rows):
    return sum(1 for _ in rows)


@flow
def counts():
    usual, uncached = task(count), task(cache_policy=NO_CACHE)(count)
    for name, make in MAKERS.items():
        state = usual(make(), return_state=True)
        print(f"{name}: {state.name}, {state.result()} of {uncached(make())} rows")


counts()
PYTHON
export PREFECT_HOME="$folder/home" PREFECT_SERVER_ANALYTICS_ENABLED=false PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS=300
seen=$("$folder/env/bin/python" "$folder/rows.py" 2> "$folder/log") || { cat "$folder/log"; exit 1; }
echo "$seen"
[ "$seen" = "list: Completed, 3 of 3 rows
generator: Completed, 0 of 3 rows
csv.DictReader: Completed, 0 of 3 rows
chunks of read_csv: Completed, 2 of 3 rows" ] || { echo "this has changed"; exit 1; }
