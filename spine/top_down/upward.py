"""The pass up the tree: the information (h, P) of geounits and of everything below them (`tree`), a level at a time.

What is kept of blocks is nothing: they are measured a range of parents at a time, and handed up at once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spine.top_down import tree, units
from spine.top_down.histogram import UNITS
from spine.top_down.measurements import Measure, weights
from spine.top_down.plan import Plan
from spine.top_down.queries import DETAILED
from spine.top_down.tree import Information, components, information_joined, own_information
from spine.workload import FloatArray


def up_pass(plan: Plan, measure: Measure, level: int, first: int, last: int) -> tuple[Information, ...]:
    """What the geounits first, ..., last - 1 of a level say with all below them; then of their children, and so on.

    From `level` down to the last level above the lowest. On the lowest level itself: what its answers say.
    """
    lowest = len(plan.spine.levels) - 1
    if level == lowest:
        return (own(plan, measure, level, first, last),)
    if level < lowest - 1:
        first_child = plan.first_child[level]
        below = up_pass(plan, measure, level + 1, int(first_child[first]), int(first_child[last]))
        return (above(plan, measure, below[0], first, last), *below)
    parts = []
    for begin, end in plan.runs(level, first, last):
        first_child = plan.first_child[level]
        blocks = own(plan, measure, lowest, int(first_child[begin]), int(first_child[end]))
        parts.append(above(plan, measure, blocks, begin, end))
    return (information_joined(parts),)


def up_pass_above(plan: Plan, measure: Measure, told: Information) -> tuple[Information, ...]:
    """The same of every level down to that of `told`, given what all its geounits say: the last of the result.

    So a state's pass goes on from its counties' (`information_joined`), and the nation's from its states' parts.
    """
    passed = [told]
    while passed[0].level > 0:
        passed.insert(0, above(plan, measure, passed[0], 0, len(plan.spine.starts[passed[0].level - 1])))
    return tuple(passed)


def above(plan: Plan, measure: Measure, children: Information, first: int, last: int) -> Information:
    """What the geounits first, ..., last - 1 say, from all their children's information and their own answers."""
    level, spine = children.level - 1, plan.spine
    plan.refuse_unmeasured(level, first, last)
    first_child = plan.first_child[level][first : last + 1] - children.first
    here = own(plan, measure, level, first, last)
    allowed = plan.invariants.allowed(children.level)[children.first : children.last]
    if plan.product is UNITS:
        says = units.children_say(first_child, children.linear, children.precision)
        return replace(here, linear=here.linear + says[0], precision=here.precision + says[1])
    if spine.levels[level] == "US":
        says_ = tree.states_say(children, allowed, plan.invariants.state_of, plan.invariants.state_totals)
    else:
        says_ = tree.children_say(first, first_child, children, allowed)
    return replace(here, linear=here.linear + says_.linear, precision=here.precision + says_.precision)


def own(plan: Plan, measure: Measure, level: int, first: int, last: int) -> Information:
    """What the answers of the geounits first, ..., last - 1 say; nothing of those with the share 0."""
    runs = [(begin, min(begin + plan.rows, last)) for begin in range(first, last, plan.rows)]
    if level == len(plan.spine.levels) - 1:
        runs = [(first, last)]  # asked a range of parents at a time
    return information_joined([_own(plan, measure, level, begin, end) for begin, end in runs])


def _own(plan: Plan, measure: Measure, level: int, first: int, last: int) -> Information:
    name, spine = plan.spine.levels[level], plan.spine
    queries, steps = plan.asked_in_all[level]
    shares = spine.shares[level][first:last]
    weight = np.ascontiguousarray(weights(plan.allocation, name, queries, shares, spine.denominator))
    given = measure(level, first, last).answers if shares.any() else {}
    if plan.product is UNITS:
        hu = plan.invariants.housing_units(level)[first:last]
        precision = 2 * weight[0] * (hu > 0)  # of (hu - y0 + y1) / 2
        target: FloatArray = units.targets(hu, given[DETAILED]) if given else np.zeros(len(hu))
        return Information(level, first, precision * target, precision)
    width = int(steps.offsets[-1])
    answers = np.concatenate([np.asarray(given[query], float) for query in queries], axis=1) if given else None
    return own_information(
        level,
        first,
        steps,
        components(plan.product, queries),
        np.zeros((last - first, width)) if answers is None else answers,
        weight,
        np.ascontiguousarray(plan.invariants.allowed(level)[first:last]),
    )


def lacking(
    plan: Plan, measure: Measure, known: tuple[Information, ...], level: int, first: int, last: int
) -> Information:
    """The information of a range of geounits: among what is known, or from a pass up to them."""
    for told in known:
        if told.level == level and told.first <= first and last <= told.last:
            return told.only(first, last)
    return up_pass(plan, measure, level, first, last)[0]


__all__ = ["Information", "lacking", "up_pass", "up_pass_above"]
