#!/usr/bin/env bash
# pysdmx 1.21.0: codes of digits in an SDMX-CSV file change when it is read, and so may the values beside them.
#
# Guess, written down first: in SDMX codes are text, and read_sdmx gives every column as text, so each cell is read as it
#   stands in the file: 01 stays 01.
# Behaviour: columns are first given types by their values, and then made text again. 01 becomes 1, and the codes 1E2 and
#   2E2 become 100.0 and 200.0. A column keeps its text as soon as one of its codes is no number (here US), so what 01
#   becomes depends on the other rows. Of the values an integer above 2**53 changes where another row has a fraction.
#   FIPS codes come out as other codes, and nothing warns.
# What to do: give codes a letter, or read the file with a reader that takes types from you.
# Fails where this changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check 'pysdmx[data]==1.21.0' pandas==3.0.3
cat > "$folder/codes.py" <<'PYTHON'
from pysdmx.io import read_sdmx


def read(*rows):
    """Return the table's rows, read from an SDMX-CSV 2.0 file of these rows."""
    with open("table.csv", "w") as file:
        file.write("STRUCTURE,STRUCTURE_ID,ACTION,STATE,TIME_PERIOD,OBS_VALUE\n")
        file.writelines(f"dataflow,CENSUS:POPULATION(1.0),I,{row}\n" for row in rows)
    (dataset,) = read_sdmx("table.csv", validate=False).get_datasets()
    return [" ".join(row) for row in dataset.data.itertuples(index=False)]


print(read("01,2020,10", "44,2020,20"))
print(read("01,2020,10", "US,2020,30"))
print(read("1E2,2020,10", "2E2,2020,20"))
print(read("01,2020,9007199254740993", "US,2020,0.5"))
PYTHON
seen=$(cd "$folder" && "$folder/env/bin/python" codes.py)
echo "$seen"
[ "$seen" = "['1 2020 10', '44 2020 20']
['01 2020 10', 'US 2020 30']
['100.0 2020 10', '200.0 2020 20']
['01 2020 9007199254740992.0', 'US 2020 0.5']" ] || { echo "this has changed"; exit 1; }
