"""Exact histograms of every level of a spine. Confidential: only measuring reads them, which adds the noise."""

from __future__ import annotations

import numpy as np

from spine.top_down.histogram import TrueHistograms, from_entries, joined, summed
from tasks.lifecycle.workers import Workers
from tasks.top_down.level_sums import sum_levels
from tasks.top_down.measure import MeasuredRun
from tasks.top_down.run_plan import US
from tasks.top_down.source import FIRST, load_histograms, save_histograms


def sum_histograms(run: MeasuredRun, workers: Workers) -> None:
    """Sum up the histograms of every part in the order of its spine; then the nation's, where it is measured."""
    if run.in_order:
        for each in run.product_states:
            sum_levels("histograms", run, workers, *each, exact=True)
        return
    workers.map("histograms", run, sum_part, run.product_states)
    if run.validated.nation:
        workers.map("histograms", run, sum_nation, [(product,) for product in dict(run.product_states)])


def sum_part(run: MeasuredRun, product: str, part: str) -> None:
    """Write the exact histograms of every level of a part's spine."""
    spine = run.spine(product, part)
    paths = [run.counts_folder(product, part, level) / FIRST for level in spine.levels]
    if all(path.exists() for path in paths):
        return
    leaves, place = load_histograms(run.leaves_folder(product, part) / FIRST, TrueHistograms), np.argsort(spine.order)
    entries = place[leaves.row], leaves.cell, leaves.count
    lowest = from_entries(TrueHistograms, len(spine.levels) - 1, 0, *entries, spine.blocks)
    for path, histograms in zip(paths, summed(lowest, spine), strict=True):
        if not path.exists():
            save_histograms(path, histograms)


def sum_nation(run: MeasuredRun, product: str) -> None:
    """Write the exact histogram of the nation, from those of the states' parts."""
    path = run.counts_folder(product, US, US) / FIRST
    if path.exists():
        return
    parts = joined([run.exact(product, state, "State") for state in run.validated.states])
    save_histograms(run.counts_folder(product, US, "State") / FIRST, parts)
    first_row = np.zeros(len(parts.cell), np.int64)
    save_histograms(path, from_entries(TrueHistograms, 0, 0, first_row, parts.cell, parts.count, 1))
