"""Totals: step 1 of Algorithm 2. A noisy total of every group chooses the detail of its table."""

from __future__ import annotations

import numpy as np

from tasks.lifecycle.files import narrowest, save_arrays
from tasks.lifecycle.workers import Workers
from tasks.safetab.domain import load_domain, map_pieces
from tasks.safetab.exact_counts import read_exact_counts
from tasks.safetab.levels import Level
from tasks.safetab.noise import open_noise
from tasks.safetab.persons.details import DETAILS, TOTAL, TOTAL_ONLY
from tasks.safetab.persons.run import PERSONS, DetailedRun


def measure_totals(run: DetailedRun, workers: Workers, level: Level, *, estimates: bool = False) -> None:
    """Choose the detail of every group of a level."""
    map_pieces("totals", run, workers, level, choose_details, estimates)


def choose_details(run: DetailedRun, level: Level, first: int, last: int, estimates: bool = False) -> None:
    """Write the detail of the groups in regions first ... last - 1: array `detail`, uint8, one per group.

    Stage-1 totals are compared with the thresholds and never released. Only a run that makes estimates keeps them, as
    array `total`. TotalOnly groups hold 0: their stage-1 query is not paid for and not drawn.
    """
    folder = run.noisy_folder(level, "totals", first)
    if folder.exists():
        return
    domain = load_domain(run, level)
    width = len(domain.iterations)
    exact_total = read_exact_counts(run, level, first, last).totals()
    answering = ~np.tile(domain.total_only, last - first)  # a TotalOnly group has one query, asked in sex by age
    noise = open_noise(run, level)
    noisy_total = noise.totals("stage_1", DETAILS[TOTAL], first * width, answering)  # 0 where not asked
    np.add(noisy_total, exact_total, out=noisy_total, where=answering)
    thresholds = run.parameters.configuration.thresholds[PERSONS][level]
    detail = sum((noisy_total >= threshold for threshold in thresholds), np.zeros(len(noisy_total), np.uint8))
    detail[~answering] = TOTAL_ONLY
    kept = {"total": narrowest(noisy_total)} if estimates else {}
    save_arrays(folder, {"detail": detail} | kept)
