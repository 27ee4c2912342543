"""The Bureau's own accuracy report, single-run and multi-run, with one column more.

docs/spec/safetab-p.md#truth-and-accuracy-report describes it.
Only measured counts enter: cells, and totals of groups without a table. TotalOnly groups count as workload Total;
DETAILED_ONLY marks them. Suppressed groups are left out. The last column marks a file as not private.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from spine.settings import Jurisdiction
from tasks.detailed_dhca.accuracy.errors import COUNT, LARGEST, Accuracy, errors_folder, is_measured
from tasks.detailed_dhca.details import TOTAL, TOTAL_ONLY
from tasks.detailed_dhca.run import DetailedRun
from tasks.lifecycle.files import open_array
from tasks.population_groups.domain import load_domain
from tasks.population_groups.levels import Level
from tasks.population_groups.tables import group_columns

NAMES = ("Total", "Sex x Age(4)", "Sex x Age(9)", "Sex x Age(23)")
SINGLE, MULTI = "error_report.csv", "multi_run_error_report.csv"
NOT_PRIVATE = "NOT_PRIVATE"
INDEX = ("REGION_TYPE", "ITERATION_LEVEL", "DETAILED_ONLY", "Population group size")


def write_single_run(run: DetailedRun, jurisdiction: Jurisdiction, out: Path) -> None:
    """Write OUT/error_report.csv: the summed errors of every published group of a run."""
    levels = run.parameters.configuration.levels(jurisdiction)
    tables = (_single_run(run, level) for level in levels)
    first = next(tables)
    out.mkdir(parents=True)
    with pa.csv.CSVWriter(
        out / SINGLE, first.schema, write_options=pa.csv.WriteOptions(quoting_style="none", quoting_header="none")
    ) as file:
        file.write_table(first)
        for table in tables:
            file.write_table(table)


def _single_run(run: DetailedRun, level: Level) -> pa.Table:
    domain, nation_state = load_domain(run, level), run.parameters.iterations.nation_state
    coarse = ~np.isin(domain.iteration_codes, nation_state.codes)  # what nation and state do not tabulate
    group, detail, *sums = (
        np.asarray(open_array(errors_folder(run, level), name))
        for name in ("group", "detail", "size", "absolute", "squared")
    )
    position = group % len(domain.iterations)
    truth = pa.array(["False", "True"])
    columns = {
        **group_columns(domain, group),
        "DETAILED_ONLY": truth.take(pa.array(domain.total_only[position].astype(np.int8))),
        "COARSE_ONLY": truth.take(pa.array(coarse[position].astype(np.int8))),
        "Population group size": sums[0],
        "Workload selected": pa.array([*NAMES, NAMES[TOTAL]]).take(pa.array(detail)),
        "Total absolute error": sums[1],
        "Total squared error": sums[2],
        NOT_PRIVATE: pa.repeat("True", len(group)),
    }
    return pa.table(columns)


def multi_run(accuracy: Accuracy) -> pd.DataFrame:
    """Return the multi-run report: by level, DETAILED_ONLY and size, each workload's proportion and margin of error.

    A proportion is of the groups published over all runs; a margin is the 0.95 quantile, linearly interpolated, of the
    absolute errors of all measured counts. Sizes 0 and 1 are one class.
    """
    counts, published = accuracy.errors.counts, accuracy.errors.published
    counts = counts[(counts["of"] == COUNT) & is_measured(counts["statistic"], counts["detail"])]
    by = [*INDEX[:3], "size", "workload"]
    counts, published = (_classed(accuracy, table) for table in (counts, published[published["number"] > 0]))
    groups = published.groupby(by)["number"].sum().unstack(fill_value=0).reindex(columns=NAMES, fill_value=0)
    proportions = groups.div(groups.sum(axis=1), axis=0)
    margins = pd.Series({key: interpolated_95(part) for key, part in counts.groupby(by)}).unstack()
    margins = margins.reindex(columns=NAMES)
    table = groups.index.to_frame(index=False)
    table.insert(3, INDEX[3], table.pop("size").map(interval))
    for name in NAMES:
        table[f"Average proportion of pop groups with workload = {name}"] = (
            proportions[name].map(format_number).to_numpy()
        )
        table[f"MOE of {name}"] = margins[name].map(format_number).to_numpy()
    return table.assign(**{NOT_PRIVATE: True})


def _classed(accuracy: Accuracy, table: pd.DataFrame) -> pd.DataFrame:
    """Return what the Bureau's report goes by, for each row."""
    return table.assign(
        REGION_TYPE=[accuracy.levels[place].region_type for place in table["level"]],
        ITERATION_LEVEL=[accuracy.levels[place].iteration_level for place in table["level"]],
        DETAILED_ONLY=table["detail"] == TOTAL_ONLY,
        size=table["size"].clip(lower=1),
        workload=table["detail"].map(dict(enumerate([*NAMES, NAMES[TOTAL]]))),
    )


def interval(size: int) -> str:
    """Return a size class as pandas writes it, `(10.0, 100.0]`; the first one `[0.0, 1.0]`."""
    return f"({float(LARGEST[size - 1])}, {float(LARGEST[size])}]" if size > 1 else "[0.0, 1.0]"


def interpolated_95(errors: pd.DataFrame) -> float:
    """Return the 0.95 quantile of |error|, linear between the two counts next to it, as numpy has it."""
    tallied = errors["number"].groupby(errors["error"].abs()).sum()
    position = 0.95 * (tallied.sum() - 1)
    below, above = tallied.index.to_numpy()[
        np.searchsorted(tallied.cumsum(), [np.floor(position), np.ceil(position)], side="right")
    ]
    return float(below + (above - below) * (position % 1))


def format_number(value: float) -> str:
    """Return two decimals, in scientific form where these would hide a small value; an empty text for nan."""
    if np.isnan(value):
        return ""
    return f"{value:.2E}" if 0 < value < 0.01 else f"{value:.2f}"
