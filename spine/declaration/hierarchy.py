"""The hierarchy that a declaration makes of its table of leaves: a spine, and the codes of its geounits.

A geounit is the leaves that agree in the columns of its level and of those above: equal codes under different parents
name different geounits. Leaves are in the order of these columns: as numbers where all are digits, else as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from spine.bypass import bypass
from spine.declaration.declaration import Declaration
from spine.declaration.form import DeclaredLevel, Fault, Form, code_faults
from spine.geography import BoolArray, IntArray
from spine.groups import group_starts, size_cap
from spine.hierarchy import Spine, changes
from spine.settings import SpineSettings

FANOUT_CUTOFF, CAP_EXTRA = 12, 1  # for made levels: the production programs' block groups
JOIN = "|"  # between a key's several columns, whose codes may not have it: no two leaves have one text
Text = npt.NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """The geounits of a declaration.

    spine: with its shares. columns: the leaves' columns that name geounits, in spine order. keys: the leaves' own.
    """

    declaration: Declaration
    spine: Spine
    columns: Mapping[str, Text]
    keys: Text

    def codes(self, level: int) -> dict[str, Text]:
        """Return the columns that name the geounits of a level; those of a made level have a number for it."""
        names = [name for each in self.declaration.levels[: level + 1] for name in each.columns]
        starts = self.spine.starts[level]
        found = {name: self.columns[name][starts] for name in names}
        for at, each in enumerate(self.declaration.levels[: level + 1]):
            if each.made is not None:
                number = self.spine.geounit_of_block(at)
                first = number[self.spine.starts[at - 1]]
                within = number - np.repeat(first, self.spine.ends(at - 1) - self.spine.starts[at - 1]) + 1
                found[each.name] = within[starts].astype(str)
        return found

    def names(self, level: int) -> list[str]:
        """Return a name for each geounit of a level: its codes, joined, or the level's name for a single geounit."""
        codes = self.codes(level)
        if not codes:
            return [self.declaration.levels[level].name]
        return ["/".join(row) for row in zip(*codes.values(), strict=True)]

    @cached_property
    def by_key(self) -> dict[str, int]:
        """Return the place of each leaf in spine order, by its key."""
        return {key: at for at, key in enumerate(self.keys.tolist())}


def leaf_keys(form: Form, leaves: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the key of each leaf, in the order of the table."""
    return [JOIN.join(row) for row in zip(*(leaves[name] for name in form.leaves.key), strict=True)]


def make_hierarchy(
    declaration: Declaration, leaves: Mapping[str, Sequence[str]]
) -> tuple[Hierarchy | None, list[Fault]]:
    """Return the hierarchy of these leaves, or None and every fault. leaves: the columns of the table, by name."""
    form, levels = declaration.form, declaration.levels
    keys = np.array(leaf_keys(form, leaves), np.str_)
    columns = {name: np.array(leaves[name], np.str_) for level in levels for name in level.columns}
    apart = [name for level in levels if level.made for name in level.made.apart]
    named = [*columns, *(form.leaves.key if len(form.leaves.key) > 1 else ())]
    faults = code_faults({name: leaves[name] for name in named})
    distinct, number = np.unique(keys, return_counts=True)
    if (number > 1).any():
        key = distinct[number > 1][0]
        rows = " and ".join(f"{row + 1:,}" for row in np.flatnonzero(keys == key)[:2])
        faults.append(Fault("leaves.key", f"rows {rows} of {form.leaves.file} have the key {key}: a leaf has one row"))
    if not len(keys):
        faults.append(Fault("leaves.file", "it has no leaf"))
    if faults:
        return None, faults
    rank = {name: _rank(values) for name, values in columns.items()}
    classes = [_rank(np.array(leaves[name], np.str_)) for name in apart]
    before, last = [rank[name] for level in levels[:-1] for name in level.columns], levels[-1].columns
    order = np.lexsort([*reversed([*before, *classes, *(rank[name] for name in last)])])
    starts = _starts(levels, {name: values[order] for name, values in rank.items()}, [own[order] for own in classes])
    if len(starts[-1]) < len(order):
        double = order[np.flatnonzero(~np.isin(np.arange(len(order)), starts[-1]))[0]]
        text = (
            f"the leaf {keys[double]} has the codes of another in all columns of levels ({', '.join(columns)}): add a "
            "level whose columns tell leaves apart"
        )
        return None, [Fault(f"levels.{len(levels) - 1}.columns", text)]
    in_order = {name: values[order] for name, values in columns.items()}
    faults += _upside_down(levels, starts, in_order)
    spine = Spine(tuple(level.name for level in levels), order, tuple(starts), (), 1)
    try:
        spine = spine.with_shares({level.name: declaration.allocation.levels[level.name] for level in levels})
    except ValueError as error:
        faults.append(Fault("levels.share", str(error)))
    if faults:
        return None, faults
    if form.bypass:
        spine = bypass(spine, SpineSettings(definition=declaration.definition))
    return Hierarchy(declaration, spine, in_order, keys[order]), []


def _rank(values: Text) -> IntArray:
    """Return the (leaves,) place of each value among the distinct ones: as numbers where all are digits."""
    distinct, inverse = np.unique(values, return_inverse=True)
    texts = distinct.tolist()
    order = (
        sorted(range(len(texts)), key=lambda at: (int(texts[at]), texts[at])) if _digits(texts) else range(len(texts))
    )
    rank = np.empty(len(texts), np.int64)
    rank[list(order)] = np.arange(len(texts))
    return rank[inverse]


def _digits(texts: Sequence[Any]) -> bool:
    return all(text.isascii() and text.isdigit() for text in texts)


def _starts(levels: Sequence[DeclaredLevel], rank: Mapping[str, IntArray], classes: list[IntArray]) -> list[IntArray]:
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


def _upside_down(
    levels: Sequence[DeclaredLevel], starts: Sequence[IntArray], columns: Mapping[str, Text]
) -> list[Fault]:
    """Find levels that are listed from the leaves up: the first that divides is the leaves, whose last codes repeat."""
    first = next((at for at, each in enumerate(starts) if len(each) > 1), len(levels) - 1)
    codes = np.array([columns[name] for name in levels[-1].columns])
    if (
        first == len(levels) - 1
        or len(starts[first]) < len(starts[-1])
        or len(np.unique(codes, axis=1).T) == len(starts[-1])
    ):
        return []
    text = f"every {levels[first].name} has one {levels[-1].name}: list the levels from the top down"
    return [Fault("levels", text)]
