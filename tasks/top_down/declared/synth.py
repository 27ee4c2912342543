"""Synthetic records of a declaration, which meet every declared figure.

Totals are divided under nested bounds: bounded sets of parts nest, so the parts of a leaf, its bounded sets and its
whole are a tree. The fewest and most records of each are found from the parts upwards; then every total is divided from
the whole downwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from privacy.noise.exact import exact_number
from spine.declaration.figures import named
from spine.declaration.product import cell_values
from spine.geography import BoolArray, FloatArray, IntArray
from spine.top_down.bounds import NO_LIMIT, Sets
from tasks.errors import Refused
from tasks.records.declarations import read_columns
from tasks.records.marks import mark_table
from tasks.top_down.declared.public_tables import Declared, read_declared

RECORDS_A_LEAF = 50  # where no total is declared
SHARE_COLUMNS = ("axis", "value", "share")


def synthesize_records(
    name: str, out: Path, *, seed: int = 0, form: str = "text", records: int | None = None, shares: Path | None = None
) -> dict[str, Any]:
    """Make OUT/records.csv (.parquet) of a declaration's leaves and axes, marked synthetic; return what was made.

    Axes are independent inside each part of the declared counts. shares: a table of axis, value and share; by default
    made-up shares. records: where no total is declared. Raises Refused for a declaration or a table with faults.
    """
    declared, rng = read_declared(name)[1], np.random.default_rng(seed)
    numbers = _numbers(declared, rng, records)
    leaf, cell = _draw_cells(declared, rng, numbers, _axis_shares(declared, rng, shares))
    delimiter = declared.declaration.form.delimiter
    table = pa.table(_leaf_columns(declared, leaf) | _axis_columns(declared, rng, cell))
    out.mkdir(parents=True, exist_ok=True)
    path = out / ("records.parquet" if form == "parquet" else "records.csv")
    if form == "parquet":
        pq.write_table(table, path)
    else:
        options = pa.csv.WriteOptions(delimiter=delimiter, quoting_style="none", quoting_header="none")
        pa.csv.write_csv(table, path, options)
    mark_table(
        path, generator=f"das synth --declaration {declared.declaration.form.name}", version=version("das-flows")
    )
    return {"records": len(table), "leaves": declared.hierarchy.spine.blocks, "data": path}


def _numbers(declared: Declared, rng: np.random.Generator, records: int | None) -> IntArray:
    """Return the (leaves, parts) records: the fewest that each needs, and the rest of each total by chance."""
    bounds, spine, product = declared.bounds, declared.hierarchy.spine, declared.declaration.product
    lowest = len(spine.levels) - 1
    cells = np.bincount(product.types, product.possible, len(bounds.least)) > 0
    numbers, open_ = bounds.lower_bound(lowest).copy(), bounds.allowed(lowest) & cells
    weight = np.where(open_, bounds.counts[lowest], 0) * rng.gamma(4, 0.25, open_.shape)
    known = [level for level, totals in enumerate(bounds.totals) if totals is not None]
    group, totals = np.zeros(len(numbers), np.int64), np.array([records or RECORDS_A_LEAF * len(numbers)])
    if known:
        group, totals = bounds.lowest_totals.group[spine.geounit_of_block(max(known))], bounds.lowest_totals.values
    for at, total in enumerate(totals.tolist()):
        inside = group == at
        chance, left = weight[inside], total - int(numbers[inside].sum())
        if left > 0 and chance.sum() > 0:
            numbers[inside] += rng.multinomial(left, chance.ravel() / chance.sum()).reshape(chance.shape)
    if bounds.sets is None:
        return numbers
    groups = [(group == at, total) for at, total in enumerate(totals.tolist())] if known else []
    return divide_totals(bounds.sets, open_, numbers, groups)


def _axis_shares(declared: Declared, rng: np.random.Generator, path: Path | None) -> list[FloatArray]:
    """Return the shares of the cells of each axis."""
    product, form = declared.declaration.product, declared.declaration.form
    shares: list[FloatArray] = [rng.uniform(0.5, 1.5, len(axis)) for axis in product.axes]
    if path is None:
        return shares
    table, findings = read_columns(str(path), SHARE_COLUMNS, form.delimiter)
    if table is None:
        raise Refused(f"{path}: {findings[0].rule}")
    given: dict[str, FloatArray] = {}
    for name, value, share in zip(*table.values(), strict=True):
        values = cell_values(form.axes[name]) if name in form.axes else []
        at = next((cell for cell, texts in enumerate(values) if value in texts), None)
        try:
            number = float(exact_number(share))
        except ValueError:
            number = -1.0
        if at is None or number < 0:
            raise Refused(f"{path}: {name} {value} with the share {share} is not a cell with a share")
        given.setdefault(name, np.zeros(len(values)))[at] += number
    return [given.get(axis.name, own) for axis, own in zip(product.axes, shares, strict=True)]


def _draw_cells(
    declared: Declared, rng: np.random.Generator, numbers: IntArray, shares: list[FloatArray]
) -> tuple[IntArray, IntArray]:
    """Return leaf and cell of every record, in the order of the leaves."""
    product = declared.declaration.product
    chance = np.where(product.possible, 1.0, 0.0)
    for axis, share in zip(product.axes, shares, strict=True):
        chance = chance * share[product.coordinates[axis.name]]
    leaves, cells = [], []
    for part in range(numbers.shape[1]):
        inside = np.flatnonzero(product.possible & (product.types == part))
        total = int(numbers[:, part].sum())
        if not total:
            continue
        weight = chance[inside]
        if not weight.sum() > 0:
            raise Refused(f"the shares leave no cell for part {part} of {named(product)}, where records are declared")
        cells.append(rng.choice(inside, total, p=weight / weight.sum()))
        leaves.append(np.repeat(np.arange(len(numbers)), numbers[:, part]))
    leaf = np.concatenate([*leaves, np.zeros(0, np.int64)])
    order = np.argsort(leaf, kind="stable")
    return leaf[order], np.concatenate([*cells, np.zeros(0, np.int64)])[order]


def _leaf_columns(declared: Declared, leaf: IntArray) -> dict[str, Any]:
    """Return the columns that name the leaf of each record."""
    form, hierarchy = declared.declaration.form, declared.hierarchy
    columns = {name: hierarchy.column(key) for name, key in zip(form.record_key, form.leaves.key, strict=True)}
    return {name: pa.array(own.distinct).take(pa.array(own.number[leaf])) for name, own in columns.items()}


def _axis_columns(declared: Declared, rng: np.random.Generator, cell: IntArray) -> dict[str, Any]:
    """Return the columns of the axes; a cell of several values gets one of them at random."""
    product, form, columns = declared.declaration.product, declared.declaration.form, {}
    for axis in product.axes:
        values, at = cell_values(form.axes[axis.name]), product.coordinates[axis.name][cell]
        first = np.cumsum([0, *map(len, values)])
        number = first[at] + (rng.random(len(at)) * np.diff(first)[at]).astype(np.int64)
        columns[axis.column] = pa.array([value for texts in values for value in texts]).take(pa.array(number))
    return columns


class _Node(NamedTuple):
    """A part, a bounded set, or the whole; low, high, wanted: (leaves,) records. below: the nodes that it sums."""

    parts: frozenset[int]
    low: IntArray
    high: IntArray
    wanted: IntArray
    below: list[_Node]


def divide_totals(sets: Sets, allowed: BoolArray, wanted: IntArray, groups: Iterable[tuple[IntArray, int]]) -> IntArray:
    """Return the (leaves, parts) records that meet the leaves' bounds and the totals of groups of leaves.

    allowed, wanted: (leaves, parts). groups: the leaves of each, and their total. The bounds and totals must admit some
    division (`figures.not_inherited`).
    """
    whole = _tree(sets, allowed, wanted)
    totals, numbers = np.clip(whole.wanted, whole.low, whole.high), np.zeros_like(wanted)
    for inside, total in groups:
        most = np.minimum(whole.high[inside], total)
        shares = _divide(np.array([total]), totals[None, inside], whole.low[None, inside], most[None])
        totals[inside] = shares[0]
    _fill(whole, totals, numbers)
    return numbers


def _tree(sets: Sets, allowed: BoolArray, wanted: IntArray) -> _Node:
    """Return the whole; the fewest and most records of a node are those that the nodes below it admit, too."""
    none = np.zeros(len(allowed), np.int64)
    tops = [
        _Node(frozenset((part,)), none, np.where(allowed[:, part], NO_LIMIT, 0), wanted[:, part], [])
        for part in range(allowed.shape[1])
    ]
    whole = np.ones(allowed.shape[1], bool), none, none + NO_LIMIT
    bounds = [*zip(sets.member, sets.low[-1].T, sets.high[-1].T, strict=True), whole]
    for member, low, high in sorted(bounds, key=lambda each: each[0].sum()):
        own = frozenset(np.flatnonzero(member).tolist())
        below = [node for node in tops if node.parts <= own]
        if below:
            lows, highs, wants = (
                np.sum([getattr(node, name) for node in below], axis=0) for name in _Node._fields[1:4]
            )
            tops = [node for node in tops if not node.parts <= own]
            tops.append(_Node(own, np.maximum(low, lows), np.minimum(high, highs), wants, below))
    return tops[0]


def _fill(node: _Node, totals: IntArray, numbers: IntArray) -> None:
    """Write the records of the node's parts into (leaves, parts) numbers; totals: (leaves,) of the node."""
    if not node.below:
        numbers[:, [*node.parts]] = totals[:, None]
        return
    wanted, low, high = (
        np.stack([getattr(each, name) for each in node.below], axis=1) for name in ("wanted", "low", "high")
    )
    for each, share in zip(node.below, _divide(totals, wanted, low, high).T, strict=True):
        _fill(each, share, numbers)


def _divide(totals: IntArray, wanted: IntArray, low: IntArray, high: IntArray) -> IntArray:
    """Return (rows, k) numbers within their bounds that sum to the (rows,) totals, near the wanted ones."""
    found = np.clip(wanted, low, high)
    missing = (totals - found.sum(axis=1))[:, None]
    room = np.minimum(np.where(missing > 0, high - found, found - low), abs(missing))
    steps = abs(missing) * room // np.maximum(room.sum(axis=1, keepdims=True), 1)
    rest, room = abs(missing) - steps.sum(axis=1, keepdims=True), room - steps
    steps += np.clip(rest - (np.cumsum(room, axis=1) - room), 0, room)
    found += np.sign(missing) * steps
    return found
