"""Averages of a release: ratios of noisy counts with exact confidence sets. A piece of work is a pair of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from privacy.estimation.densities import lattice
from privacy.estimation.ratio_sets import NoisyRatio
from privacy.tables.histogram import IntArray
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.releases.published import rows_of
from tasks.s_dhc.configuration import TableQuery
from tasks.s_dhc.released_rows import in_run, keys_of, write_table
from tasks.s_dhc.run import SDhcPlan, answers_of, plan_of
from tasks.s_dhc.tables import AVERAGES, TABLES, Average

Columns = dict[str, list[Any]]
ALPHAS = {"": Fraction(1, 20), "90": Fraction(1, 10)}


def levels_of(plan: SDhcPlan) -> list[tuple[Average, TableQuery, TableQuery]]:
    """Return each average with the queries of its numerator and denominator, if both were measured."""
    queries = {each.query.name: each for each in plan.configuration.queries()}
    return [
        (average, queries[above], queries[below])
        for average in AVERAGES
        for key in TABLES[average.numerator.measured].keys
        for above, below in [(f"sdhc/{each.measured}/{key}" for each in (average.numerator, average.denominator))]
        if above in queries and below in queries
    ]


def find_averages(run: RunDirectory, workers: Workers) -> None:
    """Compute the averages, a piece for each pair of queries: noisy/averages."""
    plan = plan_of(run)
    if plan.estimates:
        workers.map("averages", run, find_part, [(number,) for number, _ in enumerate(levels_of(plan))])


def find_part(run: RunDirectory, number: int) -> None:
    """Compute the averages of one pair of queries on a worker: noisy/averages/NUMBER."""
    if not (path := _part(run, number)).exists():
        plan = plan_of(run)
        average, *queries = levels_of(plan)[number]
        save_object(path, average_columns(plan, average, queries, in_run(plan, answers_of(run))))


def _part(run: RunDirectory, number: int) -> Path:
    return run / f"noisy/averages/{number:02d}"


def average_columns(
    plan: SDhcPlan,
    average: Average,
    queries: Sequence[TableQuery],
    counts: Mapping[str, IntArray],
    alphas: Mapping[str, Fraction] = ALPHAS,
) -> Columns:
    """Return the columns of an average's rows, keys x rows: counts, ratio and the intervals at `alphas`.

    counts: those of each query, by name.
    """
    columns: Columns = defaultdict(list)
    most, laws = queries[0].query.tau or 0, [plan.law(query) for query in queries]
    for *rows, numerator, denominator in average.rows([counts[each.query.name] for each in queries]):
        consistent = plan.configuration.household_rules == "error"
        low = min(average.lowest(rows[0].codes[0]) if consistent else 0, most)  # the smallest possible average
        columns["NUMERATOR"].append(numerator)
        columns["DENOMINATOR"].append(denominator)
        columns["RATIO"].append(_nearest_ratio(numerator, denominator, low, most))
        for level, alpha in alphas.items():
            above, below = (lattice(law, len(row.cells)) for law, row in zip(laws, rows, strict=True))
            interval = NoisyRatio(numerator, denominator, above, below, low, most).interval(alpha)
            columns[f"LOW{level}"].append(float(interval.low))
            columns[f"HIGH{level}"].append(float(interval.high))
            columns[f"SAID{level}"].append(interval.extent)
    return dict(columns)


def average_rows(plan: SDhcPlan, average: Average, above: TableQuery, columns: Columns) -> pa.Table:
    """Return the rows of an average, for the keys of its numerator's query. columns: keys x rows."""
    numbers = {name: np.array(values).reshape(-1, len(average.numerator.rows)) for name, values in columns.items()}
    return rows_of(average.numerator, keys_of(plan, above), numbers)


def _nearest_ratio(numerator: float, denominator: float, low: int, high: int) -> float:
    """Return a ratio, or the nearest possible average."""
    if denominator <= 0:
        return float(high if numerator > 0 else low)
    return round(float(min(max(numerator / denominator, low), high)), 3)


def write_averages(run: RunDirectory, out: Path) -> None:
    """Write the tables of averages into OUT/averages."""
    plan = plan_of(run)
    tables = defaultdict(list)
    for number, (average, above, _) in enumerate(levels_of(plan)):
        columns = load_object(_part(run, number), Columns)
        tables[average.name].append(average_rows(plan, average, above, columns))
    for name, parts in tables.items():
        write_table(out, f"averages/{name}", pa.concat_tables(parts), everything=True)
