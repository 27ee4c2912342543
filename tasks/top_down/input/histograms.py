"""Exact histograms of every level of a spine. Confidential: only measuring reads them, which adds the noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spine.top_down.histogram import TrueHistograms, from_entries, joined, summed
from tasks.lifecycle.workers import Workers
from tasks.top_down.measure import MeasuredRun
from tasks.top_down.run_plan import US
from tasks.top_down.source import load_histograms, save_histograms


def sum_histograms(run: MeasuredRun, workers: Workers) -> None:
    """Sum up the histograms of every part in the order of its spine; then the nation's, where it is measured."""
    workers.map("histograms", run, sum_part, run.product_states)
    if run.validated.nation:
        workers.map("histograms", run, sum_nation, [(product,) for product in dict(run.product_states)])


def sum_part(run: MeasuredRun, product: str, part: str) -> None:
    """Write the exact histograms of every level of a part's spine."""
    spine = run.spine(product, part)
    folders = [run.counts_folder(product, part, level) for level in spine.levels]
    if all(folder.exists() for folder in folders):
        return
    leaves = load_histograms(run.leaves_folder(product, part), TrueHistograms)
    lowest, place = len(spine.levels) - 1, run.places(product, part)
    if place is None:
        leaves = replace(leaves, level=lowest)
    else:
        leaves = from_entries(TrueHistograms, lowest, 0, place[leaves.row], leaves.cell, leaves.count, spine.blocks)
    for folder, histograms in zip(folders, summed(leaves, spine), strict=True):
        if not folder.exists():
            save_histograms(folder, histograms)


def sum_nation(run: MeasuredRun, product: str) -> None:
    """Write the exact histogram of the nation, from those of the states' parts."""
    folder = run.counts_folder(product, US, US)
    if folder.exists():
        return
    parts = joined(
        [load_histograms(run.counts_folder(product, state, "State"), TrueHistograms) for state in run.validated.states]
    )
    save_histograms(run.counts_folder(product, US, "State"), parts)
    first_row = np.zeros(len(parts.cell), np.int64)
    save_histograms(folder, from_entries(TrueHistograms, 0, 0, first_row, parts.cell, parts.count, 1))
