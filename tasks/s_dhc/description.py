"""What the tables of an S-DHC release are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tasks.geography.public_regions import REGION, REGION_TYPES
from tasks.releases.datapackage import slug
from tasks.releases.description import Column, Description, Noise, Table, integer, number
from tasks.s_dhc.tables import AVERAGES, ITERATIONS, LEVELS, PUBLISHED, Average, PublishedTable
from tasks.s_dhc.tables import TABLES as TABLES_MEASURED

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
COUNT = integer("COUNT", "", "the count, with noise", role="count", frame="count")
NOISE = (
    Column("NOISE_DISTRIBUTION", "law", "the law of its noise; None in a truth", title="Noise"),
    number("VARIANCE", "squared counts", "the variance of its noise", title="Variance", role="variance"),
    integer("MOE", "", "the margin of error at 95%", role="margin", of="COUNT", frame="margin", in_text=False),
    integer("MOE90", "", "the margin of error at 90%", title="Margin, 90%", in_text=False),
)
ESTIMATES = (
    integer("COUNT", "", "the least-squares estimate", role="estimate", frame="estimate"),
    integer("MOE", "", "its margin of error at 95%", role="margin", of="COUNT", frame="estimate_margin"),
    integer("MOE90", "", "its margin of error at 90%", title="Margin, 90%"),
)
PARQUET_ALONE = ("MOE", "MOE90")  # columns of the counts that the program's text has not
SAID = {
    "set": "an interval",
    "all": "no information: no possible average is excluded",
    "none": "every possible average is excluded; the nearest one is given",
}


def _interval(level: str, unit: str) -> tuple[Column, ...]:
    at = f"{level or 95}%"
    return (
        number(f"LOW{level}", unit, f"the lower end of the interval at {at}", title=f"{at}: from"),
        number(f"HIGH{level}", unit, f"the upper end of the interval at {at}", title="to"),
        Column(f"SAID{level}", "code", f"what the interval at {at} is", SAID, title=f"{at}: kind"),
    )


def averages_columns(average: Average) -> tuple[Column, ...]:
    """Return the columns of a table of averages after its keys."""
    unit = f"persons per {'family' if average.name == 'PH5' else 'household'}"
    return (
        integer("NUMERATOR", "persons", "the noisy count above", title="Persons"),
        integer("DENOMINATOR", "units", "the noisy count below", title="Units"),
        number("RATIO", unit, "their ratio, or the possible one that is nearest", title="Average"),
        *_interval("", unit),
        *_interval("90", unit),
    )


def _table(
    path: str,
    title: str,
    words: Mapping[str, str],
    columns: Sequence[Column],
    *,
    coded: bool = True,
    cell: str = "cell",
    counts: bool = False,
    dependent: bool = False,
) -> Table:
    """Return a table of the release: keys, then columns. words: of cells, by code. coded: whether it has iterations."""
    code = f"{path.rpartition('/')[2].upper()}_DATA_CELL"
    cells = Column(code, "code", f"the {cell}", words, title=cell.capitalize(), frame="cell", labels=True)
    iteration = replace(ITERATION, overlap=counts or dependent)
    keys = (*REGION_COLUMNS, *(iteration,) * coded, cells)
    key = tuple(column.name for column in keys)
    return Table(
        title,
        (*keys, *columns),
        text=f"{path}.csv",
        parquet=f"{path}.parquet",
        key=key,
        counts=counts,
        dependent=dependent,
    )


def _coded(name: str) -> bool:
    return PUBLISHED[name].of.levels != ("*",)


def _in_units(name: str, columns: Sequence[Column]) -> list[Column]:
    unit = {"units": "housing units"}.get(PUBLISHED[name].of.counts, "persons")
    return [replace(column, unit=column.unit or unit) for column in columns]


TABLES = (
    *(
        _table(f"{name}/{name}", f"{name}: {each.title}", each.words, _in_units(name, (COUNT, *NOISE)),
               coded=_coded(name), counts=True)
        for name, each in PUBLISHED.items()
    ),
    *(
        _table(f"estimates/{name}", f"Least-squares estimates of {name}", PUBLISHED[name].words,
               _in_units(name, ESTIMATES), coded=_coded(name), dependent=True)
        for name in TABLES_MEASURED
    ),
    *(
        _table(f"averages/{each.name}", f"{each.name}: {each.title}", each.words, averages_columns(each), cell="row")
        for each in AVERAGES
    ),
)  # fmt: skip


def description(manifest: Mapping[str, Any]) -> Description:
    """Return the description of a release, with the laws of its counts."""
    queries = manifest["queries"]
    of_tables = {slug(name): _laws(published, queries) for name, published in PUBLISHED.items()}
    budgets = manifest["configuration"]["privacy_budget"]
    measured = {name for name in budgets if any(budget != "0" for budget in budgets[name].values())}
    required = ["report.html"]
    required += [
        f"{published.name}/{published.name}.csv" for published in PUBLISHED.values() if published.of.name in measured
    ]
    return Description(TABLES, lambda name: of_tables.get(name.removesuffix("-text"), ()), required=tuple(required))


def _laws(published: PublishedTable, queries: Mapping[str, Any]) -> tuple[Noise, ...]:
    """Return the laws of a published table's counts by the margins of its rows; none where two laws share one."""
    from privacy.noise.margins import margin_of_error
    from tasks.releases.manifest import read_law

    laws: dict[int, Noise] = {}
    for level in LEVELS:
        for region in ("usa", "state"):
            facts = queries.get(f"{published.of.name}/{region}_{level}")
            if facts is None:
                continue
            law = read_law(facts)
            for cells in sorted({len(cells) for cells in published.cells.values()}):
                margin = margin_of_error(law, cells)
                stated = {key: facts[key] for key in ("law", law.parameter_name, "variance")}
                entry = {"margin": margin, "cells": cells, **stated}
                if laws.setdefault(margin, entry) != entry:
                    return ()
    return tuple(laws.values())


def states_of_nation(manifest: Mapping[str, Any]) -> list[str]:
    """Return the FIPS codes of the states in a release's counts of the nation; none where it has no such counts."""
    return list(map(str, manifest["states"])) if any("usa" in name.lower() for name in manifest["queries"]) else []
