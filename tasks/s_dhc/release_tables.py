"""Describe the tables of an S-DHC release."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from privacy.noise.laws import Law
from privacy.tables.published import Published
from tasks.geography.public_regions import NAMES_TABLE, REGION_COLUMNS, REGION_TYPE_WORDS
from tasks.releases.datapackage import slug
from tasks.releases.description import Column, Description, Table, integer, number
from tasks.releases.manifest import read_law
from tasks.releases.published import laws_by_margin, row_column, tidy_as
from tasks.releases.tidy import with_tidy
from tasks.s_dhc.tables import AVERAGES, ITERATIONS, PUBLISHED, Average
from tasks.s_dhc.tables import TABLES as TABLES_MEASURED

TYPE, ID = REGION_COLUMNS
NATION_OR_STATE = (
    ID,
    replace(TYPE, codes={kind: REGION_TYPE_WORDS[kind] for kind in ("USA", "STATE")}, total="USA"),
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
    number(
        "VARIANCE", "squared counts", "the variance of its noise", title="Variance", role="variance", frame="variance"
    ),
    integer("MOE", "", "the margin of error at 95%", role="margin", of="COUNT", frame="margin", in_text=False),
    integer("MOE90", "", "the margin of error at 90%", title="Margin, 90%", frame="margin_90", in_text=False),
)
ESTIMATES = (
    integer("COUNT", "", "the least-squares estimate", role="estimate", frame="estimate"),
    integer("MOE", "", "its margin of error at 95%", role="margin", of="COUNT", frame="estimate_margin"),
    integer("MOE90", "", "its margin of error at 90%", title="Margin, 90%", frame="estimate_margin_90"),
)
PARQUET_ALONE = ("MOE", "MOE90")  # columns of counts that the text files lack, as in the program
SAID = {
    "set": "an interval",
    "all": "no information: no possible average is excluded",
    "none": "every possible average is excluded; the nearest one is given",
}


def _interval(level: str, unit: str) -> tuple[Column, ...]:
    at, of = f"{level or 95}%", level and f"_{level}"
    return (
        number(f"LOW{level}", unit, f"the lower end of the interval at {at}", title=f"{at}: from", frame=f"low{of}"),
        number(f"HIGH{level}", unit, f"the upper end of the interval at {at}", title="to", frame=f"high{of}"),
        Column(f"SAID{level}", "code", f"what the interval at {at} is", SAID, title=f"{at}: kind", frame=f"kind{of}"),
    )


def averages_columns(average: Average) -> tuple[Column, ...]:
    """Return the columns of a table of averages that follow its keys."""
    unit = f"persons per {'family' if average.name == 'PH5' else 'household'}"
    return (
        integer("NUMERATOR", "persons", "the noisy count above", title="Persons", frame="numerator"),
        integer("DENOMINATOR", "units", "the noisy count below", title="Units", frame="denominator"),
        number("RATIO", unit, "their ratio, or the possible one that is nearest", title="Average", frame="average"),
        *_interval("", unit),
        *_interval("90", unit),
    )


def _table(
    path: str,
    title: str,
    table: Published,
    columns: Sequence[Column],
    *,
    counts: bool = False,
    of: str = "",
) -> Table:
    """Describe a table: keys, then `columns`; a column without a unit has the table's.

    of: the table whose counts it estimates.
    """
    cells, summable = row_column(table), bool(counts or of)
    if not summable:
        cells = replace(cells, meaning="the row", title="Row", overlap=False)
    coded = TABLES_MEASURED[table.measured].levels != ("*",)
    keys = (*NATION_OR_STATE, *(replace(ITERATION, overlap=summable),) * coded, cells)
    return Table(
        title,
        (*keys, *(replace(column, unit=column.unit or table.unit) for column in columns)),
        text=f"{path}.csv",
        parquet=f"{path}.parquet",
        key=tuple(column.name for column in keys),
        counts=counts,
        of=of and f"{of}/{of}",
        dependent=bool(of),
        tidy=tidy_as(path.removeprefix(f"{table.name}/"), table, left_out=["NOISE_DISTRIBUTION"]),
    )


TABLES = (
    *(
        _table(f"{name}/{name}", f"{name}: {each.title}", each, (COUNT, *NOISE), counts=True)
        for name, each in PUBLISHED.items()
    ),
    *(
        _table(
            f"estimates/{name}", f"Least-squares estimates of {name}", PUBLISHED[name], ESTIMATES, of=f"{name}/{name}"
        )
        for name in TABLES_MEASURED
    ),
    *(
        _table(f"averages/{each.name}", f"{each.name}: {each.numerator.title}", each.numerator, averages_columns(each))
        for each in AVERAGES
    ),
)


def description(manifest: Mapping[str, Any]) -> Description:
    """Describe a release: its tables, and the laws of its counts."""
    laws = defaultdict[str, list[Law]](list)
    for name, facts in manifest["queries"].items():
        laws[name.partition("/")[0]].append(read_law(facts))
    noise = {
        slug(name): laws_by_margin(product(laws[table.measured], table.draws.tolist()))
        for name, table in PUBLISHED.items()
    }
    budgets = manifest["configuration"]["privacy_budget"]
    measured = {name for name in budgets if any(budget != "0" for budget in budgets[name].values())}
    required = [f"{name}/{name}.csv" for name, table in PUBLISHED.items() if table.measured in measured]
    tables = *TABLES, NAMES_TABLE
    return with_tidy(
        Description(tables, lambda name: noise.get(name.removesuffix("-text"), ()), required=("report.html", *required))
    )
