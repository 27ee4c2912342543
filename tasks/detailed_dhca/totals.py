"""Totals: step 1 of Algorithm 2. A noisy total of every group chooses the detail of its table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tasks.detailed_dhca.domain import TOTAL_ONLY, load_domain
from tasks.detailed_dhca.noise import open_noise
from tasks.detailed_dhca.population_groups import read_exact_counts
from tasks.detailed_dhca.run import DetailedRun
from tasks.inputs.configuration import Level
from tasks.lifecycle.files import save_arrays, unless_done
from tasks.lifecycle.workers import Workers


def measure_totals(run: DetailedRun, workers: Workers, level: Level, *, estimates: bool = False) -> None:
    """Choose the detail of every group of a level."""
    pieces = load_domain(run, level).pieces()
    workers.map(f"totals {level}", run, choose_details, [(level, first, last, estimates) for first, last in pieces])


def choose_details(run: DetailedRun, level: Level, first: int, last: int, estimates: bool = False) -> None:
    """Write the detail of the groups in regions first ... last - 1: array `detail`, uint8, one per group.

    Stage-1 totals are compared with the thresholds and never released. They are forgotten, or, in a run that makes
    estimates, kept as array `total`; there a TotalOnly group has 0, for no such answer is paid for, so none is drawn.
    """
    folder = run.details_folder(level, first)
    unless_done(folder, lambda: _choose(run, level, first, last, folder, estimates=estimates))


def _choose(run: DetailedRun, level: Level, first: int, last: int, folder: Path, *, estimates: bool) -> None:
    domain = load_domain(run, level)
    width = len(domain.iterations)
    exact_total = read_exact_counts(run, level, first, last).totals()
    answering = ~np.tile(domain.total_only, last - first)  # a TotalOnly group answers one query, in sex by age
    noisy_total = open_noise(run, level).totals("stage_1", first * width, answering)  # 0 where nothing is answered
    np.add(noisy_total, exact_total, out=noisy_total, where=answering)
    thresholds = run.parameters.configuration.thresholds[level]
    detail = np.zeros(len(noisy_total), np.uint8)
    for threshold in thresholds:
        detail += noisy_total >= threshold
    detail[~answering] = TOTAL_ONLY
    kept = {"total": small(noisy_total)} if estimates else {}
    save_arrays(folder, {"detail": detail} | kept)


def small(totals: NDArray[np.int64]) -> NDArray[np.signedinteger]:
    """Return the totals in as few bytes as they fit, most often two each."""
    least, most = totals.min(initial=0), totals.max(initial=0)
    kinds = (kind for kind in (np.int16, np.int32) if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)
    return totals.astype(next(kinds, np.int64))
