"""The pages of a Detailed DHC-A release besides those of its tables: groups and iterations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from flows.reports.show.geography import title
from flows.reports.show.group import Group, SexRatio, sex_ratio
from flows.reports.show.margins import caveat, margin_of_cells
from flows.reports.show.release_pages import ReleasePages
from flows.reports.show.scope import Scope
from flows.reports.show.search import Code, SearchResult
from flows.reports.show.tables.table import ReleaseTable, Selection
from flows.reports.show.tables.views import AcrossView, TableView, as_options, chosen, is_mapped
from flows.reports.show.view import Confidence, Links, NotThere, Table, View, link
from privacy.noise.margins import margin_of_error
from tasks.geography.regions import Region
from tasks.releases.description import Noise
from tasks.releases.manifest import read_law
from tasks.releases.pages import number
from tasks.safetab.levels import ALL_LEVELS, ITERATION_LEVEL_NAMES, Level
from tasks.safetab.persons.details import CELLS_OF, SEXES, SHAPES, TABLE_NAMES
from tasks.safetab.persons.pyramid import Pyramid, PyramidCell, pyramid

ITERATION = "ITERATION_CODE"
LEVELS = {str(level): level for level in ALL_LEVELS}
SHAPE_OF_CELLS = {cells: shape for shape, cells in CELLS_OF.items()}
ITERATION_WORDS = {
    "iteration": "A race or ethnicity group that is counted, such as Albanian alone. A person may be in many, so they "
    "do not add up to the population.",
    "alone": "Counts persons whose answers are all in the group; “alone or in any combination” counts those with at "
    "least one answer in it.",
    "Regional": "An iteration that is broad, such as European.",
    "Detailed": "An iteration that is narrow, such as Albanian; most are in a Regional one.",
    "margin": "Random noise was added to every count to protect the persons in it. In at least {percent} of 100 runs "
    "the noise is no larger than the margin.",
    "suppressed": "Not published, because the noisy total was too small.",
    "not tabulated": "Not measured by this run.",
}
ITERATION_KINDS = {
    "alone": "Alone",
    "combination": "Alone or in any combination",
    "ethnicity": "Hispanic or Latino",
    "": "All iterations",
}
MARGIN = (
    "In at least 95 of 100 runs the noise is no larger than the margin. This holds over all runs, whether or not they "
    "would have published this group. The margin covers the noise alone, not the errors of the census itself."
)
MISSING = (
    "No count does not mean a count of 0. The reason follows from a noisy total or from the run's settings; the group "
    "may be empty or not."
)
ITERATIONS = (
    "Regional iterations, and the Detailed ones in each: all their codes are in it. A person may be in several, so "
    "they do not add up."
)


@dataclass(frozen=True)
class Iteration:
    """A characteristic iteration: its code, name and level (1 Regional, 2 Detailed), and where it is tabulated.

    total_only: whether nation and state publish only its total. kind: `alone`, `combination` or `ethnicity`. regional:
    the code of the Regional iteration that contains a Detailed one, or "".
    """

    code: str
    name: str
    level: int
    nation_state: bool
    sub_state: bool
    total_only: bool
    kind: str = ""
    regional: str = ""

    @property
    def link(self) -> tuple[str, str]:
        """Its name and the address of its page."""
        return self.name, f"code/{ITERATION}/{self.code}"


@dataclass(frozen=True, kw_only=True)
class GroupView(View):
    """One population group.

    why_no_more: the reason why its table has no more ages. coterminous: words and addresses of groups with the same
    count. inside: headings with links to the tables and maps of the same iteration within its region.
    """

    group: Group
    why_no_more: str
    pyramid: Pyramid | None
    sex_ratio: SexRatio | None
    coterminous: Links
    parents: Sequence[Group]
    inside: Sequence[tuple[str, Links]]
    view: str = "group"

    def table(self) -> Table:
        """Return the group's total and cells, then the groups that contain it."""
        columns = ["OF", "REGION_TYPE", "REGION_ID", "REGION_NAME", ITERATION, "ITERATION_NAME", "AGE", "SEX", "STATUS"]
        columns += ["COUNT", "MOE", "TABLE", "WHY", "ESTIMATE", "ESTIMATE_MOE"]

        def keys(one: Group) -> list[Any]:
            kind, region, code = one.parts
            return ["group" if one == self.group else "within", kind, region, one.region, code, one.iteration]

        def total(one: Group) -> list[Any]:
            counts = [one.count, one.margin, one.shape, one.why, one.estimate, one.estimate_margin]
            return [*keys(one), "all ages", "both", one.status, *counts]

        own, status = keys(self.group), self.group.status
        cells = [
            [*own, row.label, SEXES[cell.sex], status, *cell.counts[:2], "", "", *cell.counts[2:]]
            for row in (self.pyramid.rows() if self.pyramid else ())
            for cell in (row.male, row.female)
        ]
        return columns, [total(self.group), *cells, *map(total, self.parents)]


@dataclass(frozen=True, kw_only=True)
class IterationsView(View):
    """All iterations by kind: a heading, Regional iterations with their Detailed ones, and the others."""

    kinds: Sequence[tuple[str, Sequence[tuple[Iteration, Sequence[Iteration]]], Sequence[Iteration]]]
    view: str = "iterations"

    def table(self) -> Table:
        """Return every iteration with the Regional one that contains it."""
        names = {one.code: one.name for _, regional, _ in self.kinds for one, _ in regional}
        rows = [
            [kind, one.code, one.name, ITERATION_LEVEL_NAMES[one.level], one.regional, names.get(one.regional, "")]
            for kind, regional, others in self.kinds
            for one in [*(each for above, below in regional for each in (above, *below)), *others]
        ]
        return ["KIND", ITERATION, "ITERATION_NAME", "LEVEL", "REGIONAL_CODE", "REGIONAL_NAME"], rows


class DhcaTables(ReleasePages):
    """The views that the tables of the Detailed DHC-A have, in a release and from `das tabulate`."""

    selected = (
        "This holds over all runs: where small groups are suppressed, small counts that were published are too high on "
        "average."
    )

    words = ReleasePages.words | ITERATION_WORDS

    def __init__(self, folder: Path, manifest: Mapping[str, Any], scope: Scope) -> None:
        super().__init__(folder, manifest, scope)
        self.levels: dict[Level, Mapping[str, Any]] = {LEVELS[name]: of for name, of in manifest["levels"].items()}


class DetailedDhcaPages(DhcaTables):
    """The views of a Detailed DHC-A release by their addresses."""

    lists_missing = True

    @cached_property
    def iterations(self) -> dict[str, Iteration]:
        """The iterations of the release by code."""
        whole = slice(0, 10**6)
        tables = self.tables["tabulated-iterations"], self.tables["tabulated-hierarchy"]
        iterations, hierarchy = (table.rows(Selection(), "", whole) for table in tables)
        above = {code: place for code, *place in hierarchy}
        return {
            code: Iteration(code, name, int(level), *(flag == "True" for flag in flags), *above.get(code, ("", "")))
            for code, name, level, *flags in iterations
        }

    @cached_property
    def _coterminous(self) -> dict[Region, list[Region]]:
        """The regions that are made of the same blocks, by each of them."""
        sets = [[Region(*one.split(" ", 1)) for one in members] for members in self.manifest["coterminous_sets"]]
        return {region: members for members in sets for region in members}

    def view(self, asked: Mapping[str, str]) -> View:
        """Return the view at an address. Raises NotThere for an unknown address."""
        match asked.get("view", "overview").split("/"):
            case ["iterations"]:
                return self._iterations()
            case ["group", kind, number, code]:
                return self.group_view(Region(kind, number), code, self.confidence_in(asked))
        return super().view(asked)

    def code(self, code: Code, asked: Mapping[str, str]) -> AcrossView:
        """Return the rows of an iteration in all tables, with the iterations above and below it."""
        own = self.iterations[code.code]
        above = [self.iterations[own.regional].link] if own.regional else []
        below = [one.link for one in self._detailed.get(own.code, ())]
        lists = [("In", [*above, ("all iterations", "iterations")])]
        return replace(
            super().code(code, asked),
            around=lists + [(f"{len(below):,} Detailed iterations in it", below)] * bool(below),
        )

    def table_view(self, table: ReleaseTable, asked: Mapping[str, str], *, plain: bool = False) -> TableView:
        """Return a page of a table; totals of chosen regions or iterations get the ages of each group's table."""
        view, by = super().table_view(table, asked, plain=plain), chosen(table, asked)
        cells = self.tables.get(view.name.replace("t1-", "t2-"))
        if not view.name.startswith("t1-") or cells is None or not by or not view.page.total:
            return view
        selection = cells.select(by, asked.get("q", ""))
        groups = f"SELECT REGION_ID, {ITERATION}, count(*) // 2 - 1 FROM {cells.rows_of} WHERE {selection.where}"
        rows = cells.database.ask(f"{groups} GROUP BY ALL", selection.given)
        ages = {(region, code): f"{of}" for region, code, of in rows}
        names = [column.name for column in table.columns]
        place, code = names.index("REGION_ID"), names.index(ITERATION)
        level = next(level for level in self.levels if level.slug == view.name.removeprefix("t1-"))
        alone, starts = view.page.total - len(ages), self.levels[level]["thresholds"][0]
        sentence = f"{number(alone)} of {number(view.page.total)} groups have a total alone: ages are given from "
        return replace(
            view,
            ages=[ages.get((row[place], row[code]), "none") for row in view.page.rows],
            about_ages=f"{sentence}{self._first_total(level, self.confidence_in(asked))} of {starts:,} on."
            if alone
            else "",
        )

    def _first_total(self, level: Level, at: Confidence) -> str:
        """Return the noisy total that decides the ages of a group's table, in words."""
        query = (self.levels[level].get("queries") or {}).get("stage_1")
        if query is None:
            return "a first total"
        margin = margin_of_cells([(read_law(query), 1)], at)
        return f"a noisy first total (a separate answer, ± {margin:,}, not published)"

    @cached_property
    def _detailed(self) -> Mapping[str, list[Iteration]]:
        """The Detailed iterations within each Regional one, by its code."""
        found: dict[str, list[Iteration]] = {}
        for one in self.iterations.values():
            found.setdefault(one.regional, []).append(one)
        return found

    def _iterations(self) -> IterationsView:
        kinds = []
        for kind, heading in ITERATION_KINDS.items():
            own = sorted((one for one in self.iterations.values() if one.kind == kind), key=lambda one: one.code)
            regional = [(one, self._detailed.get(one.code, [])) for one in own if one.level == 1]
            others = [one for one in own if one.level > 1 and not one.regional]
            kinds += [(heading, regional, others)] if own else []
        return IterationsView(title="Iterations by region of the world", reading=ITERATIONS, kinds=kinds)

    # -- one group ----------------------------------------------------------------------------------------------------

    def _table(self, table: str, region_type: str, code: str) -> ReleaseTable | None:
        """Return the table for a region type and an iteration: t1, t2, estimates-t1, estimates-t2."""
        return self.tables.get(f"{table}-{Level(region_type, self.iterations[code].level).slug}")

    def _rows(self, table: str, region: Region, code: str) -> Sequence[Mapping[str, Any]]:
        """Return the rows of a group in a table by column, as in its files."""
        if (found := self._table(table, region.type, code)) is None:
            return ()
        grouped = found.database.grouped(found.rows_of, ("REGION_ID", ITERATION))
        if grouped is None:
            query = f"SELECT * FROM {found.rows_of} WHERE REGION_ID = $region AND {ITERATION} = $code"
            rows = found.database.ask(query, {"region": region.id, "code": code})
        else:
            rows = grouped.get((region.id, code), [])
        names = [column.name for column in found.columns]
        return [dict(zip(names, row, strict=True)) for row in rows]

    def group(self, region: Region, code: str, at: Confidence) -> Group:
        """Return a group. Raises NotThere for an unknown iteration."""
        if code not in self.iterations:
            raise NotThere(f"{code!r} is not an iteration of this release")
        named = f"{region.key}/{code}", self.iterations[code].name, self.name(region), self.within(region)
        row = next(iter(self._rows("t1", region, code)), None)
        if row is None:
            return Group(*named, *self._explain(region, code))
        shape = SHAPE_OF_CELLS.get(len(self._rows("t2", region, code)) - 2, SHAPES[0])
        noise = self._noise(region, code, shape, row["MOE"])
        margin = margin_of_cells([(read_law(noise), int(noise["cells"]))], at) if noise else row["MOE"]
        estimate = next(iter(self._rows("estimates-t1", region, code)), {}) if self.estimated(at) else {}
        ends = estimate.get("ESTIMATE"), estimate.get("MOE")
        return Group(*named, "published", "", row["COUNT"], margin, TABLE_NAMES[shape], noise, *ends)

    def _noise(self, region: Region, code: str, shape: str, margin: int) -> Noise | None:
        """Return the law of a cell for which a total has this margin, and its cells; None for an exact count.

        The law may be that of a coterminous region, which gave the count. If two laws fit, return the wider.
        """
        cells, fitting = CELLS_OF[shape], []
        for member in self._coterminous.get(region, [region]):
            facts = self.levels.get(Level(member.type, self.iterations[code].level), {})
            for detail, query in (facts.get("queries") or {}).items():
                is_of_total = detail == "stage_2" or (detail == "total_only" and cells == 1)
                if is_of_total and margin_of_error(read_law(query), cells) == margin:
                    fitting.append({**query, "cells": cells})
        return max(fitting, key=lambda query: read_law(query).variance(), default=None)

    def cells(self, group: Group, at: Confidence) -> list[PyramidCell]:
        """Return the rows of a group's table by sex and age; empty for a group with only a total."""
        kind, number, code = group.parts
        keys, region = ("AGESTART", "AGEEND", "SEX"), Region(kind, number)
        estimates = {
            tuple(row[key] for key in keys): (row["ESTIMATE"], row["MOE"])
            for row in (self._rows("estimates-t2", region, code) if self.estimated(at) else ())
        }
        rows = self._rows("t2", region, code)
        found = []
        for row in rows:
            start, end, sex = ages = tuple(row[key] for key in keys)
            margin = row["MOE"]
            if group.noise and not at.is_released:
                summed = len(rows) // len(SEXES) - 1 if start == "*" else 1
                margin = margin_of_cells([(read_law(group.noise), summed)], at)
            first, last = (None, None) if start == "*" else (int(start), int(end))
            found.append(PyramidCell(first, last, int(sex), row["COUNT"], margin, *estimates.get(ages, ())))
        return found

    def _explain(self, region: Region, code: str) -> tuple[Literal["suppressed", "not tabulated"], str]:
        """Return the status of a group without a count, and the reason in a sentence."""
        iteration = self.iterations[code]
        level, kinds = Level(region.type, iteration.level), title(region.type, several=True)
        facts = self.levels.get(level)
        if facts is None or self.scope.level not in (None, level):
            return "not tabulated", f"The run did not measure {level.iterations} iterations for {kinds}."
        if not (iteration.nation_state if level.nation_or_state else iteration.sub_state):
            return "not tabulated", f"This iteration is not tabulated for {kinds}."
        if facts["suppressed_up_to"] is None:
            return "not tabulated", f"Nothing is suppressed for {kinds}, so this group was not measured."
        return "suppressed", f"Suppressed: a noisy total of at most {facts['suppressed_up_to']:,}."

    def why_missing(self, table: ReleaseTable, codes: Mapping[str, str], at: Confidence) -> tuple[str, str]:
        """Return the status of a group that has no count, or a count without ages, and the reason."""
        region, code = Region(codes["REGION_TYPE"], codes["REGION_ID"]), codes[ITERATION]
        if not table.resource.name.endswith(f"-{Level(region.type, self.iterations[code].level).slug}"):
            return super().why_missing(table, codes, at)  # for iterations of the other level
        if table.resource.name.startswith("t1") or not next(iter(self._rows("t1", region, code)), None):
            return self._explain(region, code)
        return "with a total alone", self._explain_table(self.group(region, code, at), at)

    def _explain_table(self, group: Group, at: Confidence) -> str:
        """Return the reason why a published group has no more ages, or ""."""
        kind, _, code = group.parts
        level = Level(kind, self.iterations[code].level)
        shape = next(name for name, words in TABLE_NAMES.items() if words == group.shape)
        more = SHAPES.index(shape) + 1
        if level.nation_or_state and self.iterations[code].total_only:
            return "For the nation and states this iteration is tabulated as a total alone."
        if more == len(SHAPES):
            return ""
        starts = self.levels[level]["thresholds"][more - 1]
        sentence = f"{TABLE_NAMES[SHAPES[more]].capitalize()} is for groups with"
        return f"{sentence} {self._first_total(level, at)} of {starts:,} or more."

    def group_view(self, region: Region, code: str, at: Confidence) -> GroupView:
        """Return one group: its count, its table, and the same iteration in other regions."""
        if region not in self.regions:
            raise NotThere(f"{region.key} is not a region of this release")
        group = self.group(region, code, at)
        cells = self.cells(group, at) if group.count is not None else []
        table = pyramid(cells) if cells else None
        reading = MISSING if group.count is None else caveat(self.manifest, MARGIN, at)
        return GroupView(
            title=group.title,
            reading=reading,
            group=group,
            why_no_more=self._explain_table(group, at) if group.shape else "",
            pyramid=table,
            sex_ratio=sex_ratio(table, at) if table else None,
            coterminous=[
                (f"{title(other.type)} {self.name(other)}", f"group/{other.key}/{code}")
                for other in self._coterminous.get(region, ())
                if other != region and other in self.regions
            ],
            parents=[self.group(parent, code, at) for parent in self.regions_above(region)],
            inside=list(self._inside(region, code)),
        )

    def _inside(self, region: Region, code: str) -> Iterator[tuple[str, Links]]:
        """Yield a heading with links for each type of regions within a region that publishes the iteration."""
        for kind in region.child_types if self.scope.complete_in(region) else ():
            by = {ITERATION: code} | ({"REGION_ID": f"{region.child_prefix}*"} if region.child_prefix else {})
            links = []
            for name, words in (("t1", "totals"), ("t2", "sex by age")):
                table = self._table(name, kind, code)
                if table and table.number(table.select(by)):
                    links.append((words, link(f"table/{table.resource.name}", **as_options(by))))
                    if name == "t1" and is_mapped(table, self.places):
                        links.insert(0, ("map", link(f"table-map/{table.resource.name}", **as_options(by))))
            if links:
                yield f"Its {title(kind, several=True)}", links

    # -- links --------------------------------------------------------------------------------------------------------

    def begin(self) -> Links:
        """Return the links to start with."""
        return [*super().begin(), ("iterations by region of the world", "iterations")]

    def links_of(self, table: ReleaseTable, codes: Mapping[str, Any]) -> dict[str, str]:
        """Return the addresses of the pages of a row's codes, and of its group."""
        links = super().links_of(table, codes)
        if table.count and {"REGION_TYPE", "REGION_ID", ITERATION} <= codes.keys():
            links[table.count.name] = f"group/{codes['REGION_TYPE']}/{codes['REGION_ID']}/{codes[ITERATION]}"
        return links

    def pair(self, region: Region, code: Code, at: Confidence) -> SearchResult:
        """Return the answer for a group, with its count."""
        group = self.group(region, code.code, at)
        count = group.status if group.count is None else f"{number(group.count)} ± {number(group.margin or 0)}"
        return SearchResult(f"group/{group.key}", "group", group.key, group.title, count=count)

    def address_of_pair(self, region: Region, code: Code) -> dict[str, str]:
        """Return the address of a group."""
        return {"view": f"group/{region.key}/{code.code}"}

    def addresses(self) -> Iterator[Mapping[str, str]]:
        """Return the addresses in a copy: those of every release, and groups with a table by sex and age."""
        yield from super().addresses()
        yield {"view": "iterations"}
        for name, table in self.tables.items():
            if name.startswith("t2-"):
                query = f"SELECT DISTINCT REGION_TYPE, REGION_ID, {ITERATION} FROM {table.rows_of} ORDER BY ALL"
                yield from ({"view": f"group/{'/'.join(row)}"} for row in table.database.ask(query))


class TabulatedPages(DhcaTables):
    """The views of the tables of `das tabulate`, which have fewer groups than their release."""

    nothing = (
        "Nothing was published here: the group was suppressed, by the run or on tabulation (changed-groups.csv), or it "
        "was not tabulated."
    )
