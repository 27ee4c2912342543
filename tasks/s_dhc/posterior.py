"""Posteriors of counts and averages, as the published S-DHC defines them: files in estimates/posterior.

The definition is privacy/estimation/polyhedron_posterior.py's; the published files hold draws from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from privacy.estimation.densities import lattice
from privacy.estimation.polyhedron_posterior import LEVELS, RatioPosterior, part_ratio, posterior, ratio, sum_of
from privacy.noise.laws import Law
from tasks.s_dhc.configuration import TableQuery
from tasks.s_dhc.run import Plan
from tasks.s_dhc.tables import Average, Counts

Columns = dict[str, list[Any]]
COUNTS = ("COUNT_NOISY", "PRED", "PRED_LO", "PRED_HI")
RATIOS = ("RATIO_PRED", "RATIO_PRED_LO", "RATIO_PRED_HI", "PRED_NUM", "PRED_DENOM")
DIGITS = 4  # of a ratio


def count_posteriors(cells: Mapping[str, tuple[int, ...]], law: Law, counts: Counts) -> Columns:
    """Return the columns of a table's rows, regions x codes x cells; a cell that is a sum has the sum's posterior."""
    rows = []
    for of_cells in counts[0].reshape(-1, counts[0].shape[2]).tolist():
        each = [posterior(count, lattice(law)) for count in of_cells]
        for places in cells.values():
            total = sum_of([each[place] for place in places])
            noisy, mean = sum(of_cells[place] for place in places), sum(round(each[place].mean) for place in places)
            rows.append((noisy, mean, *map(total.quantile, LEVELS)))
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
