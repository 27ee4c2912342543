"""Household type and tenure: the noisy tables of a level's groups, each at the detail that its published total chooses.

Groups and details are public: no count of households, noisy or exact, chooses them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.lifecycle.files import save_arrays
from tasks.lifecycle.workers import Workers
from tasks.safetab.domain import load_domain, map_pieces
from tasks.safetab.exact_counts import read_exact_counts
from tasks.safetab.group_tables import GroupTables
from tasks.safetab.households.run import HouseholdRun
from tasks.safetab.households.tables import KINDS, TableShell
from tasks.safetab.levels import Level
from tasks.safetab.noise import LevelNoise, open_noise


def measure(run: HouseholdRun, workers: Workers, level: Level) -> None:
    """Measure the tables of a level that have a budget."""
    map_pieces("household type and tenure", run, workers, level, measure_tables)


def measure_tables(run: HouseholdRun, level: Level, first: int, last: int) -> None:
    """Write the noisy tables, as `GroupTables`, of the groups in regions first ... last - 1."""
    tables = run.parameters.configuration.tables(level)
    folders = {table.name: run.noisy_folder(level, KINDS[table.name].MADE, first) for table in tables}
    if all(folder.exists() for folder in folders.values()):
        return
    group, total = run.totals(level, first, last)
    start = first * len(load_domain(run, level).iterations)
    of_records = read_exact_counts(run, level, first, last).cells(group - start)
    noise = open_noise(run, level)
    for table in tables:
        if not folders[table.name].exists():
            made = noisy_tables(run, table, group, details(run, level, table, total), of_records, noise)
            save_arrays(folders[table.name], made.arrays())


def noisy_tables(
    run: HouseholdRun,
    table: TableShell,
    group: NDArray[np.int64],
    detail: NDArray[np.uint8],
    of_records: NDArray[np.int64],
    noise: LevelNoise,
) -> GroupTables:
    """Return the tables of these groups, with the noise of one query.

    of_records: int64[groups, cells of a record]; the households of each group. Confidential.
    """
    level = noise.level
    own = run.parameters.configuration.levels(level.jurisdiction).index(level)
    noise_of, cells = np.full(len(group), own, np.uint8), np.zeros(table.widths[detail].sum(), np.int64)
    made = KINDS[table.name](group=group, detail=detail, noise_of=noise_of, cells=cells)
    for number, name in enumerate(table.details):
        rows, width = detail == number, int(table.widths[number])
        measured = of_records[rows] @ table.counted(number) + noise.rows(table.name, name, group[rows], width)
        made.cells[made.places(number)] = measured
    return made


def details(run: HouseholdRun, level: Level, table: TableShell, total: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the detail of each group's table: the number of thresholds that its published total reaches."""
    thresholds = run.parameters.configuration.thresholds[table.key][level]
    return np.searchsorted(thresholds, total, side="right").astype(np.uint8)
