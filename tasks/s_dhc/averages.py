"""Averages: ratios of noisy counts with exact confidence sets, and of least-squares estimates with Fieller's."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privacy.estimation.densities import lattice
from privacy.estimation.ratio_sets import NoisyRatio, normal_interval
from tasks.lifecycle.files import load_object, save_object, unless_done
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.s_dhc.configuration import TableQuery
from tasks.s_dhc.estimates import QUANTILES, Estimated, Found, estimate_all, write_estimates
from tasks.s_dhc.release import keys_of, keys_table, places_of, write_table
from tasks.s_dhc.run import Plan, answers_of, plan_of
from tasks.s_dhc.tables import AVERAGES, Average

ALPHAS = {"": Fraction(1, 20), "90": Fraction(1, 10)}
Columns = dict[str, list[Any]]


def find_averages(run: RunDirectory, workers: Workers) -> None:
    """Compute the averages of every level, a piece each: noisy/averages."""
    plan = plan_of(run)
    if plan.estimates:
        workers.map("averages", run, find_averages_of, [(number,) for number in range(len(levels_of(plan)))])


def levels_of(plan: Plan) -> list[tuple[Average, TableQuery, TableQuery]]:
    """Return each average with the queries above and below, where both were measured."""
    queries = {each.query.name: each for each in plan.configuration.queries()}
    return [
        (average, queries[above], queries[below])
        for average in AVERAGES
        for key in (f"{region}_{level}" for region in ("usa", "state") for level in ("A-G", "H,I", "*"))
        for above, below in [(f"sdhc/{average.numerator}/{key}", f"sdhc/{average.denominator}/{key}")]
        if above in queries and below in queries
    ]


def find_averages_of(run: RunDirectory, number: int) -> None:
    """Compute the averages of one level on a worker: noisy/averages/NUMBER."""
    path = run / f"noisy/averages/{number:02d}"
    unless_done(path, lambda: save_object(path, _averages_of(run, number)))


def _averages_of(run: RunDirectory, number: int) -> Columns:
    plan, answers = plan_of(run), answers_of(run)
    average, above, below = levels_of(plan)[number]
    places = places_of(plan, above.region_type)
    counts = answers[above.query.name][places], answers[below.query.name][places]
    return ratio_columns(plan, average, (above, below), counts)


def ratio_columns(
    plan: Plan, average: Average, queries: Sequence[TableQuery], counts: Sequence[NDArray[np.int64]]
) -> Columns:
    """Return the columns of an average's rows, regions x codes x cells: counts, ratio and intervals."""
    laws = [plan.law(query) for query in queries]
    ends = [f"{end}{level}" for level in ALPHAS for end in ("LOW", "HIGH", "SAID")]
    names = ("NUMERATOR", "DENOMINATOR", "RATIO", *ends)
    columns: Columns = {name: [] for name in names}
    most = queries[0].query.tau or 0
    sums = sums_of(average, counts)
    codes = average.cells_of_rows(counts[0])
    for code, numerator, denominator in zip(codes, sums[0].tolist(), sums[1].tolist(), strict=True):
        of = average.cells[code]
        least = average.lowest(code) if plan.configuration.household_rules == "error" else 0
        above, below = lattice_of(laws[0], len(of[1])), lattice_of(laws[1], len(of[2]))
        noisy = NoisyRatio(numerator, denominator, above, below, min(least, most), most)
        columns["NUMERATOR"].append(numerator)
        columns["DENOMINATOR"].append(denominator)
        columns["RATIO"].append(nearest_ratio(numerator, denominator, min(least, most), most))
        for level, alpha in ALPHAS.items():
            interval = noisy.interval(alpha)
            columns[f"LOW{level}"].append(float(interval.low))
            columns[f"HIGH{level}"].append(float(interval.high))
            columns[f"SAID{level}"].append(interval.said)
    return columns


def sums_of(average: Average, counts: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the counts above and below of an average's rows, from those of its tables: regions x codes x cells."""
    above, below = (
        np.stack([each[:, :, list(cells)].sum(axis=2) for cells in of], axis=2).ravel()
        for each, of in zip(counts, zip(*(cells for _, *cells in average.cells.values()), strict=True), strict=True)
    )
    return above, below


lattice_of = lru_cache(maxsize=64)(lattice)  # the laws of a level, for each of its rows


def write_averages_and_estimates(run: RunDirectory, out: Path) -> None:
    """Write OUT/estimates and OUT/averages."""
    plan = plan_of(run)
    found = estimate_all(plan, answers_of(run))
    write_estimates(plan, out, found)
    for average in AVERAGES:
        parts = []
        for number, (of, above, below) in enumerate(levels_of(plan)):
            if of is not average:
                continue
            columns = load_object(run / f"noisy/averages/{number:02d}", Columns)
            ids, codes = keys_of(plan, above)
            keys = keys_table(above.region_type, ids, codes, f"{average.name}_DATA_CELL", list(average.cells))
            parts.append({**keys, **_typed(columns), **_typed(_estimates(plan, average, above, below, found))})
        if parts:
            table = pa.concat_tables(map(pa.table, parts))
            kept = [name for name in table.column_names if not table[name].null_count]  # none of tables not estimated
            write_table(out, f"averages/{average.name}", table.select(kept), everything=True)


def nearest_ratio(numerator: float, denominator: float, low: int, high: int) -> float:
    """Return a ratio, or the possible one that is nearest."""
    if denominator <= 0:
        return float(high if numerator > 0 else low)
    return round(min(max(numerator / denominator, low), high), 3)


def _typed(columns: Columns) -> dict[str, pa.Array]:
    kinds = {"NUMERATOR": pa.int64(), "DENOMINATOR": pa.int64(), "SAID": pa.string(), "SAID90": pa.string()}
    return {name: pa.array(values, kinds.get(name, pa.float64())) for name, values in columns.items()}


def _estimates(plan: Plan, average: Average, above: TableQuery, below: TableQuery, found: Found) -> Columns:
    """Return the ratios of least-squares estimates with their intervals; without a value where there are none."""
    each = [found.get((query.table.name, query.query.name.rpartition("/")[2])) for query in (above, below)]
    columns: Columns = {"ESTIMATE": [], "ESTIMATE_LOW": [], "ESTIMATE_HIGH": []}
    ids, iterations = keys_of(plan, above)
    for region in range(len(ids)):
        for iteration in range(len(iterations)):
            for code, of in average.cells.items():
                least = average.lowest(code) if plan.configuration.household_rules == "error" else 0
                values = _estimated_ratio(each, of, (region, iteration), least, above.query.tau or 0)
                for name, value in zip(columns, values, strict=True):
                    columns[name].append(value)
    return columns


def _estimated_ratio(
    each: Sequence[Estimated | None], of: tuple[str, tuple[int, ...], tuple[int, ...]], where: tuple[int, int],
    least: int, most: int,
) -> tuple[float | None, float | None, float | None]:  # fmt: skip
    if each[0] is None or each[1] is None:
        return None, None, None
    counts = [float(one.counts[where][list(cells)].sum()) for one, cells in zip(each, of[1:], strict=True) if one]
    above, below = (one.variance(cells) for one, cells in zip(each, of[1:], strict=True) if one)
    low, high = normal_interval(counts[0], counts[1], (above, below), QUANTILES["MOE"], min(least, most), most)
    return nearest_ratio(counts[0], counts[1], min(least, most), most), round(low, 3), round(high, 3)
