"""Check SafeTab releases from their files alone: the statements of the manifest, and every row.

The functions that write a release make each table again, from its measured cells, the laws in the manifest and the
coterminous regions; the received table must equal it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from privacy.tables.published import Published
from spine.settings import Jurisdiction
from tasks.releases.check import Check, NotChecked
from tasks.releases.description import Table
from tasks.releases.published import check_rows
from tasks.releases.received import path_in, read_in
from tasks.releases.statements import PUBLIC_FILE, Digest, Unshown
from tasks.releases.text_twin import by_dictionary, read_batches
from tasks.safetab.configuration import SafeTabConfiguration, read_described
from tasks.safetab.domain import Domain
from tasks.safetab.group_tables import GroupTables, Margins, margins_by_level, rows_of_groups
from tasks.safetab.iterations import PARAMETER_FILES
from tasks.safetab.levels import Level
from tasks.safetab.manifest import designed
from tasks.safetab.noise import LevelQueries, queries_of
from tasks.safetab.release_tables import GROUP, ITERATIONS, REGIONS

Positive = Annotated[int, Field(ge=1)]
Sets = Annotated[list[list[str]], Field()]
ROWS_AT_ONCE = 1 << 17
NO_FORM = 255  # in place of a detail, where the number of a group's rows fits no table
NO_GROUP = -2
Details = Mapping[str, NDArray[np.uint8]]  # by table: the detail of each group


@dataclass(frozen=True)
class Received:
    """A received release: its folder, its manifest, and what both state.

    form: the class of its configuration.
    """

    folder: Path
    manifest: Mapping[str, Any]
    form: type[SafeTabConfiguration]

    @property
    def jurisdiction(self) -> Jurisdiction:
        """The jurisdiction. Raises KeyError for an unknown region."""
        return {"US": "us", "PR": "pr"}[self.manifest["region"]]  # type: ignore[return-value]

    @property
    def is_truth(self) -> bool:
        """Whether its counts are exact."""
        return "NOT_PRIVATE" in self.manifest

    @property
    def estimated(self) -> bool:
        """Whether its run made estimates."""
        return "estimates" in self.manifest["options"]

    @cached_property
    def configuration(self) -> Any:
        """The configuration in its manifest."""
        return read_described(self.manifest["configuration"], self.form, self.jurisdiction)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels with a budget in its configuration."""
        levels: tuple[Level, ...] = self.configuration.levels(self.jurisdiction)
        return levels

    @cached_property
    def domains(self) -> dict[Level, Domain]:
        """The groups of each level, in the order of the release's tables of regions and iterations."""
        regions, iterations = (self._text_rows(table) for table in (REGIONS, ITERATIONS))
        region_ids: dict[str, list[str]] = {}
        for row in regions:
            region_ids.setdefault(row["REGION_TYPE"], []).append(row["REGION_ID"])
        found = {}
        for level in self.levels:
            column = "NATION_STATE" if level.nation_or_state else "SUB_STATE"
            mine = [row for row in iterations if row[column] == "True" and row["LEVEL"] == str(level.iteration_level)]
            found[level] = Domain(
                level=level,
                region_ids=tuple(region_ids.get(level.region_type, ())),
                iterations=np.arange(len(mine)),
                iteration_codes=tuple(row["ITERATION_CODE"] for row in mine),
                total_only=np.array([level.nation_or_state and row["TOTAL_ONLY"] == "True" for row in mine], bool),
            )
        return found

    def _text_rows(self, table: Table) -> list[dict[str, str]]:
        header, *lines = read_in(self.folder, table.text).decode("utf-8").splitlines()
        names = header.split("|")
        return [dict(zip(names, line.split("|"), strict=True)) for line in lines]

    def queries(self, level: Level) -> LevelQueries | None:
        """Return the queries of a level, from its budgets and its stated stability; None for exact counts."""
        if self.is_truth:
            return None
        return queries_of(self.configuration, level, int(self.manifest["levels"][str(level)]["stability"]))

    def is_shared(self, level: Level, group: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each group of a level lies in a coterminous region."""
        domain, sets = self.domains[level], self.manifest["coterminous_sets"]
        members = {member for each in sets for member in each}
        shared = [f"{level.region_type} {region}" in members for region in domain.region_ids]
        return np.array(shared, bool)[group // max(1, len(domain.iterations))]


# -- statements -------------------------------------------------------------------------------------------------------


def safetab_statements(received: Received, **options: object) -> dict[str, Any]:
    """Return the statements that every SafeTab release makes. options: those of this SafeTab only."""
    manifest, jurisdiction = received.manifest, received.jurisdiction
    stated, digests = manifest["options"], manifest["parameter_files"]
    geography = {"blocks": Unshown(Positive, PUBLIC_FILE), "GRF-C": Unshown(Digest, PUBLIC_FILE)}
    own = {"region": jurisdiction, "coterminous": stated["coterminous"], "coterminous_list": stated["coterminous_list"]}
    asked = own | options | ({"estimates": True} if received.estimated else {})
    equated = stated["coterminous"] is True
    return {
        **designed(received.configuration, jurisdiction, digests, asked, geography, truth=received.is_truth),
        "parameter_files": dict.fromkeys(PARAMETER_FILES, Unshown(Digest, PUBLIC_FILE)),
        "coterminous_sets": Unshown(Sets, "no file of the release lists the blocks of regions") if equated else [],
    }


def unshown_stability(received: Received) -> dict[str, Unshown]:
    """Return the statement of a level's stability; empty for exact counts."""
    why = "it follows from the parameter files; the laws are those of the stated stability"
    return {} if received.is_truth else {"stability": Unshown(Positive, why)}


def common_checks(received: Received) -> Iterator[Check | NotChecked]:
    """Yield what the checks of a SafeTab release do not cover; check that estimates were asked for."""
    for file in ("names.csv*", "points.csv*", "tabulated/hierarchy.csv*"):
        yield NotChecked(file, PUBLIC_FILE)
    unused = ["max_race_codes", "reader", "run_us", "run_pr"] + ["state_filter_us"] * (received.jurisdiction == "pr")
    unused += ["zero_suppression_chance"] * all(level.nation_or_state for level in received.levels)
    for name in unused:
        if hasattr(received.configuration, name):
            yield NotChecked(f"configuration.{name}", "it has no visible effect on the numbers of the release")
    if received.estimated:
        yield NotChecked("parquet/estimates/*: *", "estimates are not made again")
    elif any(name.startswith("parquet/estimates/") for name in received.manifest["files"]):
        yield Check("estimates", "", ("there are estimates, and the run did not ask for them",))


# -- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReceivedRows:
    """The rows of a received table, grouped by population group; its columns are read when they are asked for.

    path: its Parquet file. column: that of the count or its estimate, here COUNT.
    group, start, width: one entry per group, in row order: its number in the level's domain, -1 for an unknown group;
    its first row and its number of rows.
    """

    path: Path
    column: str
    group: NDArray[np.int64]
    start: NDArray[np.int64]
    width: NDArray[np.int64]

    def numbers(self, column: str) -> NDArray[np.int64]:
        """Return COUNT, or another column, as integers; a missing value becomes 0."""
        name = self.column if column == "COUNT" else column
        found = pq.read_table(self.path, columns=[name])[name].cast(pa.int64()).fill_null(0)
        numbers: NDArray[np.int64] = found.to_numpy()
        return numbers

    def beside(self, made: Iterable[pa.Table]) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield tables with as many received rows as each has, then the received rows that are left, if any.

        Received rows have GROUP, and the columns other than those of the key.
        """
        file, group, first = pq.ParquetFile(self.path), np.repeat(self.group, self.width), 0
        names = [name for name in file.schema_arrow.names if name not in GROUP]
        columns = ["COUNT" if name == self.column else name for name in names]
        batches = (
            pa.Table.from_batches([batch]).rename_columns(columns)
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=names)
        )
        held = file.schema_arrow.empty_table().select(names).rename_columns(columns)
        for table in made:
            while len(held) < len(table) and (batch := next(batches, None)) is not None:
                held = pa.concat_tables([held, batch])
            piece, held = held.slice(0, len(table)), held.slice(len(table))
            yield piece.append_column("GROUP", pa.array(group[first : first + len(piece)])), table
            first += len(piece)
        yield from ((rest, rest.slice(0, 0)) for rest in chain([held], batches) if len(rest))

    def details(self, forms: Mapping[int, Published]) -> NDArray[np.uint8]:
        """Return the detail of each group, which follows from its number of rows."""
        details = np.full(len(self.group), NO_FORM, np.uint8)
        for detail, form in forms.items():
            details[self.width == len(form.rows)] = detail
        return details


def read_rows(received: Received, level: Level, kind: type[GroupTables], name: str) -> ReceivedRows:
    """Read the keys of a table of a level, or of its estimates."""
    path = path_in(received.folder, f"parquet/{kind.FOLDER}{name}/{level.slug}.parquet")
    domain = received.domains[level]
    codes = {
        "REGION_TYPE": [level.region_type],
        "REGION_ID": domain.region_ids,
        "ITERATION_CODE": domain.iteration_codes,
    }
    place_of = {column: {code: place for place, code in enumerate(known)} for column, known in codes.items()}
    groups = [np.zeros(0, np.int64)]
    for batch in read_batches(path, [*GROUP]):
        places = {}
        for column, known in place_of.items():
            coded = by_dictionary(batch[column])
            place = np.array([*(known.get(code, -1) for code in coded.dictionary.to_pylist()), -1])
            places[column] = place[coded.indices.fill_null(-1).to_numpy()]
        number = places["REGION_ID"] * len(domain.iterations) + places["ITERATION_CODE"]
        groups.append(np.where(np.minimum.reduce([*places.values()]) < 0, -1, number))
    group = np.concatenate(groups)
    start = np.flatnonzero(np.append([True] * bool(len(group)), group[1:] != group[:-1]))
    return ReceivedRows(path, kind.COLUMN, group[start], start, np.diff(start, append=len(group)))


def find_groups(groups: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of the first of some groups that is each wanted one, or -1.

    numpy's set operations hash millions of different numbers, which takes far longer than to sort them.
    """
    order = np.argsort(groups, kind="stable")  # at once, as they are mostly sorted
    place = np.append(order, len(groups))[np.searchsorted(groups, wanted, sorter=order)]
    return np.where(np.append(groups, NO_GROUP)[place] == wanted, place, -1)


def check_groups(
    received: Received,
    level: Level,
    kind: type[GroupTables],
    rows: Mapping[str, ReceivedRows],
    details: Details,
    *,
    estimates: bool = False,
) -> Generator[Check, None, GroupTables | None]:
    """Check every row of a level's tables; return the groups with their measured cells, or None after a fault.

    kind: that of the counts. rows, details: those of the received tables. estimates: the rows are estimates of the
    counts; their margins are not made again.
    """
    faults = []
    for name, each in rows.items():
        strange, unknown = int((each.group < 0).sum()), int((details[name] == NO_FORM).sum())
        faults += [f"{name}: {strange:,} groups are not in the level"] * bool(strange)
        faults += [f"{name}: {unknown:,} groups have a number of rows that no table has"] * bool(unknown)
    if rows and received.configuration.budgets[kind.BUDGET].get(level, 0) == 0:
        faults.append("the level has no budget for them")
    groups = None if faults else _groups(received, level, kind, rows, details)
    several = 0 if groups is None else int((np.diff(groups.group) == 0).sum())
    faults += [f"{several:,} groups have several tables"] * bool(several)
    what = "estimates" if estimates else "groups"
    over = "" if groups is None else f"{len(groups.group):,} groups"
    yield Check(f"{what} of {level}, {kind.BUDGET}", over, tuple(faults))
    if groups is None:
        return None
    margins = margins_by_level(kind, level, received.levels, received.queries)
    if not estimates:
        _find_donors(received, level, groups, rows, details, margins)
    clipped = not received.configuration.allow_negative_counts
    for name, each in rows.items():
        parts = _parts(groups, name)
        made = (rows_of_groups(part, name, {"GROUP": pa.array(part.group)}, margins, clip=False) for part in parts)
        if estimates:
            made = (table.drop_columns(["MOE"]) for table in made)
        yield check_rows(f"{name}: {what} of {level}", each.beside(made), clipped=clipped)
    return groups


def _parts(groups: GroupTables, name: str) -> Iterator[GroupTables]:
    """Yield the groups that have a table, with about ROWS_AT_ONCE of its rows at a time."""
    forms = groups.TABLES[name]
    mine = np.isin(groups.detail, list(forms))
    own = groups if mine.all() else groups.take(np.flatnonzero(mine))
    widths = np.array([len(form.rows) for form in forms.values()])
    ends = np.cumsum(widths[np.searchsorted(list(forms), own.detail)])
    cells = np.append(0, own.widths.cumsum())
    cuts = [0, *(np.flatnonzero(np.diff(ends // ROWS_AT_ONCE)) + 1), len(own.group)]
    for first, last in pairwise(cuts):
        part, of_cells = slice(first, last), slice(cells[first], cells[last])
        yield type(own)(
            **{name: array[of_cells if name in own.CELLWISE else part] for name, array in own.arrays().items()}
        )


def _groups(
    received: Received, level: Level, kind: type[GroupTables], rows: Mapping[str, ReceivedRows], details: Details
) -> GroupTables:
    """Return the groups with their measured cells (rows of a single cell), sorted, with their level's noise."""
    parts, own = [kind.load([])], received.levels.index(level)
    for name, each in rows.items():
        count = each.numbers("COUNT")
        for detail, form in kind.TABLES[name].items():
            if form.single:
                mine = np.flatnonzero(details[name] == detail)
                cells = count[each.start[mine][:, None] + np.array(form.single)]
                noise_of = np.full(len(mine), own, np.uint8)
                parts.append(kind(each.group[mine], details[name][mine], noise_of, cells.ravel()))
    joined = kind.join(parts)
    return joined.take(np.argsort(joined.group, kind="stable"))


def _find_donors(
    received: Received,
    level: Level,
    groups: GroupTables,
    rows: Mapping[str, ReceivedRows],
    details: Details,
    margins: Margins,
) -> None:
    """Set `noise_of` of coterminous groups to the donor level whose margins all of their rows have."""
    shared = received.is_shared(level, groups.group)
    if not shared.any():
        return
    fits = np.ones((len(received.levels), len(groups.group)), bool)
    for name, each in rows.items():
        stated = each.numbers("MOE")
        for detail, form in groups.TABLES[name].items():
            mine = np.flatnonzero(details[name] == detail)
            at = np.searchsorted(groups.group, each.group[mine])
            mine, at = mine[shared[at]], at[shared[at]]
            of_rows = stated[each.start[mine][:, None] + np.arange(len(form.rows))]
            for place, margin in enumerate(margins[name][detail]):
                fits[place, at] &= (of_rows == margin).all(axis=1) & margin.all()  # a donor's margins are above 0
    given = shared & ~fits[received.levels.index(level)] & fits.any(axis=0)
    groups.noise_of[given] = fits[:, given].argmax(axis=0)
