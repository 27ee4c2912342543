"""The best linear unbiased estimate of the whole tree and its variances: the pass down, for margins of error.

Nothing of the descent needs it. Non-negativity and integers are left out, so an estimate may be negative; its standard
errors follow from the noise and the declared invariants alone, and hold for any sum of blocks (`entity_sums`).

Of housing units, one unknown a geounit, all arrays are (geounits, 1, 1, 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spine.geography import IntArray
from spine.top_down import tree, units
from spine.top_down.histogram import UNITS
from spine.top_down.plan import Plan
from spine.top_down.tree import Information
from spine.workload import FloatArray

STATES = -1  # the level of whole states, above a forest of their parts


@dataclass(frozen=True)
class Blue:
    """The estimates of the geounits first, first + 1, ... of a level.

    x: (geounits, 8, 4, 63) in the sums and differences of `tree`. variance: (geounits, 8, 8, 8) by component.
    """

    level: int
    first: int
    x: FloatArray
    variance: FloatArray

    def __len__(self) -> int:
        return len(self.x)

    def only(self, first: int, last: int) -> Blue:
        """The geounits first, ..., last - 1."""
        rows = slice(first - self.first, last - self.first)
        return Blue(self.level, first, self.x[rows], self.variance[rows])

    def cells(self) -> FloatArray:
        """(geounits, 2016) estimates of the cells."""
        return tree.to_cells(self.x)

    def totals(self) -> tuple[FloatArray, FloatArray]:
        """(geounits,) totals and their standard errors: 0 where the total is declared."""
        return tree.total_of(self.x), np.sqrt(np.maximum(tree.total_variance(self.variance), 0.0))


@dataclass(frozen=True)
class Said:
    """What children say: of each child by itself z and V, and of the sum of each parent's children b and B = 1/(sum V).

    parent: (children,) its parent, counted from the first; only: (children,) whether it has no sibling.
    """

    parent: IntArray
    only: FloatArray
    z: FloatArray
    variance: FloatArray
    b: FloatArray
    below: FloatArray


def own_estimates(plan: Plan, told: Information) -> tuple[FloatArray, FloatArray]:
    """z and V of geounits by themselves."""
    if plan.product is UNITS:
        some = told.precision > 0
        weight = np.where(some, told.precision, 1.0)
        shape = (-1, 1, 1, 1)
        return np.where(some, told.linear / weight, 0.0).reshape(shape), np.where(some, 1 / weight, 0.0).reshape(shape)
    allowed = np.ascontiguousarray(plan.invariants.allowed(told.level)[told.first : told.last])
    return tree.estimates(told, allowed)


def first_children(plan: Plan, level: int, first: int, last: int) -> IntArray:
    """(last - first + 1,) the first child of each geounit first, ..., last: of a level, or of whole states."""
    if level == STATES:
        state = plan.invariants.state_of
        return np.searchsorted(state, np.arange(first, last + 1))
    return plan.first_child[level][first : last + 1]


def said(plan: Plan, level: int, first: int, last: int, told: Information) -> Said:
    """What the children of the geounits first, ..., last - 1 of a level say; told: of exactly these children."""
    first_child = first_children(plan, level, first, last)
    first_child = first_child - first_child[0]
    number = np.diff(first_child)
    if plan.product is UNITS:
        says = units.children_say(first_child, told.linear, told.precision)
        b, below = (array.reshape(-1, 1, 1, 1) for array in says)
    else:
        allowed = np.ascontiguousarray(plan.invariants.allowed(told.level)[told.first : told.last])
        given = tree.children_say(first, first_child, told, allowed)
        b, below = given.linear, given.precision
    parent = np.repeat(np.arange(len(number)), number)
    only = number[parent] == 1
    # An only child may say nothing by itself: a block whose share was bypassed.
    z, variance = np.zeros((len(only), *b.shape[1:])), np.zeros((len(only), *below.shape[1:]))
    for begin, end in _runs(~only):
        z[begin:end], variance[begin:end] = own_estimates(plan, told.only(told.first + begin, told.first + end))
    return Said(parent, only, z, variance, b, below)


def _runs(chosen: FloatArray) -> list[tuple[int, int]]:
    """The runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]]).astype(np.int8)))
    return [(int(begin), int(end)) for begin, end in zip(edges[::2], edges[1::2], strict=True)]


def times(matrix: FloatArray, x: FloatArray) -> FloatArray:
    """Matrix times x, geounit by geounit: (n, components, types, types) and (n, types, signs, races)."""
    if x.shape[1:] == (1, 1, 1):
        return matrix * x
    found = np.zeros_like(x)
    for u in range(len(x)):
        tree.add_times(matrix[u], x[u], found[u])
    return found


def blue_nation(plan: Plan, told: Information) -> Blue:
    """The nation above all states, whose total is declared; told: what it says, with all below it."""
    z, variance = own_estimates(plan, told)
    if plan.product is UNITS:
        return Blue(told.level, 0, z, variance)
    return Blue(told.level, 0, *tree.declared_total(z, variance, plan.invariants.state_totals.sum()))


def blue_states(plan: Plan, told: Information, nation: Blue | None = None) -> Blue:
    """Whole states, their totals declared; told: of all their parts. nation: where it is above them."""
    z, variance = own_estimates(plan, told)
    first = first_children(plan, STATES, 0, len(plan.invariants.state_totals))[:-1]
    z, variance = np.add.reduceat(z, first), np.add.reduceat(variance, first)
    if plan.product is not UNITS:
        z, variance = tree.declared_total(z, variance, plan.invariants.state_totals)
    if nation is None:
        return Blue(STATES, 0, z, variance)
    below = np.array([np.linalg.pinv(part, hermitian=True, rcond=1e-12) for part in variance.sum(axis=0)])
    below = np.broadcast_to(below, variance.shape)
    pull = times(below, np.broadcast_to(nation.x - z.sum(axis=0), z.shape))
    return Blue(STATES, 0, z + times(variance, pull), _spread(variance, below, nation.variance))


def blue_roots(plan: Plan, told: Information, states: Blue | None = None) -> Blue:
    """The parts of states; told: of all of them. states: the whole states, where there is a nation above them."""
    return blue_children(plan, states or blue_states(plan, told), told)


def blue_children(plan: Plan, parents: Blue, told: Information) -> Blue:
    """The children of a run of parents; told: what the children say.

    x_c = V_c (h_c + B x_p - b), of variance V_c - V_c B V_c + V_c B Var(x_p) B V_c; an only child is its parent.
    """
    given = said(plan, parents.level, parents.first, parents.first + len(parents), told)
    pull = times(given.below, parents.x) - given.b
    above, wide = given.parent, given.only[:, None, None, None]
    x = np.where(wide, parents.x[above], given.z + times(given.variance, pull[above]))
    spread = _spread(given.variance, given.below[above], parents.variance[above])
    return Blue(told.level, told.first, x, np.where(wide, parents.variance[above], spread))


def _spread(variance: FloatArray, below: FloatArray, above: FloatArray) -> FloatArray:
    """The variance of what is `variance` by itself once its parent's, of variance `above`, is known."""
    weight = variance @ below
    found: FloatArray = variance - weight @ variance + weight @ above @ weight.swapaxes(-1, -2)
    return found


__all__ = ["STATES", "Blue", "blue_children", "blue_nation", "blue_roots", "blue_states"]
