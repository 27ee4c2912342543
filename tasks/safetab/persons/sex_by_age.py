"""Sex by age: step 2 of Algorithm 2, and the marginals of section 5.3.1.

Step 2 measures every group at the detail that step 1 chose, with the rest of its budget.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.lifecycle.files import narrowest, open_array, save_arrays
from tasks.lifecycle.workers import Workers
from tasks.safetab.domain import load_domain, map_pieces
from tasks.safetab.exact_counts import read_exact_counts
from tasks.safetab.levels import Level
from tasks.safetab.noise import open_noise
from tasks.safetab.persons.details import AGES, DETAILS, TOTAL, TOTAL_ONLY, WIDTHS, in_bins
from tasks.safetab.persons.run import DetailedRun


def measure_sex_by_age(run: DetailedRun, workers: Workers, level: Level) -> None:
    """Measure the table of every group of a level."""
    map_pieces("sex by age", run, workers, level, measure_tables)


def measure_tables(run: DetailedRun, level: Level, first: int, last: int) -> None:
    """Write the noisy tables of the groups in regions first ... last - 1.

    Arrays: `total` (`narrowest`, one per group: measured, or the sum of a sex-by-age group's cells) and, for each
    detail, `age4`, `age9`, `age23` (int64, groups at that detail x cells, in the order of the groups).
    """
    folder = run.noisy_folder(level, "sex_by_age", first)
    if folder.exists():
        return
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
