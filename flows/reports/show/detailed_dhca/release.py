"""Query a Detailed DHC-A release with DuckDB, reading its Parquet files in place.

Only the manifest, the regions and the iterations are held in memory.
"""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from pathlib import Path
from sys import intern
from typing import Any

from flows.reports.show.confidence import RELEASED, Confidence, confidence
from flows.reports.show.database import Database
from flows.reports.show.detailed_dhca.iterations import Iteration, read_tabulated
from flows.reports.show.geography import NATION, PUERTO_RICO, TITLES, Region, plain_name
from flows.reports.show.laws import CountNoise, margin_of_cells, read_law
from flows.reports.show.scope import Scope
from privacy.noise.laws import Law
from privacy.noise.margins import margin_of_error
from tasks.detailed_dhca.details import DETAILS, SEXES, SHAPES, WIDTHS
from tasks.detailed_dhca.pyramid import Cell
from tasks.inputs.names import NAMES, Names
from tasks.lifecycle.received import LARGEST_READ
from tasks.population_groups.levels import ALL_LEVELS, Level
from tasks.population_groups.tabulated import HIERARCHY_FILE, ITERATIONS_FILE, REGIONS_FILE

CELL_COLUMNS = ", AGESTART, AGEEND, SEX"
CELLS = dict(zip(DETAILS, WIDTHS.tolist(), strict=True))
SHAPE_OF_ROWS = {CELLS[shape] + 2: shape for shape in SHAPES[1:]}  # of T2: a row a cell, and one for each sex
LEVELS = {str(level): level for level in ALL_LEVELS}


@dataclass(frozen=True)
class LevelFacts:
    """A population group level by the manifest.

    `laws` are the laws of a published count's cells, by detail; None in a release of exact counts. `thresholds` are the
    first totals from which a group has sex by 4, 9 and 23 ages.
    """

    level: Level
    regions: int
    iterations: int
    groups: int
    suppressed_up_to: int | None
    published: Mapping[str, int]
    laws: Mapping[str, Law | None]
    thresholds: Sequence[int]

    @cached_property
    def margins(self) -> dict[str, int]:
        """The margin of a total by detail, as in the release's files: at 95%."""
        return self.margins_at(RELEASED)

    def margins_at(self, level: Confidence) -> dict[str, int]:
        """Return the margin of a total by detail at a confidence."""
        return {
            detail: margin_of_error(law, CELLS[detail], level.alpha) if law else 0 for detail, law in self.laws.items()
        }


@dataclass(frozen=True)
class Published:
    """A published total: the group, its count and margin, its table's shape, and the noise in it.

    estimate, estimate_margin: None where the release has no estimate of the group.
    """

    region: Region
    code: str
    count: int
    margin: int
    shape: str
    noise: CountNoise
    estimate: int | None = None
    estimate_margin: int | None = None


class Release:
    """A Detailed DHC-A release, open for reading.

    Parameters
    ----------
    folder : Path
        The release.
    scope : Scope, optional
        The part of the release that is read; all of it by default.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any], scope: Scope | None = None) -> None:
        self.scope = scope or Scope()
        self.folder, self.manifest = folder, manifest
        self.facts = {LEVELS[name]: _facts(LEVELS[name], facts) for name, facts in manifest["levels"].items()}
        self.levels = {level: facts for level, facts in self.facts.items() if self.scope.has_level(level)}
        self.names: Names = {
            region: name
            for region, name in NAMES.of_release(folder, manifest["files"]).items()
            if region.type.removeprefix(PUERTO_RICO) in TITLES
        }
        self._set_of = {
            region: (number, members)
            for number, members in enumerate(_sets(manifest["coterminous_sets"]))
            for region in members
        }
        self._database = Database(folder, manifest["files"])
        for level in self.facts:
            for table in ("t1", "t2", *(("estimates/t1", "estimates/t2") if self.estimated else ())):
                self._database.columns(_file(table, level))
        self._widest = lru_cache(maxsize=4096)(self._find_widest)
        self.regions = {region for region in self._regions() if self.scope.holds(region)}
        tables = (self._database.path(name, LARGEST_READ) for name in (ITERATIONS_FILE, HIERARCHY_FILE))
        self.iterations: dict[str, Iteration] = read_tabulated(*tables)

    def _table(self, table: str, level: Level) -> str:
        """Return the SQL source for a table (t1, t2, estimates/t1, estimates/t2) of a level."""
        return self._database.source(_file(table, level))

    # -- one group ----------------------------------------------------------------------------------------------------

    def group(self, region: Region, code: str) -> Published | None:
        """Return the published total of a group; None where there is none."""
        found = self.totals(region_type=region.type, region_id=region.id, code=code)
        return found[0] if found else None

    def cells(self, region: Region, code: str) -> list[Cell]:
        """Return the rows of a group's T2 table, in the order of the release; none for a group with a total alone."""
        level = self.level_of(region, code)
        if level is None:
            return []
        where = "REGION_ID = ? AND ITERATION_CODE = ?"
        query, times = self._with_estimates("t2", level, CELL_COLUMNS, where)
        cells = [_cell(*cell) for _, _, *cell in self._database.ask(query, [region.id, code] * times)]
        return self._at_confidence(cells, None if confidence().is_released else self.group(region, code))

    @staticmethod
    def _at_confidence(cells: list[Cell], group: Published | None) -> list[Cell]:
        """Return the cells of a group with the margins of this answer's confidence."""
        if group is None or confidence().is_released:
            return cells
        ages, law = len(cells) // len(SEXES) - 1, group.noise.law
        margins = {summed: margin_of_cells([(law, ages if summed else 1)]) for summed in (True, False)}
        return [replace(cell, margin=margins[cell.start is None]) for cell in cells]

    @property
    def clipped(self) -> bool:
        """Whether negative counts were set to 0."""
        return self.manifest["configuration"].get("allow_negative_counts") is False

    @property
    def estimated(self) -> bool:
        """Whether the release has estimates, at this confidence: their margins are known at 95% alone."""
        return "estimates" in self.manifest and confidence().is_released

    def _with_estimates(self, table: str, level: Level, columns: str, where: str, order: str = "") -> tuple[str, int]:
        """Return the query for rows of a level with their estimates, and how often it repeats the values of `where`.

        Columns: region, iteration, `columns`, COUNT, MOE, and where the release has them ESTIMATE and its MOE.
        """
        keys = f"REGION_ID, ITERATION_CODE{columns}"
        rows = f"SELECT {keys}, COUNT, MOE FROM {self._table(table, level)} WHERE {where} {order}"
        if not self.estimated:
            return rows, 1
        estimates = self._table(f"estimates/{table}", level)
        estimate = f"SELECT {keys}, ESTIMATE, MOE AS ESTIMATE_MOE FROM {estimates} WHERE {where}"
        again = order.partition(" LIMIT ")[0]
        both = f"({rows}) LEFT JOIN ({estimate}) USING ({keys})"
        return f"SELECT {keys}, COUNT, MOE, ESTIMATE, ESTIMATE_MOE FROM {both} {again}", 2

    # -- many ---------------------------------------------------------------------------------------------------------

    def totals(
        self,
        *,
        region_type: str,
        region_id: str | None = None,
        prefix: str = "",
        code: str | None = None,
        level: Level | None = None,
        order: str = "",
    ) -> list[Published]:
        """Return the published totals of a region type: of one region or an id prefix, of one iteration or all.

        `order` ends the query (ORDER BY, LIMIT); only for one iteration.
        """
        found: list[Published] = []
        for one, where, given in self._selections(region_type, region_id, prefix, code, level):
            query, times = self._with_estimates("t1", one, "", where, order)
            found += self._published(one, self._database.ask(query, given * times), where, given)
        return found

    def number(self, *, region_type: str, prefix: str, code: str) -> int:
        """Return how many regions of a type and id prefix have a published total of an iteration."""
        queries = [
            (f"SELECT count(*) FROM {self._table('t1', one)} WHERE {where}", given)
            for one, where, given in self._selections(region_type, None, prefix, code, None)
        ]
        return sum(number for query, given in queries for (number,) in self._database.ask(query, given))

    def numbers(self, level: Level) -> dict[str, int]:
        """Return, within the scope, how many regions of a level have a published total of each iteration."""
        return dict(self._of_level("SELECT ITERATION_CODE, count(*)", "t1", level, "GROUP BY 1 ORDER BY 1"))

    def groups_with_tables(self, level: Level) -> list[tuple[Region, str]]:
        """Return, within the scope, the groups of a level that have a table by sex and age."""
        rows = self._of_level("SELECT DISTINCT REGION_ID, ITERATION_CODE", "t2", level, "ORDER BY ALL")
        return [(Region(level.region_type, region_id), code) for region_id, code in rows]

    def _of_level(self, select: str, table: str, level: Level, order: str) -> list[Any]:
        return [
            row
            for _, where, given in self._selections(level.region_type, None, "", None, level)
            for row in self._database.ask(f"{select} FROM {self._table(table, level)} WHERE {where} {order}", given)
        ]

    def _selections(
        self, region_type: str, region_id: str | None, prefix: str, code: str | None, level: Level | None
    ) -> Iterator[tuple[Level, str, list[Any]]]:
        """Return the levels that rows are in, with the condition for them and the values in it."""
        if region_id is None and region_type != "USA" and not self.scope.complete_in(Region("USA", NATION)):
            if region_type == "AIANNH":
                return
            prefix = prefix or self.scope.state or ""
        if code is not None:
            level = self.level_of(Region(region_type, ""), code)
        conditions: dict[str, Any] = {}
        if region_id is not None:
            conditions["REGION_ID = ?"] = region_id
        if prefix:  # a range, which skips the row groups that lie beyond it
            conditions |= {"REGION_ID >= ?": prefix, "REGION_ID < ?": prefix + ":"}
        if code is not None:
            conditions["ITERATION_CODE = ?"] = code
        for one in self.levels:
            if one == level or (level is None and code is None and one.region_type == region_type):
                yield one, " AND ".join(["true", *conditions]), list(conditions.values())

    def _published(self, level: Level, rows: list[Any], condition: str, given: list[Any]) -> list[Published]:
        """Return rows of T1 with their tables' shapes: by the margin where it is of one shape, else by T2's rows."""
        shapes = self._shapes(level)
        counted: dict[tuple[str, str], int] = {}
        if any(shapes.get(margin) is None for _, _, _, margin, *_ in rows):
            counted = {
                (region, code): number
                for region, code, number in self._database.ask(
                    f"SELECT REGION_ID, ITERATION_CODE, count(*) FROM {self._table('t2', level)} "
                    f"WHERE {condition} GROUP BY ALL",
                    given,
                )
            }
        found = []
        for region_id, code, count, margin, *estimate in rows:
            region = Region(level.region_type, region_id)
            shape = shapes.get(margin) or SHAPE_OF_ROWS.get(counted.get((region_id, code), 0), "total")
            noise = self._noise(level, region, code, margin, shape)
            if not confidence().is_released:
                margin = margin_of_cells([(noise.law, noise.cells)])
            found.append(Published(region, code, count, margin, shape, noise, *estimate))
        return found

    def _shapes(self, level: Level) -> dict[int, str | None]:
        """Return the shape of each margin at a level, coterminous donors included; None where two shapes have it."""
        shapes: dict[int, set[str]] = {}
        for facts in self.facts.values():
            if facts.level == level or (self._set_of and facts.level.iteration_level == level.iteration_level):
                for detail, margin in facts.margins.items():
                    shapes.setdefault(margin, set()).add("total" if detail == "total_only" else detail)
        return {margin: next(iter(fits)) if len(fits) == 1 else None for margin, fits in shapes.items()}

    def _noise(self, level: Level, region: Region, code: str, margin: int, shape: str) -> CountNoise:
        """Return the noise of a published total: its level's, or that of a coterminous region, which gave the count.

        The release does not name that region, but has its margin. Where two laws have the margin, take the wider.
        """
        number, members = self._set_of.get(region, (None, (region,)))
        source = ("set", number, code) if number is not None else (region.type, region.id, code)
        types = tuple(member.type for member in members)
        return CountNoise(source, self._widest(types, level.iteration_level, margin, shape), CELLS[shape])

    def _find_widest(self, region_types: tuple[str, ...], iteration_level: int, margin: int, shape: str) -> Law | None:
        """Return the widest law of a cell, among the levels of these types, with which a total has this margin."""
        details = ("total", "total_only") if shape == "total" else (shape,)
        laws = [
            law
            for region_type in region_types
            if (facts := self.facts.get(Level(region_type, iteration_level)))
            for detail in details
            if facts.margins[detail] == margin and (law := facts.laws[detail])
        ]
        return max(laws, key=lambda law: law.variance(), default=None)

    # -- what there is ------------------------------------------------------------------------------------------------

    def level_of(self, region: Region, code: str) -> Level | None:
        """Return the level of a region and an iteration; None where the run did not measure it."""
        iteration = self.iterations.get(code)
        level = iteration and Level(region.type, iteration.level)
        return level if level in self.levels else None

    def coterminous(self, region: Region) -> tuple[Region, ...]:
        """Return the other regions made of the same blocks, which share this one's counts."""
        _, members = self._set_of.get(region, (None, ()))
        return tuple(member for member in members if member != region and self.scope.holds(member))

    def name(self, region: Region) -> str:
        """Return the name of a region."""
        return self.names.get(region) or plain_name(region)

    def regions_in(self, region_type: str, prefix: str = "") -> list[Region]:
        """Return the regions of a type and id prefix that the release lists, sorted."""
        listed = self._by_type.get(region_type, [])
        ends = (prefix, prefix + "\U0010ffff")  # all that begins with it lies between
        first, last = (bisect_left(listed, end, key=attrgetter("id")) for end in ends)
        return listed[first:last]

    @cached_property
    def _by_type(self) -> dict[str, list[Region]]:
        by_type: dict[str, list[Region]] = {}
        for region in sorted(self.regions, key=lambda region: (region.type, region.id)):
            by_type.setdefault(region.type, []).append(region)
        return by_type

    def _regions(self) -> Iterator[Region]:
        with self._database.path(REGIONS_FILE, LARGEST_READ).open(newline="") as file:
            for row in csv.DictReader(file, delimiter="|"):
                yield Region(intern(row["REGION_TYPE"]), row["REGION_ID"])


def _facts(level: Level, facts: Mapping[str, Any]) -> LevelFacts:
    queries = facts.get("queries")
    laws = {name: read_law(query) for name, query in queries.items()} if queries else {}
    return LevelFacts(
        level=level,
        regions=facts["regions"],
        iterations=facts["iterations"],
        groups=facts["groups"],
        suppressed_up_to=facts["suppressed_up_to"],
        published=facts["groups_published"],
        laws={detail: laws.get("total_only" if detail == "total_only" else "stage_2") for detail in DETAILS},
        thresholds=facts["thresholds"],
    )


def _cell(start: str, end: str, sex: str, *counts: Any) -> Cell:
    first, last = (None, None) if start == "*" else (int(start), int(end))
    return Cell(first, last, int(sex), *counts)


def _sets(sets: Iterable[Iterable[str]]) -> list[tuple[Region, ...]]:
    return [tuple(Region(*member.split(" ", 1)) for member in members) for members in sets]


def _file(table: str, level: Level) -> str:
    return f"parquet/{table}/{level.slug}.parquet"
