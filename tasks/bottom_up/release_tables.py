"""Describe the tables of a bottom-up release, whose columns follow from its declaration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tasks.geography.public_regions import NAMES_TABLE, POINTS_TABLE
from tasks.releases.description import Column, Description, Table, Tidy, count_and_margin
from tasks.releases.tidy import with_tidy

LEVEL = Column("*", "code", "a value of the declaration")
NUMBERS = count_and_margin(
    "records",
    "the published count, with noise, in multiples of the step",
    "the margin of error at 95% of the noise in the count, before calibration and clipping",
    type="number",
)


def _table(title: str, name: str, *, counts: bool = False) -> Table:
    text, parquet = f"{name}.csv", f"parquet/{name}.parquet"
    tidy = Tidy(name, name.partition("-{")[0], "records")
    return Table(title, (LEVEL, *NUMBERS), text=text, parquet=parquet, key=("*",), counts=counts, tidy=(tidy,))


HISTOGRAM = _table("The histogram", "histogram", counts=True)
MARGINALS = _table("The total", "total"), _table("The marginal by {axes}", "by-{axes}")
TABLES = (HISTOGRAM, *MARGINALS, NAMES_TABLE, POINTS_TABLE)


def description(manifest: Mapping[str, Any]) -> Description:
    """Describe a release: its tables, and the law of a cell. A row's margin shows how many cells it sums."""
    noise = manifest["noise"]
    law = {key: value for key, value in noise.items() if key in ("law", "scale", "variance", "step")}
    regions = tuple(
        replace(LEVEL, name=name, region=name.upper(), optional=True) for name in manifest["histogram"]["regions"]
    )
    dependent = manifest["clipped"] or manifest["calibration"]["method"] is not None
    tables = [
        replace(table, columns=(*regions, *table.columns), dependent=dependent) if LEVEL in table.columns else table
        for table in TABLES
    ]
    return with_tidy(Description(tuple(tables), lambda _: [law], required=tuple(_required(manifest))))


def table_name(names: Sequence[str]) -> str:
    """Return the name of the table of a marginal."""
    return f"by-{'-'.join(names).lower()}" if names else "total"


def _required(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files that a release of this design must have."""
    yield from ("report.html", HISTOGRAM.parquet)
    for names in manifest["design"]["marginals"]:
        yield f"parquet/{table_name(names)}.parquet"
