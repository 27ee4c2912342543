"""Sum the histograms of a part's leaves up its spine, level by level, each in pieces that a worker holds."""

from __future__ import annotations

from pathlib import Path

from spine.top_down.histogram import Estimates, TrueHistograms, summed_above
from tasks.lifecycle.workers import Workers
from tasks.top_down.measure import MeasuredRun
from tasks.top_down.source import Source, load_range, save_histograms

LEAVES_EACH = 1 << 14  # leaves of a piece, unless a single geounit has more


def sum_levels(stage: str, source: Source, workers: Workers, product: str, part: str, *, exact: bool) -> None:
    """Save the histograms of every level above the leaves, which are there. exact: those of the records."""
    spine = source.spine(product, part)
    lowest = len(spine.levels) - 1
    for level in range(lowest - 1, -1, -1):
        pieces = spine.pieces(level, (lowest, LEAVES_EACH))
        workers.map(stage, source, sum_piece, [(product, part, level, *ends, exact) for ends in pieces])


def sum_piece(source: Source, product: str, part: str, level: int, first: int, last: int, exact: bool) -> None:
    """Save the histograms of the geounits first ... last - 1 of a level, the sums of their children."""
    spine = source.spine(product, part)
    path = _folder(source, product, part, spine.levels[level], exact) / f"{first:07d}"
    if path.exists():
        return
    below, ends = spine.levels[level + 1], spine.first_child[level][[first, last]].tolist()
    folder, number = _folder(source, product, part, below, exact), len(spine.starts[level + 1])
    save_histograms(
        path, summed_above(load_range(folder, TrueHistograms if exact else Estimates, number, *ends), spine)
    )


def _folder(source: Source, product: str, part: str, level: str, exact: bool) -> Path:
    if not exact:
        return source.estimates_folder(product, part, level)
    assert isinstance(source, MeasuredRun)
    return source.counts_folder(product, part, level)
