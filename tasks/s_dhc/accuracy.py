"""Errors of repeated measurements on marked data: of counts, least-squares estimates and averages. NOT PRIVATE."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from privacy.noise.margins import margin_of_error
from privacy.noise.randomness import RunSecret
from tasks.lifecycle.authorization import Authorization, Drawing
from tasks.lifecycle.run_directory import RunDirectory
from tasks.s_dhc.averages import average_columns, levels_of
from tasks.s_dhc.estimates import estimate_all, margins_of
from tasks.s_dhc.measure import noisy_answers
from tasks.s_dhc.released_rows import Counts, in_run
from tasks.s_dhc.run import plan_of
from tasks.s_dhc.tabulate import exact_answers

Errors = list[tuple[NDArray[np.float64], NDArray[np.bool_], float]]  # sizes, which are held, the largest margin


def measure_errors(run: RunDirectory, runs: int, *, averages: bool) -> dict[tuple[str, str, str], dict[str, float]]:
    """Repeat the noise of a run that is counted; return its errors by (table or average, key, what).

    what: `count` against the margin of its cell at 95%, `estimate` against that in estimates/, `average` against
    intervals.
    """
    plan, answers = plan_of(run), exact_answers(run)
    exact = in_run(plan, answers)
    errors: dict[tuple[str, str, str], Errors] = defaultdict(list)
    for number in range(runs):
        given = Authorization(f"accuracy {number}", plan.digest(), "")
        noisy = in_run(plan, noisy_answers(plan, answers, Drawing(RunSecret.generate(), given)))
        found = estimate_all(plan, noisy)
        for each in plan.configuration.queries():
            table, key = each.table.name, each.key
            true = exact[each.query.name]
            margin = margin_of_error(plan.law(each))
            _add(errors[table, key, "count"], noisy[each.query.name] - true, [margin])
            if (estimated := found.get((table, key))) is not None:
                margins = margins_of(plan, each, estimated)
                _add(errors[table, key, "estimate"], estimated.counts.reshape(true.shape) - true, margins)
        if averages:
            _add_averages(run, exact, noisy, errors)
    return {key: _row(each) for key, each in errors.items()}


def _add(errors: Errors, difference: NDArray[np.int64], margins: Sequence[int]) -> None:
    """Add the errors of counts, keys x cells, and whether they are within the margins of their cells."""
    sizes = np.abs(difference).astype(np.float64)
    errors.append((sizes.ravel(), (sizes <= np.array(margins)).ravel(), float(max(margins))))


def _row(errors: Errors) -> dict[str, float]:
    """Return the number of errors, their root mean square and 90% quantile, the last run's margin and the coverage."""
    sizes, held = (np.concatenate(each) for each in list(zip(*errors, strict=True))[:2])
    return {
        "errors": len(sizes),
        "rms": sqrt(float((sizes**2).mean())),
        "q90": float(np.quantile(sizes, 0.9)),
        "margin": errors[-1][2],
        "coverage": float(held.mean()),
    }


def _add_averages(run: RunDirectory, exact: Counts, noisy: Counts, errors: dict[tuple[str, str, str], Errors]) -> None:
    """Add how often the intervals of the averages hold the true ratios; half an interval is the margin."""
    plan = plan_of(run)
    for average, *queries in levels_of(plan):
        columns = average_columns(plan, average, queries, [noisy[each.query.name] for each in queries])
        rows = average.rows([exact[each.query.name] for each in queries])
        above, below = np.array([row[2:] for row in rows]).T
        there = below > 0
        ratio = above[there] / below[there]
        low, high = (np.array(columns[name])[there] for name in ("LOW", "HIGH"))
        margin = float(((high - low) / 2).mean()) if there.any() else 0.0
        error = np.abs((low + high) / 2 - ratio), (low <= ratio) & (ratio <= high), margin
        errors[average.name, queries[0].key, "average"].append(error)
