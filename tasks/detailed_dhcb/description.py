"""What the tables of a Detailed DHC-B release are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tasks.detailed_dhcb.tables import TABLES, CountTable
from tasks.inputs.public_regions import REGION
from tasks.lifecycle.description import Column, Description, Noise, Table
from tasks.population_groups.description import (
    GROUP,
    ITERATION,
    OF_GROUP,
    count_column,
    estimate_columns,
    laws,
    margin_column,
    public_tables,
)
from tasks.population_groups.levels import ALL_LEVELS


def _cells(table: CountTable, detail: int) -> Column:
    rows = table.rows(detail)
    return Column(
        table.column,
        "code",
        f"the cell of {table.words}",
        {str(cell): table.cells[cell][0] for cell in rows},
        title=table.words.capitalize(),
        frame=table.words.replace(" ", "_"),
        labels=True,
        overlap=len(rows) > 1,
    )


def _table(table: CountTable, detail: int) -> Table:
    name, cells = table.details[detail], _cells(table, detail)
    return Table(
        f"Households by {table.words} ({name}): {{level}}",
        (*REGION, ITERATION, cells, count_column("households"), margin_column("households")),
        text=f"{table.name}/{name}/{{level}}.csv",
        parquet=f"parquet/{table.name}/{name}/{{level}}.parquet",
        key=(*GROUP, cells.name),
        references=OF_GROUP,
        counts=True,
    )


def _estimates(table: Table) -> Table:
    return replace(
        table,
        title=table.title.replace(": ", ", estimates: "),
        columns=(*table.columns[:-2], *estimate_columns("households")),
        text=f"estimates/{table.text}",
        parquet=table.parquet.replace("/", "/estimates/", 1),
        counts=False,
        of=table.text.rpartition(".")[0],
        dependent=True,
    )


TABLES_OF_COUNTS = {
    f"{table.name}-{name.lower()}": (table, detail, _table(table, detail))
    for table in TABLES.values()
    for detail, name in enumerate(table.details)
}


def description(manifest: Mapping[str, Any]) -> Description:
    """Return the description of a release: what its tables are, and the laws of their noise."""
    dependent = not manifest["configuration"]["allow_negative_counts"]
    counted = tuple(replace(one, dependent=dependent) for _, _, one in TABLES_OF_COUNTS.values())
    levels = {level.slug: level for level in ALL_LEVELS if str(level) in manifest["levels"]}

    def noise(name: str) -> list[Noise]:
        table, _, slug = name.removesuffix("-text").partition("-t0")
        stem, _, slug = slug.partition("-")
        counted, detail, _ = TABLES_OF_COUNTS[f"{table}-t0{stem}"]
        sums = dict.fromkeys((counted.name, len(places)) for places in counted.rows(detail).values())
        return laws(manifest, levels[slug], [*sums]) if manifest["spent"] else []

    names = {"level": {slug: level.name for slug, level in levels.items()}}
    return Description((*counted, *map(_estimates, counted), *public_tables("householders")), noise, names)
