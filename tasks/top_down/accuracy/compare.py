"""Compare the released counts of a state with the true ones, at every level and for every area. On synthetic data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from privacy.analyses.error_measures import ErrorSums
from spine.geography import IntArray
from spine.top_down import TrueHistograms
from spine.workload import FloatArray
from tasks.pages.words import level_title
from tasks.top_down.areas import areas
from tasks.top_down.estimate.descent import load_estimates
from tasks.top_down.gls.margin_tables import Margins, Z, columns_of, count_columns, load_margins
from tasks.top_down.input.geography import make_spine
from tasks.top_down.input.histograms import BLOCKS
from tasks.top_down.release.microdata import by_geocode
from tasks.top_down.run import TopDownRun, load_histograms
from tasks.top_down.run_plan import ProductName

LEVELS = {  # in words
    level: level_title(level) for level in ("state", "county", "tract", "cbg", "obg", "block", "place", "mcd", "aian")
}
SIZES = (0, 1, 10, 50, 250, 1000)  # first true counts of the classes of size
ALL = -1  # instead of a class of size: all of them
COVERAGE = ("n", "released", "released_squares", "unbiased", "unbiased_squares", "width")
LEAST_ERROR = 0.01  # of a standard error that is not that of a declared count


def compare_state(run: TopDownRun, product: ProductName, state: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return sums of errors over a state's entities by level, quantity and class of the true size, and of coverage."""
    columns = columns_of(product)
    quantities = np.array([name.split(":")[0] for name in columns.names])
    exact = load_histograms(run.counts_folder(product, state, BLOCKS), TrueHistograms)
    released = by_geocode(run, product, state, load_estimates(run, product, state, "Block"))
    truth, estimated = count_columns(exact, columns), count_columns(released, columns)
    errors, coverage = [], []
    for level, entity, number in _entities(run, product, state):
        if not (entity >= 0).any():
            continue  # the state has no such entity
        present = np.flatnonzero(np.bincount(entity[entity >= 0], minlength=number))
        true, error = (_summed(values, entity, number)[present] for values in (truth, estimated - truth))
        margins = _margins(run, product, state, level, present)
        for quantity in dict.fromkeys(quantities.tolist()):
            column = np.flatnonzero(quantities == quantity)
            sums = _sums_by_size(true[:, column].ravel(), error[:, column].ravel())
            errors += [(product, level, quantity, *row) for row in sums]
            if margins is None:
                continue
            for cut in np.unique(margins.cut).tolist():
                cells = np.ix_(margins.cut == cut, column)
                unbiased = margins.estimate[cells] - true[cells]
                row = _sums_of_coverage(error[cells].astype(float), unbiased, margins.error[cells])
                coverage.append((product, level, quantity, cut, *row))
    keys = ["product", "level", "quantity"]
    return (
        pd.DataFrame(errors, columns=[*keys, "size", *ErrorSums._fields]),
        pd.DataFrame(coverage, columns=[*keys, "cut", *COVERAGE]),
    )


def _sums_by_size(true: IntArray, error: IntArray) -> Iterator[tuple[int, ...]]:
    """Yield for all counts, and for each class of true size, their number and sums of errors."""
    size = np.searchsorted(SIZES, true, side="right") - 1
    for number in (ALL, *np.unique(size).tolist()):
        part = error if number == ALL else error[size == number]
        yield (number, *map(int, ErrorSums.of(part)))


def _sums_of_coverage(released: FloatArray, unbiased: FloatArray, error: FloatArray) -> tuple[float, ...]:
    """Return the sums that COVERAGE names; a standard error of 0 is that of a declared count, which is exact."""
    noisy = error > LEAST_ERROR
    scores = [values[noisy] / error[noisy] for values in (released, unbiased)]
    within = [int((np.abs(z) <= Z).sum()) for z in scores]
    squares = [float((z**2).sum()) for z in scores]
    return int(noisy.sum()), within[0], squares[0], within[1], squares[1], float(error[noisy].sum())


def _margins(run: TopDownRun, product: ProductName, state: str, level: str, present: IntArray) -> Margins | None:
    """Return the margins of a level's entities, None where there are none; "obg" are the optimized spine's own."""
    name = "Block_Group" if level == "obg" and run.design.kind == "optimized" else level
    found = load_margins(run, product, state, name)
    if found is None:
        return None
    return found if found.area is None else found.only(np.searchsorted(found.area, present))


def _entities(run: TopDownRun, product: ProductName, state: str) -> Iterator[tuple[str, IntArray, int]]:
    """Yield each level with the entity of every block (-1 outside all) and the number of entities."""
    geography, settings = run.state(state).geography, run.design.settings[product]
    number = len(geography)
    yield "state", np.zeros(number, np.int64), 1
    for family in areas(geography, settings):
        yield family.family, family.of_block, len(family.codes)
    spine = make_spine(geography, replace(run.design, kind="optimized"), product)
    group = np.empty(number, np.int64)
    level = spine.levels.index("Block_Group")
    group[spine.order] = spine.geounit_of_block(level)
    yield "obg", group, len(spine.starts[level])
    yield "block", np.arange(number), number


def _summed(values: IntArray, entity: IntArray, number: int) -> IntArray:
    """Sum values over the blocks of each entity."""
    inside = entity >= 0
    sums = np.zeros((number, values.shape[1]), np.int64)
    np.add.at(sums, entity[inside], values[inside])
    return sums
