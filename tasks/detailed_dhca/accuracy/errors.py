"""The errors of a run's final tables: published minus true count, tallied by what they depend on. Not private."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privacy.analyses.error_measures import Closeness
from spine.settings import Jurisdiction
from tasks.detailed_dhca.details import AGE4, AGE9, AGE23, WIDTHS, in_bins
from tasks.detailed_dhca.published import EstimatedGroups, PublishedGroups
from tasks.detailed_dhca.queries import Queries
from tasks.detailed_dhca.run import DetailedRun
from tasks.detailed_dhca.tables import load_margins
from tasks.lifecycle.files import open_array, save_arrays, unless_done
from tasks.population_groups.domain import load_domain
from tasks.population_groups.exact_counts import ExactCounts, read_exact_counts
from tasks.population_groups.group_tables import final_folders
from tasks.population_groups.levels import Level

LARGEST = np.array([0, *(10**power for power in range(13))])  # of the size classes 0, 1, 2-10, 11-100, ...
TOTAL, SEX, CELL = range(3)  # what a published count is of: the whole table, one sex of it, a single cell
COUNT, ESTIMATE = range(2)  # compared with the truth
BY = ("noise_of", "detail", "size", "statistic", "margin")
SHAPE = (256, len(WIDTHS), len(LARGEST), 3, 1 << 24)


@dataclass(frozen=True)
class Errors:
    """Errors of published counts, over one run or several.

    counts: columns of, level, noise_of, detail, size, statistic, margin, error, number; how often each error occurred.
    `of`: COUNT or ESTIMATE; `level` and `noise_of` are places among the jurisdiction's levels, another one only for a
    coterminous recipient; `size` is a place in LARGEST, of the group's true total; `margin` is the margin of error that
    was stated.
    published: columns level, detail, size, number; groups published, by the detail of their table.
    closeness: columns of, level, noise_of, detail, size, statistic, and the sums of `Closeness`; how close counts are
    to the true ones.
    groups: columns level, size, number; groups of the domain, published or not.
    """

    counts: pd.DataFrame
    published: pd.DataFrame
    groups: pd.DataFrame
    closeness: pd.DataFrame

    @classmethod
    def none(cls) -> Errors:
        """Return no errors."""
        columns = (["of", "level", *BY, "error"], ["level", "detail", "size"], ["level", "size"])
        by = [*([*names, "number"] for names in columns), ["of", "level", *BY[:-1], *Closeness._fields]]
        return cls(*(pd.DataFrame(columns=names, dtype=np.int64) for names in by))

    def add(self, other: Errors) -> Errors:
        """Return the errors of both."""
        return Errors(*(_summed(getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__))


def _summed(*tables: pd.DataFrame) -> pd.DataFrame:
    joined = pd.concat(tables)
    by = [name for name in joined.columns if name not in ("number", *Closeness._fields)]
    return joined.groupby(by, as_index=False).sum()


@dataclass(frozen=True)
class Accuracy:
    """What the repetitions over a jurisdiction have shown, and the laws that their noise had. Not private.

    `queries` are those of `levels`, the jurisdiction's, in the order R.
    """

    jurisdiction: Jurisdiction
    runs: int
    coterminous: bool
    levels: tuple[Level, ...]
    queries: tuple[Queries, ...]
    errors: Errors


def size_class(totals: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the size class of groups of these true totals: the place in LARGEST of the first that is not smaller."""
    return np.searchsorted(LARGEST, totals)


def compare(run: DetailedRun, level: Level, estimates: bool = False) -> None:
    """Write the errors of a level's final tables, and of its estimates.

    Arrays `tally` (key, error, number of counts: 3 x n), `published` (groups by detail and size), `groups` (of the
    domain, by size); and for each published group `group`, `detail`, its true total `size`, and `absolute` and
    `squared`, the sums of its measured counts' errors.
    """
    for quantity in (COUNT, ESTIMATE) if estimates else (COUNT,):
        folder = errors_folder(run, level, quantity)
        unless_done(folder, partial(_compare, run, level, folder, estimates=quantity == ESTIMATE))


def errors_folder(run: DetailedRun, level: Level, quantity: int = COUNT) -> Path:
    """Return the folder of the errors of a level."""
    return run / f"{('errors_of', 'errors_of_estimates')[quantity]}/{level.slug}"


def _compare(run: DetailedRun, level: Level, folder: Path, *, estimates: bool) -> None:
    domain = load_domain(run, level)
    width = len(domain.iterations)
    kind = EstimatedGroups if estimates else PublishedGroups
    final, margins = kind.load(final_folders(run, level, kind)).released(), load_margins(run, level)
    clip = not run.parameters.configuration.allow_negative_counts
    tallies, groups = [], np.zeros(len(LARGEST), np.int64)
    closeness = np.zeros((np.prod(SHAPE[:-1]), len(Closeness._fields)))
    sizes, absolute, squared = (np.zeros(len(final.group), np.int64) for _ in range(3))
    for first, last in domain.pieces():
        exact = read_exact_counts(run, level, first, last)
        groups += np.bincount(size_class(exact.totals()), minlength=len(LARGEST))
        rows = np.arange(*np.searchsorted(final.group, [first * width, last * width]))
        part = final.take(rows)
        place = part.group - first * width
        sizes[rows] = exact.totals()[place]
        stated = margins.of_totals(part), margins.of_sexes(part), margins.of_cells(part)
        for statistic, chosen, errors, true in _errors(part, exact, place, clip=clip):
            margin = stated[statistic][chosen]
            keys = (part.noise_of[chosen], part.detail[chosen], size_class(sizes[rows[chosen]]), statistic, margin)
            tallies.append(tally(np.ravel_multi_index(keys, SHAPE), errors))
            kind_of_count = np.ravel_multi_index(keys[:-1], SHAPE[:-1])
            np.add.at(closeness, kind_of_count, np.stack(Closeness.of(errors, true, 1), axis=1))
            measured = is_measured(statistic, part.detail[chosen])
            absolute[rows[chosen]] += np.where(measured, np.abs(errors).sum(axis=1), 0)
            squared[rows[chosen]] += np.where(measured, (errors**2).sum(axis=1), 0)
    published = np.bincount(final.detail * len(LARGEST) + size_class(sizes), minlength=len(WIDTHS) * len(LARGEST))
    of_groups: dict[str, NDArray[Any]] = {
        "group": final.group,
        "detail": final.detail,
        "size": sizes,
        "absolute": absolute,
        "squared": squared,
    }
    save_arrays(
        folder,
        {"tally": np.hstack(tallies), "closeness": closeness, "published": published, "groups": groups} | of_groups,
    )


def is_measured(statistic: Any, detail: Any) -> Any:
    """Return whether counts were measured directly: cells, and totals of groups without a table. Others are sums."""
    return (statistic == CELL) | ((statistic == TOTAL) & (WIDTHS[detail] == 1))


def _errors(
    published: PublishedGroups, exact: ExactCounts, place: NDArray[np.int64], *, clip: bool
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield statistic, rows of `published`, and errors and true counts of each row, clipped as released."""

    def error(noisy: NDArray[np.int64], true: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return (np.maximum(noisy, 0) if clip else noisy) - true, true

    yield TOTAL, np.arange(len(place)), *error(published.total[:, None], exact.totals()[place][:, None])
    for detail in (AGE4, AGE9, AGE23):
        rows = np.flatnonzero(published.detail == detail)
        true = in_bins(exact.cells(place[rows]), detail)
        noisy = published.take(rows).cells.reshape(true.shape)
        by_sex = (len(rows), 2, int(WIDTHS[detail]) // 2)
        yield SEX, rows, *error(noisy.reshape(by_sex).sum(axis=2), true.reshape(by_sex).sum(axis=2))
        yield CELL, rows, *error(noisy, true)


def tally(key: NDArray[np.int64], errors: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count equal errors under equal keys: rows key, error, number. `errors` has a row for each key."""
    low = int(errors.min(initial=0))
    span = int(errors.max(initial=0)) - low + 1
    code, number = np.unique(key[:, None] * span + (errors - low), return_counts=True)
    return np.stack([code // span, code % span + low, number])


def gather(run: DetailedRun, levels: Sequence[Level], *, estimates: bool = False) -> Errors:
    """Return the errors of all levels of a run."""
    errors = Errors.none()
    for place, level in enumerate(levels):
        folder = errors_folder(run, level)
        published = np.asarray(open_array(folder, "published"))
        detail, size = np.divmod(np.arange(len(published)), len(LARGEST))
        groups = {"level": place, "size": np.arange(len(LARGEST)), "number": open_array(folder, "groups")}
        tables = ({"level": place, "detail": detail, "size": size, "number": published}, groups)
        quantities = (COUNT, ESTIMATE) if estimates else (COUNT,)
        counts, close = (
            pd.concat([read(run, level, place, quantity) for quantity in quantities]) for read in (_counts, _closeness)
        )
        of_published, of_groups = map(pd.DataFrame, tables)
        errors = errors.add(Errors(counts, of_published, of_groups, close))
    return errors


def _closeness(run: DetailedRun, level: Level, place: int, quantity: int) -> pd.DataFrame:
    sums = open_array(errors_folder(run, level, quantity), "closeness")
    there = np.flatnonzero(sums.any(axis=1))
    by = dict(zip(BY[:-1], np.unravel_index(there, SHAPE[:-1]), strict=True))
    return pd.DataFrame(
        {"of": quantity, "level": place, **by, **dict(zip(Closeness._fields, sums[there].T, strict=True))}
    )


def _counts(run: DetailedRun, level: Level, place: int, quantity: int) -> pd.DataFrame:
    key, error, number = open_array(errors_folder(run, level, quantity), "tally")
    by = dict(zip(BY, np.unravel_index(key, SHAPE), strict=True))
    return pd.DataFrame({"of": quantity, "level": place, **by, "error": error, "number": number})
