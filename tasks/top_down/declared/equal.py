"""Counts of a published release that a declaration's estimates keep: read by the description of its tables.

Nothing here reads records. A release of exact counts (`das truth`) is refused: its figures would not be protected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import fspath
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spine.declaration.declaration import Declaration
from spine.declaration.form import EqualForm, expanded
from spine.declaration.product import coordinates
from spine.declaration.released import Counts
from spine.declaration.texts import RowIndex, Texts
from spine.geography import IntArray
from spine.top_down.bounds import LARGEST_COUNT
from tasks.errors import Refused
from tasks.records.files import unchanged
from tasks.records.tables import EncodedColumn
from tasks.releases.datapackage import Resource, read_package
from tasks.releases.description import Column
from tasks.releases.manifest import MANIFEST, is_whole, read_manifest, release_digest, require_release
from tasks.releases.received import path_in

Columns = Mapping[str, Texts]


def read_equal(declaration: Declaration, at: int, folder: str, leaves: Columns) -> tuple[Counts, str]:
    """Return the counts that a release has of the leaves, and the release's digest.

    leaves: columns of the table of leaves. The release's table has the columns of all levels, or those of a leaf's key;
    the axes of the partition by their names or columns, or the parts of a recode in the column that the declaration
    names; and a count. Other columns are summed over, in the rows of `only`. Its files stay unchanged meanwhile.

    Raises Refused if it is not a whole release with such a table, or the table has other leaves or values.
    """
    release = Path(folder)
    require_release(release)
    with unchanged([fspath(release / MANIFEST)]):
        files = read_manifest(release)["files"]
        with unchanged(fspath(path_in(release, name)) for name in files):
            return _read(declaration, at, release, leaves), release_digest(release)


def _read(declaration: Declaration, at: int, release: Path, leaves: Columns) -> Counts:
    equal, manifest, product = declaration.form.equal[at], read_manifest(release), declaration.product
    if "NOT_PRIVATE" in manifest:
        raise Refused(f"{equal.release} holds exact counts of records: no figure of them is declared")
    if not is_whole(release):
        raise Refused(f"{equal.release} is not whole: a file is missing or changed")
    table, codes, axes, count = _find_table(declaration, equal, release, [*manifest["files"], MANIFEST])
    files = [pq.ParquetFile(path_in(release, path)) for path in table.paths]
    total = 0
    for rows in _batches(files, [count]):
        valid = not rows[count].null_count and pa.types.is_integer(rows[count].type)
        records = rows[count].to_numpy() if valid else np.array([-1])
        total += int(records.sum())
        if (records < 0).any() or (records > LARGEST_COUNT).any() or total > LARGEST_COUNT:
            limits = f"counts other than whole numbers from 0 to {LARGEST_COUNT:,}"
            raise Refused(f"{equal.release}: {table.name} has {limits}")
    stated, number = _number_of_leaves(manifest), len(next(iter(leaves.values())))
    if stated not in (None, number):
        raise Refused(f"{equal.release} is of {stated:,} leaves, and the table of leaves has {number:,}: give its own")
    asked = product.asked(equal.partition)
    ordered = {axis: asked[axis] for axis in product.names if axis in asked}  # as coordinates are
    index, shape = RowIndex.of([leaves[name] for name in codes])[0], tuple(map(product.width, ordered.values()))
    chosen = {
        name: pa.array([value for text in texts for value in expanded(text)]) for name, texts in equal.only.items()
    }
    names = dict.fromkeys([*codes, *(column.name for column in axes.values()), count, *chosen])
    found = []
    for read in _batches(files, [*names]):
        row, own = _rows(read, codes, leaves, index), read
        for name, values in chosen.items():
            kept = pc.is_in(pc.cast(own[name], pa.string()), values)
            own, row = own.filter(kept), row[kept.to_numpy()]
        parts = tuple(_parts(declaration, name, axes[axis], own) for axis, name in ordered.items())
        part = np.ravel_multi_index(parts, shape) if parts else np.zeros(len(row), np.int64)
        found.append(Counts.of(row, part, own[count].to_numpy().astype(np.int64)))
    none = np.zeros(0, np.int64)
    return Counts.of(*(np.concatenate([none, *(each[at] for each in found)]) for at in range(3)))


def _batches(files: Sequence[pq.ParquetFile], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the columns of files, a group of rows at a time."""
    for file in files:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, columns=[*columns]).select([*columns])


def _find_table(
    declaration: Declaration, equal: EqualForm, release: Path, files: Sequence[str]
) -> tuple[Resource, Sequence[str], dict[str, Column], str]:
    """Return the table with such counts, its columns of a leaf's codes, its column of each axis, and its count's."""
    levels = [name for level in declaration.levels for name in level.columns]
    asked, fit = declaration.product.asked(equal.partition), {}
    for table in read_package(release, files):
        columns = {column.name: column for column in table.columns}
        counts = [column.name for column in table.columns if column.role == "count"]
        forms = {axis: declaration.form.axes[axis].column for axis in asked}
        axes = {
            axis: next((own for own in (equal.columns.get(name), axis) if own in columns), forms[axis])
            for axis, name in asked.items()
        }
        codes = next((own for own in (levels, declaration.form.leaves.key) if columns.keys() >= {*own}), None)
        whole = len(counts) == 1 and not (table.is_text or table.is_tidy)
        if whole and codes and columns.keys() >= {*axes.values(), *equal.only} and equal.table in ("", table.name):
            fit[table.name] = table, codes, {axis: columns[own] for axis, own in axes.items()}, counts[0]
    if len(fit) != 1:
        needed = ", ".join([*levels, *asked])
        found = f"several: say which, as table = {', '.join(fit)}" if fit else f"no such table {equal.table}".rstrip()
        raise Refused(f"a table of one count by {needed} is read, and {equal.release} has {found}")
    return next(iter(fit.values()))


def _number_of_leaves(manifest: Mapping[str, Any]) -> int | None:
    """Return the number of leaves that a release of the TopDown Algorithm states."""
    parts = [manifest, *manifest.get("products", {}).values()]
    return next(([*part["geounits"].values()][-1] for part in parts if part.get("geounits")), None)


def _parts(declaration: Declaration, name: str, column: Column, read: pa.Table) -> IntArray:
    """Return the part of each row on an axis, asked as itself or by a recode.

    A column with the parts of the recode has their labels in the release's description.
    """
    product = declaration.product
    ((axis, part),) = product.groups((name,)).parts
    if column.name in (axis, declaration.form.axes[axis].column):
        cells = coordinates(declaration.form.axes[axis])
        cells |= {code: cell for cell, code in enumerate(product.axis(axis).codes)}
        number = {value: int(part[cell]) for value, cell in cells.items()}
    else:
        labels = next(each for each in product.recodes if each.name == name).labels
        number = {code: labels.index(label) for code, label in column.codes.items() if label in labels}
    values = pc.cast(read[column.name], pa.string())
    place = pc.index_in(values, pa.array([*number]))
    if place.null_count:
        unknown = values.filter(pc.is_null(place))[0].as_py()
        raise Refused(f"{name} has no value {unknown!r:.40}, which the release has")
    of_value: IntArray = np.array([*number.values()], np.int64)
    part_of_row: IntArray = of_value[place.to_numpy()]
    return part_of_row


def _rows(read: pa.Table, codes: Sequence[str], leaves: Columns, index: RowIndex) -> IntArray:
    """Return the row of the table of leaves of each row of a release. Raises Refused for an unknown leaf."""
    columns = [EncodedColumn(pc.fill_null(pc.cast(read[name], pa.string()), "")) for name in codes]
    numbers = [leaves[name].find(own.values)[own.numbers] for name, own in zip(codes, columns, strict=True)]
    row = index.find(numbers)
    if (row < 0).any():
        first = int((row < 0).argmax())
        name = "/".join(str(read[each][first].as_py()) for each in codes)
        raise Refused(f"{name} has counts there, and is not in the table of leaves")
    return row
