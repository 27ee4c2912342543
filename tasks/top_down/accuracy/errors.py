"""Measure errors of the TopDown Algorithm on marked data, by level and off-spine entity, and average them.

Every seed gives a spine its own noise, and all estimators the same. Errors are those of the released blocks, summed to
entities; they are also compared with the margins of error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

import numpy as np
import pandas as pd

from privacy.analyses.error_measures import Closeness, ErrorSums
from tasks.lifecycle.authorization import SECRET, Authorization, mark_repetition, read_secret_digest, save_authorization
from tasks.lifecycle.files import remove, save_object
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.top_down.accuracy.compare import ALL, COVERAGE, SIZES, TARGET, compare_state
from tasks.top_down.estimate.estimators import estimate
from tasks.top_down.estimate.gls.margin_tables import MARGINS
from tasks.top_down.measure import check_cost, configuration_digest
from tasks.top_down.run_plan import ESTIMATORS, Estimator
from tasks.top_down.source import TopDownRun

SHARES = ("mape", "within_5_percent", "within_5", "outliers")


class Measured(NamedTuple):
    """The errors measured on a spine, or on several.

    errors: sums of errors by spine, seed, estimator, level, quantity and class of size. coverage: by spine, seed,
    estimator, level, quantity, and whether entities cut block groups (`cut`): the number of counts n, how many of them
    are within 1.96 standard errors of the truth, and the sum of the squares of errors over standard errors; of the
    release (released) and of the unbiased estimate (unbiased). `width`: the sum of the standard errors. target: by
    spine, seed, estimator and level the areas of 500 and more persons, and how many have the share of their largest
    group within 5 points (met).
    """

    errors: pd.DataFrame
    coverage: pd.DataFrame
    target: pd.DataFrame


def measure_errors(
    run: TopDownRun,
    workers: Workers,
    seeds: Sequence[int],
    estimators: Sequence[Estimator] = ESTIMATORS,
    each: Callable[[int], None] | None = None,
) -> Measured:
    """Measure and estimate once a seed and estimator, on the histograms of marked data; return the errors.

    each: is called with the seed after every estimate.

    Raises Refused where a law of the spine cannot be drawn.
    """
    validated, design = run.validated, run.design
    pieces = [(product, state) for product in design.products for state in validated.states]
    workers.map("reserve budget", run, check_cost, pieces)
    configuration, parts = configuration_digest(run), ([], [], [])  # type: ignore[var-annotated]
    for seed in repetitions(run, seeds, validated.input_digest, configuration):
        for estimator in sorted(estimators):  # gls first: the margins of error are its
            save_object(run / "prepared/design", replace(design, estimator=estimator))
            remove_estimates(run)
            estimate(run, workers)
            for tables in workers.map("compare", run, compare_state, pieces):
                for part, table in zip(parts, tables, strict=True):
                    part.append(table.assign(seed=seed, estimator=estimator))
            if each is not None:
                each(seed)
    keys = ["seed", "estimator", "product", "level"]
    by = ([*keys, "quantity", "size"], [*keys, "quantity", "cut"], keys)
    return Measured(
        *(
            pd.concat(part, ignore_index=True)
            .groupby(names, as_index=False, sort=False)
            .sum()  # over the states
            .assign(spine=design.kind)
            for part, names in zip(parts, by, strict=True)
        )
    )


def repetitions(run: RunDirectory, seeds: Iterable[int], input_digest: str, configuration: str) -> Iterator[int]:
    """Yield each seed when a run on marked data may draw the noise of its secret, and has no estimates."""
    mark_repetition(run)
    for seed in seeds:
        remove(run / "noisy")
        (run / SECRET).write_bytes(sha256(f"das tda accuracy, seed {seed}".encode()).digest())
        save_authorization(run, Authorization(input_digest, configuration, str(read_secret_digest(run))))
        yield seed


def remove_estimates(run: TopDownRun) -> None:
    """Remove the results of an estimator, except the margins."""
    for path in (run / "noisy").glob("*/*/*"):
        if path.name != MARGINS:
            remove(path)


def covered(table: pd.DataFrame) -> pd.DataFrame:
    """Return the shares within the margins over all seeds, by product, level, quantity, cut, spine and estimator.

    coverage, unbiased_coverage: of the release and of the unbiased estimate. square, unbiased_square: the mean square
    of errors over standard errors, 1 where standard errors are right. error: the mean standard error.
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

    Means over the seeds, those of rmse over its squares; `sd` is the standard deviation of the mean absolute error from
    seed to seed. ratio, ratio_sd: the same of the mean absolute error over topdown's on the same noise; empty where
    that was not run, or is 0. mape, within_5_percent, within_5, outliers: as `Closeness.shares`, of all counts of all
    seeds.
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
    ends = (*SIZES[1:], None)
    names = {ALL: "all"} | {
        at: str(first) if end == first + 1 else f"{first} and more" if end is None else f"{first} to {end - 1}"
        for at, (first, end) in enumerate(zip(SIZES, ends, strict=True))
    }
    found["size"] = found["size"].map(names)
    figures = ["n", "mae", "sd", "bias", "rmse", "ratio", "ratio_sd", *SHARES]
    return found[[*keys, "estimator", *figures]]
