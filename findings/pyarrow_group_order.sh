#!/usr/bin/env bash
# pyarrow 26.0.1, Table.group_by(): without threads the groups of a key of integers come in the order of their first rows,
# those of the same key as texts do not.
#
# Documentation: "When set to True (the default), no stable ordering of the output is guaranteed", of use_threads.
# Guess, written down first: with use_threads=False groups come in the order of their first rows, whatever the keys.
# Behaviour: they do for integers, and for texts as a dictionary. For the same keys as plain texts another order comes
#   out, which is the same each time. So a file that is written from groups needs an order of its own, such as that of the
#   least row number of each group, or a sort.
# Fails where this changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1
cat > "$folder/order.py" <<'PYTHON'
import pyarrow as pa

codes = [str(7 * row % 31) for row in range(60)]
texts = pa.array(codes)
first = list(dict.fromkeys(codes))
for name, key in (("integers", texts.cast(pa.int64())), ("a dictionary", texts.dictionary_encode()), ("texts", texts)):
    table = pa.table({"code": key, "count": [1] * len(codes)})
    made = [table.group_by("code", use_threads=False).aggregate([("count", "sum")])["code"] for _ in range(9)]
    orders = {tuple(map(str, groups.to_pylist())) for groups in made}
    (order,) = orders  # the same each time
    assert sorted(order) == sorted(first)
    print(f"{name}:", "in the order of first rows" if list(order) == first else "in another order")
PYTHON
seen=$("$folder/env/bin/python" "$folder/order.py")
echo "$seen"
[ "$seen" = "integers: in the order of first rows
a dictionary: in the order of first rows
texts: in another order" ] || { echo "this has changed"; exit 1; }
