"""Noisy tables of population groups, each with as many cells as its detail has: between stages, and in a release."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.files import open_array
from tasks.lifecycle.staging import write_tables
from tasks.safetab.domain import Domain, load_domain
from tasks.safetab.levels import Level
from tasks.safetab.noise import load_queries
from tasks.safetab.run import SafeTabRun

TYPES = {"detail": np.uint8, "noise_of": np.uint8, "dropped": np.bool_}  # of arrays; of all others int64
GROUPS_AT_ONCE = 100_000

Tables = TypeVar("Tables", bound="GroupTables")


@dataclass(frozen=True)
class GroupTables:
    """Noisy tables of groups of a level.

    CELLS is the number of cells of a table at each detail, CELLWISE the arrays that have one element a cell. BUDGET is
    the table's name in config.json: a level without a budget for it does not have it. The stage that makes the tables
    writes them to the folder MADE of a piece (`SafeTabRun.noisy_folder`); FINAL has them with coterminous regions made
    equal. A release has them in FOLDER, their numbers as COLUMN.

    group: int64 array, sorted; group number in the level's domain.
    detail: uint8 array; the detail of each group's table.
    noise_of: uint8 array; the level whose noise a group's counts have, by its place among the run's levels: its own,
    except for a coterminous recipient.
    cells: int64 array; the cells of the tables, one table after the other in the order of the groups.
    """

    CELLS: ClassVar[NDArray[np.int64]]
    CELLWISE: ClassVar[tuple[str, ...]] = ("cells",)
    BUDGET: ClassVar[str]
    MADE: ClassVar[str]
    FINAL: ClassVar[str]
    FOLDER: ClassVar[str] = ""
    COLUMN: ClassVar[str] = "COUNT"

    group: NDArray[np.int64]
    detail: NDArray[np.uint8]
    noise_of: NDArray[np.uint8]
    cells: NDArray[np.int64]

    @property
    def widths(self) -> NDArray[np.int64]:
        """The number of cells of each group's table."""
        return self.CELLS[self.detail]

    def places(self, detail: int, rows: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return where in `cells` the tables of a detail are, of all groups or of these rows: tables x cells."""
        starts = np.cumsum(self.widths) - self.widths
        chosen = self.detail == detail if rows is None else rows
        places: NDArray[np.int64] = starts[chosen][:, None] + np.arange(self.CELLS[detail])
        return places

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Return these rows with their cells, in this order."""
        widths = self.widths
        starts = (np.cumsum(widths) - widths)[rows]
        ends = np.cumsum(widths[rows])
        begins = ends - widths[rows]
        cell = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - begins, widths[rows])
        return type(self)(
            **{name: array[cell if name in self.CELLWISE else rows] for name, array in self.arrays().items()}
        )

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of several, one after the other."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    @classmethod
    def load(cls, folders: Sequence[Path]) -> Self:
        """Return the tables in these folders, one folder's after the other; of no folder, those of no group."""
        none = cls(*(np.zeros(0, TYPES.get(field.name, np.int64)) for field in fields(cls)))
        read = (cls(*(open_array(folder, field.name) for field in fields(cls))) for folder in folders)
        return cls.join([none, *read])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields by name, for `save_arrays`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def final_folders(run: SafeTabRun, level: Level, kind: type[GroupTables]) -> list[Path]:
    """Return the folders of the final tables of a level, in the order of their groups."""
    return [run.noisy_folder(level, kind.FINAL, first) for first, _ in load_domain(run, level).pieces()]


def load_final(run: SafeTabRun, level: Level, kind: type[Tables]) -> Iterator[Tables]:
    """Yield the final tables of a level, a piece of its groups at a time."""
    return (kind.load([folder]) for folder in final_folders(run, level, kind))


def group_columns(domain: Domain, group: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Return REGION_ID, REGION_TYPE and ITERATION_CODE of these groups."""
    region, position = np.divmod(group, len(domain.iteration_codes))
    region_type = pa.array([domain.level.region_type]).take(pa.array(np.zeros(len(group), np.int32)))
    return {
        "REGION_ID": pa.array(domain.region_ids, pa.string()).take(pa.array(region)),
        "REGION_TYPE": region_type,
        "ITERATION_CODE": pa.array(domain.iteration_codes, pa.string()).take(pa.array(position)),
    }


def batches(pieces: Iterable[Tables], kind: type[Tables]) -> Iterator[Tables]:
    """Yield parts of GROUPS_AT_ONCE groups, wherever the pieces are cut, and the rest; at least one, if empty."""
    held, given = kind.load([]), False
    for piece in pieces:
        held = type(piece).join([held, piece]) if len(held.group) else piece
        whole = len(held.group) // GROUPS_AT_ONCE * GROUPS_AT_ONCE
        for start in range(0, whole, GROUPS_AT_ONCE):
            yield held.take(np.arange(start, start + GROUPS_AT_ONCE))
            given = True
        held = held.take(np.arange(whole, len(held.group)))
    if len(held.group) or not given:  # an empty table still has a header
        yield held


def write_table(out: Path, kind: type[GroupTables], table: str, level: Level, parts: Iterator[pa.Table]) -> None:
    """Write a table of a level into OUT as text and as Parquet; text has no margins, except those of estimates."""
    name = f"{kind.FOLDER}{table}/{level.slug}"
    write_tables(out, parts, f"parquet/{name}.parquet", f"{name}.csv", left_out=[] if kind.FOLDER else ["MOE"])


def groups_by_detail(run: SafeTabRun, level: Level, kind: type[GroupTables]) -> list[int]:
    """Return the number of groups of a level that have a final table of each detail, a function of the release."""
    groups = np.zeros(len(kind.CELLS), np.int64)
    for piece in load_final(run, level, kind):
        groups += np.bincount(piece.detail, minlength=len(groups))
    return groups.tolist()


def margins_by_level(
    run: SafeTabRun, level: Level, kind: type[GroupTables], sums: Sequence[tuple[str, int]]
) -> NDArray[np.int64]:
    """Return the margins of sums in a level's tables by the level whose noise they have: its own, or a donor's.

    sums: the query that measured the cells of a sum, and how many these are; each is a column. Zero without noise, and
    of levels without these tables.
    """
    configuration = run.parameters.configuration
    levels = configuration.levels(level.jurisdiction)
    margins = np.zeros((len(levels), len(sums)), np.int64)
    if is_truth(run):
        return margins
    for place, donor in enumerate(levels):
        if donor.iteration_level == level.iteration_level and configuration.budgets[kind.BUDGET][donor] != 0:
            queries = load_queries(run, donor)
            margins[place] = [queries.margin(query, cells) for query, cells in sums]
    return margins
