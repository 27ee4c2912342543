"""The hierarchy that a declaration makes of its table of leaves: a spine, and the codes of its geounits.

A geounit is the leaves that agree in the columns of its level and of those above: equal codes under different parents
name different geounits. Leaves are in the order of these columns: as numbers where all are digits, else as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spine.bypass import bypass
from spine.declaration.declaration import Declaration
from spine.declaration.form import DeclaredLevel, Fault, Form, code_faults
from spine.declaration.texts import RowIndex, Texts
from spine.geography import BoolArray, IntArray, Integers
from spine.groups import group_starts, size_cap
from spine.hierarchy import Spine, changes
from spine.settings import SpineSettings

FANOUT_CUTOFF, CAP_EXTRA = 12, 1  # for made levels: the production programs' block groups
JOIN = "|"  # between a key's several columns, whose codes may not have it: no two leaves have one text


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """The geounits of a declaration.

    spine: with its shares. leaves: the columns of the table of leaves, in its order. by_key: finds the place of a leaf
    in spine order.
    """

    declaration: Declaration
    spine: Spine
    leaves: Mapping[str, Texts]
    by_key: RowIndex

    def codes(self, level: int, geounits: IntArray | None = None) -> dict[str, Texts]:
        """Return the columns that name geounits of a level, by default all; those of a made level are numbers."""
        starts = self.spine.starts[level]
        first = starts if geounits is None else starts[geounits]
        rows, levels = self.spine.order[first], self.declaration.levels[: level + 1]
        found = {name: self.leaves[name].at(rows) for each in levels for name in each.columns}
        for at, each in enumerate(levels):
            if each.made is not None:
                number = np.searchsorted(self.spine.starts[at], first, side="right") - 1
                within = number - self.spine.first_child[at - 1][self.spine.parents[at][number]] + 1
                found[each.name] = Texts.of_numbers(within)
        return found

    def names(self, level: int, geounits: IntArray | None = None) -> list[str]:
        """Return a name for geounits of a level: their codes, joined, or the level's name for a single geounit."""
        codes = self.codes(level, geounits)
        if not codes:
            return [self.declaration.levels[level].name]
        return ["/".join(row) for row in zip(*(own.texts().tolist() for own in codes.values()), strict=True)]

    def name(self, level: int, geounit: int) -> str:
        """Return a name for a geounit of a level."""
        return self.names(level, np.array([geounit]))[0]

    def key(self, leaf: int) -> str:
        """Return the key of a leaf, given its place in spine order."""
        return leaf_key(self.declaration.form, self.leaves, int(self.spine.order[leaf]))

    def keys(self, leaves: IntArray) -> list[list[str]]:
        """Return each column of the key for leaves, given their places in spine order."""
        rows = self.spine.order[leaves]
        return [self.leaves[name].at(rows).texts().tolist() for name in self.declaration.form.leaves.key]

    def column(self, name: str) -> Texts:
        """Return a column of the table of leaves in spine order."""
        return self.leaves[name].at(self.spine.order)


def leaf_key(form: Form, leaves: Mapping[str, Texts], row: int) -> str:
    """Return the key of the leaf in a row of the table."""
    return JOIN.join(leaves[name][row] for name in form.leaves.key)


def make_hierarchy(
    declaration: Declaration, table: Mapping[str, Sequence[str] | Texts]
) -> tuple[Hierarchy | None, list[Fault]]:
    """Return the hierarchy of these leaves, or None and every fault. table: the columns of the table, by name."""
    form, levels = declaration.form, declaration.levels
    leaves = {name: Texts.of(own) for name, own in table.items()}
    columns = [name for level in levels for name in level.columns]
    apart = [name for level in levels if level.made for name in level.made.apart]
    named = dict.fromkeys([*columns, *(form.leaves.key if len(form.leaves.key) > 1 else ())])
    faults = code_faults({name: leaves[name].distinct.tolist() for name in named})
    index, number = RowIndex.of([leaves[name] for name in form.leaves.key])
    if len(index.row) < len(number):
        faults.append(_two_rows(form, leaves, number))
    if not len(number):
        faults.append(Fault("leaves.file", "it has no leaf"))
    if faults:
        return None, faults
    rank = {name: _rank(leaves[name]) for name in columns}
    classes = [_rank(leaves[name]) for name in apart]
    before, last = [rank[name] for level in levels[:-1] for name in level.columns], levels[-1].columns
    order = np.lexsort([*reversed([*before, *classes, *(rank[name] for name in last)])])
    rank = {name: own[order] for name, own in rank.items()}
    starts = _starts(levels, rank, [own[order].astype(np.int64) for own in classes])
    if len(starts[-1]) < len(order):
        double = order[np.flatnonzero(~np.isin(np.arange(len(order)), starts[-1]))[0]]
        text = (
            f"the leaf {leaf_key(form, leaves, int(double))} has the codes of another in all columns of levels "
            f"({', '.join(dict.fromkeys(columns))}): add a level whose columns tell leaves apart"
        )
        return None, [Fault(f"levels.{len(levels) - 1}.columns", text)]
    faults += _upside_down(levels, starts, [leaves[name] for name in last])
    spine = Spine(tuple(level.name for level in levels), order, tuple(starts), (), 1)
    try:
        spine = spine.with_shares({level.name: declaration.allocation.levels[level.name] for level in levels})
    except ValueError as error:
        faults.append(Fault("levels.share", str(error)))
    if faults:
        return None, faults
    if form.bypass:
        spine = bypass(spine, SpineSettings(definition=declaration.definition))
    place = np.empty(len(order), np.min_scalar_type(len(order)))
    place[spine.order] = np.arange(len(order))
    return Hierarchy(declaration, spine, leaves, index.of_rows(place)), []


def _two_rows(form: Form, leaves: Mapping[str, Texts], number: IntArray) -> Fault:
    """Return the fault of leaves with several rows. number: (rows,) the key of each."""
    several = np.flatnonzero(np.bincount(number)[number] > 1)
    key = min(leaf_key(form, leaves, row) for row in several.tolist())
    found = [row for row in several.tolist() if leaf_key(form, leaves, row) == key][:2]
    rows = " and ".join(f"{row + 1:,}" for row in found)
    return Fault("leaves.key", f"rows {rows} of {form.leaves.file} have the key {key}: a leaf has one row")


def _rank(column: Texts) -> Integers:
    """Return the (leaves,) place of each text among the distinct ones: as numbers where all are digits."""
    texts = column.distinct.tolist()
    if len({*map(len, texts)}) < 2 or not _digits(texts):
        return column.number
    rank = np.empty(len(texts), column.number.dtype)
    rank[sorted(range(len(texts)), key=lambda at: (int(texts[at]), texts[at]))] = np.arange(len(texts))
    found: Integers = rank[column.number]
    return found


def _digits(texts: Sequence[Any]) -> bool:
    return all(text.isascii() and text.isdigit() for text in texts)


def _starts(levels: Sequence[DeclaredLevel], rank: Mapping[str, Integers], classes: list[IntArray]) -> list[IntArray]:
    """Return where the geounits of each level begin; rank: (leaves,) of each column, in spine order."""
    leaves = len(next(iter(rank.values())))
    begins: BoolArray = np.zeros(leaves, bool)
    begins[0] = True
    starts = []
    for level in levels:
        if level.made is not None:
            parent = np.cumsum(begins) - 1
            members = np.bincount(parent)[parent]
            cap = size_cap(members, FANOUT_CUTOFF, CAP_EXTRA)
            starts.append(np.flatnonzero(group_starts(parent, tuple(classes), cap)))
            continue
        if level.columns:
            begins = begins | changes(*(rank[name] for name in level.columns))
        starts.append(np.flatnonzero(begins))
    return starts


def _upside_down(levels: Sequence[DeclaredLevel], starts: Sequence[IntArray], last: Sequence[Texts]) -> list[Fault]:
    """Find levels that are listed from the leaves up: the first that divides is the leaves, whose last codes repeat."""
    first = next((at for at, each in enumerate(starts) if len(each) > 1), len(levels) - 1)
    if (
        first == len(levels) - 1
        or len(starts[first]) < len(starts[-1])
        or len(RowIndex.of(last)[0].row) == len(starts[-1])
    ):
        return []
    text = f"every {levels[first].name} has one {levels[-1].name}: list the levels from the top down"
    return [Fault("levels", text)]
