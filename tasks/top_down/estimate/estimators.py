"""The stage "estimate": the program of 2020, or generalized least squares; a truth takes the exact histograms."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from spine.top_down import Estimates, TrueHistograms
from tasks.errors import Failed
from tasks.lifecycle.authorization import is_truth, read_drawing
from tasks.lifecycle.files import complete
from tasks.lifecycle.workers import Workers
from tasks.top_down.blocks import BlockSource
from tasks.top_down.estimate.gls.margin_tables import find_margins
from tasks.top_down.estimate.gls.pass_up import pass_up, up_to_roots
from tasks.top_down.estimate.gls.tree import load_information
from tasks.top_down.estimate.topdown import estimate_batch, estimate_by_topdown
from tasks.top_down.measure import MeasuredRun
from tasks.top_down.run_plan import US
from tasks.top_down.source import Branch, BranchAnswers, Source, load_histograms, save_histograms

if TYPE_CHECKING:
    from spine.top_down import OwnAnswers


def estimate(run: MeasuredRun, workers: Workers) -> None:
    """Estimate the histograms of every geounit of every product of a run; a truth takes the exact ones."""
    if is_truth(run):
        workers.map(run.descents[0].title, run, take_exact, run.branch_levels)
    else:
        estimate_from(run, workers)


def estimate_from(source: Source, workers: Workers) -> None:
    """Estimate the histograms of every geounit from measurements, a run's or published ones."""
    if source.estimator == "topdown":
        estimate_by_topdown(source, workers)
        return
    pass_up(source, workers, estimate=True)
    if source.nations:
        workers.map("pass up states", source, up_to_roots, [(nation, True) for nation in source.nations])
    estimate_by_topdown(source, workers, partial(estimate_batch, answers=tree_answers))
    if isinstance(source, BlockSource):
        find_margins(source, workers)


def take_exact(run: MeasuredRun, branch: Branch, level: str) -> None:
    """Save exact histograms as estimates: the result of estimation without noise.

    Raises Failed if the run is authorized to draw noise: only a truth shows exact counts.
    """
    if read_drawing(run) is not None:
        raise Failed("estimate: only a truth takes exact counts")
    for path in complete(run.counts_folder(branch, level)):
        exact = load_histograms(path, TrueHistograms)
        estimates = Estimates(exact.level, exact.first, exact.starts, exact.cell, exact.count)
        save_histograms(run.estimates_folder(branch, level) / path.name, estimates)


def tree_answers(source: Source, branch: Branch, measured: BranchAnswers, parents: Estimates | None) -> OwnAnswers:
    """Return the answers of `spine.gls` for the children of these parents, or for the roots: their information.

    Blocks are estimated from their own answers.
    """
    from spine.gls.tree_answers import TreeAnswers  # imports numba

    plan = measured.plan
    level, levels = 0 if parents is None else parents.level + 1, plan.spine.levels
    if branch.name != US and level == len(levels) - 1:
        return TreeAnswers(plan, measured)
    first, last = (
        (0, len(plan.spine.starts[0]))
        if parents is None
        else plan.children_of(parents.level, parents.first, parents.last)
    )
    return TreeAnswers(plan, measured, (load_information(source, branch, levels[level], first, last),))
