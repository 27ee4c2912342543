"""Suppression (paper 5.3.2): small noisy totals of sub-state groups are not published."""

from __future__ import annotations

import numpy as np

from tasks.detailed_dhca.details import AGE4, AGE9, AGE23, DETAILS, TOTAL, WIDTHS
from tasks.detailed_dhca.published import PublishedGroups
from tasks.detailed_dhca.queries import load_queries
from tasks.detailed_dhca.run import DetailedRun
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.files import open_array, save_arrays, unless_done
from tasks.lifecycle.workers import Workers
from tasks.population_groups.domain import load_domain
from tasks.population_groups.levels import Level


def suppression_threshold(run: DetailedRun, level: Level) -> int | None:
    """Return the largest noisy total that is suppressed in a level, None where nothing is.

    Nation and state are never suppressed. Without noise the threshold is 0 where a zero_suppression_chance is set
    (docs/spec/safetab-p.md#suppression).
    """
    if level.nation_or_state:
        return None
    if is_truth(run):
        return 0 if run.parameters.configuration.zero_suppression_chance else None
    return load_queries(run, level).suppression_threshold


def suppress(run: DetailedRun, workers: Workers, level: Level) -> None:
    """Choose the groups of a level that are published."""
    pieces = load_domain(run, level).pieces()
    workers.map(f"suppression ({level.name})", run, keep_published, [(level, first, last) for first, last in pieces])


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
    widths = PublishedGroups.CELLS[detail[group]]
    ends = np.cumsum(widths)
    cells = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
    for table in (AGE4, AGE9, AGE23):
        width = int(WIDTHS[table])
        starts = (ends - widths)[detail[group] == table]
        cells[starts[:, None] + np.arange(width)] = open_array(tables, DETAILS[table])
    levels = run.parameters.configuration.levels(level.jurisdiction)
    return PublishedGroups(
        group=first * len(load_domain(run, level).iterations) + group,
        detail=detail[group],
        total=total[group].astype(np.int64),
        cells=cells,
        noise_of=np.full(len(group), levels.index(level), np.uint8),
    )
