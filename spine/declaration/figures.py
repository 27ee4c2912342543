"""What a declaration's tables say of its geounits, and whether it can be true: totals, counts, and both together.

A parent's whole numbers that meet its own declared figures must always divide among its children. Counts alone always
do (each part is a transportation problem with lower bounds that sum to at most the supply). Declared totals of children
may not: a child without room for a part must still reach its total. What children with totals can take together of each
set of parts is the sum of what each can take (integral generalized polymatroids add up, Frank 1984), so all sets are
compared with what the parent's own figures admit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from spine.declaration.form import Fault
from spine.declaration.hierarchy import Hierarchy
from spine.geography import BoolArray, IntArray
from spine.top_down.bounds import Bounds, Totals, sum_bounds
from spine.top_down.histogram import TOTAL
from spine.top_down.queries import query_group

LARGEST_COUNT = 1 << 40
SETS_AT_ONCE = 1 << 24  # (geounits x sets of parts) that are held


class Figures(NamedTuple):
    """Declared figures in spine order.

    counts: for each partition (leaves, parts). totals: for each declared total the (leaves,) group of every leaf, from
    0, the names of the groups and their values.
    """

    counts: Sequence[IntArray]
    totals: Sequence[tuple[IntArray, Sequence[str], IntArray]]


def read_bounds(hierarchy: Hierarchy, figures: Figures) -> tuple[Bounds | None, list[Fault]]:
    """Return the bounds of the geounits, or None and every fault of the declared figures against each other."""
    declaration, faults = hierarchy.declaration, []
    counts, least, fixed = _counts(hierarchy, figures)
    found: list[tuple[int, Totals]] = []
    for at, (group, names, values) in enumerate(figures.totals):
        placed = _placed(hierarchy, group, values)
        if placed is None:
            text = "its groups are neither geounits of one level nor parts of one geounit: declare other groups"
            faults.append(Fault(f"totals.{at}.of", text))
        else:
            found.append(placed)
            level = declaration.levels[placed[0]].name
            if len(names) < len(hierarchy.spine.starts[placed[0]]) and TOTAL not in declaration.queries(level):
                text = f"its groups are of several units of {level}, which must ask the total"
                faults.append(Fault(f"totals.{at}.of", text))
            faults += _room(hierarchy, at, group, names, values, counts * least, counts > 0)
    if fixed:
        found.append((len(declaration.levels) - 1, Totals(np.arange(len(counts)), counts.sum(axis=1))))
    faults += _without_cells(hierarchy, counts, least)
    if faults:
        return None, faults
    found.sort(key=lambda each: -each[0])
    if len({low for low, _ in found}) < len(found):
        return None, [Fault("totals", "two totals are of groups of one level: declare those of the finer groups alone")]
    try:
        bound = sum_bounds(hierarchy.spine, counts, least, *found[:1], fixed=fixed)  # the lowest imply all above
    except ValueError as error:
        return None, [Fault("totals", str(error))]
    faults += _contradicting(hierarchy, found)
    if not faults and (stuck := not_inherited(hierarchy, bound)):
        faults.append(Fault("counts", stuck))
    return (None if faults else bound), faults


def _counts(hierarchy: Hierarchy, figures: Figures) -> tuple[IntArray, IntArray, bool]:
    """Return the (leaves, parts) counts, the (parts,) least, and whether each leaf's records are as many as counted."""
    form, leaves = hierarchy.declaration.form, len(hierarchy.keys)
    if not form.counts:
        return np.ones((leaves, 1), np.int64), np.zeros(1, np.int64), False
    (declared, *_), counts = form.counts, figures.counts[0].copy()
    least = np.array(declared.least or [0] * len(declared.columns), np.int64)
    for part, column in enumerate(declared.columns):
        if not column:  # nothing is declared of it: records may be anywhere
            counts[:, part], least[part] = 1, 0
    fixed = form.counts_are_totals
    return counts, least * (not fixed), fixed  # a total says it all


def _placed(hierarchy: Hierarchy, group: IntArray, values: IntArray) -> tuple[int, Totals] | None:
    """Return the highest level whose geounits each lie in one group, and the totals there; None where none does."""
    spine = hierarchy.spine
    for level, starts in enumerate(spine.starts):
        of_geounit = group[starts]
        if np.array_equal(of_geounit[spine.geounit_of_block(level)], group):
            first = np.sort(np.unique(of_geounit, return_index=True)[1])
            ascending = np.cumsum(np.isin(np.arange(len(starts)), first)) - 1
            if not np.array_equal(of_geounit[first][ascending], of_geounit):
                return None  # the geounits of a group are not neighbours
            return level, Totals(ascending, values[of_geounit[first]])
    return None


def _room(
    hierarchy: Hierarchy,
    at: int,
    group: IntArray,
    names: Sequence[str],
    values: IntArray,
    least: IntArray,
    open_: BoolArray,
) -> list[Fault]:
    """Find totals below what their counts need, and those of records that have no place."""
    needed = np.bincount(group, least.sum(axis=1), len(values))
    room = np.bincount(group, open_.any(axis=1), len(values)) > 0
    faults = []
    for wrong, text in (
        (values < needed, "is less than the declared counts need"),
        (~room & (values > 0), "has no room"),
    ):
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            faults.append(Fault(f"totals.{at}.file", f"the total {values[first]} of {names[first]} {text}"))
    return faults


def _without_cells(hierarchy: Hierarchy, counts: IntArray, least: IntArray) -> list[Fault]:
    """Find declared records of parts all of whose cells are zeros."""
    product = hierarchy.declaration.product
    cells = np.bincount(product.types, product.possible, len(least))
    wrong = ((counts * least) > 0) & (cells == 0)
    if not wrong.any():
        return []
    leaf, part = np.argwhere(wrong)[0].tolist()
    name = hierarchy.keys[leaf]
    return [
        Fault("counts.0.least", f"the leaf {name} needs records in part {part} of {product.bounded}: all are zeros")
    ]


def _contradicting(hierarchy: Hierarchy, totals: Sequence[tuple[int, Totals]]) -> list[Fault]:
    """Find totals of geounits that are not the sums of the totals declared below them; totals: the lowest first."""
    faults, spine = [], hierarchy.spine
    for (low, fine), (high, coarse) in pairwise(totals):
        of_leaf = coarse.group[spine.geounit_of_block(high)]
        of_fine = of_leaf[spine.starts[low][np.searchsorted(fine.group, np.arange(len(fine.values)))]]
        sums = np.bincount(of_fine, fine.values, len(coarse.values))
        if (wrong := np.flatnonzero(sums != coarse.values)).size:
            name = hierarchy.names(high)[int(np.searchsorted(coarse.group, wrong[0]))]
            text = (
                f"{name} has {coarse.values[wrong[0]]}, but the totals declared below it sum to {int(sums[wrong[0]])}"
            )
            faults.append(Fault("totals", text))
    return faults


def subsets(parts: int) -> BoolArray:
    """Return (sets, parts) whether a set of parts, by its number in bits, has a part."""
    held: BoolArray = (np.arange(1 << parts)[:, None] >> np.arange(parts)) & 1 > 0
    return held


def most_of_sets(allowed: BoolArray, lower: IntArray, total: IntArray) -> IntArray:
    """Return the (geounits, sets) most records of each set of parts where lower bounds and totals hold.

    allowed, lower: (geounits, parts). total: (geounits,).
    """
    sets = subsets(allowed.shape[1])
    most: IntArray = np.where(allowed @ sets.T, total[:, None] - lower @ ~sets.T, 0)
    return most


def not_inherited(hierarchy: Hierarchy, bound: Bounds) -> str:
    """Return which geounit's own figures admit numbers that its children cannot divide; an empty text for none.

    Exact: a parent's numbers of parts divide if and only if they are at most, for every set of parts, what the children
    can take of it together; the cells of a part divide like the part.
    """
    spine, product = hierarchy.spine, hierarchy.declaration.product
    cells = np.bincount(product.types, product.possible, len(bound.least)) > 0
    known = [level for level, totals in enumerate(bound.totals) if totals is not None]
    if not known or not max(known) or len(bound.least) == 1:
        return ""
    low = max(known)
    totals = bound.totals[low]
    assert totals is not None
    first = np.searchsorted(totals.group, np.arange(len(totals.values)))
    allowed = np.logical_or.reduceat(bound.allowed(low) & cells, first)
    lower = np.add.reduceat(bound.lower_bound(low), first)
    parent, most = spine.parents[low][first], None
    for level in range(low - 1, -1, -1):
        geounits = len(spine.starts[level])
        if most is None:
            most = _summed(allowed, lower, totals.values, parent, geounits)
        else:
            most = np.add.reduceat(most, np.searchsorted(spine.parents[level + 1], np.arange(geounits)))
        above = bound.totals[level]
        assert above is not None
        own = most_of_sets(bound.allowed(level) & cells, bound.lower_bound(level), above.values)
        if (wrong := np.argwhere(most < own)).size:
            at, chosen = wrong[0].tolist()
            inside = [str(part) for part in np.flatnonzero(subsets(len(bound.least))[chosen]).tolist()]
            return (
                f"{hierarchy.names(level)[at]} may have {own[at, chosen]} records in parts {', '.join(inside)} of "
                f"{product.bounded}, but the geounits below it, with their declared totals, only {most[at, chosen]}: "
                f"declare totals of {spine.levels[level]} and above alone"
            )
    return ""


def _summed(allowed: BoolArray, lower: IntArray, total: IntArray, parent: IntArray, parents: int) -> IntArray:
    """Return the (parents, sets) sums of `most_of_sets` over the children of each parent, some children at a time."""
    sets = 1 << allowed.shape[1]
    most, step = np.zeros((parents, sets), np.int64), max(1, SETS_AT_ONCE // sets)
    for at in range(0, len(total), step):
        part = slice(at, at + step)
        np.add.at(most, parent[part], most_of_sets(allowed[part], lower[part], total[part]))
    return most


def part_counts(hierarchy: Hierarchy, partition: str, cell: IntArray, row: IntArray, count: IntArray) -> IntArray:
    """Return the (leaves, parts) records of each part of a partition, of entries (row, cell, count)."""
    group = query_group(hierarchy.declaration.product, partition)
    sums = np.zeros((len(hierarchy.keys), group.width), np.int64)
    np.add.at(sums, (row, group.coordinate[cell]), count)
    return sums


def whole_numbers(texts: Sequence[Any]) -> tuple[IntArray, list[int]]:
    """Return texts as whole numbers, 0 for what is none, and the places of those."""
    wrong = [
        at
        for at, text in enumerate(texts)
        if not (text.isascii() and text.isdigit() and len(text) <= 13 and int(text) <= LARGEST_COUNT)
    ]
    bad = set(wrong)
    return np.array([0 if at in bad else int(text) for at, text in enumerate(texts)], np.int64), wrong
