"""Stage 4, suppression (paper 5.3.2): small noisy totals of sub-state groups are not published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.detailed_dhca.domain import AGE4, AGE9, AGE23, DETAILS, TOTAL, WIDTHS, load_domain, load_queries
from tasks.detailed_dhca.noise import is_truth
from tasks.detailed_dhca.sex_by_age import tables_folder
from tasks.detailed_dhca.totals import details_folder
from tasks.detailed_dhca.validation import load_parameters
from tasks.inputs.configuration import Level
from tasks.lifecycle.run_directory import RunDirectory, once, open_array, save_arrays
from tasks.lifecycle.workers import Workers


@dataclass(frozen=True)
class Published:
    """Noisy tables of the published groups of a level.

    Attributes
    ----------
    group : int64 array, sorted
        Group number in the level's domain.
    detail : uint8 array
        The detail of each group's table.
    total : int64 array
        Its T1 count.
    cells : int64 array
        The cells of the sex-by-age tables, one table after the other in the order of the groups.
    noise_of : uint8 array
        The level whose noise a group's counts have, by its place among the run's levels: its own, but for a
        coterminous recipient.
    """

    group: NDArray[np.int64]
    detail: NDArray[np.uint8]
    total: NDArray[np.int64]
    cells: NDArray[np.int64]
    noise_of: NDArray[np.uint8]

    @property
    def widths(self) -> NDArray[np.int64]:
        """The number of sex-by-age cells of each group."""
        return cell_widths(self.detail)

    def take(self, rows: NDArray[np.int64]) -> Published:
        """These rows with their cells, in this order."""
        widths = self.widths
        starts = (np.cumsum(widths) - widths)[rows]
        ends = np.cumsum(widths[rows])
        begins = ends - widths[rows]
        cell = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - begins, widths[rows])
        return Published(self.group[rows], self.detail[rows], self.total[rows], self.cells[cell], self.noise_of[rows])

    @classmethod
    def join(cls, parts: Sequence[Published]) -> Published:
        """The rows of several, one after the other."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The fields by name, for `save_arrays`."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def cell_widths(detail: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Sex-by-age cells of a table at each detail: 8, 18 or 46, and none for a total."""
    return np.where((detail >= AGE4) & (detail <= AGE23), WIDTHS[detail], 0)


def suppression_threshold(run: RunDirectory, level: Level) -> int | None:
    """The largest noisy total that is suppressed in a level, None where nothing is.

    Nation and state are never suppressed. Without noise the threshold is 0 where a zero_suppression_chance is set
    (docs/spec/safetab-p.md#suppression).
    """
    if level.nation_or_state:
        return None
    if is_truth(run):
        return 0 if load_parameters(run).configuration.zero_suppression_chance else None
    return load_queries(run, level).suppression_threshold


def suppress(run: RunDirectory, workers: Workers, level: Level) -> None:
    """Choose the groups of a level that are published."""
    pieces = load_domain(run, level).pieces()
    workers.map(f"suppression {level}", run, keep_published, [(level, first, last) for first, last in pieces])


def keep_published(run: RunDirectory, level: Level, first: int, last: int) -> None:
    """Write the published groups of regions first ... last - 1: the arrays of `Published`."""
    folder = published_folder(run, level, first)
    once(folder, lambda: save_arrays(folder, _published(run, level, first).arrays()))


def published_folder(run: RunDirectory, level: Level, first: int) -> Path:
    """Where the published groups of a piece of a level lie."""
    return run / f"noisy/{level.slug}/published/{first:06d}"


def _published(run: RunDirectory, level: Level, first: int) -> Published:
    detail = np.asarray(open_array(details_folder(run, level, first), "detail"))
    tables = tables_folder(run, level, first)
    total = np.asarray(open_array(tables, "total"))
    threshold = suppression_threshold(run, level)
    kept = np.ones(len(total), bool) if threshold is None else (detail != TOTAL) | (total > threshold)
    group = np.flatnonzero(kept)
    widths = cell_widths(detail[group])
    ends = np.cumsum(widths)
    cells = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
    for table in (AGE4, AGE9, AGE23):
        width = int(WIDTHS[table])
        starts = (ends - widths)[detail[group] == table]
        cells[starts[:, None] + np.arange(width)] = open_array(tables, DETAILS[table])
    levels = load_parameters(run).configuration.levels(level.region)
    return Published(
        group=first * len(load_domain(run, level).iterations) + group,
        detail=detail[group],
        total=total[group],
        cells=cells,
        noise_of=np.full(len(group), levels.index(level), np.uint8),
    )


def load_published(folders: Sequence[Path]) -> Published:
    """The published groups that lie in these folders."""
    none = np.zeros(0, np.int64)
    empty = Published(none, none.astype(np.uint8), none, none, none.astype(np.uint8))
    read = [Published(*(open_array(folder, name) for name in Published.__dataclass_fields__)) for folder in folders]
    return Published.join([empty, *read])


def published_folders(run: RunDirectory, level: Level) -> list[Path]:
    """The folders of all pieces of a level, in the order of their groups."""
    return [published_folder(run, level, first) for first, _ in load_domain(run, level).pieces()]
