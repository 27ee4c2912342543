#!/usr/bin/env bash
# frictionless 5.21.0: a Parquet file that is read without a schema gets types from its values, not from the file.
#
# Guess, written down first: Parquet stores a type for each column, so a column of strings is described as a string, and
#   ids such as 01 keep their zeros; only text has to be looked at.
# Behaviour: the column of strings is described as an integer, and its rows are 1 and 2. With the schema of a data package
#   they stay text. Codes in Parquet are safe in frictionless only if a datapackage.json lies beside them.
# Fails where this changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check 'frictionless[parquet]==5.21.0' pyarrow==26.0.0 pandas==3.0.3 fastparquet
cat > "$folder/inferred.py" <<'PYTHON'
import pyarrow as pa
import pyarrow.parquet as pq
from frictionless import Resource, describe

pq.write_table(pa.table({"state": pa.array(["01", "02"], pa.string())}), "t.parquet")
print(pq.read_schema("t.parquet").field("state").type, describe("t.parquet").schema.get_field("state").type)
print([row["state"] for row in Resource("t.parquet").read_rows()])
described = {"name": "t", "path": "t.parquet", "schema": {"fields": [{"name": "state", "type": "string"}]}}
print([row["state"] for row in Resource.from_descriptor(described).read_rows()])
PYTHON
seen=$(cd "$folder" && "$folder/env/bin/python" inferred.py)
echo "$seen"
[ "$seen" = "string integer
[1, 2]
['01', '02']" ] || { echo "this has changed"; exit 1; }
