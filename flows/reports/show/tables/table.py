"""A table of a release, read by DuckDB in place: filtered, sorted, page by page, and summed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import product, starmap
from operator import attrgetter
from sys import intern
from typing import Any

from flows.reports.show.database import Database, Words
from flows.reports.show.margins import margin_of_cells, most_cells
from flows.reports.show.scope import Scope
from flows.reports.show.search import matches, words_of
from flows.reports.show.view import RELEASED, Confidence
from privacy.noise.exact import parse_exact
from privacy.noise.laws import Law
from tasks.geography.names import Names
from tasks.geography.regions import PUERTO_RICO, Region
from tasks.releases.datapackage import Resource
from tasks.releases.description import Column, Reference
from tasks.releases.manifest import read_law
from tasks.releases.release_database import identifier

CHOICES = 200  # values in a list of choices
MOST_UNITS = 20_000  # units of a level that can be found by code and name
MOST_NUMBERS = 1 << 17  # numbers of rows that are kept for a table
PLACES = 3  # decimals of margins that are multiples of standard errors
SQL_TYPES = {"integer": "BIGINT", "number": "DOUBLE"}
UNKNOWN = "no law gives the margin of this sum"
DEPENDENT = "the errors of these rows depend on each other: no law gives the margin of their sum"


@dataclass(frozen=True)
class Selection:
    """Rows of a table: a condition, the values of its parameters, and the columns for which one code was chosen.

    several: columns for which several codes were chosen, whose rows are shown next to each other.
    codes: the chosen codes by column, if they are the whole condition; else empty.
    """

    where: str = "true"
    given: Mapping[str, Any] = field(default_factory=dict)
    only: frozenset[str] = frozenset()
    several: frozenset[str] = frozenset()
    codes: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sum:
    """A sum of the counts of some rows. margin: None if it follows from no law, for the reason `why`."""

    rows: int
    total: float
    margin: float | None = None
    why: str = ""


@dataclass(frozen=True)
class ReleaseTable:
    """One table of a release.

    others: all tables of the release, by name. names: region names. exact: whether its counts have no noise. scope: the
    part of the release whose rows it has. summed: the histogram whose named counts are shown; these are not a table of
    the release.
    """

    database: Database
    resource: Resource
    others: Mapping[str, Resource] = field(repr=False)
    names: Names = field(repr=False)
    exact: bool
    scope: Scope
    summed: ReleaseTable | None = None

    def named_counts(self) -> ReleaseTable | None:
        """Return the table of the named counts of its cells, such as of a race; None if it is not such a histogram."""
        listing = self.others.get(self.resource.sums)
        if listing is None or self.count is None:
            return None
        (cell,) = listing.references[0].columns
        name = next(replace(one, name=one.frame or one.name) for one in listing.columns if one.name != cell)
        columns = tuple(name if one.name == cell else one for one in self.columns)
        title, own = self.resource.title.replace("Histograms", "Counts"), f"{self.resource.name}-counts"
        resource = replace(self.resource, name=own, title=title, columns=columns, key=(), references=(), noise=())
        return replace(self, resource=resource, summed=self)

    @property
    def is_in_scope(self) -> bool:
        """Whether it has rows in the scope; for a table of counts only if its state or level is known."""
        state, level = self.scope.state, self.scope.level
        of_state = state is None or self.is_by_state or self.place or not self.count
        of_level = level is None or self.resource.level == level.name or not (self.resource.level or self.count)
        return bool(of_state and of_level and self.paths)

    @property
    def is_by_state(self) -> bool:
        """Whether each of its files is of one state."""
        return "state" in {**self.resource.where, **self.resource.parts}

    @property
    def paths(self) -> list[str]:
        """Its files; only those of the scope's state if each is of one state."""
        state = self.scope.state
        return [path for path, of in self.resource.files() if state is None or of.get("state", state) == state]

    @cached_property
    def place(self) -> Column | None:
        """The column with codes of regions, or None."""
        return next((column for column in self.columns if column.region and not column.digits), None)

    @cached_property
    def rows_of(self) -> str:
        """The SQL source of its rows: numbers as numbers, everything else as text."""
        rows = self._named_counts_of(self.summed) if self.summed else self._rows_in_files()
        return self.database.source(rows, self.paths)

    def _named_counts_of(self, histogram: ReleaseTable) -> str:
        listing = replace(histogram, resource=self.others[histogram.resource.sums])
        (cell,) = listing.resource.references[0].columns
        name = next(one.name for one in listing.columns if one.name != cell)
        chosen = [
            f"listing.{listing.sql(name)} AS {self.sql(one.name)}"
            if one not in histogram.columns
            else f"sum(histogram.{histogram.sql(one.name)})::BIGINT AS {self.sql(one.name)}"
            if one == histogram.count
            else f"histogram.{histogram.sql(one.name)}"
            for one in self.columns
        ]
        both = f"{histogram.rows_of} AS histogram JOIN {listing.rows_of} AS listing USING ({listing.sql(cell)})"
        return f"(SELECT {', '.join(chosen)} FROM {both} GROUP BY ALL)"

    def _rows_in_files(self) -> str:
        database, paths, delimiter = self.database, self.paths, self.resource.delimiter
        is_text = self.resource.is_text
        rows = database.text_table(*paths, delimiter=delimiter) if is_text else database.parquet(*paths)
        found = database.columns(paths[0], delimiter)
        names = [(identifier(one.name, found), _sql_type(one)) for one in self.columns]
        chosen = ", ".join(f"TRY_CAST({name} AS {kind}) AS {name}" for name, kind in names)
        return f"(SELECT {chosen} FROM {rows} WHERE {self._scope_condition()})"

    def _scope_condition(self) -> str:
        """Return the condition for rows of the scope's state, or of the nation."""
        if self.scope.state is None or self.is_by_state or self.place is None:
            return "true"
        code = f"starts_with({self.sql(self.place.name)}, {self.database.value(self.scope.state)})"
        return f"{self._kind} = 'USA' OR ({self._kind} NOT LIKE '%AIANNH' AND {code})"

    def sql(self, column: str) -> str:
        """Return the name of one of its columns in a query. Raises NotOfRelease for another name."""
        return identifier(column, self.resource.column_names)

    @property
    def columns(self) -> Sequence[Column]:
        """Its columns."""
        return self.resource.columns

    @property
    def of_units(self) -> list[Column]:
        """The columns that together name a unit of a declaration's level, the highest level first."""
        return [one for one in self.columns if one.level]

    def units(self) -> list[Sequence[str]]:
        """Return the codes of the units in its rows, each with its name or "" behind; empty if they are too many."""
        own = self.of_units
        names = [one for one in self.columns if one.role == "name" or one.name == own[-1].names]
        chosen = ", ".join([*(self._text_of(one) for one in own), self.sql(names[0].name) if names else "''"])
        rows = self.database.ask(f"SELECT DISTINCT {chosen} FROM {self.rows_of} ORDER BY ALL LIMIT {MOST_UNITS + 1}")
        return rows if len(rows) <= MOST_UNITS else []

    @property
    def count(self) -> Column | None:
        """The column of its counts, or None."""
        return next(iter(self.resource.with_role("count")), None)

    @property
    def margin(self) -> Column | None:
        """The column of the margins of its counts, or None."""
        found = [one for one in self.resource.with_role("margin") if self.count and one.of in ("", self.count.name)]
        return next(iter(found), None)

    @property
    def keys(self) -> list[Column]:
        """The columns to filter by: codes, names and whole numbers that are not measured."""
        own = self.resource.key
        kinds = ("string", "boolean") if own else ("string", "integer", "boolean")
        return [one for one in self.columns if not one.role and (one.type in kinds or one.name in own)]

    def words(self, column: Column) -> Words:
        """Return the words of a column's codes, from its categories, the regions, or a foreign key's table."""
        known, reference = self.database.words, self._reference(column)  # of all tables: a nation has 120,000 names
        if column.codes or (column.names and self.resource.is_tidy):
            key, read = f"{self.resource.paths[0]}: {column.name}", partial(self._words_beside, column)
        elif column.region:
            key, read = column.region, partial(self._words_of_regions, column.region)
        else:
            key, read = reference.table if reference else "", partial(self._words_of_key, reference)
        if key not in known:
            known[key] = Words(column.codes or read())
        return known[key]

    def _words_beside(self, column: Column) -> Mapping[str, str]:
        """Return the words of a column of tables/, which another one has; {} for units, whose codes nest."""
        if column.level:
            return {}
        table = replace(self, resource=next(one for one in self.others.values() if one.paths == self.resource.paths))
        chosen = f"{table.sql(column.name)}, {table.sql(column.names)}"
        return dict(self.database.ask(f"SELECT DISTINCT {chosen} FROM {table.rows_of}"))

    def _reference(self, column: Column) -> Reference | None:
        return next((one for one in self.resource.references if one.columns == (column.name,)), None)

    def is_named(self, column: Column) -> bool:
        """Return whether another table has names of a column's codes, as for iterations."""
        reference = self._reference(column)
        return bool(reference and reference.table in self.others and self.others[reference.table].with_role("name"))

    def words_of_code(self, name: str, code: str) -> str:
        """Return the words of a code of a column, or the code itself."""
        return next((self.words(column).get(code, code) for column in self.keys if column.name == name), code)

    def _words_of_regions(self, of: str) -> Mapping[str, str]:
        kinds = {of, PUERTO_RICO + of}
        return {region.id: name for region, name in self.names.items() if of.startswith("{") or region.type in kinds}

    def _words_of_key(self, reference: Reference | None) -> Mapping[str, str]:
        other = self.others.get(reference.table) if reference else None
        if other is None or reference is None:
            return {}
        table = replace(self, resource=other, scope=Scope(), summed=None)
        labels = other.with_role("name") or [one for one in other.columns if one.codes]
        chosen = ", ".join(map(table.sql, [*reference.key, *(one.name for one in labels)]))
        rows = self.database.ask(f"SELECT {chosen} FROM {table.rows_of}") if labels else []
        return {
            str(code): ", ".join(one.codes.get(value, str(value)) for one, value in zip(labels, values, strict=True))
            for code, *values in rows
        }

    @cached_property
    def types(self) -> frozenset[str]:
        """The types of the regions in its rows."""
        if self.place is None:
            return frozenset()
        query = f"SELECT DISTINCT {self._kind}, {self.sql(self.place.name)}[:2] FROM {self.rows_of}"
        return frozenset(self._region(*row).type for row in self.database.ask(query))

    def regions(self, selection: Selection | None = None) -> list[Region]:
        """Return the regions in its rows, sorted by code."""
        if self.place is None:
            return []
        if selection and (rows := self._rows_of_codes(selection, self._order("", selection), slice(None))) is not None:
            names, of = [one.name for one in self.columns], self.place.region
            codes = [row[names.index(self.place.name)] for row in rows]
            kinds = [row[names.index(of[1:-1])] for row in rows] if of.startswith("{") else [of] * len(rows)
            return sorted({*map(self._region, kinds, codes)}, key=attrgetter("id"))
        where, given = (selection.where, selection.given) if selection else ("true", {})
        query = (
            f"SELECT DISTINCT {self._kind}, {self.sql(self.place.name)} FROM {self.rows_of} WHERE {where} ORDER BY 2"
        )
        return [*starmap(self._region, self.database.ask(query, given))]

    @property
    def _kind(self) -> str:
        """The SQL for the type of a row's region."""
        of = self.place.region if self.place else ""
        return self.sql(of[1:-1]) if of.startswith("{") else self.database.value(of)

    @cached_property
    def _region(self) -> Callable[[str, str], Region]:
        in_column = self.place is not None and self.place.region.startswith("{")
        return (lambda kind, code: Region(intern(kind), code)) if in_column else Region.named

    def at(self, region: Region) -> dict[str, str]:
        """Return the codes, by column, of a region's rows."""
        assert self.place is not None
        of = self.place.region
        return {self.place.name: region.id} | ({of[1:-1]: region.type} if of.startswith("{") else {})

    @cached_property
    def listing(self) -> ReleaseTable | None:
        """The table that lists its regions, published or not, or None."""
        for reference in self.resource.references:
            if self.place and self.place.name in reference.columns and reference.table in self.others:
                return replace(self, resource=self.others[reference.table])
        return None

    def without_row(self, selection: Selection, by: Mapping[str, str]) -> list[Region]:
        """Return the listed regions of its types without a row in a selection; empty without a list."""
        listing = self.listing
        if listing is None:
            return []
        there, chosen, known = set(self.regions(selection)), listing.select(by), self.database.regions
        if chosen.where == "true" and listing.rows_of not in known:  # one list for all tables and most questions
            known[listing.rows_of] = listing.regions()
        listed = known[listing.rows_of] if chosen.where == "true" else listing.regions(chosen)
        return [region for region in listed if region.type in self.types and region not in there]

    def choices(self, column: Column) -> list[str]:
        """Return the values of a column in the order of its codes, or of numbers; empty if they are too many."""
        name = self.sql(column.name)
        query = f"SELECT DISTINCT {name} FROM {self.rows_of} WHERE {name} IS NOT NULL ORDER BY 1 LIMIT {CHOICES + 1}"
        values = [str(value) for (value,) in self.database.ask(query)]
        listed = {code: at for at, code in enumerate(column.codes)}
        numbers = all(map(str.isdecimal, values))
        values.sort(key=lambda value: (listed.get(value, len(listed)), int(value) if numbers else 0, value))
        return values if len(values) <= CHOICES else []

    def select(self, by: Mapping[str, str], text: str = "") -> Selection:
        """Return the rows with these codes, or words, by column, and with each word of a text in one of its columns.

        A code followed by `*` stands for all codes that begin with it, as `44*`. Several codes are separated by commas.
        """
        where = ["true"]
        only: set[str] = set()
        several: set[str] = set()
        given: dict[str, Any] = {}
        chosen: dict[str, Sequence[str]] = {}

        def parameter(value: str | list[str]) -> str:
            name = f"given{len(given)}"
            given[name] = value
            return f"${name}"

        for column in self.keys:
            name = self._text_of(column)
            wanted = by.get(column.name, "")
            if len(wanted) > 1 and wanted.endswith("*"):  # as a range, which skips the row groups outside it
                first, last = parameter(wanted[:-1]), parameter(wanted[:-1] + "\U0010ffff")
                where.append(f"{name} >= {first} AND {name} < {last}")
            elif wanted:
                known = self.words(column)
                whole = wanted in known or wanted.strip().casefold() in known.codes
                parts = [wanted] if whole else wanted.split(",")
                words = dict.fromkeys(part.strip().casefold() for part in parts)
                codes = [*parts, *(code for each in words for code in known.codes.get(each, ()))]
                where.append(f"{name} IN ({', '.join(map(parameter, codes))})")
                chosen[column.name] = [*dict.fromkeys(codes)]
                (several if len(parts) > 1 else only).add(column.name)
        for word in words_of(text):
            found = []
            for column in self.keys:
                codes = [code for code, meaning in self.words(column).items() if matches([word], f"{meaning} {code}")]
                name = self._text_of(column)
                of_words = f"list_contains({parameter(codes)}, {name})"
                found.append(f"{of_words} OR starts_with(lower({name}), {parameter(word)})")
            where.append(f"({' OR '.join(found) or 'false'})")
        whole = len(where) == 1 + len(chosen)
        return Selection(" AND ".join(where), given, frozenset(only), frozenset(several), chosen if whole else {})

    def _text_of(self, column: Column) -> str:
        """Return the SQL for a column's values as text."""
        name = self.sql(column.name)
        return name if _sql_type(column) == "VARCHAR" else f"CAST({name} AS VARCHAR)"

    def number(self, selection: Selection) -> int:
        """Return the number of rows in a selection."""
        if selection.codes and self.database.copies and (numbers := self._numbers(tuple(selection.codes))) is not None:
            return sum(numbers.get(codes, 0) for codes in product(*selection.codes.values()))
        query = f"SELECT count(*) FROM {self.rows_of} WHERE {selection.where}"
        ((number,),) = self.database.ask(query, selection.given)
        return int(number)

    def _numbers(self, names: tuple[str, ...]) -> Mapping[tuple[str, ...], int] | None:
        """Return the number of rows by the codes of columns, asked once for all pages; None for too many codes."""
        known, key = self.database.numbers, (self.rows_of, names)
        if key not in known:
            codes = ", ".join(self._text_of(column) for column in self.keys if column.name in names)
            query = f"SELECT {codes}, count(*) FROM {self.rows_of} GROUP BY ALL LIMIT {MOST_NUMBERS + 1}"
            answer = self.database.ask(query)
            numbers = {tuple(row[:-1]): int(row[-1]) for row in answer}
            known[key] = numbers if len(answer) <= MOST_NUMBERS else None
        return known[key]

    def rows(self, selection: Selection, sort: str, shown: slice, at: Confidence = RELEASED) -> list[Any]:
        """Return rows of a selection, sorted by a column, descending with `-` before it; largest first by default.

        If several codes of a column were chosen, rows that differ only in it are adjacent.
        """
        order = self._order(sort, selection)
        rows = self._rows_of_codes(selection, order, shown)
        if rows is None:
            page = f"LIMIT {shown.stop - shown.start} OFFSET {shown.start}"
            query = f"SELECT * FROM {self.rows_of} WHERE {selection.where} {order} {page}"
            rows = self.database.ask(query, selection.given)
        if at.is_released:
            return rows
        margins = {place: one == self.margin for place, one in enumerate(self.columns) if one.role == "margin"}

        def shown_at(place: int, row: Sequence[Any]) -> Any:
            if place not in margins or row[place] is None:
                return row[place]
            if self.error is not None:
                return round(at.deviations * row[self.error], PLACES)
            return self.margin_at(row[place], at) if margins[place] else None

        return [tuple(shown_at(place, row) for place in range(len(row))) for row in rows]

    def _order(self, sort: str, selection: Selection) -> str:
        """Return the order of a selection's rows in SQL."""
        name = sort.removeprefix("-")
        by = [column.name for column in self.columns if column.name == name]
        first = [f"{self.sql(one)}{' DESC NULLS LAST' * sort.startswith('-')}" for one in by]
        if not first and selection.several:
            types = {f"{{{one.name}}}" for one in self.keys} & {one.region for one in self.columns}
            apart = {*selection.several, *(name[1:-1] for name in types)}
            first = [self.sql(one.name) for one in self.keys if one.name not in apart]
        elif not first and self.count:
            first = [f"{self.sql(self.count.name)} DESC"]
        return f"ORDER BY {', '.join([*first, *(self.sql(one.name) for one in self.keys)]) or 'ALL'}"

    def _rows_of_codes(self, selection: Selection, order: str, shown: slice) -> list[Any] | None:
        """Return rows of a selection of codes for a copy; None if they must be asked for."""
        codes = tuple(self._text_of(column) for column in self.keys if column.name in selection.codes)
        grouped = self.database.grouped(self.rows_of, codes, order) if codes else None
        if grouped is None:
            return None
        found = [grouped[each] for each in product(*selection.codes.values()) if each in grouped]
        return None if len(found) > 1 else [row for rows in found for row in rows[shown]]

    @cached_property
    def error(self) -> int | None:
        """The place of the standard errors whose multiples its margins are; None if these follow from its laws."""
        places = [place for place, one in enumerate(self.columns) if one.role == "standard error"]
        return places[0] if len(places) == 1 and not self.resource.noise else None

    def meaning(self, column: Column, at: Confidence) -> str:
        """Return what a column is where margins are at a confidence."""
        if at.is_released or self.error is None or column.role != "margin":
            return column.meaning
        return f"{at.percent}% by the normal law: {at.deviations:.3g} standard errors"

    def margin_at(self, margin: float | None, at: Confidence) -> float | None:
        """Return a margin in its files at a confidence; None if its law is unknown."""
        if at.is_released or self.exact or margin is None:
            return margin
        if self.error is not None:
            return margin * at.deviations / RELEASED.deviations
        law = self._law_of(margin)
        return _plain(margin_of_cells([law], at) * self._step) if law else None

    @property
    def _step(self) -> Fraction:
        """The counts in one unit of its noise."""
        return parse_exact(str(self.resource.noise[0].get("step", 1)))

    # -- sums ---------------------------------------------------------------------------------------------------------

    def overlap(self, selection: Selection) -> str:
        """Return the reason why the counts of a selection may not be summed, as a record may be in several; or ""."""
        if selection.several:  # one may be within the other, or have the very same noise
            return "regions are shown next to each other"
        several = [one.title for one in self.columns if one.overlap and one.name not in selection.only]
        return f"a record counts in several rows: choose one {' and one '.join(several)}" if several else ""

    def sum(self, selection: Selection, at: Confidence) -> Sum | None:
        """Return the sum of the counts of a selection; None for no rows, or no counts."""
        return self._sums(selection, [], at).get(()) if self.count else None

    def sums_by_region(self, selection: Selection, at: Confidence) -> dict[Region, Sum]:
        """Return the sums of the counts of a selection by region."""
        regions = {tuple(self.at(region).values()): region for region in self.regions(selection)}
        by = list(self.at(next(iter(regions.values())))) if regions else []
        return {regions[codes]: one for codes, one in self._sums(selection, by, at).items() if codes in regions}

    def _sums(self, selection: Selection, by: Sequence[str], at: Confidence) -> dict[tuple[str, ...], Sum]:
        """Return the sums of the counts of a selection by the codes of columns.

        Rows that are sums of others are omitted, unless they were chosen.
        """
        assert self.count is not None
        margin = self.sql(self.margin.name) if self.margin else "NULL"
        totals = [one for one in self.columns if one.total and one.name not in selection.only]
        apart = [f"{self.sql(one.name)} IS DISTINCT FROM {self.database.value(one.total)}" for one in totals]
        where = " AND ".join([selection.where, *apart])
        chosen = ", ".join([*map(self.sql, by), margin, "count(*)", f"sum({self.sql(self.count.name)})"])
        found: dict[tuple[str, ...], list[Sequence[Any]]] = {}
        query = f"SELECT {chosen} FROM {self.rows_of} WHERE {where} GROUP BY ALL"
        for row in self.database.ask(query, selection.given):
            found.setdefault(row[: len(by)], []).append(row[len(by) :])
        return {key: self._sum(parts, at) for key, parts in found.items()}

    def _sum(self, parts: Sequence[Sequence[Any]], at: Confidence) -> Sum:
        """Return a sum of (margin of a row, number of such rows, sum of their counts)."""
        rows, total = sum(number for _, number, _ in parts), sum(count or 0 for *_, count in parts)
        total = _plain(total)
        if self.exact:
            return Sum(rows, total)
        if self.resource.dependent:
            return Sum(rows, total, why=DEPENDENT)
        cells: list[tuple[Law, int]] = []
        for margin, number, _ in parts:
            law = self._law_of(margin)
            if law is None:
                return Sum(rows, total, why=UNKNOWN)
            cells.append((law[0], law[1] * number))
        return Sum(rows, total, float(margin_of_cells(cells, at) * self._step))

    def _law_of(self, margin: Any) -> tuple[Law, int] | None:
        """Return the law of a row with this margin, and the draws that its count sums; None if unknown."""
        for entry in self.resource.noise:
            if entry.get("margin", margin) == margin:
                law = read_law(entry)
                if "cells" in entry:
                    return law, int(entry["cells"])
                steps = round(Fraction(str(margin)) / parse_exact(str(entry.get("step", 1))))
                return law, most_cells(law, steps)
        return None


def _plain(value: float | Fraction) -> float:
    """Return a whole number as an integer."""
    return int(value) if value == int(value) else float(value)


def _sql_type(column: Column) -> str:
    return "VARCHAR" if column.missing else SQL_TYPES.get(column.type, "VARCHAR")
