"""Measure errors of the TopDown Algorithm on marked data, by level and off-spine entity, and average them.

A seed gives each spine its own noise, shared by all estimators. Errors are those of the released blocks, summed to
entities; they are also compared with the margins of error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd

from privacy.analyses.error_measures import Closeness, ErrorSums
from privacy.noise.margins import Z95
from spine.entities import Areas
from spine.forecast.counts import group_counts
from spine.geography import FloatArray, IntArray
from tasks.errors import Refused
from tasks.lifecycle.authorization import SECRET, Authorization, mark_repetition, read_secret_digest, save_authorization
from tasks.lifecycle.files import load_object, remove, save_object
from tasks.lifecycle.workers import Workers
from tasks.records.block_codes import short_codes
from tasks.records.marks import UNMARKED
from tasks.releases.pages.words import level_title
from tasks.top_down.areas import areas
from tasks.top_down.blocks import make_spine
from tasks.top_down.estimate.estimators import estimate
from tasks.top_down.estimate.gls.margin_tables import MARGINS, Margins, load_margins
from tasks.top_down.estimate.topdown import load_estimates
from tasks.top_down.input.block_run import TopDownRun
from tasks.top_down.measure import MeasuredRun, check_costs
from tasks.top_down.release.microdata import by_geocode
from tasks.top_down.run_plan import ESTIMATORS, SCHEMAS, Estimator
from tasks.top_down.source import PLANNED, Branch

R = TypeVar("R", bound=MeasuredRun)

LEVELS = {  # in words
    level: level_title(level) for level in ("state", "county", "tract", "cbg", "obg", "block", "place", "mcd", "aian")
}
SIZES = (0, 1, 10, 50, 250, 1000)  # smallest true counts of the size classes
ALL = -1  # all size classes together
COVERAGE = ("n", "released", "released_squares", "unbiased", "unbiased_squares", "width")
TARGET = ("areas", "met")
LEAST_PERSONS, POINTS = 500, 0.05  # the redistricting target's
LEAST_ERROR = 0.01  # a smaller standard error belongs to a declared count
SHARES = ("mape", "within_5_percent", "within_5", "outliers")


class MeasuredErrors(NamedTuple):
    """The errors measured on one or several spines.

    errors: sums of errors by spine, seed, estimator, level, quantity and size class. coverage: by spine, seed,
    estimator, level, quantity, and whether entities cut block groups (`cut`): the number of counts n, the number within
    1.96 standard errors of the truth, and the sum of squares of errors over standard errors, for the release (released)
    and the unbiased estimate (unbiased). `width`: the sum of the standard errors. target: by spine, seed, estimator and
    level, the areas of 500 or more persons, and how many have the share of their largest group within 5 points (met).
    """

    errors: pd.DataFrame
    coverage: pd.DataFrame
    target: pd.DataFrame


def measure_errors(
    run: TopDownRun,
    workers: Workers,
    seeds: Sequence[int],
    estimators: Sequence[Estimator] = ESTIMATORS,
) -> MeasuredErrors:
    """Measure and estimate once per seed and estimator, on the histograms of marked data; return the errors.

    Raises Refused if a law of the spine cannot be drawn.
    """
    pieces, design = [(branch,) for branch in run.branches], run.design
    check_costs(run, workers)
    parts = ([], [], [])  # type: ignore[var-annotated]
    for seed, estimator in repetitions(run, workers, seeds, sorted(estimators)):
        for tables in workers.map("compare", run, compare_state, pieces):
            for part, table in zip(parts, tables, strict=True):
                part.append(table.assign(seed=seed, estimator=estimator))
    keys = ["seed", "estimator", "product", "level"]
    by = ([*keys, "quantity", "size"], [*keys, "quantity", "cut"], keys)
    return MeasuredErrors(
        *(
            pd.concat(part, ignore_index=True)
            .groupby(names, as_index=False, sort=False)
            .sum()  # over the states
            .assign(spine=design.kind)
            for part, names in zip(parts, by, strict=True)
        )
    )


def refuse_unmarked(run: MeasuredRun) -> None:
    """Raise Refused for a run on data that is not marked synthetic or public."""
    if run.validated.mark is None:
        raise Refused(UNMARKED)


def repetitions(
    run: R,
    workers: Workers,
    seeds: Iterable[int],
    estimators: Sequence[Estimator],
    estimate: Callable[[R, Workers], None] = estimate,
) -> Iterator[tuple[int, Estimator]]:
    """Estimate by each estimator from each seed's noise; yield seed and estimator while the estimates exist.

    estimate: the run's. Margins are kept: they are those of gls, which comes first. Raises Refused for unmarked data.
    """
    refuse_unmarked(run)
    mark_repetition(run)
    digests = run.validated.input_digest, run.asked().configuration_digest
    for seed in seeds:
        remove(run / "noisy")
        (run / SECRET).write_bytes(sha256(f"das tda accuracy, seed {seed}".encode()).digest())
        save_authorization(run, Authorization(*digests, str(read_secret_digest(run))))
        for estimator in estimators:
            remove(*(path for path in (run / "noisy").glob("*/*/*") if path.name != MARGINS))
            save_object(run / PLANNED, replace(run.design, estimator=estimator))
            estimate(run, workers)
            yield seed, estimator


def families(run: TopDownRun, branch: Branch) -> Iterator[Areas]:
    """Yield the areas of a state by keys of LEVELS; they are found once for all seeds and estimators."""
    path = run / f"accuracy/{branch}"
    if not path.exists():
        save_object(path, list(_find(run, branch)))
    yield from load_object(path, list[Areas])


def _find(run: TopDownRun, branch: Branch) -> Iterator[Areas]:
    geography, settings = run.state(branch.name).geography, run.design.settings[branch.product]
    number = len(geography)
    yield Areas("state", np.array([int(branch.name)]), np.zeros(number, np.int64))
    yield from areas(geography, settings)
    spine = make_spine(geography, replace(run.design, kind="optimized"), branch.product)
    group = np.empty(number, np.int64)
    level = spine.levels.index("Block_Group")
    group[spine.order] = spine.geounit_of_block(level)
    yield Areas("obg", np.arange(len(spine.starts[level])), group)
    yield Areas("block", short_codes(geography.geocode), np.arange(number))


def compare_state(run: TopDownRun, branch: Branch) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return sums over a state's entities by level and quantity, as in `MeasuredErrors`.

    They are sums of errors by class of the true size, of coverage, and of the redistricting target.
    """
    schema = SCHEMAS[branch.product]
    counted, quantities = schema.matrix(schema.estimated), np.array([count.quantity for count in schema.estimated])
    blocks = run.exact(branch, "Block"), load_estimates(run, branch, "Block")
    exact, released = (by_geocode(run, branch, each) for each in blocks)
    truth, estimated = exact.sums(counted), released.sums(counted)
    groups = [group_counts(histograms) for histograms in (exact, released) if branch.product == "persons"]
    errors, coverage, target = [], [], []
    for found in families(run, branch):
        true, error = (found.sums(values) for values in (truth, estimated - truth))
        margins = _margins(run, branch, found.name)
        if groups:
            target.append((branch.product, found.name, *meets_target(*(found.sums(counts) for counts in groups))))
        for quantity in dict.fromkeys(quantities.tolist()):
            column = np.flatnonzero(quantities == quantity)
            sums = sums_by_size(true[:, column].ravel(), error[:, column].ravel())
            errors += [(branch.product, found.name, quantity, *row) for row in sums]
            if margins is None:
                continue
            for cut in np.unique(margins.cut).tolist():
                cells = np.ix_(margins.cut == cut, column)
                unbiased = margins.estimate[cells] - true[cells]
                row = _sums_of_coverage(error[cells].astype(float), unbiased, margins.error[cells])
                coverage.append((branch.product, found.name, quantity, int(cut), *row))
    keys = ["product", "level", "quantity"]
    return (
        pd.DataFrame(errors, columns=[*keys, "size", *ErrorSums._fields, *Closeness._fields]),
        pd.DataFrame(coverage, columns=[*keys, "cut", *COVERAGE]),
        pd.DataFrame(target, columns=["product", "level", *TARGET]),
    )


def meets_target(true: IntArray, released: IntArray) -> tuple[int, int]:
    """Return the number of areas of 500 or more persons, and the number whose largest group is released well.

    true, released: (areas, groups) that partition the persons. A group is released well if its share of the persons is
    within 5 percentage points of the true share, the Census Bureau's target for redistricting.
    """
    persons = true.sum(axis=1)
    chosen = np.flatnonzero(persons >= LEAST_PERSONS)
    largest = (chosen, true[chosen].argmax(axis=1))
    share = true[largest] / persons[chosen]
    found = released[largest] / np.maximum(released[chosen].sum(axis=1), 1)
    return len(chosen), int((np.abs(found - share) <= POINTS + 1e-12).sum())


def sums_by_size(true: IntArray, error: IntArray) -> Iterator[tuple[float, ...]]:
    """Yield the number and the sums of errors of all counts, and of each class of true size."""
    size = np.searchsorted(SIZES, true, side="right") - 1
    for number in (ALL, *np.unique(size).tolist()):
        chosen = np.ones(len(size), bool) if number == ALL else size == number
        part = error[chosen]
        yield (number, *map(int, ErrorSums.of(part)), *map(float, Closeness.of(part, true[chosen])))


def size_words() -> dict[int, str]:
    """Return the words of the size classes, by number."""
    ends = (*SIZES[1:], None)
    return {
        at: str(first) if end == first + 1 else f"{first} and more" if end is None else f"{first} to {end - 1}"
        for at, (first, end) in enumerate(zip(SIZES, ends, strict=True))
    }


def _sums_of_coverage(released: FloatArray, unbiased: FloatArray, error: FloatArray) -> tuple[float, ...]:
    """Return the sums that COVERAGE names. A standard error of 0 belongs to a declared count, which is exact."""
    noisy = error > LEAST_ERROR
    scores = [values[noisy] / error[noisy] for values in (released, unbiased)]
    within = [int((np.abs(z) <= Z95).sum()) for z in scores]
    squares = [float((z**2).sum()) for z in scores]
    return int(noisy.sum()), within[0], squares[0], within[1], squares[1], float(error[noisy].sum())


def _margins(run: TopDownRun, branch: Branch, level: str) -> Margins | None:
    """Return the margins of a level's areas, or None; "obg" are the optimized spine's own."""
    is_own = level == "obg" and run.design.kind == "optimized"
    return load_margins(run, branch, "Block_Group" if is_own else level)


def covered(table: pd.DataFrame) -> pd.DataFrame:
    """Return the shares within the margins over all seeds, by product, level, quantity, cut, spine and estimator.

    coverage, unbiased_coverage: the release's and the unbiased estimate's. square, unbiased_square: the mean square
    of errors over standard errors, 1 if standard errors are right. error: the mean standard error.
    """
    keys = ["product", "level", "quantity", "cut", "estimator", "spine"]
    sums = table.groupby(keys, as_index=False, sort=False)[list(COVERAGE)].sum()
    sums = sums[sums["n"] > 0]
    n = sums["n"]
    return sums[[*keys[:5], "n"]].assign(
        coverage=sums["released"] / n,
        square=sums["released_squares"] / n,
        unbiased_coverage=sums["unbiased"] / n,
        unbiased_square=sums["unbiased_squares"] / n,
        error=sums["width"] / n,
        spine=sums["spine"],
    )


def targeted(table: pd.DataFrame) -> pd.DataFrame:
    """Return the share of areas that meet the redistricting target over all seeds, by level, spine and estimator."""
    sums = table.groupby(["level", "spine", "estimator"], as_index=False, sort=False)[[*TARGET]].sum()
    sums = sums[sums["areas"] > 0]
    seeds = max(table["seed"].nunique(), 1)
    sums = sums.assign(share=100 * sums["met"] / sums["areas"], areas=sums["areas"] // seeds)
    return sums[["level", "spine", "estimator", "areas", "share"]]


def averaged(table: pd.DataFrame) -> pd.DataFrame:
    """Return error measures by product, level, quantity, size, spine and estimator.

    Means over the seeds (for rmse, of squares). sd: the standard deviation of the mean absolute error between seeds.
    ratio, ratio_sd: the same for the mean absolute error over topdown's on the same noise; empty if topdown was not run
    or has 0. mape, within_5_percent, within_5, outliers: as `Closeness.shares`, over all counts and seeds.
    """
    sums = ErrorSums(*(table[name] for name in ErrorSums._fields))
    by_seed = table.assign(mae=sums.mean_absolute, bias=sums.bias, square=sums.rmse**2)
    keys = ["product", "level", "quantity", "size", "spine"]
    noise = ["seed", *keys]
    program = by_seed[by_seed["estimator"] == "topdown"].set_index(noise)["mae"].replace(0.0, np.nan)
    by_seed["ratio"] = by_seed["mae"] / program.reindex(pd.MultiIndex.from_frame(by_seed[noise])).to_numpy()
    groups = by_seed.groupby([*keys, "estimator"], sort=False)
    totals = groups[["n", *Closeness._fields]].sum()
    shares = Closeness(*(totals[name] for name in Closeness._fields)).shares(totals["n"])
    spread = groups[["mae", "ratio"]].std(ddof=1)
    means = groups[["mae", "bias", "square", "ratio"]].mean()
    found = means.assign(
        rmse=np.sqrt(means["square"]), n=groups["n"].max(), sd=spread["mae"], ratio_sd=spread["ratio"], **shares
    ).reset_index()
    found["size"] = found["size"].map({ALL: "all", **size_words()})
    figures = ["n", "mae", "sd", "bias", "rmse", "ratio", "ratio_sd", *SHARES]
    return found[[*keys, "estimator", *figures]]
