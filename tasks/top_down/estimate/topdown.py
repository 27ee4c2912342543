"""Estimate from the top of the spine down to the blocks, in batches that do not depend on each other.

    nation and its states' parts   one batch, where the US level is measured
    states                         a batch a state: its parts and their counties
    tracts                         batches of counties
    blocks                         batches of tracts: their block groups and blocks

Other hierarchies than the nation's have other stages (`Source.descents`).

A batch reads the estimates of its parents and measures the levels below them. A batch that exists is not made again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import spine.top_down as engine  # its compiled functions are imported at first use: they import numba
from spine.hierarchy import Spine
from spine.top_down import Estimates, joined
from tasks.lifecycle.files import complete, load_object, save_object, unless_done
from tasks.lifecycle.workers import Workers
from tasks.top_down.input.geography import summaries
from tasks.top_down.run_plan import US, ProductName
from tasks.top_down.source import Descent, Source, load_histograms, save_histograms

Found = tuple[Estimates, "list[engine.Solve]"]
SOLVES = "solves"
FIRST = "0000000"  # the name of a batch that starts at the first geounit


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


class Steps:
    """The steps of one batch by the program of 2020: the top of the spine, and one level below some parents."""

    def __init__(self, source: Source, product: ProductName, state: str) -> None:
        self.source, self.product, self.state = source, product, state
        self.measure = source.answers(product, state)
        self.plan = self.measure.plan

    def answers(self, parents: Estimates | None) -> engine.OwnAnswers:
        """Return what the children of these parents, or the roots, are estimated from: their own noisy answers."""
        return engine.OwnAnswers(self.plan, self.measure)

    def roots(self) -> Found:
        """Estimate the nation, or the parts of a state."""
        return engine.estimate_roots(self.plan, self.answers(None))

    def children(self, parents: Estimates) -> Found:
        """Estimate the children of a range of parents."""
        return engine.estimate_children(self.plan, parents, self.answers(parents))


def estimate_by_topdown(source: Source, workers: Workers, estimator: type[Steps] = Steps) -> None:
    """Estimate the histograms of all geounits of every product, by the steps of the program or of another estimator."""
    top, *below = source.descents
    if source.validated.nation:
        nations = [(product, estimator) for product in source.design.products]
        workers.map(top.title, source, estimate_nation, nations)
    workers.map(top.title, source, estimate_top, [(*pair, top.lowest, estimator) for pair in source.product_states])
    for descent in below:
        calls = [(*batch, *descent[1:3], estimator) for batch in all_batches(source, descent)]
        workers.map(descent.title, source, estimate_below, calls)


def batches(spine: Spine, level: str, lower: str, size: int) -> list[tuple[int, int]]:
    """Cut a level into ranges (first, last + 1) with about `size` geounits of a lower level, one at the least."""
    first, below = (spine.starts[spine.levels.index(name)] for name in (level, lower))
    begins = np.append(np.searchsorted(below, first), len(below))
    cuts = [0]
    for geounit in range(1, len(first)):
        if begins[geounit + 1] - begins[cuts[-1]] > size:
            cuts.append(geounit)
    return list(zip(cuts, [*cuts[1:], len(first)], strict=True))


def all_batches(source: Source, descent: Descent) -> list[tuple[ProductName, str, int, int]]:
    """Return the batches of a stage, of every product and state: product, state, first geounit, last + 1."""
    return [
        (product, state, first, last)
        for product, state in source.product_states
        for first, last in batches(source.spine(product, state), *descent[1:])
    ]


def estimate_nation(source: Source, product: ProductName, estimator: type[Steps]) -> None:
    """Estimate the nation and the states' parts below it."""

    def make(steps: Steps) -> list[Found]:
        nation = steps.roots()
        return [nation, steps.children(nation[0])]

    _unless_done(source, product, US, "State", 0, estimator, make)


def estimate_top(source: Source, product: ProductName, state: str, lowest: str, estimator: type[Steps]) -> None:
    """Estimate the parts of a state, or read them where the nation is measured, and their counties."""

    def make(steps: Steps) -> list[Found]:
        parts = (_parts_of_nation(source, product, state), []) if source.validated.nation else steps.roots()
        return [parts, steps.children(parts[0])]

    _unless_done(source, product, state, lowest, 0, estimator, make)


def _parts_of_nation(source: Source, product: ProductName, state: str) -> Estimates:
    """Read a state's parts from the estimates below the nation."""
    parts = load_histograms(source.estimates_folder(product, US, "State") / FIRST, Estimates)
    number = source.validated.states.index(state)
    ends = np.cumsum([0, *(len(summary.shares) for summary in summaries(source, product))])
    own = parts.only(*ends[[number, number + 1]].tolist())
    return Estimates(0, 0, own.starts, own.cell, own.count)


def estimate_below(
    source: Source,
    product: ProductName,
    state: str,
    first: int,
    last: int,
    level: str,
    lowest: str,
    estimator: type[Steps],
) -> None:
    """Estimate the levels below the geounits first ... last - 1 of a level, down to the lowest."""

    def make(steps: Steps) -> list[Found]:
        parents = load_estimates(source, product, state, level, first, last)
        found: list[Found] = []
        while steps.plan.spine.levels[parents.level] != lowest:
            found.append(steps.children(parents))
            parents = found[-1][0]
        return found

    _unless_done(source, product, state, lowest, first, estimator, make)


def _unless_done(
    source: Source,
    product: ProductName,
    state: str,
    lowest: str,
    first: int,
    estimator: type[Steps],
    make: Callable[[Steps], list[Found]],
) -> None:
    """Save the estimates of a batch by level, and last of all how its parents were solved."""

    def save() -> None:
        steps = estimator(source, product, state)
        found = make(steps)
        for estimates, _ in found:
            folder = source.estimates_folder(product, state, steps.plan.spine.levels[estimates.level])
            save_histograms(folder / f"{estimates.first:07d}", estimates)
        save_object(done, [solve for _, solves in found for solve in solves])

    done = source.estimates_folder(product, state, SOLVES) / f"{lowest}-{first:07d}"
    unless_done(done, save)
