"""The pages of a TopDown release besides those of its tables: geounits with the tables of the redistricting data.

They show the contents of P1 to P5 and H1 of the P.L. 94-171 data: race, Hispanic origin and voting age; living
quarters; occupancy. Geounits are tabulation geounits and off-spine entities; measurements on the spine are in tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from flows.reports.show.geography import number_within, title
from flows.reports.show.margins import caveat
from flows.reports.show.release_pages import ReleasePages
from flows.reports.show.scope import Scope
from flows.reports.show.view import Confidence, Links, NotThere, Table, View
from privacy.noise.margins import Z95
from privacy.tables.histogram import Axis, Condition, Count, matrix
from spine.redistricting import CENRACE, HHGQ, PERSON_TABLES, PERSONS, TABLE_TITLES, UNITS
from spine.top_down import Product
from tasks.errors import Refused
from tasks.geography.regions import NATION, Region
from tasks.releases.pages.words import count_title
from tasks.top_down.estimate.gls.margin_tables import COVERED
from tasks.top_down.input.public_input import QUARTERS
from tasks.top_down.release.tables import REGION_TYPES, states_of_nation
from tasks.top_down.user_areas.area_tables import interval

LEVELS = {region_type: level for level, region_type in REGION_TYPES.items()} | {  # by region type, as in files
    "USA": "US",
    "BLOCK_GROUP": "Block_Group",
    "BLOCK": "Block",
}
ENTITIES = ("PLACE", "COUSUB", "AIANNH")
INSIDE = {"STATE": 2, "COUNTY": 5, "TRACT": 11, "BLOCK_GROUP": 12, "BLOCK": 15}  # digits of the public code
PUBLIC_BLOCK = "(geounit[-16:-6] || geounit[-4:])"  # the 15 public digits of a block's geocode
LISTED = 100  # blocks listed in a block group
_ADULT, _HISPANIC = (PERSONS.count(name).where for name in ("voting age", "Hispanic"))
PERSON_COLUMNS: tuple[tuple[str, Condition], ...] = (
    ("all ages", {}),
    ("Hispanic", _HISPANIC),
    ("18 and over", _ADULT),
    ("Hispanic, 18 and over", {**_ADULT, **_HISPANIC}),
)
TITLES = {
    "race": "Race, Hispanic origin, voting age",
    "quarters": "Living quarters",
    "races": "All 63 combinations of races",
    "housing": "Housing units",
}
OF_PRODUCT = {"persons": ("race", "quarters", "races"), "units": ("housing",)}
CELLS = {  # cells of P1 to P5 by name: the table's title, and the cell in words
    cell.name: (f"{table}. {TABLE_TITLES[table]}", cell.words)
    for table, cells in PERSON_TABLES.items()
    for cell in cells
}
READING = (
    "Everything except declared counts was estimated from noisy answers. A count of a few persons is mostly noise; use "
    "blocks only in sums of many."
)
OVERVIEW = (
    "Counts add up exactly from blocks to the nation, because the estimation enforces it. That does not mean that they "
    "are accurate: small counts are too high on average, since no count can be negative."
)
NO_MARGIN = (
    "A TopDown count has no margin of error: it results from many noisy answers by least squares, the bound at 0, the "
    "sums from level to level and rounding, and the law of its error is not known."
)
NONE_HERE = "The release has margins for other areas, but not for this one."
ANSWERS = (
    " das tda areas makes unbiased estimates with standard errors and intervals, of any areas, from the noisy answers."
)
WITH_MARGINS = (
    "A margin is 1.96 standard errors of the unbiased estimate from all noisy answers. On synthetic data about 95 of "
    "100 released counts, or more, were within their margin. Where that would not hold there is no margin, and its "
    "place says why: the area cuts block groups of the spine, or the count is of group quarters or of another kind "
    "that 1.96 standard errors do not cover."
)
OUTSIDE = (
    "is outside the interval of its estimate. Use the released count for this area alone: it counts nobody below zero "
    "and adds up, and on synthetic data such counts were nearer to the truth on average. In a sum of many areas use "
    "the estimates: their errors average out, the bias of released counts does not."
)


@dataclass(frozen=True)
class EstimatedCount:
    """A count with its margin, or None without one, and the unbiased estimate with its standard error."""

    product: str
    count: str
    released: int
    margin: float | None
    estimate: float
    error: float

    @property
    def why(self) -> str:
        """The reason why its count has no margin; empty if it has one."""
        if self.margin is not None:
            return ""
        quantity = next((one.quantity for one in (*PERSONS.counts, *UNITS.counts) if one.name == self.count), "")
        if quantity in COVERED:
            return "cuts block groups"
        return "group quarters" if quantity.startswith("group quarters") else "not covered"

    def interval(self, at: Confidence) -> tuple[int, int]:
        """Return the ends of the estimate's interval for the count."""
        return interval(self.estimate, self.error, at.deviations)

    def outside(self, at: Confidence) -> bool:
        """Return whether the released count is outside the estimate's interval."""
        low, high = self.interval(at)
        return not low <= self.released <= high


@dataclass(frozen=True)
class CountTable:
    """A table of a geounit: its rows' labels with a count for every column.

    declared: columns that are published without any noise. margins: by row and column the estimate of the count, with
    its margin, or None.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[int]]]
    declared: Sequence[str] = ()
    margins: Sequence[Sequence[EstimatedCount | None]] = ()

    def margin(self, row: int, column: int) -> EstimatedCount | None:
        """Return the estimate of a count with its margin, or None."""
        of_row = self.margins[row] if row < len(self.margins) else ()
        return of_row[column] if column < len(of_row) else None

    def has_margins(self, column: int) -> bool:
        """Return whether any count of a column has an estimate."""
        return any(self.margin(row, column) for row in range(len(self.rows)))


@dataclass(frozen=True, kw_only=True)
class GeounitView(View):
    """A geounit: its tables, the regions that contain it and those within it.

    totals: the figures at the top of the page, by their words. margin: a sentence on margins. outside: advice on
    released counts outside their interval.
    """

    kind: str
    code: str
    key: str
    totals: Mapping[str, int]
    total_margin: float | None
    margin: str
    around: Sequence[tuple[str, Links]]
    tables: Sequence[CountTable]
    choices: Links
    chosen: str
    margins: Sequence[EstimatedCount]
    outside: str
    view: str = "geounit"

    def margin_tables(self) -> dict[str, list[tuple[str, EstimatedCount]]]:
        """Return the margins with their counts in words, by table; first, without a title, those outside P1 to P5."""
        found: dict[str, list[tuple[str, EstimatedCount]]] = {"": []}
        for one in self.margins:
            title, words = CELLS.get(one.count, ("", count_title(one.count)))
            found.setdefault(title, []).append((words, one))
        return found

    def table(self) -> Table:
        """Return every count of every table with its estimate, then the estimates of other counts."""
        cells = [
            (table.title, label, column, value, table.margin(row, at))
            for table in self.tables
            for row, (label, values) in enumerate(table.rows)
            for at, (column, value) in enumerate(zip(table.columns, values, strict=True))
        ]
        there = {(one.product, one.count) for *_, one in cells if one}
        for of, others in self.margin_tables().items():
            cells += [
                (of or "Other counts", words, one.product, one.released, one)
                for words, one in others
                if (one.product, one.count) not in there
            ]
        rows = [
            [self.key, *cell, *((one.margin, one.estimate, one.error, one.why) if one else (None, None, None, ""))]
            for *cell, one in cells
        ]
        names = ["GEOUNIT", "TABLE", "ROW", "COLUMN", "COUNT", "MARGIN", "ESTIMATE", "STANDARD_ERROR", "NO_MARGIN"]
        return names, rows


class TopDownPages(ReleasePages):
    """The views of a TopDown release by their addresses."""

    words = ReleasePages.words | {
        "geounit": "An area of census geography, such as a state, a tract or a block.",
        "spine": "The levels of geounits on which counts were measured with noise and estimated. Its block groups and "
        "tracts may differ from those of the tables, so that few of them make up a place or another area.",
        "off-spine entity": "An area that is not a geounit of the spine, such as a place. Its counts are sums of "
        "blocks.",
        "declared": "Published without noise: the total population of each state, and in every block the number of "
        "housing units and of facilities by type.",
    }

    states_of_nation = staticmethod(states_of_nation)

    def __init__(self, folder: Path, manifest: Mapping[str, Any], scope: Scope) -> None:
        if scope.level is not None:
            raise Refused("--scope of a TopDown release is a state: 44, Rhode Island")
        super().__init__(folder, manifest, scope)
        self.products: list[str] = list(manifest["products"])
        self.states: list[str] = [state for state in manifest["states"] if scope.state in (None, state)]
        if not self.states:
            raise Refused(f"the release has no state {scope.state}; it has {', '.join(manifest['states'])}")
        self._database = next(iter(self.tables.values())).database

    def view(self, asked: Mapping[str, str]) -> View:
        """Return the view at an address; the first page explains how to read the counts and their margins."""
        view = super().view(asked)
        if asked.get("view", "overview") not in ("overview", ""):
            return view
        on_margins = self._on_margins(at := self.confidence_in(asked), given=self._has("margins/"))
        return replace(view, reading=caveat(self.manifest, f"{OVERVIEW} {on_margins}", at))

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield how the release was made."""
        yield "spine", self.manifest["spine"]["kind"]
        yield "estimator", self.manifest["options"].get("estimator", "topdown")
        if "ESTIMATE" in self.manifest:
            yield "estimated from published measurements", self.manifest["ESTIMATE"]
        yield from super().facts()

    @cached_property
    def regions(self) -> set[Region]:
        """The nation and the geounits of its tables that have a region type."""
        nation = {Region("USA", NATION)} if self.nation and self.scope.state is None else set()
        return super().regions | nation | {Region.named("STATE", state) for state in self.states}

    def found_by_code(self, text: str) -> Sequence[Region]:
        """Return the block group or the block with a code."""
        kind = {12: "BLOCK_GROUP", 15: "BLOCK"}.get(len(text), "")
        return [Region(kind, text)] if kind and self._is_there(Region(kind, text)) else []

    def region(self, region: Region, asked: Mapping[str, str]) -> GeounitView:
        """Return a geounit: all tables or one, and the geounits around it."""
        if region not in self.regions and not (region.type in LEVELS and self._is_there(region)):
            raise NotThere(f"{region.key} is not a geounit of this release")
        chosen, offered = asked.get("table", ""), [name for product in self.products for name in OF_PRODUCT[product]]
        if chosen and chosen not in offered:
            raise NotThere(f"{chosen!r} is not a table of this geounit; it has {', '.join(offered)}")
        at = self.confidence_in(asked)
        margins = list(self._margins(region, at))
        tables = [table for product in self.products for table in self._tables_of(region, product, margins)]
        total = next((one.margin for one in margins if (one.product, one.count) == ("persons", "total")), None)
        given = any(one.margin is not None for one in margins)
        around = self.around(region)
        return GeounitView(
            title=self.name(region),
            reading=caveat(self.manifest, READING, at),
            kind=title(region.type),
            code="" if region.type == "USA" else region.id,
            key=region.key,
            totals=dict(_totals(tables)),
            total_margin=total,
            margin=self._on_margins(at, given=given or bool(margins)),
            around=[*around, *self._maps_inside(region)],
            tables=[one for one in tables if one.name == chosen or (not chosen and one.name != "races")],
            choices=[(name, TITLES[name]) for name in offered],
            chosen=chosen,
            margins=margins,
            outside=OUTSIDE if any(one.outside(at) for one in margins) else "",
        )

    def _on_margins(self, at: Confidence, *, given: bool) -> str:
        """Return a sentence on margins; `given`: whether counts of the view have margins."""
        if "NOT_PRIVATE" in self.manifest:
            return ""
        if given and not at.is_released:
            return f"A margin is {at.deviations:.2f} standard errors of the unbiased estimate from all noisy answers."
        none = NONE_HERE if self._has("margins/") else NO_MARGIN
        return WITH_MARGINS if given else none + ANSWERS * self._has("measurements/", "nmf/")

    def _has(self, *folders: str) -> bool:
        """Return whether the release has files in any of these folders."""
        return any(name.startswith(folders) for name in self.manifest["files"])

    # -- what is around -----------------------------------------------------------------------------------------------

    def regions_above(self, region: Region) -> list[Region]:
        """Return the geounits that contain a geounit, the smallest first; a place may be in several counties."""
        bare, digits = region.type.removeprefix("PR-"), {"COUSUB": 6, "PLACE": 3}
        width = INSIDE.get(bare, digits.get(bare, 0))
        above = [Region.named(kind, region.id[:size]) for kind, size in INSIDE.items() if size < width]
        nation = [Region("USA", NATION)] if region.type != "USA" else []
        return [one for one in (*reversed(above), *nation) if one in self.regions or one.type == "BLOCK_GROUP"]

    def around(self, region: Region) -> list[tuple[str, Links]]:
        """Return headings with links to the geounits that contain a geounit, and to those within it."""
        found = super().around(region)
        if parts := [one for one in self._by_type.get("COUSUB", ()) if one.id[:5] == region.id]:
            found.append((number_within("COUSUB", len(parts)), self._named(parts)))
        finer = {"TRACT": "BLOCK_GROUP", "BLOCK_GROUP": "BLOCK"}.get(region.type.removeprefix("PR-"))
        if finer:
            codes = self._codes(finer, region.id)
            links = [(code, f"region/{finer}/{code}") for code in codes[:LISTED]]
            found.append((number_within(finer, len(codes)), links))
        return found

    def _maps_inside(self, region: Region) -> list[tuple[str, Links]]:
        """Return links to the maps of the regions within a geounit, for persons and for other counts."""
        prefix = "" if region.type == "USA" else f"&by_geounit={region.id}*"
        kinds = [kind for kind in (*region.child_types, "COUSUB") if kind in self.places.types and kind != "AIANNH"]
        links = [
            (title(kind, several=True), f"table-map/{name}&by_statistic=total{prefix}")
            for kind in dict.fromkeys(kinds)
            for name, table in self.tables.items()
            if table.summed and kind in table.types and "persons" in name and region.type not in ENTITIES
            if table.number(table.select({"geounit": region.id + "*"} if prefix else {}))
        ]
        return [("Maps", links)] if links else []

    def _codes(self, kind: str, prefix: str) -> list[str]:
        """Return the public codes of the block groups or blocks of a prefix."""
        source = self._source("invariants", self.products[0], "BLOCK", prefix[:2])
        code = f"{PUBLIC_BLOCK}[:{INSIDE[kind]}]"
        query = f"SELECT DISTINCT {code} FROM {source} WHERE starts_with({code}, $prefix) ORDER BY 1"
        return [code for (code,) in self._database.ask(query, {"prefix": prefix})] if source else []

    def _is_there(self, region: Region) -> bool:
        if region.type in ("BLOCK_GROUP", "BLOCK"):
            return len(region.id) == INSIDE[region.type] and bool(self._codes(region.type, region.id))
        return False

    # -- counts -------------------------------------------------------------------------------------------------------

    def _source(self, kind: str, product: str, region_type: str, state: str, *, tabulated: bool = False) -> str:
        """Return the SQL source of a level's files of a kind, for a state or, if "", for all; "" without files."""
        level = LEVELS[region_type.removeprefix("PR-")]
        family = "entities/" if region_type in ENTITIES else "tabulation/" if tabulated else ""
        states = ["US"] if level == "US" else [state] if state else self.states
        names = [f"{kind}/{product}/{family}{level}/{one}.parquet" for one in states]
        found = [name for name in names if name in self.manifest["files"]]
        return self._database.parquet(*found) if found else ""

    def _where(self, region: Region) -> tuple[str, dict[str, str], str]:
        """Return the condition for a geounit's rows, its parameters, and the state whose files have them."""
        state = "" if region.type in ("USA", "AIANNH") else region.id[:2]
        if region.type == "USA" or region.type.endswith("STATE"):  # a state may be in two parts on the spine
            return "true", {}, state
        return f"{PUBLIC_BLOCK if region.type == 'BLOCK' else 'geounit'} = $geounit", {"geounit": region.id}, state

    def _cells(self, region: Region, product: str) -> dict[int, int]:
        """Return the nonzero cells of a geounit's histogram."""
        where, given, state = self._where(region)
        tabulated = region.type not in ("USA", "STATE", "PR-STATE", "BLOCK", *ENTITIES)
        source = self._source("histograms", product, region.type, state, tabulated=tabulated)
        query = f"SELECT cell, sum(count)::BIGINT FROM {source} WHERE {where} GROUP BY cell"
        return dict(self._database.ask(query, given)) if source else {}

    def _declared(self, region: Region) -> list[int] | None:
        """Return housing units and facilities by type, published without noise; None for off-spine entities."""
        if region.type in ENTITIES:
            return None
        where, given, state = self._where(region)
        kind = region.type
        if given:
            kind, where = "BLOCK", f"starts_with({PUBLIC_BLOCK}, $geounit)"
        source = self._source("invariants", self.products[0], kind, state)
        sums = ", ".join(f"sum({name})::BIGINT" for name in QUARTERS)
        ((first, *others),) = self._database.ask(f"SELECT {sums} FROM {source} WHERE {where}", given)
        return None if first is None else [first, *others]

    def _margins(self, region: Region, at: Confidence) -> Iterator[EstimatedCount]:
        """Yield the margins of a geounit's counts; none for an AIAN area in several states, as they do not add up."""
        where, given, state = self._where(region)
        for product in self.products:
            tabulated = region.type not in ("USA", "BLOCK", *ENTITIES)
            source = self._source("margins", product, region.type, state, tabulated=tabulated)
            query = f"SELECT count, released, margin, estimate, standard_error FROM {source} WHERE {where}"
            rows = self._database.ask(query, given) if source else []
            for count, released, margin, *estimate in rows if len({row[0] for row in rows}) == len(rows) else ():
                wider = None if margin is None else at.deviations / Z95 * margin
                yield EstimatedCount(product, count, released, wider, *estimate)

    def _tables_of(self, region: Region, product: str, margins: Sequence[EstimatedCount]) -> list[CountTable]:
        """Return the tables from a geounit's histogram of a product, with the margins of its counts."""
        known = {one.count: one for one in margins if one.product == product}
        crossed = partial(_cross, cells=self._cells(region, product), margins=known)
        if product == "units":
            return [
                crossed("housing", UNITS, [(cell.words, cell.where) for cell in UNITS.tables["H1"]], [("units", {})])
            ]
        races = [("all persons", {}), *((one.words, one.where) for one in PERSONS.counts if one.quantity == "race")]
        quarters = crossed("quarters", PERSONS, _coordinates(HHGQ), [("persons", {}), PERSON_COLUMNS[2]])
        declared = self._declared(region)
        return [
            crossed("race", PERSONS, races, PERSON_COLUMNS),
            _with_declared(quarters, declared) if declared else quarters,
            crossed("races", PERSONS, _coordinates(CENRACE), PERSON_COLUMNS),
        ]

    # -- what others ask for ------------------------------------------------------------------------------------------

    def address(self, region: str | None, iteration: str | None, table: str | None) -> dict[str, str]:
        """Return the address of the view of a geounit and a table. Raises NotThere or Refused."""
        if iteration is not None:
            raise Refused("--iteration is for releases of the Detailed DHC-A; --table names a table of a geounit")
        if region is None:
            return super().address(region, iteration, table)
        return {"view": f"region/{self.index.region(region).key}", "table": table or ""}

    def addresses(self) -> Iterator[Mapping[str, str]]:
        """Return the addresses in a copy: those of every release, races, and block groups."""
        for asked in super().addresses():
            yield asked
            if asked["view"].startswith("region/") and "persons" in self.products:
                yield {**asked, "table": "races"}
        for state in self.states:
            for code in self._codes("BLOCK_GROUP", state):
                yield {"view": f"region/BLOCK_GROUP/{code}"}


def _totals(tables: Sequence[CountTable]) -> Iterator[tuple[str, int]]:
    """Yield the figures at the top of a geounit's page."""
    first = {table.name: table.rows[0][1] for table in tables}
    if persons := first.get("race"):
        yield "persons", persons[0]
        yield "18 and over", persons[2]
    for table in tables:
        if table.name == "housing":
            yield "housing units", table.rows[0][1][0]
            yield "occupied", table.rows[1][1][0]


def _coordinates(axis: Axis) -> list[tuple[str, Condition]]:
    """Return label and condition of every coordinate of an axis."""
    return [(label, {axis.name: {at}}) for at, label in enumerate(axis.labels)]


def _cross(
    name: str,
    product: Product,
    rows: Sequence[tuple[str, Condition]],
    columns: Sequence[tuple[str, Condition]],
    *,
    cells: Mapping[int, int],
    margins: Mapping[str, EstimatedCount],
) -> CountTable:
    """Return a table that counts the cells that meet both a row's condition and a column's."""
    counted: list[Count] = [*product.counts, *chain.from_iterable(product.tables.values())]
    known = [(dict(one.where), margins[one.name]) for one in counted if one.name in margins]

    def margin(row: Condition, column: Condition) -> EstimatedCount | None:
        both = {**row, **column}
        return next((found for where, found in known if where == both and len(both) == len(row) + len(column)), None)

    histogram = np.zeros((product.cells, 1), np.int64)
    histogram[list(cells), 0] = list(cells.values())
    of_row, of_column = (matrix(product.axes, [where for _, where in side]) for side in (rows, columns))
    counts = of_row.T @ (histogram * of_column)
    labelled = [(label, values) for (label, _), values in zip(rows, counts.tolist(), strict=True)]
    found = [[margin(row, column) for _, column in columns] for _, row in rows] if known else []
    return CountTable(name, TITLES[name], [label for label, _ in columns], labelled, margins=found)


def _with_declared(table: CountTable, declared: Sequence[int]) -> CountTable:
    """Return a table with a column of declared numbers."""
    rows = [(label, [*values, number]) for (label, values), number in zip(table.rows, declared, strict=True)]
    added = ["housing units or facilities"]
    return CountTable(table.name, table.title, [*table.columns, *added], rows, added, table.margins)
