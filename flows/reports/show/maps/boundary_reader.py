"""A program: read a file of boundaries with GDAL and write its attributes and shapes to standard output, as Arrow.

It has a process of its own, with limits, since a file may be anybody's: a GeoPackage may hold a view without an end.
"""

from __future__ import annotations

import resource
import sys

MEMORY = 8 * 2**30


def main(path: str, *drivers: str) -> None:
    """Write the features of a file; exit with another code than 0 where GDAL can use more than these drivers."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    import pyarrow as pa
    import pyogrio

    if set(pyogrio.list_drivers()) - set(drivers):
        sys.exit("GDAL cannot be kept from other drivers")
    about, table = pyogrio.read_arrow(path)
    geometry = about["geometry_name"] or "wkb_geometry"
    table = table.rename_columns(["geometry" if name == geometry else name for name in table.column_names])
    with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
        stream.write_table(table)


if __name__ == "__main__":
    main(*sys.argv[1:])
