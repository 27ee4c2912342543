"""What the tables of a bottom-up release are: their columns follow from its domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tasks.inputs.public_regions import NAMES_TABLE, POINTS_TABLE
from tasks.lifecycle.description import Column, Description, Table, number

LEVEL = Column("*", "code", "a level of the declared domain")
NUMBERS = (
    number(
        "COUNT", "records", "the published count, with noise, in multiples of the step", role="count", frame="count"
    ),
    number(
        "MOE",
        "records",
        "the margin of error at 95% of the noise in the count, before calibration and clipping",
        role="margin",
        of="COUNT",
        frame="margin",
        in_text=False,
    ),
)
HISTOGRAM = Table(
    "The histogram",
    (LEVEL, *NUMBERS),
    text="histogram.csv",
    parquet="parquet/histogram.parquet",
    key=("*",),
    counts=True,
)
TABLES = (
    HISTOGRAM,
    replace(HISTOGRAM, title="The total", text="total.csv", parquet="parquet/total.parquet", counts=False),
    replace(
        HISTOGRAM,
        title="The marginal by {factors}",
        text="by-{factors}.csv",
        parquet="parquet/by-{factors}.parquet",
        counts=False,
    ),
    NAMES_TABLE,
    POINTS_TABLE,
)


def description(manifest: Mapping[str, Any]) -> Description:
    """Return the description of a release, with the law of a cell; how many cells a row sums its margin says."""
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
    return Description(tuple(tables), lambda _: [law], required=(HISTOGRAM.parquet,))
