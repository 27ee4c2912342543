"""A program that reads layers of boundaries with GDAL and writes their codes and shapes to standard output, as Arrow.

It runs in a process of its own, with limits, because a file may be malicious: a GeoPackage may hold an endless view.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from typing import Any

MEMORY = 8 * 2**30
# Columns that may hold a region's code, in order of preference; those that also give its level come first.
CODES = ("GEO_ID", "AFFGEOID", "AFFGEOID20", "GEOIDFQ", "GEOIDFQ20", "GEOID", "GEOID20", "GEOID10", "AIANNHCE")


def main(drivers: str, *paths: str) -> None:
    """Write the features of every layer; exit with a code other than 0 if GDAL could use any other driver."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    import pyarrow as pa
    import pyogrio

    if set(pyogrio.list_drivers()) - set(drivers.split(",")):
        sys.exit("GDAL cannot be kept from other drivers")
    layers = [layer for path in paths for layer in _layers(path)]
    table = pa.concat_tables(layers) if layers else pa.table({})
    with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
        stream.write_table(table)


def _layers(path: str) -> Iterator[Any]:
    """Yield a table for each layer with shapes: its number and columns, and codes as text with the column's type."""
    import pyarrow as pa
    import pyogrio

    for layer, kind in pyogrio.list_layers(path):
        if kind is None:
            continue
        fields = [str(name) for name in pyogrio.read_info(path, layer=layer)["fields"]]
        by_name = {name.upper(): name for name in reversed(fields)}
        column = next((by_name[name] for name in CODES if name in by_name), None)
        about, found = pyogrio.read_arrow(path, layer=layer, columns=[] if column is None else [column])
        codes = found[column] if column is not None else pa.nulls(len(found), pa.string())
        is_number = pa.types.is_integer(codes.type) or pa.types.is_floating(codes.type)
        texts = codes if pa.types.is_string(codes.type) else pa.array([_text(code) for code in codes.to_pylist()])
        words = {"layer": f"{path}/{layer}", "column": column or "", "fields": " ".join(fields), "number": is_number}
        yield pa.table(
            {
                **{name: pa.array([value] * len(found)) for name, value in words.items()},
                "code": texts.cast(pa.large_string()),
                "shape": found[about["geometry_name"] or "wkb_geometry"].cast(pa.large_binary()),
            }
        )


def _text(code: Any) -> str:
    """Return a code as text; a whole number without a decimal point."""
    if isinstance(code, float) and code.is_integer():
        code = int(code)
    return "" if code is None else str(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
