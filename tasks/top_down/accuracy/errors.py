"""Measure errors of the TopDown Algorithm on synthetic data: by level and off-spine entity, for several estimators.

Every seed gives a spine its own noise, and all estimators the same. Errors are those of the released blocks, summed to
entities; they are also compared with the margins of error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import pandas as pd

from tasks.lifecycle.authorization import SECRET, Authorization, read_secret_digest, save_authorization
from tasks.lifecycle.files import remove, save_object
from tasks.lifecycle.workers import Workers
from tasks.top_down.accuracy.compare import compare_state
from tasks.top_down.estimators import estimate
from tasks.top_down.gls.saved_margins import MARGINS
from tasks.top_down.reserve_budget import check_cost, configuration_digest
from tasks.top_down.run import TopDownRun
from tasks.top_down.run_plan import ESTIMATORS, Estimator


@dataclass(frozen=True)
class Measured:
    """The errors measured on one spine.

    errors: sums of errors by seed, estimator, level, quantity and class of size. coverage: by seed, estimator, level,
    quantity, and whether entities cut block groups (`cut`): the number of counts n, how many of them are within 1.96
    standard errors of the truth, and the sum of the squares of errors over standard errors; of the release (released)
    and of the unbiased estimate (unbiased). `width`: the sum of the standard errors.
    """

    errors: pd.DataFrame
    coverage: pd.DataFrame


def measure_errors(
    run: TopDownRun, workers: Workers, seeds: Sequence[int], estimators: Sequence[Estimator] = ESTIMATORS
) -> Measured:
    """Measure and estimate once a seed and estimator, on the histograms of synthetic data; return the errors.

    Raises
    ------
    Refused
        where a law of the spine cannot be drawn.
    """
    validated, design = run.validated, run.design
    pieces = [(product, state) for product in design.products for state in validated.states]
    workers.map("budget check", run, check_cost, pieces)
    configuration, errors, coverage = configuration_digest(run), [], []
    for seed in seeds:
        remove(run / "noisy")
        (run / SECRET).write_bytes(sha256(f"das tda accuracy, seed {seed}".encode()).digest())
        given = Authorization(validated.input_digest, configuration, str(read_secret_digest(run)))
        save_authorization(run, given)
        for estimator in sorted(estimators):  # gls first: the margins of error are its
            save_object(run / "prepared/design", replace(design, estimator=estimator))
            remove_estimates(run)
            estimate(run, workers)
            for one, other in workers.map("compare", run, compare_state, pieces):
                errors.append(one.assign(seed=seed, estimator=estimator))
                coverage.append(other.assign(seed=seed, estimator=estimator))
    keys = ["seed", "estimator", "product", "level", "quantity"]
    return Measured(_summed_over_states(errors, [*keys, "size"]), _summed_over_states(coverage, [*keys, "cut"]))


def remove_estimates(run: TopDownRun) -> None:
    """Remove the results of an estimator, except the margins."""
    for path in (run / "noisy").glob("*/*/*"):
        if path.name != MARGINS:
            remove(path)


def _summed_over_states(tables: list[pd.DataFrame], keys: list[str]) -> pd.DataFrame:
    found: pd.DataFrame = pd.concat(tables, ignore_index=True).groupby(keys, as_index=False, sort=False).sum()
    return found
