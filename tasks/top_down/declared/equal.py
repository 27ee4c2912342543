"""Counts of a published release that a declaration's estimates keep: read by the description of its tables.

Nothing here reads records. A release of exact counts (`das truth`) is refused: its figures would not be protected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import fspath
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spine.declaration.declaration import Declaration
from spine.declaration.product import coordinates
from spine.geography import IntArray
from spine.top_down.bounds import LARGEST_COUNT
from spine.top_down.queries import query_group
from tasks.errors import Refused
from tasks.records.files import unchanged
from tasks.releases.datapackage import Resource, read_package
from tasks.releases.manifest import MANIFEST, is_whole, read_manifest, release_digest, require_release
from tasks.releases.received import path_in

Columns = Mapping[str, Sequence[str]]
Counts = tuple[tuple[int, int, int], ...]  # row of the table of leaves, coordinate of the partition, records


def read_equal(declaration: Declaration, at: int, folder: str, leaves: Columns) -> tuple[Counts, str]:
    """Return the counts that a release has of the leaves, and the release's digest.

    leaves: columns of the table of leaves. The release's table has the columns of all levels, the axes of the
    partition by their names or columns, and a count; other columns are summed over. Its files stay unchanged meanwhile.

    Raises Refused where it is no whole release with such a table, or the table has other leaves or values.
    """
    release = Path(folder)
    require_release(release)
    with unchanged([fspath(release / MANIFEST)]):
        files = read_manifest(release)["files"]
        with unchanged(fspath(path_in(release, name)) for name in files):
            return _read(declaration, at, release, leaves), release_digest(release)


def _read(declaration: Declaration, at: int, release: Path, leaves: Columns) -> Counts:
    equal, manifest = declaration.form.equal[at], read_manifest(release)
    if "NOT_PRIVATE" in manifest:
        raise Refused(f"{equal.release} holds exact counts of records: no figure of them is declared")
    if not is_whole(release):
        raise Refused(f"{equal.release} is not whole: a file is missing or changed")
    codes = [name for level in declaration.levels for name in level.columns]
    fit: dict[str, tuple[Resource, dict[str, str], str]] = {}
    for table in read_package(release, [*manifest["files"], MANIFEST]):
        names = {column.name for column in table.columns}
        counts = [column.name for column in table.columns if column.role == "count"]
        forms = {axis: declaration.form.axes[axis].column for axis in declaration.product.asked(equal.partition)}
        axes = {axis: axis if axis in names else column for axis, column in forms.items()}
        whole = len(counts) == 1 and not (table.is_text or table.is_tidy) and len(table.paths) == 1
        if whole and names.issuperset([*codes, *axes.values()]) and equal.table in ("", table.name):
            fit[table.name] = table, axes, counts[0]
    if len(fit) != 1:
        needed = ", ".join([*codes, *declaration.product.asked(equal.partition)])
        found = f"several: say which, as table = {', '.join(fit)}" if fit else f"no such table {equal.table}".rstrip()
        raise Refused(f"a table of one count by {needed} is read, and {equal.release} has {found}")
    ((table, axes, count),) = fit.values()
    read = pq.read_table(path_in(release, table.paths[0]), columns=[*codes, *axes.values(), count])
    number = read[count]
    whole = not number.null_count and pa.types.is_integer(number.type)
    records = number.to_numpy() if whole else np.array([-1])
    if (records < 0).any() or (records > LARGEST_COUNT).any() or records.sum() > LARGEST_COUNT:
        raise Refused(f"{equal.release}: {table.name} has counts other than whole numbers from 0 to {LARGEST_COUNT:,}")
    named = {name: name for name in codes} | axes
    columns = {name: [str(value) for value in read[column].to_pylist()] for name, column in named.items()}
    return _counted(declaration, at, leaves, columns, records)


def _counted(declaration: Declaration, at: int, leaves: Columns, columns: Columns, count: IntArray) -> Counts:
    """Return the counts of a table by row of the table of leaves and coordinate; columns: its codes and its axes."""
    form, product, equal = declaration.form, declaration.product, declaration.form.equal[at]
    codes = [name for level in declaration.levels for name in level.columns]
    row_of = {own: row for row, own in enumerate(zip(*(leaves[name] for name in codes), strict=True))}
    at_cell = [np.zeros(len(count), np.int64) for _ in product.axes]
    for own, axis in zip(at_cell, product.axes, strict=True):
        if axis.name not in columns:
            continue
        given = columns[axis.name]
        number = coordinates(form.axes[axis.name])
        number |= {code: cell for cell, code in enumerate(axis.codes)}
        if (unknown := next((value for value in given if value not in number), None)) is not None:
            raise Refused(f"{axis.name} has no value {unknown!r:.40}, which the release has")
        own[:] = [number[value] for value in given]
    coordinate = query_group(product, equal.partition).coordinate[np.ravel_multi_index(tuple(at_cell), product.shape)]
    rows = [row_of.get(own, -1) for own in zip(*(columns[name] for name in codes), strict=True)]
    if -1 in rows:
        name = "/".join(columns[each][rows.index(-1)] for each in codes)
        raise Refused(f"{name} has counts there, and is not in the table of leaves")
    pairs, inverse = np.unique(np.array([rows, coordinate.tolist()]), axis=1, return_inverse=True)
    sums = np.bincount(inverse.reshape(-1), count, pairs.shape[1]).astype(np.int64)
    return tuple(zip(pairs[0].tolist(), pairs[1].tolist(), sums.tolist(), strict=True))
