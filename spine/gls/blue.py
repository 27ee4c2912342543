"""The best linear unbiased estimate of the whole tree and its variances: the pass down, for margins of error.

The descent does not need it. The estimate ignores non-negativity, integers and zeros within a type, so it may be
negative, and is the best of those that do not use these zeros. Its standard errors follow from the noise and the
declared invariants alone, and hold for any sum of blocks (`entity_sums`).

For housing units, with one unknown per geounit, all arrays are (geounits, 1, 1, 1).
"""

from __future__ import annotations

import numpy as np

from spine.geography import BoolArray, FloatArray, IntArray
from spine.gls import information as tree
from spine.gls.grid import STATES, Blue, SiblingSums, Signs, grid, times
from spine.gls.information import Information
from spine.gls.upward import combine_units, unit_estimates
from spine.top_down.plan import Plan
from spine.variance import spread


def estimates(plan: Plan, information: Information) -> tuple[FloatArray, FloatArray]:
    """Return z and V of geounits, without their parents."""
    if plan.closed_form:
        z, variance = unit_estimates(information.linear, information.precision)
        return z.reshape(-1, 1, 1, 1), variance.reshape(-1, 1, 1, 1)
    return tree.estimates(plan, information)


def first_children(plan: Plan, level: int, first: int, last: int, below: int) -> IntArray:
    """Return the (last - first + 1,) first child, on the level `below`, of each geounit first, ..., last.

    level: the geounits' level, or STATES for groups of geounits with a declared total, which are whole states.
    """
    if level == STATES:
        declared = plan.bounds.totals[below]
        assert declared is not None
        return np.searchsorted(declared.group, np.arange(first, last + 1))
    return plan.spine.first_child[level][first : last + 1]


def _signs(plan: Plan) -> Signs | None:
    return None if plan.closed_form else grid(plan).signs


def sibling_sums(plan: Plan, level: int, first: int, last: int, information: Information) -> SiblingSums:
    """Return the estimates of the children of the geounits first, ..., last - 1 of a level, and of their sums.

    information: that of exactly these children.
    """
    first_child = first_children(plan, level, first, last, information.level)
    first_child = first_child - first_child[0]
    number = np.diff(first_child)
    if plan.closed_form:
        combined = combine_units(first_child, information.linear, information.precision)
        b, below = (array.reshape(-1, 1, 1, 1) for array in combined)
    else:
        given = tree.combine_children(plan, first, first_child, information)
        b, below = given.linear, given.precision
    parent = np.repeat(np.arange(len(number)), number)
    is_only_child = number[parent] == 1
    # An only child may have no information: a block whose share was bypassed.
    z, variance = np.zeros((len(parent), *b.shape[1:])), np.zeros((len(parent), *below.shape[1:]))
    for start, end in _runs(~is_only_child):
        z[start:end], variance[start:end] = estimates(
            plan, information.only(information.first + start, information.first + end)
        )
    return SiblingSums(parent, is_only_child, z, variance, b, below)


def _runs(chosen: BoolArray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]]).astype(np.int8)))
    return [(int(start), int(end)) for start, end in zip(edges[::2], edges[1::2], strict=True)]


def blue_nation(plan: Plan, information: Information) -> Blue:
    """Return the estimate of the only root from its information, with its declared total if any."""
    z, variance = estimates(plan, information)
    declared = plan.bounds.totals[information.level]
    if plan.closed_form or declared is None:
        return Blue(information.level, 0, z, variance)
    return Blue(information.level, 0, *tree.declared_total(z, variance, declared.values.sum(), grid(plan)))


def blue_states(plan: Plan, information: Information, above: Blue | None = None) -> Blue:
    """Return the estimates of groups of geounits with declared totals, which are whole states.

    information: that of all geounits of these groups. above: their parents (the nation), if any.
    """
    declared = plan.bounds.totals[information.level]
    assert declared is not None
    group = declared.group[information.first : information.last]
    first = np.searchsorted(group, np.arange(group[0], group[-1] + 1))
    if plan.closed_form:
        z, variance = (tree.sums(array, first) for array in estimates(plan, information))
    else:
        z, variance, scale = tree.declared_groups(plan, information)
    if above is None:
        return Blue(STATES, int(group[0]), z, variance)
    geounit, signs = information.first + first, _signs(plan)
    parent = plan.spine.parents[information.level][geounit] - above.first
    begins = np.searchsorted(parent, np.arange(len(above)))
    of_all = tree.sums(variance, begins)
    if plan.closed_form:
        below = np.linalg.pinv(of_all, 1e-12, hermitian=True)
    else:
        below = tree.inverse_declared(of_all, np.maximum.reduceat(scale, begins))
    pull = times(below, above.x - tree.sums(z, begins), signs)[parent]
    x, own = z + times(variance, pull, signs), spread(variance, variance, below[parent], above.variance[parent])
    unknown = (plan.spine.shares[information.level][geounit] == 0)[:, None, None, None]  # an only child: its parent
    x, own = np.where(unknown, above.x[parent], x), np.where(unknown, above.variance[parent], own)
    return Blue(STATES, int(group[0]), x, own)


def blue_level(plan: Plan, information: Information, above: Blue | None = None) -> Blue:
    """Return the estimates of the children of a range of geounits or, if above is None, of the top level."""
    if plan.bounds.totals[information.level] is not None:
        return blue_roots(plan, information, blue_states(plan, information, above))
    return blue_nation(plan, information) if above is None else blue_children(plan, above, information)


def blue_roots(plan: Plan, information: Information, states: Blue | None = None) -> Blue:
    """Return the estimates of the parts of states from all their information; states: given if a nation is above."""
    return blue_children(plan, states or blue_states(plan, information), information)


def blue_children(plan: Plan, parents: Blue, information: Information) -> Blue:
    """Return the estimates of the children of a range of parents from their information.

    x_c = V_c (h_c + B x_p - b), with variance V_c - V_c B V_c + V_c B Var(x_p) B V_c; an only child equals its parent.
    """
    given = sibling_sums(plan, parents.level, parents.first, parents.first + len(parents), information)
    pull = times(given.below, parents.x, signs := _signs(plan)) - given.b
    above, is_only_child = given.parent, given.is_only_child[:, None, None, None]
    x = np.where(is_only_child, parents.x[above], given.z + times(given.variance, pull[above], signs))
    variance = spread(given.variance, given.variance, given.below[above], parents.variance[above])
    return Blue(information.level, information.first, x, np.where(is_only_child, parents.variance[above], variance))


__all__ = ["STATES", "Blue", "SiblingSums", "blue_children", "blue_level", "blue_nation", "blue_roots", "blue_states"]
