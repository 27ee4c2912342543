"""The pass up the tree: the information (h, P) of geounits and of everything below them, a level at a time.

The information of blocks is not kept: they are measured a range of parents at a time, and combined at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from spine.geography import FloatArray, IntArray
from spine.gls.grid import grid
from spine.gls.information import (
    Information,
    allowed_types,
    combine_children,
    combine_declared,
    information_joined,
    own_information,
)
from spine.top_down import units
from spine.top_down.plan import Plan
from spine.top_down.queries import DETAILED, Measure, weights

Seen: TypeAlias = Callable[[int, int, int, Information], None]


def pass_up(
    plan: Plan, measure: Measure, level: int, first: int, last: int, seen: Seen | None = None
) -> tuple[Information, ...]:
    """Return the information of these geounits, their children, and so on, down to the last level above the lowest.

    seen: called from the lowest level up with each range of parents (level, first, last) and the information of exactly
    their children, including the lowest level, which is not kept.
    """
    lowest = len(plan.spine.levels) - 1
    if level == lowest:
        return (measured(plan, measure, level, first, last),)
    if level < lowest - 1:
        below = pass_up(plan, measure, level + 1, *plan.children_of(level, first, last), seen)
        if seen:
            seen(level, first, last, below[0])
        return (above(plan, measure, below[0], first, last), *below)
    parts = []
    for batch in plan.batches(level, first, last):
        children = measured(plan, measure, lowest, *plan.children_of(level, *batch))
        if seen:
            seen(level, *batch, children)
        parts.append(above(plan, measure, children, *batch))
    return (information_joined(parts),)


def pass_up_above(
    plan: Plan, measure: Measure, information: Information, seen: Seen | None = None
) -> tuple[Information, ...]:
    """Return the information of every level down to that of `information`, which must cover all geounits of its level.

    So a state's pass continues from its tracts (`information_joined`), and the nation's from its states' parts. seen:
    as for `pass_up`.
    """
    passed = [information]
    while passed[0].level > 0:
        level, number = passed[0].level - 1, len(plan.spine.starts[passed[0].level - 1])
        if seen:
            seen(level, 0, number, passed[0])
        passed.insert(0, above(plan, measure, passed[0], 0, number))
    return tuple(passed)


def above(plan: Plan, measure: Measure, children: Information, first: int, last: int) -> Information:
    """Return the information of the geounits first, ..., last - 1, from all their children's and their own answers."""
    level = children.level - 1
    plan.check_measured(level, first, last)
    first_child = plan.spine.first_child[level][first : last + 1] - children.first
    if plan.closed_form:
        linear, precision = combine_units(first_child, children.linear, children.precision)
        below = Information(level, first, linear, precision)
    elif plan.bounds.totals[children.level] is not None:
        below = combine_declared(plan, first, first_child, children)
    else:
        below = combine_children(plan, first, first_child, children)
    own = measured(plan, measure, level, first, last)
    return replace(own, linear=own.linear + below.linear, precision=own.precision + below.precision)


def combine_units(first: IntArray, linear: FloatArray, precision: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the (parents,) h and P from the children's, for housing units; first: (parents + 1,) first children."""
    starts, only = first[:-1], np.diff(first) == 1
    z, variance = unit_estimates(linear, precision)
    _, below = unit_estimates(np.zeros(len(starts)), np.add.reduceat(variance, starts))
    b = np.where(only, linear[starts], below * np.add.reduceat(z, starts))
    return b, np.where(only, precision[starts], below)


def unit_estimates(linear: FloatArray, precision: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return z = h / P and 1 / P of housing units: both 0 where P is 0."""
    known = precision > 0
    weight = np.where(known, precision, 1.0)
    return np.where(known, linear / weight, 0.0), np.where(known, 1 / weight, 0.0)


def measured(plan: Plan, measure: Measure, level: int, first: int, last: int) -> Information:
    """Return the information in the own answers of the geounits first, ..., last - 1; 0 for those with the share 0."""
    batches = [(start, min(start + plan.rows, last)) for start in range(first, last, plan.rows)]
    if level == len(plan.spine.levels) - 1:
        batches = [(first, last)]  # asked a range of parents at a time
    return information_joined([_measured(plan, measure, level, *batch) for batch in batches])


def _measured(plan: Plan, measure: Measure, level: int, first: int, last: int) -> Information:
    name, spine = plan.spine.levels[level], plan.spine
    queries, hierarchy = plan.all_queries[level]
    shares = spine.shares[level][first:last]
    weight = np.ascontiguousarray(weights(plan.allocation, name, queries, shares, spine.denominator))
    given = measure(level, first, last).answers if shares.any() else {}
    if plan.closed_form:
        hu = plan.bounds.number(level)[first:last]
        precision = 2 * weight[0] * (hu > 0)  # that of (hu - y0 + y1) / 2
        target: FloatArray = units.targets(hu, given[DETAILED]) if given else np.zeros(len(hu))
        return Information(level, first, precision * target, precision)
    allowed = allowed_types(plan, level, first, last)
    return own_information(grid(plan), level, first, queries, hierarchy, given, weight, allowed)


__all__ = ["Information", "Seen", "above", "measured", "pass_up", "pass_up_above"]
