"""Check SafeTab releases from their files alone: the statements of the manifest, and every row.

The functions that write a release make each table again, from its measured cells, the laws in the manifest and the
coterminous regions; the received table must equal it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
NO_FORM = 255  # in place of a detail, where the number of a group's rows fits no table
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
    """The rows of a received table, grouped by population group.

    columns: one entry per row; GROUP is the number of the row's group in the level's domain, -1 for an unknown group;
    COUNT is the count or its estimate.
    group, start, width: one entry per group, in row order: its number, its first row and its number of rows.
    """

    columns: pa.Table
    group: NDArray[np.int64]
    start: NDArray[np.int64]
    width: NDArray[np.int64]

    def numbers(self, column: str) -> NDArray[np.int64]:
        """Return a column as integers; a missing value becomes 0."""
        numbers: NDArray[np.int64] = self.columns[column].cast(pa.int64()).fill_null(0).to_numpy()
        return numbers

    def details(self, forms: Mapping[int, Published]) -> NDArray[np.uint8]:
        """Return the detail of each group, which follows from its number of rows."""
        details = np.full(len(self.group), NO_FORM, np.uint8)
        for detail, form in forms.items():
            details[self.width == len(form.rows)] = detail
        return details


def read_rows(
    received: Received, level: Level, kind: type[GroupTables], name: str, *, keys_alone: bool = False
) -> ReceivedRows:
    """Read a table of a level, or its estimates. keys_alone: without counts and margins."""
    path = path_in(received.folder, f"parquet/{kind.FOLDER}{name}/{level.slug}.parquet")
    table, domain = pq.read_table(path, columns=[*GROUP] if keys_alone else None), received.domains[level]
    codes = {
        "REGION_TYPE": [level.region_type],
        "REGION_ID": domain.region_ids,
        "ITERATION_CODE": domain.iteration_codes,
    }
    places = {}
    for column, known in codes.items():
        place = pc.index_in(table[column].cast(pa.string()), pa.array(known, pa.string()))
        places[column] = place.fill_null(-1).to_numpy().astype(np.int64)
    number = places["REGION_ID"] * len(domain.iterations) + places["ITERATION_CODE"]
    group = np.where(np.min([*places.values()], axis=0) < 0, -1, number)
    start = np.flatnonzero(np.diff(group, prepend=-2))
    numbered = table.drop_columns([*GROUP]).append_column("GROUP", pa.array(group))
    names = ["COUNT" if column == kind.COLUMN else column for column in numbered.column_names]
    return ReceivedRows(numbered.rename_columns(names), group[start], start, np.diff(start, append=len(group)))


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

    kind: of the counts. rows, details: of the received tables. estimates: the rows are estimates of the counts; their
    margins are not made again.
    """
    faults = []
    for name, each in rows.items():
        strange, unknown = int((each.group < 0).sum()), int((details[name] == NO_FORM).sum())
        faults += [f"{name}: {strange:,} groups are not in the level"] * bool(strange)
        faults += [f"{name}: {unknown:,} groups have a number of rows that no table has"] * bool(unknown)
    if rows and received.configuration.budgets[kind.BUDGET].get(level, 0) == 0:
        faults.append("the level has no budget for them")
    groups = None if faults else _groups(received, level, kind, rows, details)
    several = 0 if groups is None else len(groups.group) - len(np.unique(groups.group))
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
        mine = groups.take(np.flatnonzero(np.isin(groups.detail, list(kind.TABLES[name]))))
        made = rows_of_groups(mine, name, {"GROUP": pa.array(mine.group)}, margins, clip=False)
        made = made.drop_columns(["MOE"]) if estimates else made
        yield check_rows(f"{name}: {what} of {level}", each.columns, made, clipped=clipped)
    return groups


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
            of_rows = stated[each.start[mine][:, None] + np.arange(len(form.rows))]
            at = np.searchsorted(groups.group, each.group[mine])
            for place, margin in enumerate(margins[name][detail]):
                fits[place, at] &= (of_rows == margin).all(axis=1) & margin.all()  # a donor's margins are above 0
    given = shared & ~fits[received.levels.index(level)] & fits.any(axis=0)
    groups.noise_of[given] = fits[:, given].argmax(axis=0)
