"""Suppression (paper 5.3.2): groups below the state with small noisy totals are not published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privacy.estimation.allocation import sex_margin
from privacy.noise import margins
from tasks.lifecycle.files import open_array, save_arrays
from tasks.lifecycle.workers import Workers
from tasks.safetab.domain import load_domain, map_pieces
from tasks.safetab.group_tables import GroupTables, Margins
from tasks.safetab.levels import Level
from tasks.safetab.noise import LevelQueries, noisy_queries
from tasks.safetab.persons.details import AGES, DETAILS, TABLES, TOTAL, WIDTHS
from tasks.safetab.persons.run import PERSONS, DetailedRun, SafeTabPConfiguration


@dataclass(frozen=True)
class PublishedGroups(GroupTables):
    """The tables of the published groups of a level: a total (T1), and sex by age (T2) for groups with ages."""

    TABLES, CELLS = TABLES, WIDTHS
    BUDGET, MADE, FINAL = PERSONS, "published_groups", "final_groups"


@dataclass(frozen=True)
class EstimatedGroups(PublishedGroups):
    """Estimates of the published groups of a level.

    margin: int64 array; the 95% margin of error of each total.
    dropped: bool array; whether the ancestor test dropped the estimate.
    """

    MADE, FINAL = "estimated_groups", "final_estimated_groups"
    FOLDER, COLUMN = "estimates/", "ESTIMATE"

    margin: NDArray[np.int64]
    dropped: NDArray[np.bool_]

    def released(self) -> Self:
        """Return the released groups: those that were not dropped."""
        return self.take(np.flatnonzero(~self.dropped))

    def numbers(self, name: str, detail: int, margins: Margins) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of a table and their margins. A cell has its count's margin, which covers the estimate."""
        numbers, margin = super().numbers(name, detail, margins)
        rows, draws, width = self.detail == detail, self.TABLES[name][detail].draws, WIDTHS[detail]
        of_total = self.margin[rows][:, None]
        of_sex = sex_margin(of_total, margins["t1"][detail][self.noise_of[rows]])
        return numbers, np.select([draws == width, draws == width // 2], [of_total, of_sex], margin)


def suppression_threshold(
    configuration: SafeTabPConfiguration, level: Level, queries: LevelQueries | None
) -> int | None:
    """Return the largest noisy total that a level suppresses, or None if it suppresses nothing (paper eq. 12).

    Nation and state suppress nothing. For exact counts (no queries) the threshold is 0 if a zero_suppression_chance is
    set (docs/spec/safetab-p.md#suppression).
    """
    chance = configuration.zero_suppression_chance
    if level.nation_or_state or not chance:
        return None
    return margins.suppression_threshold(queries.law("stage_2"), chance) if queries else 0


def suppress(run: DetailedRun, workers: Workers, level: Level) -> None:
    """Choose the groups of a level that are published."""
    map_pieces("suppression", run, workers, level, keep_published)


def keep_published(run: DetailedRun, level: Level, first: int, last: int) -> None:
    """Write the published groups, as `PublishedGroups`, of regions first ... last - 1."""
    folder = run.noisy_folder(level, PublishedGroups.MADE, first)
    if folder.exists():
        return
    detail = np.asarray(open_array(run.noisy_folder(level, "totals", first), "detail"))
    tables = run.noisy_folder(level, "sex_by_age", first)
    total = np.asarray(open_array(tables, "total"))
    configuration = run.parameters.configuration
    threshold = suppression_threshold(configuration, level, noisy_queries(run, level))
    kept = np.ones(len(total), bool) if threshold is None else (detail != TOTAL) | (total > threshold)
    group = np.flatnonzero(kept)
    levels = configuration.levels(level.jurisdiction)
    published = PublishedGroups(
        group=first * len(load_domain(run, level).iterations) + group,
        detail=detail[group],
        cells=np.empty(PublishedGroups.CELLS[detail[group]].sum(), np.int64),
        noise_of=np.full(len(group), levels.index(level), np.uint8),
    )
    for table, name in enumerate(DETAILS):
        cells = open_array(tables, name) if table in AGES else total[group][published.detail == table][:, None]
        published.cells[published.places(table)] = cells
    save_arrays(folder, published.arrays())
