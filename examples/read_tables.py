"""Read any table of a release by its datapackage.json, with pandas alone; without a name, list the tables.

python examples/read_tables.py out/…/release/us t2-county-2
"""

import json
import sys
from pathlib import Path

import pandas as pd

release = Path(sys.argv[1])
package = json.loads((release / "datapackage.json").read_text("utf-8"))
tables = {}
for resource in package["resources"]:  # a file each: those of one table have its name in das:table
    name = resource.get("das:table", resource["name"])
    tables.setdefault(name, {**resource, "name": name, "paths": []})["paths"].append(resource["path"])


def read(name: str) -> pd.DataFrame:
    """Return a table: numbers as numbers, codes by their labels, foreign keys joined."""
    table, paths = tables[name], tables[name]["paths"]
    if table["format"] == "parquet":
        frame = pd.concat([pd.read_parquet(release / path) for path in paths], ignore_index=True)
    else:
        dialect = {"sep": table["dialect"]["delimiter"], "quotechar": table["dialect"].get("quoteChar", '"')}
        texts = [pd.read_csv(release / path, dtype=str, keep_default_na=False, **dialect) for path in paths]
        frame = pd.concat(texts, ignore_index=True)
    for field in table["schema"]["fields"]:
        column = frame[field["name"]]
        if field["type"] in ("integer", "number"):
            frame[field["name"]] = pd.to_numeric(column.replace(field.get("missingValues", [""]), None))
        elif codes := {code["value"]: code["label"] for code in field.get("categories", ())}:
            frame[f"{field['name']} in words"] = column.map(codes)
    for key in table["schema"].get("foreignKeys", ()):
        frame = frame.merge(
            read(key["reference"]["resource"]),
            how="left",
            left_on=key["fields"],
            right_on=key["reference"]["fields"],
            suffixes=("", " of the key"),
        )
    return frame


if len(sys.argv) < 3:
    for table in tables.values():
        print(f"{table['name']}: {table['title']}")
else:
    fields = tables[sys.argv[2]]["schema"]["fields"]
    for field in fields:
        print(f"{field['name']}: {field['description']}")
    frame = read(sys.argv[2])
    print(f"\n{len(frame)} rows")
    print(frame.head().to_string(index=False))
    counts = [field["name"] for field in fields if field.get("das:role") == "count"]
    margins = {field["das:of"]: field["name"] for field in fields if field.get("das:role") == "margin"}
    for count in counts:
        if count in margins:
            margin = margins[count]
            print(f"\n{count}: its margin of error is {margin}, {frame[margin].min()} to {frame[margin].max()}")
