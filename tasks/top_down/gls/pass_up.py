"""Pass up: what each county and tract says, with everything that was measured below it (estimator gls).

Made of noisy answers and declared invariants alone, so it costs no budget. Block groups' information is not kept: the
piece that estimates blocks measures what lies below its block groups once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import spine.top_down as engine  # what it compiles is asked for by name when it is used: that imports numba
from spine.top_down import Estimates, Measure
from tasks.lifecycle.files import complete, open_array, save_arrays, unless_done
from tasks.top_down.measure.measuring import open_measuring
from tasks.top_down.run import TopDownRun
from tasks.top_down.run_plan import ProductName

if TYPE_CHECKING:
    from spine.top_down import Information, Plan


def pass_up(run: TopDownRun, product: ProductName, state: str, first: int, last: int) -> None:
    """Save what the counties first ... last - 1 and their tracts say; the counties' last of all."""

    def make() -> None:
        measuring = open_measuring(run, product, state)
        levels = measuring.plan.spine.levels
        told = engine.up_pass(measuring.plan, measuring, levels.index("County"), first, last)
        for information in reversed([each for each in told if each.level <= levels.index("Tract")]):
            folder = run.information_folder(product, state, levels[information.level])
            arrays = {"linear": information.linear, "precision": information.precision}
            save_arrays(folder / f"{information.first:07d}", {"at": np.array([information.level]), **arrays})

    unless_done(run.information_folder(product, state, "County") / f"{first:07d}", make)


def above_counties(
    run: TopDownRun, product: ProductName, state: str, plan: Plan, measure: Measure
) -> tuple[Information, ...]:
    """What the parts of a state and its counties say; nothing with another estimator."""
    if run.design.estimator != "gls":
        return ()
    number = len(plan.spine.starts[plan.spine.levels.index("County")])
    return engine.up_pass_above(plan, measure, load_information(run, product, state, "County", 0, number))


def above_parts(run: TopDownRun, product: ProductName, nation: Plan, measure: Measure) -> tuple[Information, ...]:
    """What the nation and all states' parts say; nothing with another estimator."""
    if run.design.estimator != "gls":
        return ()
    linear, precision = [], []
    for state in run.validated.states:
        of_state = open_measuring(run, product, state)
        parts = above_counties(run, product, state, of_state.plan, of_state)[0]
        linear.append(parts.linear)
        precision.append(parts.precision)
    level = nation.spine.levels.index("State")
    told = engine.Information(level, 0, np.concatenate(linear), np.concatenate(precision))
    return engine.up_pass_above(nation, measure, told)


def saved_below(run: TopDownRun, product: ProductName, state: str, parents: Estimates) -> tuple[Information, ...]:
    """What is saved of the children of a run of parents: where these are tracts, and with this estimator alone."""
    spine, level = run.spine(product, state), parents.level + 1
    if run.design.estimator != "gls" or spine.levels[level] != "Tract":
        return ()
    bounds = [*spine.starts[parents.level].tolist(), spine.blocks]
    first, last = np.searchsorted(spine.starts[level], (bounds[parents.first], bounds[parents.last])).tolist()
    return (load_information(run, product, state, "Tract", first, last),)


def load_information(
    run: TopDownRun, product: ProductName, state: str, level: str, first: int, last: int
) -> Information:
    """The information of the geounits first ... last - 1 of a level."""
    parts = []
    for path in complete(run.information_folder(product, state, level)):
        begin = int(path.name)
        linear, precision = open_array(path, "linear"), open_array(path, "precision")
        low, high = max(first, begin), min(last, begin + len(linear))
        if low < high:
            rows = slice(low - begin, high - begin)
            index = int(open_array(path, "at")[0])
            parts.append(engine.Information(index, low, np.array(linear[rows]), np.array(precision[rows])))
    return engine.information_joined(parts)
