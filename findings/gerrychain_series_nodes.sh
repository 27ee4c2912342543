#!/usr/bin/env bash
# gerrychain 1.0.0: a district's tally of a column is of other blocks, if the blocks' frame was sorted.
#
# Guess, written down first: DataTally takes "a Dict, Series, or sequence indexed by the graph's nodes", and the nodes of
#   Graph.from_geodataframe(frame) are the frame's index, so DataTally(frame[column]) sums the column by district.
# Behaviour: a Partition numbers the nodes anew, 0, 1, 2 … in the order of the frame's rows, and looks these numbers up in the
#   Series. After sort_values("block"), which keeps each row's index, districts A and B of 1,100 and 11 persons are given
#   101 and 1,010. Election does the same with a Series. Tally, which takes the name of a column, is right. An index of
#   texts raises KeyError. With gerrychain 0.3.2 all three are right for any index.
# What to do: name the column of the graph, or give the graph and the Series the frame after reset_index(drop=True).
# Fails where this changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check \
    gerrychain==1.0.0 geopandas==1.2.0 pandas==3.1.1 networkx==3.6.1 rustworkx==0.18.1
cat > "$folder/districts.py" <<'PYTHON'
import geopandas as gpd
from gerrychain import Graph, Partition
from gerrychain.updaters import DataTally, Election, Tally
from shapely.geometry import box


def totals(frame):
    """Return the persons of districts A and B by Tally, DataTally and Election."""
    graph = Graph.from_geodataframe(frame)
    assert list(graph.nodes) == list(frame.index)
    persons = frame["persons"]
    updaters = {"named": Tally("persons"), "series": DataTally(persons, "series"), "votes": Election("votes", {"all": persons})}
    plan = Partition(graph, "district", updaters)
    found = plan["named"], plan["series"], plan["votes"].totals_for_party["all"]
    return [(int(each["A"]), int(each["B"])) for each in found]


columns = {"block": ["1004", "1001", "1003", "1002"], "district": ["A", "B", "A", "B"], "persons": [1000, 10, 100, 1]}
blocks = gpd.GeoDataFrame(columns, geometry=[box(x, 0, x + 1, 1) for x in (3, 0, 2, 1)], crs=3857)
print("as read:", *totals(blocks))
print("sorted:", *totals(blocks.sort_values("block")))
print("sorted, reset:", *totals(blocks.sort_values("block").reset_index(drop=True)))
PYTHON
seen=$("$folder/env/bin/python" "$folder/districts.py")
echo "$seen"
[ "$seen" = "as read: (1100, 11) (1100, 11) (1100, 11)
sorted: (1100, 11) (101, 1010) (101, 1010)
sorted, reset: (1100, 11) (1100, 11) (1100, 11)" ] || { echo "this has changed"; exit 1; }
