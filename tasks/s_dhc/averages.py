"""Averages and posteriors of a release, from noisy counts alone: a piece of work for each query, or pair of queries.

Averages are ratios of noisy counts with exact confidence sets, and of least-squares estimates with Fieller's. The
posteriors are those that the published S-DHC has draws from (privacy/estimation/polyhedron_posterior.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from privacy.estimation import polyhedron_posterior as model
from privacy.estimation.densities import lattice
from privacy.estimation.polyhedron_posterior import RatioPosterior, part_ratio, posterior, ratio, sum_of
from privacy.estimation.ratio_sets import NoisyRatio, normal_interval
from privacy.noise.laws import Law
from tasks.lifecycle.files import load_object, save_object, unless_done
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.s_dhc.configuration import TableQuery
from tasks.s_dhc.estimates import QUANTILES, Found, estimate_all, write_estimates
from tasks.s_dhc.released_rows import keys_table, places_of, write_table
from tasks.s_dhc.run import Plan, answers_of, plan_of
from tasks.s_dhc.tables import AVERAGES, TABLES, WITH_SUMS, Average, Counts

Columns = dict[str, list[Any]]
COUNTS = ("COUNT_NOISY", "PRED", "PRED_LO", "PRED_HI")
RATIOS = ("RATIO_PRED", "RATIO_PRED_LO", "RATIO_PRED_HI", "PRED_NUM", "PRED_DENOM")
DIGITS = 4  # of a ratio
ALPHAS = {"": Fraction(1, 20), "90": Fraction(1, 10)}


@dataclass(frozen=True)
class Part:
    """Some rows of a file, from the answers of one query or the average of two. compute: returns their columns."""

    file: str
    cells: Iterable[str]
    queries: tuple[TableQuery, ...]
    compute: Callable[[Counts], Columns]
    average: Average | None = None


def parts_of(plan: Plan) -> Iterator[Part]:
    """Yield the parts of all files."""
    levels = levels_of(plan)
    for average, *queries in levels:
        compute = partial(average_columns, plan, average, queries)
        yield Part(f"averages/{average.name}", average.cells, tuple(queries), compute, average)
    for query in plan.configuration.queries():
        if table := WITH_SUMS.get(query.table.name):
            compute = partial(count_posteriors, table.cells, plan.law(query))
            yield Part(f"estimates/posterior/{table.name}", table.cells, (query,), compute)
    for average, *queries in levels:
        compute = partial(ratio_posteriors, plan, average, queries)
        yield Part(f"estimates/posterior/{average.name}", average.cells, tuple(queries), compute)


def levels_of(plan: Plan) -> list[tuple[Average, TableQuery, TableQuery]]:
    """Return each average with the queries above and below, where both were measured."""
    queries = {each.query.name: each for each in plan.configuration.queries()}
    return [
        (average, queries[above], queries[below])
        for average in AVERAGES
        for key in TABLES[average.numerator].keys
        for above, below in [(f"sdhc/{average.numerator}/{key}", f"sdhc/{average.denominator}/{key}")]
        if above in queries and below in queries
    ]


def find_averages(run: RunDirectory, workers: Workers) -> None:
    """Compute the averages and posteriors, a piece for each part: noisy/averages."""
    plan = plan_of(run)
    if plan.estimates:
        workers.map("averages", run, find_part, [(number,) for number, _ in enumerate(parts_of(plan))])


def find_part(run: RunDirectory, number: int) -> None:
    """Compute one part on a worker: noisy/averages/NUMBER."""
    path = run / f"noisy/averages/{number:02d}"
    unless_done(path, lambda: save_object(path, _columns(run, number)))


def _columns(run: RunDirectory, number: int) -> Columns:
    plan, answers = plan_of(run), answers_of(run)
    part = list(parts_of(plan))[number]
    return part.compute([answers[each.query.name][places_of(plan, each.region_type)] for each in part.queries])


def average_columns(plan: Plan, average: Average, queries: Sequence[TableQuery], counts: Counts) -> Columns:
    """Return the columns of an average's rows, regions x codes x cells: counts, ratio and intervals."""
    columns: Columns = defaultdict(list)
    for code, numerator, denominator in average.rows(counts):
        _, *of = average.cells[code]
        above, below = (lattice(plan.law(query), len(cells)) for query, cells in zip(queries, of, strict=True))
        low, high = _range(plan, average, code, queries)
        noisy = NoisyRatio(numerator, denominator, above, below, low, high)
        columns["NUMERATOR"].append(numerator)
        columns["DENOMINATOR"].append(denominator)
        columns["RATIO"].append(nearest_ratio(numerator, denominator, low, high))
        for level, alpha in ALPHAS.items():
            interval = noisy.interval(alpha)
            columns[f"LOW{level}"].append(float(interval.low))
            columns[f"HIGH{level}"].append(float(interval.high))
            columns[f"SAID{level}"].append(interval.said)
    return dict(columns)


def _range(plan: Plan, average: Average, code: str, queries: Sequence[TableQuery]) -> tuple[int, int]:
    """Return what an average can be in a row."""
    most = queries[0].query.tau or 0
    return min(average.lowest(code) if plan.configuration.household_rules == "error" else 0, most), most


def nearest_ratio(numerator: float, denominator: float, low: int, high: int) -> float:
    """Return a ratio, or the possible one that is nearest."""
    if denominator <= 0:
        return float(high if numerator > 0 else low)
    return round(float(min(max(numerator / denominator, low), high)), 3)


def write_averages_and_estimates(run: RunDirectory, out: Path) -> None:
    """Write OUT/estimates and OUT/averages."""
    plan = plan_of(run)
    found = estimate_all(plan, answers_of(run))
    write_estimates(plan, out, found)
    tables = defaultdict(list)
    for number, part in enumerate(parts_of(plan)):
        columns = load_object(run / f"noisy/averages/{number:02d}", Columns)
        if part.average is not None:
            columns |= _estimates(plan, part.average, part.queries, found)
        name = f"{part.file.rpartition('/')[2]}_DATA_CELL"
        tables[part.file].append(pa.table({**keys_table(plan, part.queries[0], name, part.cells), **columns}))
    for file, parts in tables.items():
        table = pa.concat_tables(parts, promote_options="default")
        kept = [name for name in table.column_names if not table[name].null_count]  # none of tables not estimated
        write_table(out, file, table.select(kept), everything=True)


def _estimates(plan: Plan, average: Average, queries: Sequence[TableQuery], found: Found) -> Columns:
    """Return the ratios of least-squares estimates with their intervals; none where a table is not estimated."""
    each = [found.get((query.table.name, query.key)) for query in queries]
    there = [one for one in each if one is not None]
    if len(there) < len(each):
        return {}
    columns: Columns = {"ESTIMATE": [], "ESTIMATE_LOW": [], "ESTIMATE_HIGH": []}
    for code, numerator, denominator in average.rows([one.counts for one in there]):
        _, *of = average.cells[code]
        above, below = (one.variance(cells) for one, cells in zip(there, of, strict=True))
        low, high = _range(plan, average, code, queries)
        ends = normal_interval(numerator, denominator, (above, below), QUANTILES["MOE"], low, high)
        ratios = (nearest_ratio(numerator, denominator, low, high), *(round(float(end), 3) for end in ends))
        for name, value in zip(columns, ratios, strict=True):
            columns[name].append(value)
    return columns


def count_posteriors(cells: Mapping[str, tuple[int, ...]], law: Law, counts: Counts) -> Columns:
    """Return the columns of a table's rows, regions x codes x cells; a cell that is a sum has the sum's posterior."""
    rows = []
    for of_cells in counts[0].reshape(-1, counts[0].shape[2]).tolist():
        each = [posterior(count, lattice(law)) for count in of_cells]
        for places in cells.values():
            total = sum_of([each[place] for place in places])
            noisy, mean = sum(of_cells[place] for place in places), sum(round(each[place].mean) for place in places)
            rows.append((noisy, mean, *map(total.quantile, model.LEVELS)))
    return dict(zip(COUNTS, map(list, zip(*rows, strict=True)), strict=True))


def ratio_posteriors(plan: Plan, average: Average, queries: Sequence[TableQuery], counts: Counts) -> Columns:
    """Return the columns of an average's rows, regions x codes x cells."""
    rows = [
        (
            *(round(value, DIGITS) for value in (found.mean, found.low, found.high)),
            round(found.numerator),
            round(found.denominator),
        )
        for found in _ratios(plan, average, queries, counts)
    ]
    return dict(zip(RATIOS, map(list, zip(*rows, strict=True)), strict=True))


def _ratios(plan: Plan, average: Average, queries: Sequence[TableQuery], counts: Counts) -> Iterator[RatioPosterior]:
    """Yield the posteriors: by age the cells of one household jointly, by tenure each row by itself."""
    laws = [plan.law(each) for each in queries]
    most = queries[0].query.tau or 0
    least = min(average.least_of_model, most)
    if average.of_all:
        for code, n, d in average.rows(counts):
            _, above, below = average.cells[code]
            noises = lattice(laws[0], len(above)), lattice(laws[1], len(below))
            yield ratio(posterior(n, noises[0]), posterior(d, noises[1], 1), least, most)
        return
    noises = lattice(laws[0]), lattice(laws[1])
    for cells, (d,) in zip(counts[0].reshape(-1, 2).tolist(), counts[1].reshape(-1, 1).tolist(), strict=True):
        minors, adults = (posterior(count, noises[0]) for count in cells)
        units = posterior(d, noises[1], 1)
        yield ratio(sum_of([minors, adults]), units, least, most)
        yield part_ratio(minors, adults, units, least, most)
        yield part_ratio(adults, minors, units, least, most)
