"""The children's information in the form that the descent takes: its objective, and its targets of totals.

The objective of one parent is the sum over children of x'P_c x/2 - h_c'x. The iteration is the program's
(`top_down.least_squares`); only the product with the Hessian and its majorizer differ: D = the row sums of |P_c| over
the parent's cells. Blocks have nothing below them, so their answers are the program's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from spine.compiled import compiled, implements
from spine.geography import BoolArray, FloatArray, IntArray
from spine.gls.grid import Grid, Signs, grid, to_cells, total_of, total_variance
from spine.gls.information import Information, add_times, estimates, transform
from spine.gls.upward import pass_up
from spine.top_down.least_squares import Parent, Solution, gradient, minimum
from spine.top_down.own_answers import OwnAnswers, Siblings
from spine.top_down.plan import Plan

LARGEST_PART = 0.99  # the largest part of the total's precision to take out of P, which must stay positive definite


class TreeMisfit(NamedTuple):
    """The children's x'Px/2 - h'x.

    table: (cells, children), see `gradient`. precision: (children, components, slots x types, slots x types), for the
    types of the parent's cells. linear: (cells, children) h. place: (cells,) of each cell in (types, signs, races).
    x, image: scratch, (types, signs, races).
    """

    table: FloatArray
    precision: FloatArray
    linear: FloatArray
    place: IntArray
    signs: Signs
    x: FloatArray
    image: FloatArray


@implements(gradient, TreeMisfit)
def tree_gradient(objective: TreeMisfit, out: FloatArray) -> None:
    """Write P x - h for every child: by component, in sums and contrasts, for the parent's cells only."""
    table, precision, linear, place = objective.table, objective.precision, objective.linear, objective.place
    signs, x, image, cells = objective.signs, objective.x, objective.image, len(objective.place)
    flat, flat_image = x.reshape(-1), image.reshape(-1)
    for c in range(len(precision)):
        flat[:] = 0.0
        flat_image[:] = 0.0
        for i in range(cells):
            flat[place[i]] = table[i, c]
        transform(x, signs, False)
        add_times(precision[c], x, signs, image)
        transform(image, signs, True)
        for i in range(cells):
            out[i, c] = flat_image[place[i]] - linear[i, c]


@compiled
def inverse_row_sums(
    between: FloatArray, kind: IntArray, sign: IntArray, race: IntArray, pattern: IntArray, allowed: BoolArray
) -> FloatArray:
    """Return (cells, children) 1 / D, D = row sums of |P| over the parent's cells; 0 for cells that are not allowed.

    between: (children, patterns, types, types) the entries of P. pattern: (signs, signs), see `Grid.patterns`. kind,
    sign, race: (cells,) the type of each, its sign, and its cell on the last axis. allowed: (cells, children).
    """
    n, patterns, types = len(kind), between.shape[1], between.shape[2]
    inverse, count, agree = np.zeros(allowed.shape), np.zeros((types, patterns)), np.empty(n, np.int64)
    for i in range(n):
        count[:] = 0.0
        for j in range(n):
            agree[j] = 2 * pattern[sign[i], sign[j]] + (race[i] == race[j])
            count[kind[j], agree[j]] += 1.0
        for c in range(allowed.shape[1]):
            if allowed[i, c]:
                total = 0.0
                for t in range(types):
                    for e in range(patterns):
                        total += count[t, e] * abs(between[c, e, kind[i], t])
                inverse[i, c] = 1.0 / total
    return inverse


@dataclass(frozen=True)
class ChildInformation:
    """The objective of one parent's K children: their information on its n cells, divided by its largest precision.

    precision: (K, components, slots x T, slots x T) P of the T types of the cells. between: (K, patterns, T, T) its
    entries. linear: (n, K) h. initial: (n, K) the estimate without the parent. scale: the largest precision.
    total_weight: (K,) precision of the totals, not divided. kind: (n,) type of the cells, from 0. at: (n,) of each cell
    in (signs, races).
    """

    grid: Grid
    precision: FloatArray
    between: FloatArray
    linear: FloatArray
    initial: FloatArray
    scale: float
    total_weight: FloatArray
    kind: IntArray
    at: IntArray

    def without_total(self, allowed: BoolArray, total: FloatArray) -> ChildInformation:
        """Subtract the weight of the totals from P, as far as P contains it.

        Subtracts kappa (1'x - total)^2 / 2, which is nearly constant within the bands. With this term the majorizer is
        so large that least squares converges slowly. kappa: the least entry of P between cells that agree on no axis,
        bounded so that P stays positive.
        """
        own = allowed[np.unique(self.kind, return_index=True)[1]].T
        both = own[:, :, None] & own[:, None, :]
        apart = np.where(both[:, None], self.between[:, self.grid.patterns[2]], np.inf).min(
            axis=(1, 2, 3), initial=np.inf
        )
        kappa = np.clip(np.minimum(apart, LARGEST_PART * self.total_weight / self.scale), 0.0, None)
        precision, out = self.precision.copy(), kappa[:, None, None] * both
        ones = self.grid.ones[:: self.grid.shape[0]]
        precision[:, 0] -= np.kron(self.grid.shape[2] * np.outer(ones, ones)[None], out)
        linear = self.linear - kappa * total * allowed
        return replace(self, precision=precision, between=self.between - out[:, None], linear=linear)

    def minimum(self, parent: Parent, careful: bool, stop: float) -> Solution:
        """See `top_down.own_answers.Objective`."""
        # One memory layout: numba would compile the whole iteration again for every other layout.
        precision, between = np.ascontiguousarray(self.precision), np.ascontiguousarray(self.between)
        (_, number, races), types = self.grid.shape, between.shape[2]
        x, image = np.empty((2, types, number, races))
        sign, race = np.divmod(self.at, races)
        allowed = parent.allowed[parent.quarters_type]
        a = inverse_row_sums(between, self.kind, sign, race, self.grid.patterns[0], allowed)
        place = self.kind * (number * races) + self.at
        table = np.empty(self.linear.shape)
        objective = TreeMisfit(table, precision, self.linear, place, self.grid.signs, x, image)
        return minimum(objective, a, self.initial, parent, careful, stop)

    def quadratic(self, cells: IntArray) -> tuple[Any, FloatArray]:
        """See `top_down.own_answers.Objective`."""
        import scipy.sparse as sp

        sign, race = np.divmod(self.at, self.grid.shape[2])
        agree = 2 * self.grid.patterns[0][sign[:, None], sign] + np.equal.outer(race, race)
        entries = self.between[:, agree, self.kind[:, None], self.kind]
        children = len(entries)
        each = [
            sp.kron(entry, sp.csc_array(([1.0], ([c], [c])), shape=(children, children)), format="csc")
            for c, entry in enumerate(entries)
        ]
        return sp.csc_array(sum(each[1:], start=each[0])), self.linear.ravel()


def informed(plan: Plan, information: Information) -> Siblings:
    """Return a range of geounits as siblings, from their information and their estimates without their parents."""
    sizes = grid(plan)
    z, variance = estimates(plan, information)
    linear, initial = to_cells(information.linear, sizes), to_cells(z, sizes)
    spread = total_variance(variance, sizes)
    total_weight = 1 / np.where(spread > 0, spread, 1.0)  # spread is 0 for a copied only child, or without records

    def objective(first: int, last: int, cells: IntArray) -> ChildInformation:
        at = slice(first - information.first, last - information.first)
        types, kind = np.unique(sizes.place[cells] // sizes.by_type, return_inverse=True)
        rows = (np.arange(sizes.slots)[:, None] * sizes.shape[0] + types).ravel()
        precision = information.precision[at][:, :, rows[:, None], rows]
        scale = precision.max()
        return ChildInformation(
            sizes,
            precision / scale,
            sizes.entries(precision / scale),
            np.ascontiguousarray(linear[at][:, cells].T) / scale,
            np.ascontiguousarray(initial[at][:, cells].T),
            scale,
            total_weight[at],
            kind,
            sizes.place[cells] % sizes.by_type,
        )

    earlier = (objective,) * len(plan.earlier_passes[information.level])  # they differ in what they keep within a band
    return Siblings(information.first, total_of(z, sizes), total_weight, objective, earlier)


@dataclass(frozen=True)
class TreeAnswers(OwnAnswers):
    """The estimator's answers: the information of geounits; for blocks, their own answers.

    known: information that earlier passes computed; other information is passed up again.
    """

    known: tuple[Information, ...] = ()

    def siblings(self, level: int, first: int, last: int) -> Siblings:
        """Return the information of the geounits first, ..., last - 1 of a level, or the answers of blocks."""
        if self.plan.is_leaf(level):
            return super().siblings(level, first, last)
        return informed(self.plan, self.information(level, first, last))

    def second(self, level: int, first: int, last: int) -> tuple[FloatArray, FloatArray]:
        """Return the targets of occupied units and their weights, arbitrary for geounits without units."""
        information = self.information(level, first, last)
        weight = np.where(information.precision > 0, information.precision, 1.0)
        return information.linear / weight, weight

    def information(self, level: int, first: int, last: int) -> Information:
        """Return the information of the geounits first, ..., last - 1 of a level: known, or from a pass up to them."""
        for found in self.known:
            if found.level == level and found.first <= first and last <= found.last:
                return found.only(first, last)
        return pass_up(self.plan, self.measure, level, first, last)[0]
