"""The transportation problems that a parent leaves to decide, and their integers.

Problems are rounded one after another by `top_down.rounding`, with every child's sum exact.

"program": the cells and nested sums nearest to the fractions' nearest integers, as the production programs have it.
That drifts where many fractions are small: each of a hundred problems rounds the same sum its own way.

"carried": the least distance to the fractions themselves; problems by falling size, and each fraction above 0 first
raised by KAPPA times what the sums that it lies in have lost so far in that child. Sums and zeros hold as before, and
each problem is still one flow of least cost.

"stepwise": carried, in two steps. First the finest nested sums of every problem are rounded, each close to its own
fraction. Then each sum is a transportation problem of few rows, which carries on what the queries' sums have lost in
those before it. The integers of the first step need not divide in the second, where entries rise by at most one: then
one step rounds all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled
from spine.geography import BoolArray, FloatArray, IntArray
from spine.top_down.least_squares import NO_BOUNDS, NO_FLOATS, NO_INTEGERS, NO_ROWS, NO_SETS, Parent
from spine.top_down.rounding import distributed, remainder
from spine.wide.dual import Objective
from spine.wide.plan import Numbers
from spine.wide.transport import Problems


class Rows(NamedTuple):
    """A parent's cells in one pass, and what is known of its children.

    number: (n,) coordinates, ascending. counts: (n,), None at a root. kept: (n,) the known sum of each. kind: (n,) its
    part. sums: (sums, children) by `kept`. open: (children, parts). scale: (children,).
    """

    number: IntArray
    counts: IntArray | None
    kept: IntArray
    kind: IntArray
    sums: Numbers
    open: BoolArray
    scale: FloatArray


class Entries(NamedTuple):
    """Open entries of the problems, (n,) each: their numbers, rows and children."""

    entry: IntArray
    row: IntArray
    child: IntArray


@dataclass(frozen=True, eq=False)
class Undecided:
    """The entries that answers decide.

    rows: which of the cells. problems: a is 1 where a child may have records of a row, until there is a metric.
    """

    rows: IntArray
    problems: Problems

    def __len__(self) -> int:
        return len(self.problems.a)

    def children_at_once(self, children: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of children (first, last + 1) that have about AT_ONCE entries each: one, if that has more."""
        each = max(1, AT_ONCE * children // len(self))
        for first in range(0, children, each):
            yield first, min(first + each, children)

    def open_entries(self, children: int) -> Iterator[Entries]:
        """Yield the open entries, those of some children at once, each in the order of their numbers."""
        for ends in self.children_at_once(children):
            yield Entries(*open_entries(self.problems, *ends))


def undecided(own: Rows, whole: Numbers) -> Undecided:
    """Return the undecided entries, and write the others into `whole`, (n, children).

    A known sum with one cell of the parent, or with one child, leaves nothing to decide.
    """
    kept, begin, rows = np.unique(own.kept, return_index=True, return_counts=True)  # rows are sorted by it
    sums = own.sums[kept]
    columns = (sums > 0).sum(axis=1)
    alone = rows == 1
    whole[begin[alone]] = sums[alone]
    single = ~alone & (columns == 1) & (own.counts is not None)
    if own.counts is not None:
        group = np.repeat(np.arange(len(kept)), rows)
        of_one = np.flatnonzero(single[group])
        whole[of_one, sums.argmax(axis=1)[group[of_one]]] = own.counts[of_one]
    left = np.flatnonzero(~alone & ~single & (columns > 0))
    first_row = np.append(0, np.cumsum(rows[left]))
    chosen = np.repeat(begin[left] - first_row[:-1], rows[left]) + np.arange(first_row[-1])
    at, child = np.nonzero(sums[left] > 0)
    first_column = np.searchsorted(at, np.arange(len(left) + 1))
    first = np.append(0, np.cumsum(rows[left] * columns[left]))
    counts = np.zeros(0) if own.counts is None else own.counts[chosen].astype(float)
    known = sums[left][at, child].astype(float)
    problems = Problems(first_row, first_column, first, child, counts, known, np.ones(first[-1]))
    close(problems, own.open, own.kind[chosen])
    return Undecided(chosen, problems)


@compiled
def close(problems: Problems, open_: BoolArray, kind: IntArray) -> None:
    """Write 0 into a where a child may have no record of a row's part."""
    at = 0
    for g in range(len(problems.first) - 1):
        child = problems.child[problems.first_column[g] : problems.first_column[g + 1]]
        for i in range(problems.first_row[g], problems.first_row[g + 1]):
            for c in child:
                if not open_[c, kind[i]]:
                    problems.a[at] = 0.0
                at += 1


@compiled
def open_entries(problems: Problems, first: int, last: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the open entries of the children first ... last - 1, as `Entries`."""
    found, places = 0, np.empty((3, 0), np.int64)
    for fill in (False, True):  # they are counted first
        if fill:
            places = np.empty((3, found), np.int64)
        found, at = 0, 0
        for g in range(len(problems.first) - 1):
            child = problems.child[problems.first_column[g] : problems.first_column[g + 1]]
            for i in range(problems.first_row[g], problems.first_row[g + 1]):
                for c in child:
                    if problems.a[at] > 0.0 and first <= c < last:
                        if fill:
                            places[0, found], places[1, found], places[2, found] = at, i, c
                        found += 1
                    at += 1
    return places[0], places[1], places[2]


@compiled
def put(problems: Problems, rows: IntArray, numbers: Numbers, whole: Numbers) -> None:
    """Write numbers of the entries into `whole`, (n, children). rows: of `Undecided`."""
    at = 0
    for g in range(len(problems.first) - 1):
        child = problems.child[problems.first_column[g] : problems.first_column[g + 1]]
        for i in range(problems.first_row[g], problems.first_row[g + 1]):
            for c in child:
                whole[rows[i], c] = numbers[at]
                at += 1


Rounding: TypeAlias = Literal["program", "carried", "stepwise"]
AT_ONCE = 1 << 22  # entries whose places are made at once: of a nation's states there are a hundred million
KAPPA = 0.02
LEAST, MOST = 2e-6, 0.999  # bounds of a raised fraction
UNIT = 1 << 20  # parts of a record in which distances are counted


def numbered(problems: Problems, nested: Sequence[NDArray[np.signedinteger[Any]]]) -> IntArray:
    """Return (chain, rows) the nested sum of each row, numbered from 0 within each problem."""
    group = np.repeat(np.arange(len(problems.first) - 1), np.diff(problems.first_row))
    chain = np.zeros((len(nested), len(group)), np.int64)
    for level, own in enumerate(nested):  # a problem's rows are neighbours
        place = np.unique(group * (int(own.max()) + 1) + own, return_inverse=True)[1]
        chain[level] = place - np.minimum.reduceat(place, problems.first_row[:-1])[group]
    return chain


@compiled
def problem(problems: Problems, g: int, nested: IntArray) -> Parent:
    """Return problem g as a parent whose children have declared totals. nested: (chain, rows) sums of each row."""
    rows = slice(problems.first_row[g], problems.first_row[g + 1])
    sums = problems.columns[problems.first_column[g] : problems.first_column[g + 1]].astype(np.int64)
    n, children = problems.first_row[g + 1] - problems.first_row[g], len(sums)
    allowed = problems.a[problems.first[g] : problems.first[g + 1]].reshape((n, children)) > 0.0
    number, at_root = np.arange(n), len(problems.rows) == 0
    counts = problems.rows[0 if at_root else rows.start : 0 if at_root else rows.stop].astype(np.int64)
    return Parent(
        number,
        number,
        counts,
        allowed,
        np.zeros((n, children), np.int64),
        nested[:, rows].copy(),
        NO_FLOATS,
        NO_FLOATS,
        sums if at_root else NO_INTEGERS,
        NO_INTEGERS if at_root else np.arange(children),
        NO_INTEGERS if at_root else sums,
        1,
        NO_SETS,
        NO_BOUNDS,
        NO_BOUNDS,
        NO_ROWS,
    )


@compiled
def round_all(
    problems: Problems, x: FloatArray, nested: IntArray, up: IntArray, carried: bool, lost: FloatArray
) -> tuple[NDArray[np.int32], IntArray]:
    """Return (entries,) integers, and for every problem the records that found no place, 0 if it was feasible.

    x: on the grid. up: (rows, k) the sums that fractions are raised by, -1 for none. lost: (sums, children) zeros.
    """
    number = len(problems.first) - 1
    whole, missing, size = np.empty(len(x), np.int32), np.zeros(number, np.int64), np.zeros(number)
    for g in range(number):
        size[g] = problems.columns[problems.first_column[g] : problems.first_column[g + 1]].sum()
    order = np.argsort(-size, kind="mergesort") if carried else np.arange(number)
    for g in order:
        parent, at = problem(problems, g, nested), slice(problems.first[g], problems.first[g + 1])
        own = x[at].reshape(parent.allowed.shape)
        child = problems.child[problems.first_column[g] : problems.first_column[g + 1]]
        rows = slice(problems.first_row[g], problems.first_row[g + 1])
        rest = remainder(own, parent)
        if carried:
            raise_fractions(rest.fraction, up[rows], child, lost)
        found, missing[g] = distributed(rest, parent, False, UNIT if carried else 1)
        whole[at] = found.reshape(found.size)
        if carried:
            for i in range(len(found)):
                for k in range(up.shape[1]):
                    if up[rows.start + i, k] >= 0:
                        for c in range(len(child)):
                            lost[up[rows.start + i, k], child[c]] += own[i, c] - found[i, c]
    return whole, missing


@compiled
def raise_fractions(fraction: FloatArray, up: IntArray, child: IntArray, lost: FloatArray) -> None:
    """Raise fractions by what their sums have lost; those that are 0 stay: they would hide the others in the sums."""
    for i in range(len(fraction)):
        for c in range(len(child)):
            if fraction[i, c] > 0.0:
                push = 0.0
                for k in range(up.shape[1]):
                    if up[i, k] >= 0:
                        push += lost[up[i, k], child[c]]
                fraction[i, c] = min(MOST, max(LEAST, fraction[i, c] + KAPPA * push))


def in_two_steps(left: Undecided, x: FloatArray, objective: Objective, nested: list[Numbers]) -> IntArray | None:
    """Return (entries,) integers, or None where the sums' integers do not divide among the cells."""
    rows, children, problems = len(left.rows), len(objective.scale), left.problems
    group = np.repeat(np.arange(len(problems.first) - 1), np.diff(problems.first_row))
    fraction, open_ = np.zeros((rows, children)), np.zeros((rows, children), bool)
    entry, *at = open_entries(problems, 0, children)
    fraction[*at], open_[*at] = x[entry], True
    known = np.zeros((len(problems.first) - 1, children), np.int64)
    known[np.repeat(np.arange(len(known)), np.diff(problems.first_column)), problems.child] = problems.columns
    counts = problems.rows.astype(np.int64) if len(problems.rows) else None

    last = nested[-1].astype(np.int64)
    _, first, of_row = np.unique(group * (last.max() + 1) + last, return_index=True, return_inverse=True)
    sums, open_sums = np.zeros((len(first), children)), np.zeros((len(first), children), bool)
    np.add.at(sums, of_row, fraction)
    np.logical_or.at(open_sums, of_row, open_)
    of_sums = None if counts is None else np.bincount(of_row, counts).astype(np.int64)
    none = np.zeros((len(first), 0), np.int64)
    outer = _rounded(
        group[first], of_sums, known, sums, open_sums, [own[first] for own in nested[:-1]], none, objective
    )
    if outer is None:
        return None

    order = np.argsort(of_row, kind="stable")
    of_cells = None if counts is None else counts[order]
    inner = _rounded(of_row[order], of_cells, outer, fraction[order], open_[order], [], objective.up[order], objective)
    if inner is None:
        return None
    whole, found = np.empty((rows, children), np.int64), np.zeros(len(x), np.int64)
    whole[order] = inner
    found[entry] = whole[*at]
    return found


def _rounded(
    kept: IntArray,
    counts: IntArray | None,
    sums: IntArray,
    fraction: FloatArray,
    open_: BoolArray,
    nested: list[Numbers],
    up: IntArray,
    objective: Objective,
) -> IntArray | None:
    """Return (rows, children) integers of rows that are sorted by the sum that they are kept in; None without any."""
    whole = np.zeros(fraction.shape, np.int64)
    everywhere: BoolArray = np.ones((len(objective.scale), 1), np.bool_)
    rows = Rows(np.arange(len(kept)), counts, kept, np.zeros(len(kept), np.int64), sums, everywhere, objective.scale)
    left = undecided(rows, whole)
    _, row, child = open_entries(left.problems, 0, len(objective.scale))  # all of them: no child is closed yet
    at = left.rows[row], child
    lost, decided = np.zeros(objective.y.shape), np.ones(whole.shape, np.bool_)
    decided[at] = False
    for own in up.T:
        use = own >= 0
        np.add.at(lost, own[use], np.where(decided, fraction - whole, 0.0)[use])
    if len(left):
        problems = left.problems._replace(a=open_[at].astype(float))
        chain = numbered(problems, [own[left.rows] for own in nested])
        integers, missing = round_all(problems, fraction[at], chain, np.ascontiguousarray(up[left.rows]), True, lost)
        if missing.any():
            return None
        whole[at] = integers
    return None if whole[~open_].any() else whole
