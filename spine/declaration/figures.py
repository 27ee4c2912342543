"""Read a declaration's tables of its geounits, and check that they can be true: totals, counts, and both together.

A parent's whole numbers that meet its own declared figures must always divide among its children. Counts alone always
do (each part is a transportation problem with lower bounds that sum to at most the supply). Declared totals of children
may not: a child without room for a part must still reach its total. What children can take together of each set of
parts is the sum of what each can take (integral generalized polymatroids add up, Frank 1984), so all sets are compared
with what the parent's own figures admit. Figures for which they differ are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from privacy.tables.histogram import TOTAL
from spine.declaration.declaration import Declaration
from spine.declaration.form import CountForm, Fault
from spine.declaration.hierarchy import Hierarchy
from spine.declaration.texts import Texts
from spine.geography import BoolArray, FloatArray, IntArray, Integers
from spine.top_down.bounds import LARGEST_COUNT, NO_LIMIT, Bounds, Sets, Totals, sum_bounds
from spine.top_down.histogram import Product
from spine.top_down.plan import MOST_PARTS
from spine.top_down.queries import group_sums, query_group

WHOLE = re.compile(r"\s*([0-9]{1,13})(?:\.0*)?\s*")
SETS_AT_ONCE = 1 << 24  # (geounits x sets of parts) that are held
CONTRADICTION = "can meet no division of its declared figures: its counts, limits and totals contradict each other"


class Figures(NamedTuple):
    """Declared figures in spine order.

    counts, equal: for each partition (leaves, parts). totals: for each declared total the (leaves,) group of every
    leaf, from 0, the names of the groups and their values.
    """

    counts: tuple[Integers, ...]
    totals: tuple[tuple[IntArray, tuple[str, ...], IntArray], ...] = ()
    equal: tuple[IntArray, ...] = ()


def read_bounds(hierarchy: Hierarchy, figures: Figures) -> tuple[Bounds | None, list[Fault]]:
    """Return the bounds of the geounits, or None and every fault of the declared figures against each other."""
    declaration, faults = hierarchy.declaration, []
    form, sets = declaration.form, None
    counts, least, fixed = _counts(hierarchy, figures)
    if not form.one_partition:
        counts, sets = _sets(hierarchy, figures)
        least = np.zeros(counts.shape[1], np.int64)
    lows = counts * least if sets is None else sets.low[0]
    needed = lows if sets is None else lows * (sets.member.sum(axis=1) == 1)
    found: list[tuple[int, Totals]] = []
    for at, (group, names, values) in enumerate(figures.totals):
        placed = _placed(hierarchy, _level_of(declaration, form.totals[at].of), group, values)
        if placed is None:
            text = "its groups are neither geounits of one level nor parts of one geounit: declare other groups"
            faults.append(Fault(f"totals.{at}.of", text))
        else:
            found.append(placed)
            level = declaration.levels[placed[0]].name
            if len(names) < len(hierarchy.spine.starts[placed[0]]) and TOTAL not in declaration.queries(level):
                text = f"its groups are of several units of {level}, which must ask the total"
                faults.append(Fault(f"totals.{at}.of", text))
            if sets is not None and len(values) < len(hierarchy.spine.starts[placed[0]]):
                text = "next to limits, or counts of several partitions, totals are of single geounits"
                faults.append(Fault(f"totals.{at}.of", text))
            faults += _room(f"totals.{at}.file", group, names, values, needed, counts > 0)
    if form.counts_are_totals or figures.equal:
        of_total = [each.partition == TOTAL for each in form.counts]
        own = figures.equal[0] if figures.equal else figures.counts[of_total.index(True)]
        found.append((len(declaration.levels) - 1, Totals(np.arange(len(counts)), own.sum(axis=1))))
    if any(int(totals.values.sum()) > LARGEST_COUNT for _, totals in found):
        faults.append(Fault("totals", f"they sum to more than {LARGEST_COUNT:,} {declaration.records}"))
    if any((each < 0).any() for each in (counts, lows, *(sets.high if sets is not None else ()))):
        faults.append(Fault("counts", "a declared count is negative"))
    if lows.size and lows.sum(axis=0, dtype=float).max() > LARGEST_COUNT:
        faults.append(Fault("counts", f"they need more than {LARGEST_COUNT:,} {declaration.records}"))
    faults += _without_cells(hierarchy, counts, least)
    if faults:
        return None, faults
    found.sort(key=lambda each: -each[0])
    if len({low for low, _ in found}) < len(found):
        return None, [Fault("totals", "two totals are of groups of one level: declare those of the finer groups alone")]
    try:
        bound = sum_bounds(hierarchy.spine, counts, least, *found[:1], fixed=fixed, sets=sets)  # the lowest imply all
    except ValueError as error:
        return None, [Fault("totals", str(error))]
    faults += _contradicting(hierarchy, found)
    if not faults and (stuck := not_inherited(hierarchy, bound)):
        faults = [Fault("counts" if form.counts else "equal", stuck)]
    if faults:
        return None, faults
    if sets is not None:
        bound = replace(bound, root_range=_root_range(hierarchy, bound))
    return bound, []


def _root_range(hierarchy: Hierarchy, bound: Bounds) -> tuple[int, int]:
    """Return the fewest and most records of the first root, by its own figures."""
    if len(bound.least) <= MOST_PARTS:
        least, most = border(level_figures(hierarchy, bound, 0).at(slice(0, 1)))
        return int(least[0, -1]), int(min(most[0, -1], NO_LIMIT))
    figures = level_figures(hierarchy, bound, 0)  # each part is bounded by itself
    free = figures.allowed[0] & ~figures.member.any(axis=0)
    return int(figures.low[0].sum()), NO_LIMIT if free.any() else int(min(figures.high[0].sum(), NO_LIMIT))


def _sets(hierarchy: Hierarchy, figures: Figures) -> tuple[IntArray, Sets]:
    """Return (leaves, parts) whether a leaf may have records in a part, as 0 and 1, and the bounds of sets of parts."""
    declaration, product = hierarchy.declaration, hierarchy.declaration.product
    form, parts = declaration.form, int(product.types.max()) + 1
    has_cells = np.bincount(product.types, product.possible, parts) > 0
    counts = np.ones((hierarchy.spine.blocks, parts), np.int64) & has_cells
    bounded: dict[bytes, tuple[BoolArray, IntArray, IntArray]] = {}  # a set, its fewest and its most records
    numbers: dict[str, IntArray] = {}
    equal = [
        CountForm(
            partition=each.partition,
            columns=("equal",) * own.shape[1],
            least=(1,) * own.shape[1],
            most=(1,) * own.shape[1],
        )
        for each, own in zip(form.equal, figures.equal, strict=True)
    ]
    binding = form.binding
    for each, own in zip([*form.counts, *equal], [*figures.counts, *figures.equal], strict=True):
        group = query_group(product, each.partition)
        coordinate = np.zeros(parts, np.int64)
        coordinate[product.types] = group.coordinate
        least, most = each.least or (0,) * group.width, each.most or ("",) * group.width
        number = np.full(group.width, -1)
        for at, column in enumerate(each.columns):
            if not column:
                continue
            inside = (coordinate == at) & has_cells
            counts[:, inside] &= (own[:, at] > 0)[:, None]
            if each.partition not in binding or (not inside.any() and not own[:, at].any()):
                continue
            limit, low = most[at], own[:, at] * least[at]
            high = own[:, at] * limit if isinstance(limit, int) else np.where(own[:, at], NO_LIMIT, 0)
            high = np.where(high > LARGEST_COUNT, NO_LIMIT, high)  # sums of the others are exact
            key = inside.tobytes()
            _, fewest, largest = bounded.get(key, (inside, low, high))
            bounded[key] = inside, np.maximum(fewest, low), np.minimum(largest, high)
            number[at] = [*bounded].index(key)
        if each.partition in binding:
            numbers[each.partition] = number
    member = np.array([inside for inside, _, _ in bounded.values()], bool).reshape(-1, parts)
    lows, highs = (
        np.array([each[end] for each in bounded.values()], np.int64).reshape(-1, len(counts)).T.copy() for end in (1, 2)
    )
    return counts, Sets(member, numbers, (lows,), (highs,))


def _counts(hierarchy: Hierarchy, figures: Figures) -> tuple[IntArray, IntArray, bool]:
    """Return the (leaves, parts) counts, the (parts,) least, and whether each leaf's records are as many as counted."""
    form, leaves = hierarchy.declaration.form, hierarchy.spine.blocks
    if not form.counts or not form.one_partition:
        return np.ones((leaves, 1), np.int64), np.zeros(1, np.int64), False
    (declared, *_), counts = form.counts, figures.counts[0].astype(np.int64)
    least = np.array(declared.least or [0] * len(declared.columns), np.int64)
    for part, column in enumerate(declared.columns):
        if not column:  # nothing is declared of it: records may be anywhere
            counts[:, part], least[part] = 1, 0
    fixed = form.counts_are_totals
    return counts, least * (not fixed), fixed  # a total implies it


def _level_of(declaration: Declaration, of: Sequence[str]) -> int:
    """Return the level that totals are of: that of the name, or the highest that these columns name; else the top.

    So a table with a single group is estimated as one with more, though the root lies in that group as well.
    """
    columns: set[str] = set()
    for at, level in enumerate(declaration.levels):
        columns.update(level.columns)
        if [level.name] == list(of) or columns.issuperset(of):
            return at
    return 0


def _placed(hierarchy: Hierarchy, first: int, group: IntArray, values: IntArray) -> tuple[int, Totals] | None:
    """Return the highest level from `first` on whose geounits each lie in one group, and the totals there, or None."""
    spine = hierarchy.spine
    for level in range(first, len(spine.starts)):
        starts = spine.starts[level]
        of_geounit = group[starts]
        if np.array_equal(of_geounit[spine.geounit_of_block(level)], group):
            begins = np.sort(np.unique(of_geounit, return_index=True)[1])
            ascending = np.cumsum(np.isin(np.arange(len(starts)), begins)) - 1
            if not np.array_equal(of_geounit[begins][ascending], of_geounit):
                return None  # the geounits of a group are not neighbours
            return level, Totals(ascending, values[of_geounit[begins]])
    return None


def _room(
    key: str, group: IntArray, names: Sequence[str], values: IntArray, least: IntArray, open_: BoolArray
) -> Iterator[Fault]:
    """Find totals below what their counts need, and those of records that have no place."""
    needed = np.bincount(group, least.sum(axis=1), len(values))
    room = np.bincount(group, open_.any(axis=1), len(values)) > 0
    for wrong, text in (
        (values < needed, "is less than the declared counts need"),
        (~room & (values > 0), "has no room"),
    ):
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            yield Fault(key, f"the total {values[first]} of {names[first]} {text}")


def _without_cells(hierarchy: Hierarchy, counts: IntArray, least: IntArray) -> Iterator[Fault]:
    """Find declared records of parts all of whose cells are zeros."""
    product = hierarchy.declaration.product
    cells = np.bincount(product.types, product.possible, len(least))
    wrong = ((counts * least) > 0) & (cells == 0)
    for leaf, part in np.argwhere(wrong)[:1].tolist():
        text = f"the leaf {hierarchy.key(leaf)} needs records in part {part} of {named(product)}: all are zeros"
        yield Fault("counts.0.least", text)


def _contradicting(hierarchy: Hierarchy, totals: Sequence[tuple[int, Totals]]) -> Iterator[Fault]:
    """Find totals of geounits that are not the sums of the totals declared below them; totals: the lowest first."""
    spine = hierarchy.spine
    for (low, fine), (high, coarse) in pairwise(totals):
        of_leaf = coarse.group[spine.geounit_of_block(high)]
        of_fine = of_leaf[spine.starts[low][np.searchsorted(fine.group, np.arange(len(fine.values)))]]
        sums = np.bincount(of_fine, fine.values, len(coarse.values))
        if (wrong := np.flatnonzero(sums != coarse.values)).size:
            name, at = hierarchy.name(high, int(np.searchsorted(coarse.group, wrong[0]))), wrong[0]
            text = f"{name} has {coarse.values[at]}, but the totals declared below it sum to {int(sums[at])}"
            yield Fault("totals", text)


def subsets(parts: int) -> BoolArray:
    """Return (sets, parts) whether a set of parts, by its number in bits, has a part."""
    return (np.arange(1 << parts)[:, None] >> np.arange(parts)) & 1 > 0


class Range(NamedTuple):
    """The least and most of records in a part of a set (inside), in the rest of it (outside), and in all of it."""

    inside: tuple[FloatArray, FloatArray]
    outside: tuple[FloatArray, FloatArray]
    whole: tuple[FloatArray, FloatArray]

    def limited(self, low: FloatArray, high: FloatArray) -> Range:
        """Return the range where the whole is between these, (geounits,)."""
        (a, b), (c, d) = self.inside, self.outside
        least, most = np.maximum(self.whole[0], low[:, None]), np.minimum(self.whole[1], high[:, None])
        inside = np.maximum(a, least - d), np.minimum(b, most - c)
        return Range(inside, (np.maximum(c, least - b), np.minimum(d, most - a)), (least, most))


def border(figures: LevelFigures) -> tuple[FloatArray, FloatArray]:
    """Return the (geounits, sets of parts) least and most records in each set of parts; least > most for none at all.

    Figures that nest: each bounded set is the sum of the ranges inside it, limited; the sums are exact for whole
    numbers, as a laminar family bounds an integral generalized polymatroid.
    """
    parts = figures.allowed.shape[1]
    held, zero = subsets(parts).T, np.zeros((len(figures.allowed), 1 << parts))
    ranges = {}
    for part in range(parts):
        most = np.where(figures.allowed[:, part], np.inf, 0.0)[:, None] + zero
        inside, outside = np.where(held[part], most, 0.0), np.where(held[part], 0.0, most)
        ranges[frozenset((part,))] = Range((zero, inside), (zero, outside), (zero, most))
    everything = (np.ones(parts, bool), np.zeros(len(zero)), np.full(len(zero), np.inf))
    bounds = [*zip(figures.member, figures.low.T, figures.high.T, strict=True), everything]
    if figures.total is not None:
        bounds.append((everything[0], figures.total, figures.total))
    for member, low, high in sorted(bounds, key=lambda each: each[0].sum()):
        own = frozenset(np.flatnonzero(member).tolist())
        below = [ranges.pop(each) for each in [*ranges] if each <= own]
        sums = (tuple(sum(each[kind][end] for each in below) for end in (0, 1)) for kind in range(3))
        if own:
            ranges[own] = Range(*sums).limited(low, high)  # type: ignore[arg-type]
    (all_parts,) = ranges.values()
    needless = ~figures.member.any(axis=1)  # sets all of whose cells are zeros
    empty = all_parts.whole[0][:, :1] > all_parts.whole[1][:, :1]
    empty |= np.any(figures.low[:, needless] > 0, axis=1, keepdims=True)
    least, most = all_parts.inside
    return np.where(empty, np.inf, least), np.where(empty, -np.inf, most)


class LevelFigures(NamedTuple):
    """The figures of a level's geounits: allowed parts, bounded sets, and totals where they are known.

    parent: (geounits,) on the level above.
    """

    allowed: BoolArray
    member: BoolArray
    low: FloatArray
    high: FloatArray
    total: FloatArray | None
    parent: IntArray

    def at(self, rows: slice) -> LevelFigures:
        """Return the figures of some geounits."""
        total = None if self.total is None else self.total[rows]
        return LevelFigures(self.allowed[rows], self.member, self.low[rows], self.high[rows], total, self.parent[rows])


def level_figures(hierarchy: Hierarchy, bound: Bounds, level: int) -> LevelFigures:
    """Return the figures of a level; geounits that have a total together are one."""
    product, totals = hierarchy.declaration.product, bound.totals[level]
    first = np.arange(len(hierarchy.spine.starts[level]))
    if totals is not None:
        first = np.searchsorted(totals.group, np.arange(len(totals.values)))
    cells = np.bincount(product.types, product.possible, len(bound.least)) > 0
    member, low = np.eye(len(bound.least), dtype=bool), bound.lower_bound(level)
    high = np.full(low.shape, NO_LIMIT)
    if bound.sets is not None:
        member, low, high = bound.sets.member, bound.sets.low[level], bound.sets.high[level]
    limited = np.add.reduceat(high.astype(float), first)
    return LevelFigures(
        np.logical_or.reduceat(bound.allowed(level) & cells, first),
        member,
        np.add.reduceat(low, first).astype(float),
        np.where(limited >= NO_LIMIT, np.inf, limited),
        None if totals is None else totals.values.astype(float),
        hierarchy.spine.parents[level][first] if level else first * 0,
    )


def not_inherited(hierarchy: Hierarchy, bound: Bounds) -> str:
    """Return which geounit's own figures admit numbers that its children cannot divide, and a remedy; or an empty text.

    A parent's numbers of parts divide if and only if of every set of parts they are at least and at most what the
    children can have of it together; the cells of a part divide like the part. Sets of more than MOST_PARTS parts are
    not compared: then divide what is bounded part by part, without totals below the top or with every part fixed.
    """
    spine, product, sets = hierarchy.spine, hierarchy.declaration.product, bound.sets
    known = [level for level, totals in enumerate(bound.totals) if totals is not None]
    low = len(spine.levels) - 1 if sets is not None else max(known, default=0)
    if not low or len(bound.least) == 1:
        return ""
    apart = _are_apart(sets)
    possible = np.bincount(product.types, product.possible, len(bound.least)) > 0
    fixed = sets is not None and np.array_equal(sets.low[-1], sets.high[-1]) and sets.member[:, possible].any(0).all()
    if apart and (fixed or max(known, default=0) == 0):
        return "" if sets is None else _without_division(hierarchy, bound)
    if len(bound.least) > MOST_PARTS:
        return (
            f"the {len(bound.least)} parts of {named(product)} have more sets than can be compared, of {MOST_PARTS} "
            f"parts at most: {_remedy(hierarchy, bound)}, or counts of fewer parts"
        )
    found = None
    for level in range(low, -1, -1):
        figures = level_figures(hierarchy, bound, level)
        own = _borders(figures)
        if (none := np.flatnonzero(own[0][:, 0] > own[1][:, 0])).size:
            return f"{hierarchy.name(level, int(none[0]))} {CONTRADICTION}"
        if found is not None:
            less, more = found[1] < own[1], found[0] > own[0]
            if (wrong := np.argwhere(less | more)).size:
                at, chosen = wrong[0].tolist()
                inside = [str(part) for part in np.flatnonzero(subsets(len(bound.least))[chosen]).tolist()]
                end = int(less[at, chosen])
                return (
                    f"{hierarchy.name(level, at)} may have {own[end][at, chosen]:.0f} records in parts "
                    f"{', '.join(inside)} of {named(product)}, but the geounits below it, with their declared figures, "
                    f"only {'from ' * (1 - end)}{found[end][at, chosen]:.0f}: "
                    f"{_remedy(hierarchy, bound)}"
                )
        parents = len(spine.starts[level - 1]) if level else 1
        ends = np.zeros((parents, own[0].shape[1])), np.zeros((parents, own[0].shape[1]))
        for sums, values in zip(ends, own, strict=True):
            np.add.at(sums, figures.parent, values)
        if level and (above := bound.totals[level - 1]) is not None:
            first = np.searchsorted(above.group, np.arange(len(above.values)))
            ends = np.add.reduceat(ends[0], first), np.add.reduceat(ends[1], first)
        found = ends
    return ""


def _are_apart(sets: Sets | None) -> bool:
    """Return whether each part is bounded by itself."""
    return sets is None or bool((sets.member.sum(axis=1) == 1).all())


def _remedy(hierarchy: Hierarchy, bound: Bounds) -> str:
    """Return figures that always divide, to declare instead."""
    remedies = [] if _are_apart(bound.sets) else ["bounds of one partition alone"]
    if any(totals is not None for totals in bound.totals[1:]):
        remedies.append(f"totals of {hierarchy.declaration.levels[0].name} alone")
    return f"declare {' and '.join(remedies)}"


def _without_division(hierarchy: Hierarchy, bound: Bounds) -> str:
    """Return which leaf or root can meet no figures, where each part is bounded by itself; an empty text for none."""
    for level in (0, len(hierarchy.spine.levels) - 1):
        figures = level_figures(hierarchy, bound, level)
        wrong = (figures.low > figures.high) | ((figures.low > 0) & (figures.allowed @ figures.member.T == 0))
        bad = wrong.any(axis=1)
        if figures.total is not None:
            free = figures.allowed & ~figures.member.any(axis=0)
            most = np.where(free.any(axis=1), np.inf, figures.high.sum(axis=1))
            bad |= (figures.total < figures.low.sum(axis=1)) | (figures.total > most)
        if bad.any():
            return f"{hierarchy.name(level, int(np.flatnonzero(bad)[0]))} {CONTRADICTION}"
    return ""


def _borders(figures: LevelFigures) -> tuple[FloatArray, FloatArray]:
    """Return `border`, some geounits at a time."""
    step = max(1, SETS_AT_ONCE // (1 << figures.allowed.shape[1]) // 16)
    found = [border(figures.at(slice(at, at + step))) for at in range(0, len(figures.allowed), step)]
    return np.concatenate([least for least, _ in found]), np.concatenate([most for _, most in found])


def named(product: Product) -> str:
    """Return the names of what a product's parts are by."""
    return product.bounded if isinstance(product.bounded, str) else " and ".join(product.bounded)


def whole_numbers(texts: Sequence[str] | Texts) -> tuple[IntArray, list[int]]:
    """Parse texts as whole numbers, `5.0` as 5. Invalid ones become 0; their positions are returned."""
    column = Texts.of(texts)
    found = [WHOLE.fullmatch(text) for text in column.distinct.tolist()]
    numbers = [int(each[1]) if each and int(each[1]) <= LARGEST_COUNT else -1 for each in found]
    of_rows = np.array(numbers, np.int64)[column.number]
    return np.maximum(of_rows, 0), np.flatnonzero(of_rows < 0).tolist()


def broken_counts(
    product: Product, counted: CountForm, declared: IntArray, leaf: IntArray, cell: IntArray, count: IntArray
) -> Iterator[tuple[str, BoolArray]]:
    """Yield how records contradict the declared counts of a partition: a rule, and the leaves that break it.

    declared: (leaves, parts). leaf, cell, count: the records'.
    """
    records = group_sums(query_group(product, counted.partition), len(declared), leaf, cell, count)
    for part, column in enumerate(counted.columns):
        if not column:
            continue
        there, number = records[:, part], declared[:, part]
        yield f"records in the part that {column} counts, where it is 0", (there > 0) & (number == 0)
        if counted.least:
            yield f"fewer records than {column} needs", there < number * counted.least[part]
        if counted.most and isinstance(most := counted.most[part], int):
            yield f"more records than {column} allows", there > number * most
