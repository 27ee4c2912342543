#!/usr/bin/env bash
# DuckDB 2.0.0, hash() of text: distinct codes of a fixed width share hashes by the hundred thousand.
#
# Guess, written down first: hash() gives 64 bits, so among 600,000 distinct strings no two share a hash (chance 1e-8),
#   and `count(DISTINCT hash(code))` counts distinct codes.
# Behaviour: codes of three numbers, each padded to eight digits and followed by zeros, as geographic codes are built,
#   have far fewer hashes than values: 29,676 for 120,000 codes of 31 characters, 421,040 for 600,000. Codes of one
#   padded number have one hash each. `count(DISTINCT code)` is right for all of them, as are joins and GROUP BY, which
#   compare values too. Do not take hash() for a key or for a digest.
# Fails where this changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check duckdb==2.0.0
cat > "$folder/hashes.py" <<'PYTHON'
import duckdb

THREE = "lpad(a::VARCHAR, 8, '0') || lpad(b::VARCHAR, 8, '0') || lpad(c::VARCHAR, 8, '0') || repeat('0', 7)"
ONE = "lpad((a * 1000000 + b * 1000 + c)::VARCHAR, 31, '0')"


def counts(code, a, b, c):
    rows = f"SELECT {code} AS code FROM range({a}) x(a), range({b}) y(b), range({c}) z(c)"
    return duckdb.connect().execute(f"SELECT count(DISTINCT code), count(DISTINCT hash(code)) FROM ({rows})").fetchone()


for name, code in (("three numbers", THREE), ("one number", ONE)):
    for sizes in ((30, 40, 100), (2, 300, 1000)):
        print(name, *counts(code, *sizes))
PYTHON
seen=$("$folder/env/bin/python" "$folder/hashes.py")
echo "$seen"
[ "$seen" = "three numbers 120000 29676
three numbers 600000 421040
one number 120000 120000
one number 600000 600000" ] || { echo "this has changed"; exit 1; }
