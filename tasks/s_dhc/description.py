"""What the tables of an S-DHC release are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tasks.inputs.public_regions import REGION, REGION_TYPES
from tasks.lifecycle.datapackage import slug
from tasks.lifecycle.description import Column, Description, Noise, Table
from tasks.s_dhc.tables import (
    AVERAGES,
    ITERATIONS,
    LEVELS,
    MEASURED,
    PUBLISHED,
    SUMS,
    WITH_SUMS,
    PublishedTable,
)

TYPE, ID = REGION
REGION_COLUMNS = (
    ID,
    replace(TYPE, codes={kind: REGION_TYPES[kind] for kind in ("USA", "STATE")}, total="USA"),
)
ITERATION = Column(
    "ITERATION_CODE",
    "code",
    "race and ethnicity: the householder's, of PH3 the person's own",
    ITERATIONS,
    title="Race or ethnicity",
    frame="iteration_code",
    overlap=True,
)
COUNT = Column("COUNT", "", "the count, with noise", type="integer", role="count", frame="count")
NOISE = (
    Column("NOISE_DISTRIBUTION", "law", "the law of its noise; None in a truth", title="Noise"),
    Column("VARIANCE", "squared counts", "the variance of its noise", type="number", role="variance"),
    Column(
        "MOE", "", "the margin of error at 95%", type="integer", role="margin", of="COUNT", frame="margin",
        in_text=False,
    ),
    Column("MOE90", "", "the margin of error at 90%", type="integer", in_text=False),
)  # fmt: skip
ESTIMATES = (
    Column("COUNT", "", "the least-squares estimate", type="integer", role="estimate", frame="estimate"),
    Column("MOE", "", "its margin of error at 95%", type="integer", role="margin", of="COUNT", frame="estimate_margin"),
    Column("MOE90", "", "its margin of error at 90%", type="integer"),
)
PARQUET_ALONE = ("MOE", "MOE90")  # columns of the counts that the program's text has not
SAID = {
    "set": "an interval",
    "all": "no information: no possible average is excluded",
    "none": "every possible average is excluded; the nearest one is given",
}
COUNT_POSTERIOR = (
    Column("COUNT_NOISY", "persons", "the noisy count, or the sum of the noisy counts of its cells", type="integer"),
    Column("PRED", "persons", "the rounded mean of the posterior, or the sum of those of its cells", type="integer"),
    Column("PRED_LO", "persons", "the 5% quantile of the posterior", type="integer"),
    Column("PRED_HI", "persons", "the 95% quantile of the posterior", type="integer"),
)
RATIO_POSTERIOR = (
    Column("RATIO_PRED", "persons per unit", "the mean of the posterior", type="number"),
    Column("RATIO_PRED_LO", "persons per unit", "the 5% quantile of the posterior", type="number"),
    Column("RATIO_PRED_HI", "persons per unit", "the 95% quantile of the posterior", type="number"),
    Column("PRED_NUM", "persons", "the mean of the count above", type="integer"),
    Column("PRED_DENOM", "units", "the mean of the count below", type="integer"),
)


def _interval(level: str, unit: str) -> tuple[Column, ...]:
    return (
        Column(f"LOW{level}", unit, f"the lower end of the interval at {level or '95'}%", type="number"),
        Column(f"HIGH{level}", unit, f"the upper end of the interval at {level or '95'}%", type="number"),
        Column(f"SAID{level}", "code", f"what the interval at {level or '95'}% is", SAID),
    )


def averages_columns(unit: str) -> tuple[Column, ...]:
    """Return the columns of a table of averages after its keys."""
    return (
        Column("NUMERATOR", "persons", "the noisy count above", type="integer"),
        Column("DENOMINATOR", "units", "the noisy count below", type="integer"),
        Column("RATIO", unit, "their ratio, or the possible one that is nearest", type="number"),
        *_interval("", unit),
        *_interval("90", unit),
        Column("ESTIMATE", unit, "the ratio of the least-squares estimates", type="number", optional=True),
        Column("ESTIMATE_LOW", unit, "the lower end of its interval at 95%, by Fieller", type="number", optional=True),
        Column("ESTIMATE_HIGH", unit, "the upper end of its interval at 95%", type="number", optional=True),
    )


def _table(published: PublishedTable) -> Table:
    unit = published.of.counts if published.of.counts == "persons" else "housing units"
    cells = Column(
        published.column,
        "code",
        "the cell",
        published.words,
        title="Cell",
        frame="cell",
        labels=True,
    )
    codes = (ITERATION,) if published.of.levels != ("*",) else ()
    keys = (*REGION_COLUMNS, *codes, cells)
    name = published.name
    return Table(
        f"{name}: {published.title}",
        (*keys, *(replace(column, unit=column.unit or unit) for column in (COUNT, *NOISE))),
        text=f"{name}/{name}.csv",
        parquet=f"{name}/{name}.parquet",
        key=tuple(column.name for column in keys),
        counts=True,
    )


def _estimates(name: str) -> Table:
    base = next(_table(PUBLISHED[table.name]) for table in MEASURED if table.name == name)
    keys = tuple(column for column in base.columns if column.name in base.key)
    unit = base.columns[len(keys)].unit
    return Table(
        f"Least-squares estimates of {name}",
        (*keys, *(replace(column, unit=unit, in_text=True) for column in ESTIMATES)),
        text=f"estimates/{name}.csv",
        parquet=f"estimates/{name}.parquet",
        key=base.key,
        dependent=True,
    )


def _averages() -> list[Table]:
    tables = []
    for average in AVERAGES:
        words = {code: of[0] for code, of in average.cells.items()}
        cells = Column(f"{average.name}_DATA_CELL", "code", "the row", words, title="Row", frame="cell", labels=True)
        keys = (*REGION_COLUMNS, replace(ITERATION, overlap=False), cells)
        unit = f"persons per {'family' if average.name == 'PH5' else 'household'}"
        tables.append(
            Table(
                f"{average.name}: {average.title}",
                (*keys, *averages_columns(unit)),
                text=f"averages/{average.name}.csv",
                parquet=f"averages/{average.name}.parquet",
                key=tuple(column.name for column in keys),
            )
        )
    return tables


def _words(name: str, code: str) -> str:
    return SUMS[name][code][0] if code in SUMS[name] else PUBLISHED[name].words[code]


def _posteriors() -> list[Table]:
    tables = []
    for name in (*WITH_SUMS, *(average.name for average in AVERAGES)):
        average = next((each for each in AVERAGES if each.name == name), None)
        words = (
            {code: of[0] for code, of in average.cells.items()}
            if average
            else {code: _words(name, code) for code in WITH_SUMS[name]}
        )
        cells = Column(f"{name}_DATA_CELL", "code", "the cell", words, title="Cell", frame="cell", labels=True)
        codes = (
            () if name in PUBLISHED and PUBLISHED[name].of.levels == ("*",) else (replace(ITERATION, overlap=False),)
        )
        keys = (*REGION_COLUMNS, *codes, cells)
        tables.append(
            Table(
                f"Posterior of {name}",
                (*keys, *(RATIO_POSTERIOR if average else COUNT_POSTERIOR)),
                text=f"estimates/posterior/{name}.csv",
                parquet=f"estimates/posterior/{name}.parquet",
                key=tuple(column.name for column in keys),
            )
        )
    return tables


TABLES = (
    *(_table(published) for published in PUBLISHED.values()),
    *(_estimates(table.name) for table in MEASURED),
    *_averages(),
    *_posteriors(),
)


def description(manifest: Mapping[str, Any]) -> Description:
    """Return the description of a release, with the laws of its counts."""
    queries = manifest["queries"]
    of_tables = {slug(f"{name}/{name}"): _laws(published, queries) for name, published in PUBLISHED.items()}
    measured = {name.partition("/")[0] for name in queries}
    required = [
        f"{published.name}/{published.name}.csv" for published in PUBLISHED.values() if published.of.name in measured
    ]
    return Description(TABLES, lambda name: of_tables.get(name.removesuffix("-text"), ()), required=tuple(required))


def _laws(published: PublishedTable, queries: Mapping[str, Any]) -> tuple[Noise, ...]:
    """Return the laws of a published table's counts by the margins of its rows; none where two laws share one."""
    from privacy.noise.margins import margin_of_error
    from tasks.s_dhc.check import law_of

    laws: dict[int, Noise] = {}
    for level in LEVELS:
        for region in ("usa", "state"):
            facts = queries.get(f"{published.of.name}/{region}_{level}")
            if facts is None:
                continue
            law = law_of(facts)
            for cells in sorted({len(cells) for cells in published.cells.values()}):
                margin = margin_of_error(law, cells)
                stated = {key: facts[key] for key in ("law", law.parameter_name, "variance")}
                entry = {"margin": margin, "cells": cells, **stated}
                if laws.setdefault(margin, entry) != entry:
                    return ()
    return tuple(laws.values())
