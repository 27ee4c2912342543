"""What the tables of a declaration's release are: their columns follow from its levels and axes, by its own words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from privacy.tables.histogram import DETAILED, TOTAL, Histogram, Recode
from spine.declaration.declaration import Declaration, read_declaration
from spine.top_down.queries import query_group
from tasks.releases.description import Column, Description, Reference, Table, Tidy, integer, number
from tasks.releases.pages.words import capitalized, level_words
from tasks.releases.received import NotOfRelease
from tasks.releases.tidy import with_tidy
from tasks.top_down.declared.dhc_fields import microdata_of, microdata_table
from tasks.top_down.release.design_file import DECLARED_FILE, MEASUREMENTS
from tasks.top_down.release.tables import ESTIMATED, MEASURED, axis_column

LEAVES_FILE, EQUAL_FILE = f"{MEASUREMENTS}/leaves.parquet", f"{MEASUREMENTS}/equal.parquet"
EQUAL_COLUMNS = {  # and what they are
    "EQUAL": "the number of the equality in the declaration, from 0",
    "LEAF": "the row of the table of leaves, from 0",
    "PART": "the part of the equality's partition, from 0",
    "NUMBER": "the count that the release has, and the estimates",
}
COUNT, MARGINS, ESTIMATE_MARGIN = "COUNT", "margins", "estimate_margin"
Asked = dict[str, tuple[Column, str, dict[str, str]]]  # a column, that from which it follows, its values by those of it
MOST_PARTS = 1 << 16  # of a query whose estimates are in tables/, with codes and words for each


def declaration_of(manifest: Mapping[str, Any]) -> Declaration:
    """Return the declaration of a release, whose manifest is untrusted. Raises NotOfRelease."""
    declaration, faults = read_declaration(manifest["declaration"])
    if declaration is None:
        raise NotOfRelease(f"its declaration does not pass: {faults[0].key[:80]}")
    return declaration


def geounit_columns(declaration: Declaration, level: str) -> tuple[Column, ...]:
    """Return the columns that name the geounits of a level: those of its own and of the levels above."""
    columns = []
    for each in declaration.levels:
        words, title = level_words(each.name), capitalized(level_words(each.name))
        for name in each.columns:
            meaning = f"the {words}" if name == each.name else f"{name} of the {words}"
            last = name == each.columns[-1]
            columns.append(Column(name, "code", meaning, level=each.name, title=title if last else f"{title}: {name}"))
        made = Column(each.name, "number", f"the {words} within the level above", level=each.name, title=title)
        columns += [made] if each.made else []
        if each.name == level:
            break
    return tuple(columns)


def is_full(declaration: Declaration, level: str) -> bool:
    """Return whether all noisy answers of a level are released."""
    return not declaration.form.is_wide or level in declaration.form.full_levels


def released_levels(declaration: Declaration) -> list[str]:
    """Return the levels whose histograms are released: all of them, unless the declaration names some."""
    return [each.name for each in declaration.levels if each.name in (declaration.form.histograms or (each.name,))]


def description(manifest: Mapping[str, Any]) -> Description:
    """Return the description of a release. No law is known of the error of its counts."""
    declaration = declaration_of(manifest)
    product = declaration.product
    axes = [replace(axis_column(axis), name=axis.name, labels=axis.codes != axis.labels) for axis in product.axes]
    records = declaration.records
    words = f"the {records}, as estimated; rows of 0 are left out"
    count = integer(COUNT, records, words, role="count", frame="count")
    tables, released, gls = [], released_levels(declaration), manifest.get("estimator") == "gls"
    for level in released:
        geounit, title = geounit_columns(declaration, level), f"{records.capitalize()} by {level_words(level)}"
        tables.append(
            Table(
                title,
                (*geounit, *axes, count),
                text=f"{{level={level}}}.csv",
                parquet=f"parquet/{{level={level}}}.parquet",
                key=tuple(column.name for column in (*geounit, *axes)),
                references=tuple(_to_names(declaration, level)),
                counts=True,
                dependent=True,
                tidy=(
                    Tidy(f"cells/{level}", "cells", records, level=level, title=f"{title}: cells that are not 0"),
                    *(() if gls else _sums(declaration, level, count)),
                    *_published(declaration, level, count),
                ),
            )
        )
    tables += [microdata_table(declaration)] if microdata_of(declaration) else []
    named = [level.name for level in declaration.levels if level.names]
    tables += [_names(declaration, level) for level in named]
    if gls:
        tables += [_margins(declaration, each.name) for each in declaration.levels]
    if manifest["measurements"]:
        read = [each.name for each in declaration.levels if declaration.form.is_wide]
        read = [level for level in read if level not in declaration.form.full_levels]
        tables += [
            (_answers_read if each.name in read else _measurements)(declaration, each.name)
            for each in declaration.levels
        ]
        tables.append(
            Table(
                "Leaves, as declared",
                (Column("*", "code", "a column of the table of leaves that the declaration names"),),
                parquet=LEAVES_FILE,
                key=declaration.form.leaves.key,
            )
        )
        if declaration.form.equal:
            columns = tuple(integer(name, "number", meaning) for name, meaning in EQUAL_COLUMNS.items())
            title = "Counts of releases that the estimates have"
            tables.append(Table(title, columns, parquet=EQUAL_FILE, key=("EQUAL", "LEAF", "PART")))
    files = [f"parquet/{level}.parquet" for level in released]
    files += [table.parquet or table.text for table in tables[len(released) :]]
    files += ["report.html", *([DECLARED_FILE] if manifest["measurements"] else [])]
    return with_tidy(Description(tuple(tables), others=("report.html", DECLARED_FILE), required=tuple(files)))


def _names(declaration: Declaration, level: str) -> Table:
    geounit = geounit_columns(declaration, level)
    name = Column("NAME", "text", f"the name of the {level}", role="name", frame=f"{level}_name")
    key = tuple(column.name for column in geounit)
    return Table(f"Names of {level}", (*geounit, name), text=names_file(level), key=key)


def names_file(level: str) -> str:
    """Return the file with the names of the geounits of a level."""
    return f"names/{level}.csv"


def _to_names(declaration: Declaration, level: str) -> Iterator[Reference]:
    """Yield the references of a level's table to the names of its geounits and of those above."""
    levels = [each.name for each in declaration.levels]
    for each in declaration.levels[: levels.index(level) + 1]:
        if each.names:
            key = tuple(column.name for column in geounit_columns(declaration, each.name))
            yield Reference(key, names_file(each.name).removesuffix(".csv"), key)


def _margins(declaration: Declaration, level: str) -> Table:
    """Return the table of a level's estimates. It has no margins: no law covers the released counts."""
    geounit, records = geounit_columns(declaration, level), declaration.records
    key = (*(column.name for column in geounit), "query", "part")
    columns = (
        *geounit,
        Column("query", "text", "the query group", overlap=True),
        integer("part", "number", "which sum, from 0: axes as in the tables, the last varies fastest", overlap=True),
        integer("released", records, "the released count", role="count"),
        *(number(role.replace(" ", "_"), records, meaning, role=role, of=of) for role, meaning, of in ESTIMATED[1:]),
        number(ESTIMATE_MARGIN, records, "1.96 standard errors: 95% by the normal law", role="margin", of="estimate"),
    )
    title = f"Estimates with standard errors by {level}"
    tidy = tuple(
        _estimates(declaration, level, query, columns)
        for query in declaration.queries(level)
        if declaration.product.width(query) <= MOST_PARTS
    )
    return Table(title, columns, parquet=f"{MARGINS}/{level}.parquet", key=key, dependent=True, tidy=tidy)


def _asked(product: Histogram, query: str, only: Mapping[str, Collection[str]] | None = None) -> Asked:
    """Return by the axes and recodes of a query the column of its sums, the axis, and its value for each code of that.

    only: the codes that occur, by axis, if not all. Cells outside a recode have labels as values, since they have no
        codes.
    """
    names = () if query == TOTAL else [axis.name for axis in product.axes] if query == DETAILED else query.split("*")
    found = {}
    for name in (each.strip() for each in names):
        own = product.named[name]
        recode = own if isinstance(own, Recode) else None
        axis = product.axis(recode.axis if recode else name)
        values = [recode.labels[part] for part in recode.part] if recode else axis.codes
        there = (only or {}).get(axis.name, axis.codes)
        texts = {} if recode or axis.codes == axis.labels else dict(zip(axis.codes, axis.labels, strict=True))
        texts = {code: text for code, text in texts.items() if code in there}
        column = Column(name, "code", own.words, texts, title="" if own.words == name else capitalized(own.words))
        of_codes = zip(axis.codes, values, strict=True)
        found[name] = column, axis.name, {code: value for code, value in of_codes if code in there}
    return found


def _sums(declaration: Declaration, released: str, count: Column) -> Iterator[Tidy]:
    """Yield the sums that have a budget on a level, or on one above it whose own histogram is not released.

    For a wide table, omit the widest, which are nearly its cells, and include the sums whose counts are declared.
    """
    wide = declaration.form.is_wide
    levels = [each.name for each in declaration.levels]
    first = max(
        (
            at + 1
            for at, each in enumerate(levels)
            if each in released_levels(declaration) and at < levels.index(released)
        ),
        default=0,
    )
    for level in levels[first : levels.index(released) + 1]:
        geounit = geounit_columns(declaration, level)
        queries = [*declaration.queries(level), *(each.partition for each in declaration.form.counts if wide)]
        for query in dict.fromkeys(queries):
            if wide and declaration.product.width(query) > MOST_PARTS:
                continue
            if query != DETAILED or level != released:  # else they are its cells
                tidy = replace(_of_query(declaration, level, query), summed=True)
                yield _keyed(tidy, geounit, _asked(declaration.product, query), [count])


def _keyed(tidy: Tidy, geounit: Iterable[Column], asked: Asked, numbers: Iterable[Column]) -> Tidy:
    """Return a table of sums with the columns of their geounits and of what they sum, then those of numbers."""
    keys = (*geounit, *(column for column, _, _ in asked.values()))
    recoded = {name: (axis, values) for name, (_, axis, values) in asked.items()}
    return replace(tidy, columns=(*keys, *numbers), key=tuple(column.name for column in keys), recoded=recoded)


def _estimates(declaration: Declaration, level: str, query: str, columns: Sequence[Column]) -> Tidy:
    """Return the sums of a query with their estimates: all that a record may be in, those of 0 too."""
    product = declaration.product
    asked = _asked(product, query)
    group = query_group(product, query)
    cell = np.zeros(group.width, np.int64)  # one of each part
    cell[group.coordinate] = np.arange(product.cells)
    for name, (column, axis, values) in asked.items():
        at, codes = product.coordinates_of(cell)[axis], product.axis(axis).codes
        asked[name] = column, "part", {str(part): values[codes[own]] for part, own in enumerate(at.tolist())}
    numbers = [replace(each, frame="count") if each.role == "count" else each for each in columns if each.role]
    tidy = replace(_of_query(declaration, level, query), only={"query": (query,)})
    return _keyed(tidy, geounit_columns(declaration, level), asked, numbers)


def _published(declaration: Declaration, level: str, count: Column) -> Iterator[Tidy]:
    """Yield the tables that a declaration publishes besides those of its queries, each within its universe."""
    geounit = geounit_columns(declaration, level)
    for table in declaration.published:
        only = {
            name: tuple(table.histogram.axis(name).codes[at] for at in sorted(inside))
            for name, inside in table.inside.items()
        }
        title, unit = f"{table.title} by {level_words(level)}; universe: {table.universe}", table.universe
        tidy = Tidy(f"{table.name}/{level}", table.title, unit, level=level, title=title, only=only, summed=True)
        yield _keyed(tidy, geounit, _asked(table.histogram, table.by, only), [count])


def _of_query(declaration: Declaration, level: str, query: str) -> Tidy:
    """Return the table of a query's sums, yet without columns."""
    title = f"{declaration.records.capitalize()} by {level_words(level)}: {query_title(declaration, query)}"
    return Tidy(f"{query_slug(query)}/{level}", query, declaration.records, level=level, title=title)


def query_title(declaration: Declaration, query: str) -> str:
    """Return a query group in the words of its axes: `sex × age in 3 groups`."""
    words = {name: each.words for name, each in declaration.product.named.items()}
    words |= {TOTAL: "total", DETAILED: "every cell"}
    return " × ".join(words[name.strip()] for name in query.split("*"))


def query_slug(query: str) -> str:
    """Return the folder of a query's tables, which no other query has: names of axes have no hyphen."""
    return query.replace(" ", "").replace("*", "-")


def _measurements(declaration: Declaration, level: str) -> Table:
    geounit, records = geounit_columns(declaration, level), declaration.records
    return Table(
        f"Noisy measurements by {level}",
        (*geounit, *(replace(each, unit=each.unit.replace("persons or units", records)) for each in MEASURED)),
        parquet=f"{MEASUREMENTS}/{level}.parquet",
        key=(*(column.name for column in geounit), "query"),
    )


def _answers_read(declaration: Declaration, level: str) -> Table:
    """Return the table of the answers of a wide table that were read."""
    geounit, records = geounit_columns(declaration, level), declaration.records
    law = {column.name: column for column in MEASURED}
    columns = (
        *geounit,
        law["query"],
        integer("coordinate", "number", "which sum, from 0: axes as in the cells, the last varies fastest"),
        integer("value", records, "its noisy answer"),
        *(law[name] for name in ("share", "variance_numerator", "variance_denominator")),
        replace(law["variance"], unit=f"{records}, squared"),
    )
    return Table(
        f"Noisy measurements that were read, by {level}",
        columns,
        parquet=f"{MEASUREMENTS}/{level}.parquet",
        key=(*(column.name for column in geounit), "query", "coordinate"),
    )
