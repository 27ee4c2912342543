"""What the tables of a declaration's release are: their columns follow from its levels and axes, by its own words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spine.declaration.declaration import Declaration, read_declaration
from tasks.releases.description import Column, Description, Table, integer, number
from tasks.releases.received import NotOfRelease
from tasks.top_down.release.tables import ESTIMATED, MEASURED, axis_column

MEASUREMENTS = "measurements"
SETTINGS_FILE, LEAVES_FILE = f"{MEASUREMENTS}/declared.json", f"{MEASUREMENTS}/leaves.parquet"
EQUAL_FILE = f"{MEASUREMENTS}/equal.parquet"
EQUAL_COLUMNS = {  # and what they are
    "EQUAL": "the number of the equality in the declaration, from 0",
    "LEAF": "the row of the table of leaves, from 0",
    "PART": "the part of the equality's partition, from 0",
    "NUMBER": "the count that the release has, and the estimates",
}
COUNT, MARGINS = "COUNT", "margins"


def declaration_of(manifest: Mapping[str, Any]) -> Declaration:
    """Return the declaration of a release; anybody may have written its manifest. Raises NotOfRelease."""
    declaration, faults = read_declaration(manifest["declaration"])
    if declaration is None:
        raise NotOfRelease(f"its declaration does not pass: {faults[0].key[:80]}")
    return declaration


def geounit_columns(declaration: Declaration, level: str) -> tuple[Column, ...]:
    """Return the columns that name the geounits of a level: those of its own and of the levels above."""
    columns = []
    for each in declaration.levels:
        for name in each.columns:
            columns.append(Column(name, "code", f"the {name}" if name == each.name else f"{name} of the {each.name}"))
        columns += [Column(each.name, "number", f"the {each.name} within the level above")] if each.made else []
        if each.name == level:
            break
    return tuple(columns)


def released_levels(declaration: Declaration) -> list[str]:
    """Return the levels whose histograms are released: all of them, unless the declaration names some."""
    return [each.name for each in declaration.levels if each.name in (declaration.form.histograms or (each.name,))]


def description(manifest: Mapping[str, Any]) -> Description:
    """Return the description of a release. No law is known of the error of its counts."""
    declaration = declaration_of(manifest)
    product = declaration.product
    axes = [replace(axis_column(axis), name=axis.name, labels=axis.codes != axis.labels) for axis in product.axes]
    records = declaration.records
    count = integer(COUNT, records, f"the {records}, as estimated", role="count", frame="count")
    tables, released = [], released_levels(declaration)
    for level in released:
        geounit = geounit_columns(declaration, level)
        tables.append(
            Table(
                f"{records.capitalize()} by {level}",
                (*geounit, *axes, count),
                text=f"{{level={level}}}.csv",
                parquet=f"parquet/{{level={level}}}.parquet",
                key=tuple(column.name for column in (*geounit, *axes)),
                counts=True,
                dependent=True,
            )
        )
    if manifest.get("estimator") == "gls":
        tables += [_margins(declaration, each.name) for each in declaration.levels]
    if manifest["measurements"]:
        tables += [_measurements(declaration, each.name) for each in declaration.levels]
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
    files = [f"parquet/{level}.parquet" for level in released] + [table.parquet for table in tables[len(released) :]]
    files += ["report.html", *([SETTINGS_FILE] if manifest["measurements"] else [])]
    return Description(tuple(tables), others=("report.html", SETTINGS_FILE), required=tuple(files))


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
    )
    title = f"Estimates with standard errors by {level}"
    return Table(title, columns, parquet=f"{MARGINS}/{level}.parquet", key=key, dependent=True)


def _measurements(declaration: Declaration, level: str) -> Table:
    geounit, records = geounit_columns(declaration, level), declaration.records
    return Table(
        f"Noisy measurements by {level}",
        (*geounit, *(replace(each, unit=each.unit.replace("persons or units", records)) for each in MEASURED)),
        parquet=f"{MEASUREMENTS}/{level}.parquet",
        key=(*(column.name for column in geounit), "query"),
    )
