#!/usr/bin/env bash
# frictionless 5.21.0: a Parquet resource of several files is validated by its first file alone.
#
# Guess, written down first: Data Package lets `path` be a list of files that together are one table, and frictionless
#   concatenates such text files; so it reads all Parquet files of a resource, or refuses the resource.
# Behaviour: the report is valid and counts the rows of the first file; a second file with a wrong type goes unread.
#   A release in which a table is a file for each state is better described as a resource for each file.
# Fails where this changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check 'frictionless[parquet]==5.21.0' pyarrow==26.0.0 pandas==3.0.3 fastparquet
cat > "$folder/parts.py" <<'PYTHON'
import json
import pyarrow as pa
import pyarrow.parquet as pq
from frictionless import Package

for name, counts in (("44", [1, 2]), ("46", ["one", "two"])):
    pq.write_table(pa.table({"state": [name] * 2, "count": counts}), f"{name}.parquet")
    with open(f"{name}.csv", "w") as file:
        file.write("state,count\n" + "".join(f"{name},{count}\n" for count in counts))
fields = [{"name": "state", "type": "string"}, {"name": "count", "type": "integer"}]
for form in ("csv", "parquet"):
    resource = {"name": "t", "path": [f"44.{form}", f"46.{form}"], "format": form, "schema": {"fields": fields}}
    with open("datapackage.json", "w") as file:
        json.dump({"name": "p", "resources": [resource]}, file)
    task = Package("datapackage.json").validate().tasks[0]
    print(form, task.valid, task.stats.get("rows"))
PYTHON
seen=$(cd "$folder" && "$folder/env/bin/python" parts.py)
echo "$seen"
[ "$seen" = "csv False 4
parquet True 2" ] || { echo "this has changed"; exit 1; }
