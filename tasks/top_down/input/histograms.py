"""Exact histograms of every level of a spine. Confidential: only measuring reads them, which adds the noise."""

from __future__ import annotations

import numpy as np

from spine.top_down.histogram import TrueHistograms, from_entries, joined, summed
from tasks.lifecycle.workers import Workers
from tasks.top_down.blocks import TopDownRun
from tasks.top_down.run_plan import US, ProductName
from tasks.top_down.source import load_histograms, save_histograms

BLOCKS = "blocks"  # the histograms of a state's blocks by geocode


def sum_histograms(run: TopDownRun, workers: Workers) -> None:
    """Sum up every state's histograms in the order of its spine; then the nation's, where it is measured."""
    workers.map("histograms", run, sum_state, run.product_states)
    if run.validated.nation:
        workers.map("histograms", run, sum_nation, [(product,) for product in run.design.products])


def sum_state(run: TopDownRun, product: ProductName, state: str) -> None:
    """Write the exact histograms of every level of a state's spine."""
    spine = run.spine(product, state)
    folders = [run.counts_folder(product, state, level) for level in spine.levels]
    if all(folder.exists() for folder in folders):
        return
    of_blocks = load_histograms(run.counts_folder(product, state, BLOCKS), TrueHistograms)
    place = np.empty(spine.blocks, np.int64)
    place[spine.order] = np.arange(spine.blocks)
    lowest = len(spine.levels) - 1
    row = place[of_blocks.row]
    blocks = from_entries(TrueHistograms, lowest, 0, row, of_blocks.cell, of_blocks.count, spine.blocks)
    for folder, histograms in zip(folders, summed(blocks, spine), strict=True):
        if not folder.exists():
            save_histograms(folder, histograms)


def sum_nation(run: TopDownRun, product: ProductName) -> None:
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
