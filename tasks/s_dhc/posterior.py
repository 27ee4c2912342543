"""Posteriors of counts and averages, as the published S-DHC defines them: files in estimates/posterior.

The definition is privacy/estimation/polyhedron_posterior.py's; the published files hold draws from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privacy.estimation.densities import Lattice
from privacy.estimation.polyhedron_posterior import LEVELS, RatioPosterior, part_ratio, posterior, ratio, sum_of
from tasks.lifecycle.files import load_object, save_object, unless_done
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.s_dhc.averages import Columns, lattice_of, levels_of, sums_of
from tasks.s_dhc.configuration import TableQuery
from tasks.s_dhc.release import keys_of, keys_table, places_of, write_table
from tasks.s_dhc.run import Plan, answers_of, plan_of
from tasks.s_dhc.tables import AVERAGES, WITH_SUMS, Average

COUNTS = ("COUNT_NOISY", "PRED", "PRED_LO", "PRED_HI")
RATIOS = ("RATIO_PRED", "RATIO_PRED_LO", "RATIO_PRED_HI", "PRED_NUM", "PRED_DENOM")
DIGITS = 4  # of a ratio
Of = tuple[
    str, tuple[TableQuery, ...], Average | None
]  # a file's name, the queries and the average of some of its rows


def parts_of(plan: Plan) -> list[Of]:
    """Return the parts of all files, a query or a level of an average each."""
    counts: list[Of] = [
        (each.table.name, (each,), None) for each in plan.configuration.queries() if each.table.name in WITH_SUMS
    ]
    return [*counts, *((average.name, (above, below), average) for average, above, below in levels_of(plan))]


def find_posteriors(run: RunDirectory, workers: Workers) -> None:
    """Compute the posteriors, a piece a query or level: noisy/posterior."""
    plan = plan_of(run)
    if plan.estimates:
        workers.map("posterior", run, find_posterior_of, [(number,) for number in range(len(parts_of(plan)))])


def find_posterior_of(run: RunDirectory, number: int) -> None:
    """Compute one part on a worker: noisy/posterior/NUMBER."""
    path = run / f"noisy/posterior/{number:02d}"
    unless_done(path, lambda: save_object(path, _part(run, number)))


def _part(run: RunDirectory, number: int) -> Columns:
    plan, answers = plan_of(run), answers_of(run)
    _, queries, average = parts_of(plan)[number]
    counts = [answers[each.query.name][places_of(plan, each.region_type)] for each in queries]
    noises = [lattice_of(plan.law(each), 1) for each in queries]
    if average is None:
        return count_columns(WITH_SUMS[queries[0].table.name], counts[0], noises[0])
    return ratio_columns(plan, average, queries, counts)


def count_columns(cells: dict[str, tuple[int, ...]], counts: NDArray[np.int64], noise: Lattice) -> Columns:
    """Return the columns of a table's rows, regions x codes x cells; a cell that is a sum has the sum's posterior."""
    columns: Columns = {name: [] for name in COUNTS}
    for of_cells in counts.reshape(-1, counts.shape[2]).tolist():
        each = [posterior(count, noise) for count in of_cells]
        for places in cells.values():
            total = sum_of([each[place] for place in places])
            row = (sum(of_cells[place] for place in places), sum(round(each[place].mean) for place in places))
            for name, value in zip(COUNTS, (*row, *map(total.quantile, LEVELS)), strict=True):
                columns[name].append(value)
    return columns


def ratio_columns(
    plan: Plan, average: Average, queries: Sequence[TableQuery], counts: Sequence[NDArray[np.int64]]
) -> Columns:
    """Return the columns of an average's rows, regions x codes x cells."""
    columns: Columns = {name: [] for name in RATIOS}
    for found in _ratios(plan, average, queries, counts):
        ratios = (round(value, DIGITS) for value in (found.mean, found.low, found.high))
        for name, value in zip(RATIOS, (*ratios, round(found.numerator), round(found.denominator)), strict=True):
            columns[name].append(value)
    return columns


def _ratios(
    plan: Plan, average: Average, queries: Sequence[TableQuery], counts: Sequence[NDArray[np.int64]]
) -> Iterator[RatioPosterior]:
    """Yield the posteriors: by age the cells of one household jointly, by tenure each row by itself."""
    laws = [plan.law(each) for each in queries]
    most = queries[0].query.tau or 0
    least = min(average.least_of_model, most)
    if average.of_all:
        for code, n, d in zip(average.cells_of_rows(counts[0]), *sums_of(average, counts), strict=True):
            _, above, below = average.cells[code]
            noises = lattice_of(laws[0], len(above)), lattice_of(laws[1], len(below))
            yield ratio(posterior(int(n), noises[0]), posterior(int(d), noises[1], 1), least, most)
        return
    noises = lattice_of(laws[0], 1), lattice_of(laws[1], 1)
    for cells, (d,) in zip(counts[0].reshape(-1, 2).tolist(), counts[1].reshape(-1, 1).tolist(), strict=True):
        minors, adults = (posterior(count, noises[0]) for count in cells)
        units = posterior(d, noises[1], 1)
        yield ratio(sum_of([minors, adults]), units, least, most)
        yield part_ratio(minors, adults, units, least, most)
        yield part_ratio(adults, minors, units, least, most)


def write_posteriors(run: RunDirectory, out: Path) -> None:
    """Write OUT/estimates/posterior: a table of counts or an average each."""
    plan = plan_of(run)
    parts = list(enumerate(parts_of(plan)))
    for name in dict.fromkeys(name for _, (name, _, _) in parts):
        cells = list(WITH_SUMS[name] if name in WITH_SUMS else AVERAGES_BY_NAME[name].cells)
        tables = []
        for number, (of, queries, _) in parts:
            if of == name:
                ids, codes = keys_of(plan, queries[0])
                keys = keys_table(queries[0].region_type, ids, codes, f"{name}_DATA_CELL", cells)
                if queries[0].table.levels == ("*",):
                    del keys["ITERATION_CODE"]
                tables.append(pa.table(keys | load_object(run / f"noisy/posterior/{number:02d}", Columns)))
        write_table(out, f"estimates/posterior/{name}", pa.concat_tables(tables), everything=True)


AVERAGES_BY_NAME = {average.name: average for average in AVERAGES}
