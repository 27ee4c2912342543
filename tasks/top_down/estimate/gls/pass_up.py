"""Pass information up the spine: sum up, for each geounit, all measurements in it and below it.

One pass reads every answer once and serves estimates, margins of error and areas. It saves the information of geounits
above the blocks, and the inputs of sums of blocks (tree.py). It uses noisy answers and declared invariants only, so it
costs no budget.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from spine.gls.grid import STATES
from tasks.lifecycle.workers import Workers
from tasks.top_down.blocks import BlockSource
from tasks.top_down.estimate.gls.tree import (
    columns_of,
    information_folder,
    keep_siblings,
    keep_whole,
    load_information,
    save_information,
    tree_folder,
)
from tasks.top_down.run_plan import US
from tasks.top_down.source import FIRST, Branch, Source

if TYPE_CHECKING:
    from spine.gls.upward import Seen
    from spine.top_down import Plan


def pass_up(source: Source, workers: Workers, *, estimate: bool = False) -> None:
    """Pass the measurements of every product and state up to the state's parts.

    estimate: save the block groups' information, which an estimate needs; else, for a user's areas, the counts of the
    minority.
    """
    workers.map("pass up", source, up_to_tracts, [(*batch, estimate) for batch in source.batches(source.descents[-1])])
    workers.map("pass up states", source, up_to_roots, [(branch, estimate) for branch in source.branches])


def up_to_tracts(source: Source, branch: Branch, first: int, last: int, estimate: bool) -> None:
    """Save the information of the tracts first ... last - 1, and the inputs of sums below them.

    The last stage of an estimate begins with tracts.
    """
    tract = source.descents[-1].level
    if (information_folder(source, branch, tract) / f"{first:07d}").exists():
        return
    answers = source.needed_answers(branch)  # before importing numba
    plan = answers.plan
    from spine.gls import upward

    keep = _keeper(source, branch, plan, estimate)
    passed = upward.pass_up(plan, answers, plan.spine.levels.index(tract), first, last, keep)
    for information in reversed(passed[: 1 + estimate]):
        save_information(source, branch, plan, information)


def up_to_roots(source: Source, branch: Branch, estimate: bool) -> None:
    """Save the information of a state's counties and parts, and the inputs of sums above the tracts.

    US: the nation's, from all states' parts.
    """
    top = US if branch.name == US else source.spine(branch).levels[0]
    if (information_folder(source, branch, top) / FIRST).exists():
        return
    answers = source.needed_answers(branch)  # before importing numba
    plan = answers.plan
    from spine.gls import blue, upward

    name = "State" if branch.name == US else source.descents[-1].level
    number = plan.spine.levels.index(name)
    below = load_information(source, branch, name, 0, len(plan.spine.starts[number]))
    keep = _keeper(source, branch, plan, estimate)
    passed = upward.pass_up_above(plan, answers, below, keep)
    if keep is not None:
        keep(STATES, 0, len(plan.bounds.lowest_totals.values), passed[0])
        keep_whole(tree_folder(source, branch), blue.blue_states(plan, passed[0]))
    for information in reversed(passed[:number]):
        save_information(source, branch, plan, information)


def _keeper(source: Source, branch: Branch, plan: Plan, estimate: bool) -> Seen | None:
    """Return what saves the inputs of sums of blocks; None for the nation and for leaves, which are not summed."""
    if branch.name == US or not isinstance(source, BlockSource):
        return None
    columns = columns_of(branch.product, source.design.pl94, minority=not estimate)
    return partial(keep_siblings, tree_folder(source, branch), plan, columns)
