"""Counts of a published release that a declaration's estimates keep: read by the description of its tables.

Nothing here reads records. A release of exact counts (`das truth`) is refused: its figures would not be protected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from spine.declaration.declaration import Declaration
from spine.declaration.form import Fault
from spine.declaration.product import cell_values
from tasks.lifecycle.datapackage import read_package
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import is_whole, read_manifest, release_digest, require_release
from tasks.lifecycle.received import path_in

Counts = tuple[tuple[int, int, int], ...]  # row of the table of leaves, coordinate of the partition, records


def read_equal(
    declaration: Declaration, at: int, folder: str, leaves: Mapping[str, Sequence[str]]
) -> tuple[Counts, str, list[Fault]]:
    """Return the counts that a release has of the leaves, the release's digest, and what is wrong with it.

    leaves: columns of the table of leaves. The release's table has the columns of all levels, the axes of the
    partition by their names or columns, and a count; other columns are summed over.
    """
    form, product, key = declaration.form, declaration.product, f"equal.{at}.release"
    release, equal = Path(folder), form.equal[at]
    try:
        require_release(release)
        manifest = read_manifest(release)
        if "NOT_PRIVATE" in manifest:
            return (), "", [Fault(key, f"{equal.release} holds exact counts of records: no figure of them is declared")]
        if not is_whole(release):
            return (), "", [Fault(key, f"{equal.release} is not whole: a file is missing or changed")]
        tables = read_package(release, [*manifest["files"], "manifest.json"])
    except Refused as error:
        return (), "", [Fault(key, str(error))]
    codes = [name for level in declaration.levels for name in level.columns]
    asked = product.asked(equal.partition)
    for table in tables:
        names = {column.name for column in table.columns}
        counts = [column.name for column in table.columns if column.role == "count"]
        axes = [next((name for name in (axis, form.axes[axis].column) if name in names), "") for axis in asked]
        if len(counts) == 1 and all(axes) and set(codes) <= names and not table.is_text and len(table.paths) == 1:
            read = pq.read_table(path_in(release, table.paths[0]), columns=[*codes, *axes, *counts])
            columns = {name: [str(value) for value in read[name].to_pylist()] for name in (*codes, *axes)}
            found, wrong = _counted(declaration, at, leaves, columns, axes, read[counts[0]].to_numpy())
            return found, release_digest(release), wrong
    needed = ", ".join([*codes, *asked])
    return (), "", [Fault(key, f"{equal.release} has no table of one count by {needed}")]


def _counted(
    declaration: Declaration,
    at: int,
    leaves: Mapping[str, Sequence[str]],
    columns: Mapping[str, Sequence[str]],
    axes: Sequence[str],
    count: np.ndarray,
) -> tuple[Counts, list[Fault]]:
    form, product, equal = declaration.form, declaration.product, declaration.form.equal[at]
    codes = [name for level in declaration.levels for name in level.columns]
    row_of = {own: row for row, own in enumerate(zip(*(leaves[name] for name in codes), strict=True))}
    recodes = {recode.name: recode.part for recode in product.recodes}
    coordinate, asked = np.zeros(len(count), np.int64), product.asked(equal.partition)
    for axis in product.axes:
        if axis.name not in asked:
            continue
        given = columns[axes[list(asked).index(axis.name)]]
        number = {value: cell for cell, values in enumerate(cell_values(form.axes[axis.name])) for value in values}
        number |= {code: cell for cell, code in enumerate(axis.codes)}
        if unknown := next((value for value in given if value not in number), None):
            return (), [
                Fault(f"equal.{at}.release", f"{axis.name} has no value {unknown!r:.40}, which the release has")
            ]
        part = recodes.get(asked[axis.name], range(len(axis)))
        own = np.array([part[number[value]] for value in given], np.int64)
        coordinate = coordinate * (max(part) + 1) + own
    rows = [row_of.get(own, -1) for own in zip(*(columns[name] for name in codes), strict=True)]
    if -1 in rows:
        name = "/".join(columns[each][rows.index(-1)] for each in codes)
        return (), [Fault(f"equal.{at}.release", f"{name} has counts there, and is not in the table of leaves")]
    pairs, inverse = np.unique(np.array([rows, coordinate.tolist()]), axis=1, return_inverse=True)
    sums = np.bincount(inverse.reshape(-1), count, pairs.shape[1]).astype(np.int64)
    return tuple(zip(pairs[0].tolist(), pairs[1].tolist(), sums.tolist(), strict=True)), []
