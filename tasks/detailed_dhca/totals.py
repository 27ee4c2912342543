"""Totals: step 1 of Algorithm 2. A noisy total of every group chooses the detail of its table."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tasks.detailed_dhca.domain import TOTAL_ONLY, load_domain
from tasks.detailed_dhca.noise import open_noise
from tasks.detailed_dhca.population_groups import read_exact_counts
from tasks.detailed_dhca.run import DetailedRun
from tasks.inputs.configuration import Level
from tasks.lifecycle.files import once, save_arrays
from tasks.lifecycle.workers import Workers


def measure_totals(run: DetailedRun, workers: Workers, level: Level) -> None:
    """Choose the detail of every group of a level."""
    pieces = load_domain(run, level).pieces()
    workers.map(f"totals {level}", run, choose_details, [(level, first, last) for first, last in pieces])


def choose_details(run: DetailedRun, level: Level, first: int, last: int) -> None:
    """Write the detail of the groups in regions first ... last - 1: array `detail`, uint8, one per group.

    Stage-1 totals are compared with the thresholds and forgotten; they are never released.
    """
    folder = run.details_folder(level, first)
    once(folder, lambda: _choose(run, level, first, last, folder))


def _choose(run: DetailedRun, level: Level, first: int, last: int, folder: Path) -> None:
    domain = load_domain(run, level)
    width = len(domain.iterations)
    exact_total = read_exact_counts(run, level, first, last).totals()
    noisy_total = exact_total + open_noise(run, level).run("stage_1", first * width, last * width)
    thresholds = run.parameters.configuration.thresholds[level]
    detail = np.zeros(len(noisy_total), np.uint8)
    for threshold in thresholds:
        detail += noisy_total >= threshold
    detail[np.tile(domain.total_only, last - first)] = TOTAL_ONLY
    save_arrays(folder, {"detail": detail})
