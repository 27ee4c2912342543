"""Noisy tables of population groups, with as many cells as their detail has: between stages, and in a release."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privacy.tables.published import Published
from tasks.lifecycle.files import open_array
from tasks.lifecycle.staging import write_tables
from tasks.releases.published import Keys, rows_by_table
from tasks.safetab.domain import Domain, load_domain
from tasks.safetab.levels import Level
from tasks.safetab.noise import LevelQueries, noisy_queries
from tasks.safetab.run import SafeTabRun

TYPES = {"detail": np.uint8, "noise_of": np.uint8, "dropped": np.bool_}  # arrays that are not int64
GROUPS_AT_ONCE = 100_000

Tables = TypeVar("Tables", bound="GroupTables")
Margins = Mapping[str, Mapping[int, NDArray[np.int64]]]  # by table and detail: levels of the noise x rows


@dataclass(frozen=True)
class GroupTables:
    """Noisy tables of groups of a level.

    TABLES: the tables of a release by name, each with its form by detail. FOLDER, COLUMN: their folder, and the column
    of their numbers. CELLS: the number of cells by detail. CELLWISE: the arrays with one element per cell; all others
    have one per group. BUDGET: the table's name in config.json; a level without a budget for it has no tables. MADE,
    FINAL: the folders of a piece (`SafeTabRun.noisy_folder`), as measured, and with coterminous regions equated.

    group: int64 array, sorted; group number in the level's domain.
    detail: uint8 array; the detail of each group's table.
    noise_of: uint8 array; the level whose noise a group's counts have, as a place among the run's levels: its own, or
    for a coterminous recipient the donor's.
    cells: int64 array; the cells of all tables, in the order of the groups.
    """

    TABLES: ClassVar[Mapping[str, Mapping[int, Published]]]
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
        """Return the places in `cells` of the tables of a detail, of all groups or of `rows`: tables x cells."""
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

    def released(self) -> Self:
        """Return the groups that are released."""
        return self

    def numbers(self, name: str, detail: int, margins: Margins) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of a release table for the groups of a detail, and their margins: groups x rows each."""
        cells = self.cells[self.places(detail)]
        return self.TABLES[name][detail].counts(cells), margins[name][detail][self.noise_of[self.detail == detail]]

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the groups of several parts."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    @classmethod
    def load(cls, folders: Sequence[Path]) -> Self:
        """Return the tables in these folders, concatenated; empty without folders."""
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
    """Return the key columns REGION_ID, REGION_TYPE and ITERATION_CODE of groups, by dictionaries."""
    region, position = np.divmod(group, len(domain.iteration_codes))
    codes = {
        "REGION_ID": pa.array(domain.region_ids, pa.string()).take(pa.array(region)),
        "REGION_TYPE": pa.repeat(domain.level.region_type, len(group)),
        "ITERATION_CODE": pa.array(domain.iteration_codes, pa.string()).take(pa.array(position)),
    }
    return {name: column.dictionary_encode() for name, column in codes.items()}


def batches(pieces: Iterable[Tables], kind: type[Tables]) -> Iterator[Tables]:
    """Yield GROUPS_AT_ONCE groups at a time, across pieces, then the rest; at least one batch, maybe empty."""
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


def write_table(run: SafeTabRun, level: Level, kind: type[GroupTables], name: str, out: Path) -> None:
    """Write a table of a level into OUT as text and Parquet. In text, only estimates have margins."""
    domain, details, margins = load_domain(run, level), list(kind.TABLES[name]), load_margins(run, level, kind)
    clip = not run.parameters.configuration.allow_negative_counts
    final = (piece.released() for piece in load_final(run, level, kind))
    pieces = (piece.take(np.flatnonzero(np.isin(piece.detail, details))) for piece in final)
    parts = (
        rows_of_groups(part, name, group_columns(domain, part.group), margins, clip=clip)
        for part in batches(pieces, kind)
    )
    file = f"{kind.FOLDER}{name}/{level.slug}"
    write_tables(out, parts, f"parquet/{file}.parquet", f"{file}.csv", left_out=[] if kind.FOLDER else ["MOE"])


def rows_of_groups(part: GroupTables, name: str, keys: Keys, margins: Margins, *, clip: bool) -> pa.Table:
    """Return a release table of groups that all have it, in their order. Sums precede clipping."""
    tables = part.TABLES[name]
    which = np.searchsorted(list(tables), part.detail)
    widths = np.array([len(table.rows) for table in tables.values()])[which]
    starts = np.cumsum(widths) - widths
    count, margin = np.zeros((2, int(widths.sum())), np.int64)
    for place, (detail, table) in enumerate(tables.items()):
        rows = starts[which == place][:, None] + np.arange(len(table.rows))
        count[rows], margin[rows] = part.numbers(name, detail, margins)
    numbers = {part.COLUMN: np.maximum(count, 0) if clip else count, "MOE": margin}
    return rows_by_table(list(tables.values()), which, keys, numbers)


def groups_by_detail(run: SafeTabRun, level: Level, kind: type[GroupTables]) -> list[int]:
    """Return the number of groups of a level by detail, counted in the final tables, so public as they are."""
    groups = np.zeros(len(kind.CELLS), np.int64)
    for piece in load_final(run, level, kind):
        groups += np.bincount(piece.detail, minlength=len(groups))
    return groups.tolist()


def load_margins(run: SafeTabRun, level: Level, kind: type[GroupTables]) -> Margins:
    """Return the margins of a level's tables in a release; zero without noise."""
    levels = run.parameters.configuration.levels(level.jurisdiction)
    return margins_by_level(kind, level, levels, partial(noisy_queries, run))


def margins_by_level(
    kind: type[GroupTables], level: Level, levels: Sequence[Level], queries: Callable[[Level], LevelQueries | None]
) -> Margins:
    """Return the margins of a level's tables, by the level whose noise they have: its own, or a donor's.

    levels: those of the release. queries: maps a level to its queries, None without noise. Margins are 0 without noise,
    and for levels that cannot be donors.
    """
    donors = {
        place: found
        for place, each in enumerate(levels)
        if each.iteration_level == level.iteration_level and (found := queries(each))
    }

    def margins(form: Published) -> NDArray[np.int64]:
        found = np.zeros((len(levels), len(form.rows)), np.int64)
        for place, donor in donors.items():
            if form.measured in donor.budgets:
                found[place] = form.margins(donor.law(form.measured))
        return found

    return {name: {detail: margins(form) for detail, form in forms.items()} for name, forms in kind.TABLES.items()}
