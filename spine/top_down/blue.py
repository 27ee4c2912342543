"""The best linear unbiased estimate of the whole tree and its variances: the pass down, for margins of error.

Nothing of the descent needs it. Non-negativity and integers are left out, so an estimate may be negative; its standard
errors follow from the noise and the declared invariants alone, and hold for any sum of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spine.top_down import tree
from spine.top_down.plan import Plan
from spine.top_down.tree import COMPONENTS, RACES, V_CELLS, Information
from spine.workload import FloatArray

# The number of dimensions of each component.
DIMENSIONS = np.array([(RACES - 1 if component % 2 else 1) for component in range(COMPONENTS)], float)


@dataclass(frozen=True)
class Blue:
    """The estimates of the geounits first, first + 1, ... of a level.

    x: (geounits, 8, 4, 63) in the sums and differences of `tree`. variance: (geounits, 8, 8, 8) by component.
    """

    level: int
    first: int
    x: FloatArray
    variance: FloatArray

    def cells(self) -> FloatArray:
        """(geounits, 2016) estimates of the cells."""
        return tree.to_cells(self.x)

    def totals(self) -> tuple[FloatArray, FloatArray]:
        """(geounits,) totals and their standard errors: 0 where the total is declared."""
        return tree.total_of(self.x), np.sqrt(np.maximum(tree.total_variance(self.variance), 0.0))

    def cell_error(self) -> FloatArray:
        """(geounits, 8) the standard error of a detailed cell of each type, the same for all 252 of it."""
        diagonal = np.einsum("urtt,r->ut", self.variance, DIMENSIONS / V_CELLS)
        error: FloatArray = np.sqrt(np.maximum(diagonal, 0.0))
        return error

    def voting_age_race_error(self) -> FloatArray:
        """(geounits,) the standard error of a cell of votingage*hispanic*cenrace, all types together."""
        spread = np.einsum("urtv,r->u", self.variance, DIMENSIONS / V_CELLS)
        error: FloatArray = np.sqrt(np.maximum(spread, 0.0))
        return error


def blue_roots(plan: Plan, told: Information) -> Blue:
    """The top level, the parts of each state summing to its declared total; told: of the whole level."""
    z, variance = tree.estimates(told, plan.invariants.allowed(told.level))
    if plan.spine.levels[told.level] != "State":
        return Blue(told.level, told.first, *tree.declared_total(z, variance, plan.invariants.state_totals.sum()))
    state, declared = plan.invariants.state_of, plan.invariants.state_totals
    along, spread = 2 * variance[:, 0].sum(axis=-1), tree.total_variance(variance)
    together = np.bincount(state, spread)[state]
    missing = (declared - np.bincount(state, tree.total_of(z)))[state] / together
    x, known = z.copy(), variance.copy()
    x[:, :, 0, :] += (along * missing[:, None])[:, :, None]
    known[:, 0] -= RACES * along[:, :, None] * along[:, None, :] / together[:, None, None]
    return Blue(told.level, told.first, x, known)


def blue_children(plan: Plan, parents: Blue, told: Information) -> Blue:
    """The children of a run of parents; told: what the children say.

    x_c = V_c (h_c + B x_p - b), of variance V_c - V_c B V_c + V_c B Var(x_p) B V_c; an only child is its parent.
    """
    first_child = plan.first_child[parents.level][parents.first : parents.first + len(parents.x) + 1]
    first = first_child - first_child[0]
    allowed = np.ascontiguousarray(plan.invariants.allowed(told.level)[told.first : told.last])
    says = tree.children_say(parents.first, first, told, allowed)
    z, variance = tree.estimates(told, allowed)
    parent = np.repeat(np.arange(len(first) - 1), np.diff(first))
    only = (np.diff(first) == 1)[parent]
    pull = np.zeros_like(parents.x)
    for p in range(len(pull)):
        tree.add_times(says.precision[p], parents.x[p], pull[p])
    pull -= says.linear
    x = np.where(only[:, None, None, None], parents.x[parent], z)
    for c in np.flatnonzero(~only):
        tree.add_times(variance[c], pull[parent[c]], x[c])
    variance[only] = 0.0
    weight = variance @ says.precision[parent]
    spread = variance - weight @ variance + weight @ parents.variance[parent] @ weight.swapaxes(-1, -2)
    spread[only] = parents.variance[parent[only]]
    return Blue(told.level, told.first, x, spread)


__all__ = ["Blue", "blue_children", "blue_roots"]
