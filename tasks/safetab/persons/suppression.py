"""Suppression (paper 5.3.2): small noisy totals of sub-state groups are not published. The groups that are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privacy.noise import margins
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.files import open_array, save_arrays, unless_done
from tasks.lifecycle.workers import Workers
from tasks.safetab.domain import load_domain, map_pieces
from tasks.safetab.group_tables import GroupTables
from tasks.safetab.levels import Level
from tasks.safetab.noise import load_queries
from tasks.safetab.persons.details import AGES, DETAILS, TOTAL, WIDTHS
from tasks.safetab.persons.run import PERSONS, DetailedRun


@dataclass(frozen=True)
class PublishedGroups(GroupTables):
    """The tables of the published groups of a level: a total (T1), and sex by age (T2) for those that have cells.

    total: int64 array; the T1 count of each group.
    """

    CELLS = np.array([width if detail in AGES else 0 for detail, width in enumerate(WIDTHS)])
    BUDGET, MADE, FINAL = PERSONS, "published", "final"

    total: NDArray[np.int64]

    def released(self) -> Self:
        """Return the groups that are released."""
        return self


@dataclass(frozen=True)
class EstimatedGroups(PublishedGroups):
    """Estimates of the published groups of a level: of totals and cells, which have the names of the counts here.

    margin: int64 array; the 95% margin of error of each total.
    dropped: bool array; the groups that the ancestor test leaves out of the estimates.
    """

    MADE, FINAL = "estimates", "final_estimates"
    FOLDER, COLUMN = "estimates/", "ESTIMATE"

    margin: NDArray[np.int64]
    dropped: NDArray[np.bool_]

    def released(self) -> Self:
        """Return the groups that are released: those that were not dropped."""
        return self.take(np.flatnonzero(~self.dropped))


def suppression_threshold(run: DetailedRun, level: Level) -> int | None:
    """Return the largest noisy total that is suppressed in a level, None where nothing is (paper eq. 12).

    Nation and state are never suppressed. Without noise the threshold is 0 where a zero_suppression_chance is set
    (docs/spec/safetab-p.md#suppression).
    """
    chance = run.parameters.configuration.zero_suppression_chance
    if level.nation_or_state or not chance:
        return None
    return 0 if is_truth(run) else margins.suppression_threshold(load_queries(run, level).law("stage_2"), chance)


def suppress(run: DetailedRun, workers: Workers, level: Level) -> None:
    """Choose the groups of a level that are published."""
    map_pieces("suppression", run, workers, level, keep_published)


def keep_published(run: DetailedRun, level: Level, first: int, last: int) -> None:
    """Write the published groups of regions first ... last - 1: the arrays of `PublishedGroups`."""
    folder = run.noisy_folder(level, PublishedGroups.MADE, first)
    unless_done(folder, lambda: save_arrays(folder, _published(run, level, first).arrays()))


def _published(run: DetailedRun, level: Level, first: int) -> PublishedGroups:
    detail = np.asarray(open_array(run.noisy_folder(level, "totals", first), "detail"))
    tables = run.noisy_folder(level, "sex_by_age", first)
    total = np.asarray(open_array(tables, "total"))
    threshold = suppression_threshold(run, level)
    kept = np.ones(len(total), bool) if threshold is None else (detail != TOTAL) | (total > threshold)
    group = np.flatnonzero(kept)
    levels = run.parameters.configuration.levels(level.jurisdiction)
    published = PublishedGroups(
        group=first * len(load_domain(run, level).iterations) + group,
        detail=detail[group],
        total=total[group].astype(np.int64),
        cells=np.empty(PublishedGroups.CELLS[detail[group]].sum(), np.int64),
        noise_of=np.full(len(group), levels.index(level), np.uint8),
    )
    for table in AGES:
        published.cells[published.places(table)] = open_array(tables, DETAILS[table])
    return published
