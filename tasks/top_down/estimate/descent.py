"""Estimate: from the top of the spine down to the blocks, in waves of pieces that do not depend on each other.

    nation and its states' parts   one piece, where the US level is measured
    states                         a piece a state: its parts and their counties
    tracts                         runs of counties
    blocks                         runs of tracts: block groups and blocks

With the estimator gls a wave comes before them all: runs of counties, whose tracts and counties are given what they and
everything below them say (`tasks.top_down.gls.pass_up`); and after them the margins of error
(`tasks.top_down.gls.margins`).

A piece reads the estimates of its parents and measures what lies below them. A piece that is there is not made again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import spine.top_down as engine  # what it compiles is asked for by name when it is used: that imports numba
from spine.top_down import Estimates, Measure, TrueHistograms, joined
from tasks.lifecycle.authorization import is_truth, read_drawing
from tasks.lifecycle.errors import Failed
from tasks.lifecycle.files import save_object, unless_done
from tasks.lifecycle.workers import Workers
from tasks.top_down.estimate.batches import batches
from tasks.top_down.gls.margins import find_margins, save_states
from tasks.top_down.gls.pass_up import above_counties, above_parts, pass_up, saved_below
from tasks.top_down.input.geography import plan_of
from tasks.top_down.measure.measuring import open_measuring
from tasks.top_down.run import TopDownRun, load_histograms, save_histograms
from tasks.top_down.run_plan import US, ProductName

if TYPE_CHECKING:
    from spine.top_down import Information, Plan, Solve

SOLVES = "solves"
FIRST = "0000000"  # the run of geounits that begins with the first


def estimate(run: TopDownRun, workers: Workers) -> None:
    """Estimate the histograms of every geounit of every product; a truth takes the exact ones."""
    products, states = run.design.products, run.validated.states
    each = [(product, state) for product in products for state in states]
    if is_truth(run):
        levels = [(*pair, level) for pair in each for level in run.spine(*pair).levels]
        levels += [(product, US, US) for product in products] * run.validated.nation
        workers.map("estimate states", run, take_exact, levels)
        return
    if run.design.estimator == "gls":
        pieces = [(*pair, *piece) for pair in each for piece in batches(run.spine(*pair), "County", "Block")]
        workers.map("pass up", run, pass_up, pieces)
    if run.validated.nation:
        workers.map("estimate states", run, estimate_nation, [(product,) for product in products])
    workers.map("estimate states", run, estimate_state, each)
    for wave, function, above, below in (
        ("estimate tracts", estimate_tracts, "County", "Tract"),
        ("estimate blocks", estimate_blocks, "Tract", "Block"),
    ):
        pieces = [(*pair, *piece) for pair in each for piece in batches(run.spine(*pair), above, below)]
        workers.map(wave, run, function, pieces)
    if run.design.estimator == "gls":
        find_margins(run, workers)


def take_exact(run: TopDownRun, product: ProductName, state: str, level: str) -> None:
    """What estimation would find without noise, taken from the exact counts: for a truth, which can draw nothing."""
    if read_drawing(run) is not None:
        raise Failed("estimate: only a truth takes exact counts")
    exact = load_histograms(run.counts_folder(product, state, level), TrueHistograms)
    estimates = Estimates(exact.level, exact.first, exact.starts, exact.cell, exact.count)
    save_histograms(run.estimates_folder(product, state, level) / FIRST, estimates)


def estimate_nation(run: TopDownRun, product: ProductName) -> None:
    """Estimate the nation and the states' parts below it."""

    def make(plan: Plan, measure: Measure) -> tuple[list[Estimates], list[Solve]]:
        known = above_parts(run, product, plan, measure)
        save_states(run, product, plan, known)
        nation, solves = engine.estimate_roots(plan, measure, known)
        parts, more = engine.estimate_children(plan, nation, measure, known)
        return [nation, parts], solves + more

    _once(run, product, US, "State", 0, make)


def estimate_state(run: TopDownRun, product: ProductName, state: str) -> None:
    """Estimate the parts of a state, or take them from below the nation, and their counties."""

    def make(plan: Plan, measure: Measure) -> tuple[list[Estimates], list[Solve]]:
        known = above_counties(run, product, state, plan, measure)
        parts, solves = _parts(run, product, state, plan, measure, known)
        counties, more = engine.estimate_children(plan, parts, measure, known)
        return [parts, counties], solves + more

    _once(run, product, state, "County", 0, make)


def _parts(
    run: TopDownRun, product: ProductName, state: str, plan: Plan, measure: Measure, known: tuple[Information, ...]
) -> tuple[Estimates, list[Solve]]:
    if not run.validated.nation:
        return engine.estimate_roots(plan, measure, known)
    of_all = load_histograms(run.estimates_folder(product, US, "State") / FIRST, Estimates)
    codes = plan_of(run, product, US).invariants.state_of
    states = run.validated.states
    first, last = np.searchsorted(codes, (states.index(state), states.index(state) + 1)).tolist()
    own = of_all.only(first, last)
    return Estimates(0, 0, own.starts, own.cell, own.count), []


def estimate_tracts(run: TopDownRun, product: ProductName, state: str, first: int, last: int) -> None:
    """Estimate the tracts of the counties first ... last - 1."""
    _estimate_down(run, product, state, ("County", "Tract"), first, last)


def estimate_blocks(run: TopDownRun, product: ProductName, state: str, first: int, last: int) -> None:
    """Estimate the block groups and blocks of the tracts first ... last - 1."""
    _estimate_down(run, product, state, ("Tract", "Block"), first, last)


def _estimate_down(
    run: TopDownRun, product: ProductName, state: str, levels: tuple[str, str], first: int, last: int
) -> None:
    above, below = levels

    def make(plan: Plan, measure: Measure) -> tuple[list[Estimates], list[Solve]]:
        parents = load_estimates(run, product, state, above, first, last)
        known = saved_below(run, product, state, parents)
        estimates: list[Estimates] = []
        solves: list[Solve] = []
        while plan.spine.levels[parents.level] != below:
            parents, more = engine.estimate_children(plan, parents, measure, known)
            estimates.append(parents)
            solves += more
        return estimates, solves

    _once(run, product, state, below, first, make)


def _once(
    run: TopDownRun,
    product: ProductName,
    state: str,
    lowest: str,
    piece: int,
    make: Callable[[Plan, Measure], tuple[list[Estimates], list[Solve]]],
) -> None:
    """Make a piece unless it is there: its estimates by level, and last of all how they were found."""
    solves_at = run.estimates_folder(product, state, SOLVES) / f"{lowest}-{piece:07d}"
    unless_done(solves_at, lambda: _make(run, product, state, solves_at, make))


def _make(
    run: TopDownRun,
    product: ProductName,
    state: str,
    solves_at: Path,
    make: Callable[[Plan, Measure], tuple[list[Estimates], list[Solve]]],
) -> None:
    measuring = open_measuring(run, product, state)
    plan = measuring.plan
    of_levels, solves = make(plan, measuring)
    for estimates in of_levels:
        folder = run.estimates_folder(product, state, plan.spine.levels[estimates.level])
        save_histograms(folder / f"{estimates.first:07d}", estimates)
    save_object(solves_at, solves)


def load_estimates(
    run: TopDownRun, product: ProductName, state: str, level: str, first: int = 0, last: int | None = None
) -> Estimates:
    """The estimates of the geounits first ... last - 1 of a level, or of all of them."""
    parts, begins = [], [int(path.name) for path in run.estimated(product, state, level)]
    spine = run.spine(product, state)
    number = len(spine.starts[spine.levels.index(level)])
    last = number if last is None else last
    for path, begin, end in zip(run.estimated(product, state, level), begins, [*begins[1:], number], strict=True):
        low, high = max(first, begin), min(last, end)
        if low < high:
            parts.append(load_histograms(path, Estimates, low - begin, high - begin))
    return joined(parts)
