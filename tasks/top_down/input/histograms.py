"""Exact histograms of every level of a spine. Confidential: only measuring reads them, which adds the noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spine.top_down.histogram import Estimates, TrueHistograms, from_entries, joined, summed_above
from tasks.lifecycle.workers import Workers
from tasks.top_down.measure import MeasuredRun
from tasks.top_down.run_plan import US
from tasks.top_down.source import FIRST, Branch, Source, load_range, save_histograms

LEAVES_EACH = 1 << 14  # leaves of a piece, unless a single geounit has more


def sum_histograms(run: MeasuredRun, workers: Workers) -> None:
    """Sum up the histograms of every branch's leaves; then the nation's, where it is measured."""
    sum_levels("histograms", run, workers, exact=True)
    if run.nations:
        workers.map("histograms", run, sum_nation, [(nation,) for nation in run.nations])


def sum_nation(run: MeasuredRun, nation: Branch) -> None:
    """Write the exact histogram of the nation, from those of the states' parts."""
    path = run.counts_folder(nation, US) / FIRST
    if path.exists():
        return
    parts = joined([run.exact(branch, "State") for branch in run.branches_of(nation.product)])
    save_histograms(run.counts_folder(nation, "State") / FIRST, parts)
    first_row = np.zeros(len(parts.cell), np.int64)
    save_histograms(path, from_entries(TrueHistograms, 0, 0, first_row, parts.cell, parts.count, 1))


def sum_levels(stage: str, source: Source, workers: Workers, *, exact: bool) -> None:
    """Save the histograms of every level above the leaves, which are there. exact: those of the records."""
    pieces: dict[int, list[Any]] = {}
    for branch in source.branches:
        spine = source.spine(branch)
        lowest = len(spine.levels) - 1
        for level in range(lowest):
            ranges = spine.pieces(level, (lowest, LEAVES_EACH))
            pieces.setdefault(level, []).extend((branch, level, *ends, exact) for ends in ranges)
    for level in sorted(pieces, reverse=True):
        workers.map(stage, source, sum_piece, pieces[level])


def sum_piece(source: Source, branch: Branch, level: int, first: int, last: int, exact: bool) -> None:
    """Save the histograms of the geounits first ... last - 1 of a level, the sums of their children."""
    spine = source.spine(branch)
    path = _folder(source, branch, spine.levels[level], exact) / f"{first:07d}"
    if path.exists():
        return
    below, ends = spine.levels[level + 1], spine.first_child[level][[first, last]].tolist()
    folder, number = _folder(source, branch, below, exact), len(spine.starts[level + 1])
    save_histograms(
        path, summed_above(load_range(folder, TrueHistograms if exact else Estimates, number, *ends), spine)
    )


def _folder(source: Source, branch: Branch, level: str, exact: bool) -> Path:
    if not exact:
        return source.estimates_folder(branch, level)
    assert isinstance(source, MeasuredRun)
    return source.counts_folder(branch, level)
