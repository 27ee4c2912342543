"""The stage "estimate": by the program of 2020 or our own estimator; a truth takes the exact histograms.

Estimates are made from the top of the spine down to the blocks, in batches that do not depend on each other.

    nation and its states' parts   one batch, where the US level is measured
    states                         a batch a state: its parts and their counties
    tracts                         batches of counties
    blocks                         batches of tracts: their block groups and blocks

Other hierarchies than the nation's have other stages (`Source.descents`).

A batch reads the estimates of its parents and measures the levels below them. A batch that exists is not made again.
"""

from __future__ import annotations

import numpy as np

import spine.top_down as engine  # its compiled functions are imported at first use: they import numba
from spine.top_down import Estimates, TrueHistograms, joined
from tasks.lifecycle.authorization import is_truth, read_drawing
from tasks.lifecycle.errors import Failed
from tasks.lifecycle.files import complete, load_object, save_object
from tasks.lifecycle.workers import Workers
from tasks.top_down.estimate.gls.margin_tables import find_margins
from tasks.top_down.estimate.gls.pass_up import pass_up, up_to_roots
from tasks.top_down.estimate.gls.tree import load_information
from tasks.top_down.input.geography import summaries
from tasks.top_down.run_plan import US, ProductName
from tasks.top_down.source import FIRST, Source, StateAnswers, TopDownRun, load_histograms, save_histograms

SOLVES = "solves"


def estimate(run: TopDownRun, workers: Workers) -> None:
    """Estimate the histograms of every geounit of every product of a run; those of a truth are the exact ones."""
    if is_truth(run):
        workers.map(run.descents[0].title, run, take_exact, run.product_levels)
    else:
        estimate_from(run, workers)


def estimate_from(source: Source, workers: Workers) -> None:
    """Estimate the histograms of every geounit from measurements, a run's or published ones."""
    if source.estimator == "topdown":
        estimate_by_topdown(source, workers)
        return
    pass_up(source, workers, groups=True, areas=source.has_areas)
    if source.validated.nation:
        workers.map("pass up states", source, up_to_roots, [(each, US, False) for each in source.design.products])
    estimate_by_topdown(source, workers, informed=True)
    if source.has_areas:
        find_margins(source, workers)


def take_exact(run: TopDownRun, product: ProductName, state: str, level: str) -> None:
    """Save exact histograms where estimates go: what estimation without noise would find.

    Raises Failed where the run is authorized to draw noise: only a truth shows exact counts.
    """
    if read_drawing(run) is not None:
        raise Failed("estimate: only a truth takes exact counts")
    exact = load_histograms(run.counts_folder(product, state, level), TrueHistograms)
    estimates = Estimates(exact.level, exact.first, exact.starts, exact.cell, exact.count)
    save_histograms(run.estimates_folder(product, state, level) / FIRST, estimates)


def answers_below(
    source: Source, product: ProductName, state: str, measured: StateAnswers, parents: Estimates | None, informed: bool
) -> engine.OwnAnswers:
    """Return what the children of these parents, or the roots, are estimated from: their own noisy answers.

    informed: above the blocks, from their information instead.
    """
    plan = measured.plan
    if not informed:
        return engine.OwnAnswers(plan, measured)
    from spine.gls.tree_answers import TreeAnswers  # imports numba

    level, levels = 0 if parents is None else parents.level + 1, plan.spine.levels
    if state != US and level == len(levels) - 1:
        return TreeAnswers(plan, measured)
    first, last = (
        (0, len(plan.spine.starts[0]))
        if parents is None
        else plan.children_of(parents.level, parents.first, parents.last)
    )
    return TreeAnswers(plan, measured, (load_information(source, product, state, levels[level], first, last),))


def estimate_by_topdown(source: Source, workers: Workers, *, informed: bool = False) -> None:
    """Estimate the histograms of all geounits of every product; informed: as for `answers_below`."""
    top, *below = source.descents
    if source.validated.nation:
        nations = [(product, US, 0, None, US, "State", informed) for product in source.design.products]
        workers.map(top.title, source, estimate_batch, nations)
    whole = [(*pair, 0, None, top.level, top.lowest, informed) for pair in source.product_states]
    workers.map(top.title, source, estimate_batch, whole)
    for descent in below:
        calls = [(*batch, descent.level, descent.lowest, informed) for batch in source.batches(descent)]
        workers.map(descent.title, source, estimate_batch, calls)


def estimate_batch(
    source: Source,
    product: ProductName,
    state: str,
    first: int,
    last: int | None,
    level: str,
    lowest: str,
    informed: bool,
) -> None:
    """Save the levels below the geounits first ... last - 1 of a level, down to the lowest; of the top level also it.

    How the parents were solved is saved last of all. The parts of a state are read where the nation is measured.
    """
    done = source.estimates_folder(product, state, SOLVES) / f"{lowest}-{first:07d}"
    if done.exists():
        return
    measured = source.answers(product, state)
    plan = measured.plan
    found: list[tuple[Estimates, list[engine.Solve]]] = []
    if level != plan.spine.levels[0]:
        parents = load_estimates(source, product, state, level, first, last)
    else:
        if state != US and source.validated.nation:
            found.append((_parts_of_nation(source, product, state), []))
        else:
            found.append(engine.estimate_roots(plan, answers_below(source, product, state, measured, None, informed)))
        parents = found[0][0]
    while plan.spine.levels[parents.level] != lowest:
        answers = answers_below(source, product, state, measured, parents, informed)
        found.append(engine.estimate_children(plan, parents, answers))
        parents = found[-1][0]
    for estimates, _ in found:
        folder = source.estimates_folder(product, state, plan.spine.levels[estimates.level])
        save_histograms(folder / f"{estimates.first:07d}", estimates)
    save_object(done, [solve for _, solves in found for solve in solves])


def _parts_of_nation(source: Source, product: ProductName, state: str) -> Estimates:
    """Read a state's parts from the estimates below the nation."""
    parts = load_histograms(source.estimates_folder(product, US, "State") / FIRST, Estimates)
    number = source.validated.states.index(state)
    ends = np.cumsum([0, *(len(summary.shares) for summary in summaries(source, product))])
    own = parts.only(*ends[[number, number + 1]].tolist())
    return Estimates(0, 0, own.starts, own.cell, own.count)


def load_solves(source: Source, product: ProductName, state: str) -> list[engine.Solve]:
    """Read how the parents of a state, or (US) of the nation, were solved; a truth solves none."""
    folder = source.estimates_folder(product, state, SOLVES)
    paths = complete(folder) if folder.exists() else []
    return [solve for path in paths for solve in load_object(path, list[engine.Solve])]


def load_estimates(
    source: Source, product: ProductName, state: str, level: str, first: int = 0, last: int | None = None
) -> Estimates:
    """Read the estimates of the geounits first ... last - 1 of a level, or of all of them."""
    paths = complete(source.estimates_folder(product, state, level))
    spine = source.spine(product, state)
    number = len(spine.starts[spine.levels.index(level)])
    starts = [int(path.name) for path in paths]
    parts = []
    for path, start, end in zip(paths, starts, [*starts[1:], number], strict=True):
        low, high = max(first, start), min(number if last is None else last, end)
        if low < high:
            parts.append(load_histograms(path, Estimates, low - start, high - start))
    return joined(parts)
