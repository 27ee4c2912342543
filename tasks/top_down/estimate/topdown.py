"""Estimate from the top of the spine down to the blocks, in independent batches.

    nation and its states' parts   one batch, if the US level is measured
    states                         a batch per state: its parts and their counties
    tracts                         batches of counties
    blocks                         batches of tracts: their block groups and blocks

Other hierarchies than the nation's have other stages (`Source.descents`).

A batch reads the estimates of its parents and measures the levels below them. An existing batch is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

import spine.top_down as engine  # its compiled functions, and numba, are imported at first use
from spine.top_down import Estimates
from tasks.lifecycle.files import complete, load_object, save_object
from tasks.lifecycle.workers import Workers
from tasks.top_down.blocks import BlockSource
from tasks.top_down.run_plan import US
from tasks.top_down.source import FIRST, Branch, BranchAnswers, Source, load_histograms, load_range, save_histograms

if TYPE_CHECKING:
    Answers = Callable[[Source, Branch, BranchAnswers, Estimates | None], engine.OwnAnswers]

SOLVES = "solves"


def own_answers(
    _source: Source, _branch: Branch, measured: BranchAnswers, _parents: Estimates | None
) -> engine.OwnAnswers:
    """Return the program's answers for the children of these parents, or for the roots: their own noisy answers."""
    return engine.OwnAnswers(measured.plan, measured)


def estimate_batch(
    source: Source,
    branch: Branch,
    first: int,
    last: int | None,
    level: str,
    lowest: str,
    answers: Answers = own_answers,
) -> None:
    """Estimate and save the levels below the geounits first ... last - 1 of a level; with the top level, also itself.

    answers: returns those of the batch. The record of the solved parents is saved last. The parts of a state are read
    if the nation is measured.
    """
    done = source.estimates_folder(branch, SOLVES) / f"{lowest}-{first:07d}"
    if done.exists():
        return
    measured = source.needed_answers(branch)
    plan = measured.plan
    found: list[tuple[Estimates, list[engine.Solve]]] = []
    if level != plan.spine.levels[0]:
        parents = load_estimates(source, branch, level, first, last)
    else:
        if branch.name != US and source.validated.nation:
            found.append((_parts_of_nation(source, branch), []))
        else:
            found.append(engine.estimate_roots(plan, answers(source, branch, measured, None)))
        parents = found[0][0]
    while plan.spine.levels[parents.level] != lowest:
        below = answers(source, branch, measured, parents)
        found.append(engine.estimate_children(plan, parents, below))
        parents = found[-1][0]
    for estimates, _ in found:
        folder = source.estimates_folder(branch, plan.spine.levels[estimates.level])
        save_histograms(folder / f"{estimates.first:07d}", estimates)
    save_object(done, [solve for _, solves in found for solve in solves])


def estimate_by_topdown(source: Source, workers: Workers, batch: Callable[..., None] = estimate_batch) -> None:
    """Estimate the histograms of all geounits of every product. batch: estimates one, as `estimate_batch` does."""
    top, *below = source.descents
    if source.nations:
        workers.map(top.title, source, batch, [(nation, 0, None, US, "State") for nation in source.nations])
    workers.map(top.title, source, batch, [(branch, 0, None, top.level, top.lowest) for branch in source.branches])
    for descent in below:
        calls = [(*each, descent.level, descent.lowest) for each in source.batches(descent)]
        workers.map(descent.title, source, batch, calls)


def _parts_of_nation(source: Source, branch: Branch) -> Estimates:
    """Read a state's parts from the estimates below the nation."""
    assert isinstance(source, BlockSource)  # only this source has a nation
    parts = load_histograms(source.estimates_folder(Branch(branch.product, US), "State") / FIRST, Estimates)
    number = source.branches_of(branch.product).index(branch)
    ends = np.cumsum([0, *(len(summary.shares) for summary in source.summaries(branch.product))])
    own = parts.only(*ends[[number, number + 1]].tolist())
    return Estimates(0, 0, own.starts, own.cell, own.count)


def load_solves(source: Source, branch: Branch) -> list[engine.Solve]:
    """Read the record of the solved parents of a state, or (US) of the nation; empty for a truth."""
    folder = source.estimates_folder(branch, SOLVES)
    paths = complete(folder) if folder.exists() else []
    return [solve for path in paths for solve in load_object(path, list[engine.Solve])]


def load_estimates(source: Source, branch: Branch, level: str, first: int = 0, last: int | None = None) -> Estimates:
    """Read the estimates of the geounits first ... last - 1 of a level, or of all its geounits."""
    spine = source.spine(branch)
    number = len(spine.starts[spine.levels.index(level)])
    return load_range(source.estimates_folder(branch, level), Estimates, number, first, last)
