"""Switches: records that change their part of a repaired partition, inside a known sum, to meet declared counts.

Counts of the parts of `repair = "switch"` cross the known sums, so a parent's integers need not divide among its
children under both. Before a division, the fewest records of the parent change their part so that it does, with 0
records in a part that a child lacks: a minimum-cost flow of each known sum, parts to children, which costs 1 for each
record of a part that its child does not have. After it, a child with fewer records of a part than it needs takes them
from parts of the same sum that have more than they need: the fewest, for each meets one need.

A switched record keeps its other coordinates, or if that cell is a zero takes the nearest of the part in the sum.
"""

from __future__ import annotations

import numpy as np

from spine.geography import BoolArray, IntArray
from spine.top_down.flow import Network, cheapest_flow
from spine.top_down.solve_parent import EstimationError
from spine.wide.plan import WidePlan

Cells = tuple[IntArray, IntArray]  # ascending cells, and their positive counts


class Switcher:
    """Where the records of cells may go: the possible cells of each part inside each known sum."""

    def __init__(self, plan: WidePlan) -> None:
        product = plan.product
        ((axis, name),) = product.asked(plan.declaration.form.counts[0].partition).items()
        at, size = product.names.index(axis), len(product.axis(axis))
        recodes = {recode.name: np.array(recode.part) for recode in product.recodes}
        self.part_of = recodes.get(name, np.arange(size))  # (coordinates,) the part of each
        self.stride, self.size = int(np.prod(product.shape[at + 1 :])), size
        # the cells of the axis's first coordinate
        self.first = np.arange(0, product.cells, size * self.stride)[:, None] + np.arange(self.stride)
        self.possible, self.sum = product.possible, plan.coordinate(plan.equal)
        self.declared, _ = plan.declared
        self._known: dict[tuple[int, int], IntArray] = {}

    def parts(self, cells: IntArray) -> IntArray:
        """Return the part of each cell."""
        return self.part_of[cells // self.stride % self.size]

    def cells_of(self, part: int, known: int) -> IntArray:
        """Return the possible cells of a part in a known sum, ascending: those of its first coordinate that has any."""
        if (part, known) not in self._known:
            for coordinate in np.flatnonzero(self.part_of == part):
                own = (self.first + coordinate * self.stride).ravel()
                own = own[self.possible[own] & (self.sum[own] == known)]
                self._known[part, known] = own
                if len(own):
                    break
        return self._known[part, known]

    def target(self, cell: int, part: int) -> tuple[int, bool] | None:
        """Return the cell that a record of a cell gets in another part, and whether its other coordinates stay."""
        cells = self.cells_of(part, int(self.sum[cell]))
        if not len(cells):
            return None
        alike = cell + (int(cells[0]) // self.stride % self.size - cell // self.stride % self.size) * self.stride
        nearest = int(cells[np.abs(cells - alike).argmin()])
        return nearest, nearest == alike

    def switch(self, held: dict[int, int], sources: list[int], parts: list[int], number: int) -> int:
        """Move up to a number of records from cells to parts, the first that fit; return how many found no place.

        held: the count of each cell. Records whose other coordinates stay come first.
        """
        for changes in (False, True):
            for part in parts:
                for cell in sources:
                    if number and held[cell] and (found := self.target(cell, part)) and (found[1] or changes):
                        moved = min(number, held[cell])
                        held[cell] -= moved
                        held[found[0]] = held.get(found[0], 0) + moved
                        number -= moved
        return number

    def divisible(self, parent: Cells, sums: IntArray, open_: BoolArray) -> Cells:
        """Return a parent whose records divide among its children; the fewest of them switched.

        sums: (children, known sums). open_: (children, parts).
        """
        cells, counts = parent
        part = self.parts(cells)
        own = np.flatnonzero(self.declared[part])
        held = dict(zip(cells.tolist(), counts.tolist(), strict=True))
        known = self.sum[cells[own]]
        for g in np.unique(known).tolist():
            inside = own[known == g]
            present, children = np.unique(part[inside]), np.flatnonzero(sums[:, g])
            closed = ~open_[np.ix_(children, present)].T
            if not closed.any():
                continue
            supply = np.bincount(np.searchsorted(present, part[inside]), counts[inside]).astype(np.int64)
            flow = _fewest(supply, sums[children, g], closed)
            for t, c in np.argwhere(closed & (flow > 0)).tolist():
                others = np.flatnonzero(open_[children[c]] & self.declared).tolist()
                sources = cells[inside[part[inside] == present[t]]].tolist()
                if self.switch(held, sources, others, int(flow[t, c])):
                    raise EstimationError("switches: a child has no part for the records of a known sum")
        return _as_cells(held)

    def filled(self, child: Cells, least: IntArray) -> Cells:
        """Return a child with the fewest records of each part, (parts,)."""
        cells, counts = child
        part = self.parts(cells)
        more = np.bincount(part, counts, len(least)).astype(np.int64) - least
        if (more >= 0).all():
            return child
        held = dict(zip(cells.tolist(), counts.tolist(), strict=True))
        for to in np.flatnonzero(more < 0).tolist():
            for giver in np.flatnonzero((more > 0) & self.declared).tolist():
                needed = min(-int(more[to]), int(more[giver]))
                left = self.switch(held, cells[part == giver].tolist(), [to], needed)
                more[to], more[giver] = more[to] + needed - left, more[giver] - needed + left
        if (more < 0).any():
            raise EstimationError("switches: a part has fewer records than are declared, and no other gives any")
        return _as_cells(held)


def _as_cells(held: dict[int, int]) -> Cells:
    cells = np.array(sorted(cell for cell, count in held.items() if count), np.int64)
    return cells, np.array([held[cell] for cell in cells.tolist()], np.int64)


def _fewest(supply: IntArray, demand: IntArray, closed: BoolArray) -> IntArray:
    """Return the (parts, children) flow with the fewest records on closed pairs."""
    parts, children = closed.shape
    t, c = (each.ravel() for each in np.indices(closed.shape))
    tail = np.concatenate([np.zeros(parts, np.int64), 1 + t, 1 + parts + np.arange(children)])
    head = np.concatenate([1 + np.arange(parts), 1 + parts + c, np.full(children, 1 + parts + children)])
    capacity = np.concatenate([supply, np.minimum(supply[t], demand[c]), demand])
    cost = np.concatenate([np.zeros(parts, np.int64), closed.ravel().astype(np.int64), np.zeros(children, np.int64)])
    network = Network(
        tail.astype(np.int32), head.astype(np.int32), capacity.astype(np.int32), cost, 2 + parts + children
    )
    flow, _ = cheapest_flow(network, int(supply.sum()))
    return flow[parts : parts + closed.size].reshape(closed.shape)
