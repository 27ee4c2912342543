"""The errors of a run's final tables: published minus true count, counted by what they depend on. Not private."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privacy.analyses.error_measures import Closeness
from tasks.safetab.domain import load_domain
from tasks.safetab.exact_counts import ExactCounts, read_exact_counts
from tasks.safetab.group_tables import load_final, load_margins
from tasks.safetab.levels import Level
from tasks.safetab.noise import LevelQueries
from tasks.safetab.persons.details import AGES, WIDTHS, in_bins
from tasks.safetab.persons.run import DetailedRun
from tasks.safetab.persons.suppression import EstimatedGroups, PublishedGroups

LARGEST = np.array([0, *(10**power for power in range(1, 13))])  # upper ends of the size classes 0, 1-10, 11-100, ...
TOTAL, SEX, CELL = range(3)  # what a published count is of: the whole table, one sex of it, a single cell
KINDS = (PublishedGroups, EstimatedGroups)  # compared with the truth: counts, and estimates
NOT_PUBLISHED = len(WIDTHS)  # in place of the detail of a table
BY = ["of", "level", "noise_of", "detail", "size", "statistic", "margin", "error"]


@dataclass(frozen=True)
class Accuracy:
    """The tallied errors of all repetitions over a jurisdiction, and the laws of their noise. Not private.

    levels, queries: those of the jurisdiction, in the order R. errors: what `compare` returns, for all levels and
    repetitions.
    """

    runs: int
    coterminous: bool
    levels: tuple[Level, ...]
    queries: tuple[LevelQueries, ...]
    errors: pd.DataFrame


def compare(run: DetailedRun, level: Level, estimates: bool) -> pd.DataFrame:
    """Return how often each error of a level's final counts, and of its estimates, occurred.

    Columns BY, `number`, and the sums of `Closeness`. `of` is a place in KINDS. `level` and `noise_of` are places among
    the jurisdiction's levels; they differ only for a coterminous recipient. `size` is the place in LARGEST of the
    group's true total, `margin` the stated margin. Unpublished groups have the detail NOT_PUBLISHED and no error.
    """
    quantities = range(len(KINDS) if estimates else 1)
    return pd.concat([_tally(run, level, of) for of in quantities])


def _tally(run: DetailedRun, level: Level, of: int) -> pd.DataFrame:
    domain, margins = load_domain(run, level), load_margins(run, level, KINDS[of])
    configuration = run.parameters.configuration
    parts = []
    for (first, last), piece in zip(domain.pieces(), load_final(run, level, KINDS[of]), strict=True):
        published, exact = piece.released(), read_exact_counts(run, level, first, last)
        place = published.group - first * len(domain.iterations)
        size = np.searchsorted(LARGEST, exact.totals())
        left = np.bincount(np.delete(size, place), minlength=len(LARGEST))
        parts.append(_rows(len(LARGEST), detail=NOT_PUBLISHED, size=np.arange(len(LARGEST)), number=left))
        for name, detail, rows, true in _true_counts(published, exact, place):
            noisy, margin = published.numbers(name, detail, margins)
            error = (noisy if configuration.allow_negative_counts else np.maximum(noisy, 0)) - true
            of_group = np.repeat(rows, error.shape[1])
            draws = published.TABLES[name][detail].draws
            statistic = np.select([draws == WIDTHS[detail], draws > 1], [TOTAL, SEX], CELL)
            tally = _rows(
                error.size,
                noise_of=published.noise_of[of_group],
                detail=published.detail[of_group],
                size=size[place[of_group]],
                statistic=np.tile(statistic, len(rows)),
                margin=margin.ravel(),
                error=error.ravel(),
                number=1,
                **Closeness.of(error.reshape(-1, 1), true.reshape(-1, 1), 1)._asdict(),
            )
            parts.append(tally.groupby(BY, as_index=False).sum())
    joined = pd.concat(parts).groupby(BY, as_index=False).sum()
    own = configuration.levels(level.jurisdiction).index(level)
    joined = joined[joined["number"] > 0]
    return joined.assign(of=of, level=own)


def _rows(length: int, **columns: Any) -> pd.DataFrame:
    """Return rows of a tally, 0 in all other columns."""
    return pd.DataFrame(dict.fromkeys((*BY, "number", *Closeness._fields), 0) | columns, index=range(length))


def _true_counts(
    published: PublishedGroups, exact: ExactCounts, place: NDArray[np.int64]
) -> Iterator[tuple[str, int, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the name and the detail of tables, the rows of `published` that have them, and their true counts."""
    totals = exact.totals()
    for detail in range(len(WIDTHS)):
        rows = np.flatnonzero(published.detail == detail)
        groups = place[rows]
        cells = in_bins(exact.cells(groups), detail) if detail in AGES else totals[groups][:, None]
        for name, tables in published.TABLES.items():
            if detail in tables:
                yield name, detail, rows, tables[detail].counts(cells)
