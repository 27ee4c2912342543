"""The stage "estimate": the program of 2020, or our own estimator; a truth takes the exact histograms."""

from __future__ import annotations

from collections.abc import Callable

from spine.top_down import Estimates, TrueHistograms
from tasks.lifecycle.authorization import is_truth, read_drawing
from tasks.lifecycle.errors import Failed
from tasks.lifecycle.workers import Workers
from tasks.top_down.estimate.estimates import FIRST
from tasks.top_down.estimate.gls.estimate import estimate_by_gls
from tasks.top_down.estimate.topdown import estimate_by_topdown
from tasks.top_down.measure.measuring import Measured
from tasks.top_down.run import TopDownRun, load_histograms, save_histograms
from tasks.top_down.run_plan import US, ProductName
from tasks.top_down.source import Source


def estimate(run: TopDownRun, workers: Workers) -> None:
    """Estimate the histograms of every geounit of every product of a run."""
    estimate_run(Measured(run.path), workers, estimate_from)


def estimate_run(run: TopDownRun, workers: Workers, estimator: Callable[[Source, Workers], None]) -> None:
    """Estimate the histograms of a run that is its own source of measurements; those of a truth are the exact ones."""
    if not is_truth(run):
        estimator(run, workers)
        return
    levels = [(*pair, level) for pair in run.product_states for level in run.spine(*pair).levels]
    if run.validated.nation:
        levels += [(product, US, US) for product in run.design.products]
    workers.map(run.descents[0].title, run, take_exact, levels)


def estimate_from(source: Source, workers: Workers) -> None:
    """Estimate the histograms of every geounit from measurements, a run's or published ones."""
    estimator = estimate_by_gls if source.design.estimator == "gls" else estimate_by_topdown
    estimator(source, workers)


def take_exact(run: TopDownRun, product: ProductName, state: str, level: str) -> None:
    """Save exact histograms where estimates go: what estimation without noise would find.

    Raises Failed where the run is authorized to draw noise: only a truth shows exact counts.
    """
    if read_drawing(run) is not None:
        raise Failed("estimate: only a truth takes exact counts")
    exact = load_histograms(run.counts_folder(product, state, level), TrueHistograms)
    estimates = Estimates(exact.level, exact.first, exact.starts, exact.cell, exact.count)
    save_histograms(run.estimates_folder(product, state, level) / FIRST, estimates)
