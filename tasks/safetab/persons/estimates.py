"""Estimates: the two noisy answers of each published group pooled into one, with its margin of error.

Post-processing of noisy counts, public files, and words of a keystream of the run that nothing else uses. A TotalOnly
group has one answer: its estimate is its count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privacy.estimation.allocation import allocate
from privacy.estimation.equality import combine, combined_margin, combined_variance
from tasks.lifecycle.files import open_array, save_arrays
from tasks.lifecycle.workers import Workers
from tasks.safetab.domain import equalities, load_domain, map_pieces
from tasks.safetab.levels import Level
from tasks.safetab.noise import estimate_words, load_queries
from tasks.safetab.persons.details import AGES, TOTAL, WIDTHS
from tasks.safetab.persons.estimate_tables import ancestors, critical_values, load_estimators, variances
from tasks.safetab.persons.run import DetailedRun
from tasks.safetab.persons.suppression import EstimatedGroups, PublishedGroups


@dataclass(frozen=True)
class PooledTotals:
    """The estimated totals of groups of a level, published or not. One element per group each.

    detail, measured: the group's detail, and the total S that step 2 measured.
    total, margin: int64 arrays; the estimate U, and its margin of error.
    turn: int64 array; the cell of the table that takes its part of the change first.
    """

    detail: NDArray[np.uint8]
    measured: NDArray[np.int64]
    total: NDArray[np.int64]
    margin: NDArray[np.int64]
    turn: NDArray[np.int64]


def estimate(run: DetailedRun, workers: Workers, level: Level) -> None:
    """Estimate the published groups of a level. The tables of all levels must have been measured."""
    map_pieces("estimates", run, workers, level, estimate_published)


def estimate_published(run: DetailedRun, level: Level, first: int, last: int) -> None:
    """Write the estimates, as `EstimatedGroups`, of the published groups of regions first ... last - 1."""
    folder = run.noisy_folder(level, EstimatedGroups.MADE, first)
    if folder.exists():
        return
    published = PublishedGroups.load([run.noisy_folder(level, PublishedGroups.MADE, first)])
    pooled = pooled_totals(run, level, published.group)
    summed = _equated(run, level, published.group, pooled)
    estimated = EstimatedGroups(
        group=published.group,
        detail=published.detail,
        cells=published.cells + _spread(published, summed),
        noise_of=published.noise_of,
        margin=summed.margin,
        dropped=_dropped(run, level, published.group, pooled),
    )
    save_arrays(folder, estimated.arrays())


def pooled_totals(run: DetailedRun, level: Level, groups: NDArray[np.int64]) -> PooledTotals:
    """Return the estimated totals of groups of a level, in any order, from both of their noisy answers."""
    detail = _taken(run, level, groups, "totals", "detail").astype(np.uint8)
    stage_1 = _taken(run, level, groups, "totals", "total")
    measured = _taken(run, level, groups, "sex_by_age", "total")
    queries, widths = load_queries(run, level), WIDTHS[detail]
    total, margin = measured.copy(), np.full(len(groups), queries.margin("total_only"))
    uniform, turn = np.zeros(len(groups)), np.zeros(len(groups), np.int64)
    for number, estimator in load_estimators(run, level).items():
        rows = np.flatnonzero(detail == number)
        answers = stage_1[rows], measured[rows]
        drawn = rows if widths[rows].max(initial=1) > 1 else rows[estimator.correction(*answers) != 0]
        uniform[drawn], turn[drawn] = _words(run, level, groups[drawn], int(WIDTHS[number]))
        total[rows] += estimator.change(*answers, uniform[rows])
        margin[rows] = estimator.margins(total[rows])
    return PooledTotals(detail, measured, total, margin, turn)


def _words(
    run: DetailedRun, level: Level, groups: NDArray[np.int64], cells: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return a uniform number and a turn for each group."""
    words = estimate_words(run, level, groups)
    uniform = (words[:, 0] >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniform, (words[:, 1] % np.uint64(cells)).astype(np.int64)


def _taken(run: DetailedRun, level: Level, groups: NDArray[np.int64], stage: str, name: str) -> NDArray[np.int64]:
    """Return the values of these groups from an array that a stage saves in pieces."""
    domain = load_domain(run, level)
    width = len(domain.iterations)
    starts = np.array([first * width for first, _ in domain.pieces()])
    piece = np.searchsorted(starts, groups, side="right") - 1
    taken = np.empty(len(groups), np.int64)
    for number in np.unique(piece):
        rows = np.flatnonzero(piece == number)
        array = open_array(run.noisy_folder(level, stage, int(starts[number]) // width), name)
        taken[rows] = array[groups[rows] - starts[number]]
    return taken


def _spread(published: PublishedGroups, estimates: PooledTotals) -> NDArray[np.int64]:
    """Return the change of each cell of the tables, in the order of `PublishedGroups`."""
    added = np.zeros(len(published.cells), np.int64)
    for detail, width in enumerate(WIDTHS.tolist()):
        rows = published.detail == detail
        change = estimates.total[rows] - estimates.measured[rows]
        spread = allocate(change, estimates.turn[rows], width) if detail in AGES else change[:, None]
        added[published.places(detail)] = spread
    return added


def _equated(run: DetailedRun, level: Level, groups: NDArray[np.int64], pooled: PooledTotals) -> PooledTotals:
    """Return the totals, those of sums of Detailed iterations combined with these.

    All parts count, suppressed ones too: their totals before suppression are unbiased given their details.
    """
    total, margin = pooled.total.copy(), pooled.margin.copy()
    below = Level(level.region_type, 2)
    region, position = np.divmod(groups, len(load_domain(run, level).iterations))
    for iteration, parts in equalities(run, level).items():
        rows = np.flatnonzero(position == iteration)
        of_parts = region[rows][:, None] * len(load_domain(run, below).iterations) + np.array(parts)
        of_level_below = pooled_totals(run, below, of_parts.ravel())
        summed = of_level_below.total.reshape(of_parts.shape).sum(axis=1)
        variance = variances(run, below)[of_level_below.detail].reshape(of_parts.shape).sum(axis=1)
        own = variances(run, level)[pooled.detail[rows]]
        total[rows] = combine(pooled.total[rows], own, summed, variance)
        margin[rows] = combined_margin(combined_variance(own, variance))
    return replace(pooled, total=total, margin=margin)


def _dropped(run: DetailedRun, level: Level, groups: NDArray[np.int64], pooled: PooledTotals) -> NDArray[np.bool_]:
    """Return the groups without a table whose total exceeds their state's or county's by more than noise explains."""
    dropped = np.zeros(len(groups), np.bool_)
    domain = load_domain(run, level)
    codes, ids = np.array(domain.iteration_codes), np.array(domain.region_ids)
    for ancestor, digits in ancestors(run, level).items():
        above = load_domain(run, ancestor)
        position_above = pd.Index(above.iteration_codes).get_indexer(pd.Index(codes))  # -1: not there
        region_above = np.searchsorted(np.array(above.region_ids), ids.astype(f"U{digits}"))
        region, position = np.divmod(groups, len(codes))
        rows = np.flatnonzero((pooled.detail == TOTAL) & (position_above[position] >= 0))
        group_above = region_above[region[rows]] * len(above.iterations) + position_above[position[rows]]
        unique, back = np.unique(group_above, return_inverse=True)
        of_ancestor = pooled_totals(run, ancestor, unique)
        most = np.full(len(WIDTHS), np.iinfo(np.int64).max)
        for detail, value in critical_values(run, level, ancestor).items():
            most[detail] = value
        dropped[rows] |= pooled.total[rows] - of_ancestor.total[back] > most[of_ancestor.detail[back]]
    return dropped
