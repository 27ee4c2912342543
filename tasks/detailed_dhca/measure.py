"""Measure: Algorithm 2. Step 1, a noisy total of every group, chooses the detail of its table, which step 2 measures.

Step 2 counts every group afresh at that detail, with the rest of its budget; the marginals are those of section 5.3.1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tasks.detailed_dhca.details import AGES, DETAILS, TOTAL, TOTAL_ONLY, WIDTHS, in_bins
from tasks.detailed_dhca.run import PERSONS, DetailedRun
from tasks.lifecycle.files import narrowest, open_array, save_arrays, unless_done
from tasks.lifecycle.workers import Workers
from tasks.population_groups.count import read_exact_counts
from tasks.population_groups.domain import load_domain, map_pieces
from tasks.population_groups.levels import Level
from tasks.population_groups.noise import open_noise


def measure_totals(run: DetailedRun, workers: Workers, level: Level, *, estimates: bool = False) -> None:
    """Choose the detail of every group of a level."""
    map_pieces("totals", run, workers, level, choose_details, estimates)


def choose_details(run: DetailedRun, level: Level, first: int, last: int, estimates: bool = False) -> None:
    """Write the detail of the groups in regions first ... last - 1: array `detail`, uint8, one per group.

    Stage-1 totals are compared with the thresholds and never released. Only a run that makes estimates keeps them, as
    array `total`. TotalOnly groups hold 0: their stage-1 query is not paid for and not drawn.
    """
    folder = run.noisy_folder(level, "totals", first)
    unless_done(folder, lambda: _choose(run, level, first, last, folder, estimates=estimates))


def _choose(run: DetailedRun, level: Level, first: int, last: int, folder: Path, *, estimates: bool) -> None:
    domain = load_domain(run, level)
    width = len(domain.iterations)
    exact_total = read_exact_counts(run, level, first, last).totals()
    answering = ~np.tile(domain.total_only, last - first)  # a TotalOnly group has one query, in sex by age
    noise = open_noise(run, level)
    noisy_total = noise.totals("stage_1", DETAILS[TOTAL], first * width, answering)  # 0 where nothing is asked
    np.add(noisy_total, exact_total, out=noisy_total, where=answering)
    thresholds = run.parameters.configuration.thresholds[PERSONS][level]
    detail = np.zeros(len(noisy_total), np.uint8)
    for threshold in thresholds:
        detail += noisy_total >= threshold
    detail[~answering] = TOTAL_ONLY
    kept = {"total": narrowest(noisy_total)} if estimates else {}
    save_arrays(folder, {"detail": detail} | kept)


def measure_sex_by_age(run: DetailedRun, workers: Workers, level: Level) -> None:
    """Measure the table of every group of a level."""
    map_pieces("sex by age", run, workers, level, measure_tables)


def measure_tables(run: DetailedRun, level: Level, first: int, last: int) -> None:
    """Write the noisy tables of the groups in regions first ... last - 1.

    Arrays `total` (`narrowest`, one per group: measured, or for a sex-by-age group the sum of its cells) and, for each
    detail, `age4`, `age9`, `age23` (int64, groups at that detail x cells, in the order of the groups).
    """
    folder = run.noisy_folder(level, "sex_by_age", first)
    unless_done(folder, lambda: _measure_tables(run, level, first, last, folder))


def _measure_tables(run: DetailedRun, level: Level, first: int, last: int, folder: Path) -> None:
    start = first * len(load_domain(run, level).iterations)
    detail = open_array(run.noisy_folder(level, "totals", first), "detail")
    exact = read_exact_counts(run, level, first, last)
    noise = open_noise(run, level)
    exact_total, noisy_total = exact.totals(), np.zeros(len(detail), np.int64)
    for query, answering in (("stage_2", detail == TOTAL), ("total_only", detail == TOTAL_ONLY)):
        if answering.any():
            np.add(exact_total, noise.totals(query, DETAILS[TOTAL], start, answering), out=noisy_total, where=answering)
    noisy: dict[str, NDArray[np.signedinteger]] = {}
    tabulated = np.flatnonzero((detail != TOTAL) & (detail != TOTAL_ONLY))
    exact_cells = exact.cells(tabulated)
    for table in AGES:
        of_table = detail[tabulated] == table
        groups = tabulated[of_table]
        exact_table, width = in_bins(exact_cells[of_table], table), int(WIDTHS[table])
        cells = exact_table + noise.rows("stage_2", DETAILS[table], start + groups, width)
        noisy_total[groups] = cells.sum(axis=1)
        noisy[DETAILS[table]] = cells
    save_arrays(folder, noisy | {"total": narrowest(noisy_total)})
