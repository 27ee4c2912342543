"""Estimate a wide table from the top of the spine down, one parent at a time.

A parent's children have known sums, of a release, so that its cells divide into transportation problems. Two passes,
each a least squares and a rounding: over the sums that the chain ends with, then over all cells inside these sums.
Between a parent and its children, and in each child, records may switch parts (`switches`).

Estimation reads public figures, the estimates above, and noisy answers at coordinates that it asks for (`ReadAt`).
Which these are depends on nothing else: so the noise of all others need not be drawn (docs/privacy.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from spine.geography import IntArray
from spine.top_down.descend import Solve
from spine.top_down.histogram import Estimates
from spine.wide.least_squares import Solved, solve
from spine.wide.plan import Numbers, ReadAt, WidePlan
from spine.wide.rounding import Rounding
from spine.wide.switches import Cells, Switcher
from spine.wide.undecided import Rows


@dataclass(frozen=True, eq=False)
class WideEstimation:
    """The estimation of one run.

    read: all that it learns of the records. how: sums are rounded. solved: filled with how each parent was, if answers
    decided anything.
    """

    plan: WidePlan
    read: ReadAt
    how: Rounding = "program"
    solved: list[Solve] = field(default_factory=list)

    @cached_property
    def switcher(self) -> Switcher | None:
        """Return what switches records, if counts are to be repaired."""
        return Switcher(self.plan) if self.plan.declaration.form.counts else None

    def root(self, row: int, sums: IntArray, counts: IntArray) -> Estimates:
        """Estimate a geounit of the top level. sums: (1, known sums) of the release. counts: (1, parts) declared."""
        return self._children(None, row, 0, row, sums, counts)

    def children(self, parent: Estimates, first: int, sums: IntArray, counts: IntArray) -> Estimates:
        """Estimate the children of one geounit: rows first, first + 1, ... of the level below.

        sums: (children, known sums). counts: (children, parts); parts without a column are not read.
        """
        return self._children((parent.cell, parent.count), parent.first, parent.level + 1, first, sums, counts)

    def _children(
        self, parent: Cells | None, above: int, level: int, first: int, sums: IntArray, counts: IntArray
    ) -> Estimates:
        plan, children = self.plan, len(sums)
        open_, least = plan.open_and_least(counts)
        if parent is not None and (children == 1 or not len(parent[0])):
            return _joined(level, first, [parent] * children)
        if not sums.any():
            return _joined(level, first, [(np.zeros(0, np.int64), np.zeros(0, np.int64))])
        if parent is not None and self.switcher:
            parent = self.switcher.divisible(parent, sums, open_)
        of_cell = plan.coordinate(plan.passes[0].cells)
        if parent is None:
            number, cells, total, count = plan.possible(0), plan.possible(1), None, None
        else:
            cells, count = parent
            number, place = np.unique(of_cell[cells], return_inverse=True)
            total = np.bincount(place, count).astype(np.int64)
        scale = plan.scale(level, first, first + children)

        def rows(which: int, number: IntArray, counts: IntArray | None, of_known: IntArray, known: Numbers) -> Rows:
            kept = plan.passes[which].up[plan.passes[which].kept][number]
            place = np.minimum(np.searchsorted(of_known, kept), len(of_known) - 1)
            kind = plan.kinds[which][number].astype(np.int64)
            use = of_known[place] == kept
            if counts is None:  # at the root, possible cells with records
                use &= open_[0, kind] & (known[place, 0] > 0)
            at = np.flatnonzero(use)
            at = at[np.argsort(place[at], kind="stable")]
            own = None if counts is None else counts[at]
            return Rows(number[at], own, place[at], kind[at], known, open_, scale)

        upper = rows(0, number.astype(np.int64), total, np.arange(sums.shape[1]), sums.T)
        whole, first_pass = self._pass(0, upper, level, first)
        order = np.argsort(upper.number)
        lower = rows(1, cells, count, upper.number[order], whole[order])
        whole, second_pass = self._pass(1, lower, level, first)
        passes, order = (first_pass, second_pass), np.argsort(lower.number)
        found = self._repaired(level, first, lower.number[order], whole[order], least)
        if entries := sum(each.entries for each in passes):
            iterations = sum(each.projections for each in passes)
            solver = max((each.solver for each in passes), key=lambda each: each != "own")  # another, if one was used
            by = max((each.by for each in passes), key=lambda each: each != "flow")
            self.solved.append(Solve(level, above, children, entries, iterations, solver, 0.0, by))
        return found

    def _pass(self, which: int, own: Rows, level: int, first: int) -> tuple[Numbers, Solved]:
        name, pass_ = self.plan.spine.levels[level], self.plan.passes[which]

        def answers(query: str, child: IntArray, coordinate: IntArray) -> IntArray:
            return self.read(name, query, first + child, coordinate)

        def weight(query: str) -> float:
            return self.plan.weight(name, query, pass_.cells)

        every = self.plan.possible(which) if own.counts is None and pass_.anchors else None
        return solve(pass_, own, answers, weight, self.how, every)

    def _repaired(self, level: int, first: int, cells: IntArray, whole: Numbers, least: IntArray) -> Estimates:
        found: list[Cells] = []
        for own, needed in zip(whole.T, least, strict=True):
            at = np.flatnonzero(own)
            child = cells[at], own[at].astype(np.int64)
            if self.switcher:
                child = self.switcher.filled(child, needed)
            found.append(child)
        return _joined(level, first, found)


def _joined(level: int, first: int, children: list[Cells]) -> Estimates:
    starts = np.cumsum([0, *(len(cells) for cells, _ in children)])
    cell, count = (np.concatenate([each[end] for each in children]) for end in (0, 1))
    return Estimates(level, first, starts, cell, count)
