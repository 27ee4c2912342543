"""Errors of counts, least-squares estimates and averages in repeated measurements of marked data. NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from privacy.noise.randomness import RunSecret
from tasks.lifecycle.authorization import Authorization, NoiseSource
from tasks.lifecycle.run_directory import RunDirectory
from tasks.releases.description import Description
from tasks.releases.errors import compare, errors
from tasks.s_dhc.averages import average_columns, levels_of
from tasks.s_dhc.measure import noisy_answers
from tasks.s_dhc.release import write_tables
from tasks.s_dhc.release_tables import TABLES
from tasks.s_dhc.released_rows import Counts, in_run
from tasks.s_dhc.run import SDhcPlan, plan_of
from tasks.s_dhc.tabulate import exact_answers


def measure_errors(run: RunDirectory, runs: int, *, averages: bool) -> pd.DataFrame:
    """Repeat the noise of a tabulated run, and return the errors of its tables as `compare` does.

    averages: include the errors of averages.
    """
    plan, exact, described = replace(plan_of(run), estimates=True), exact_answers(run), Description(TABLES)
    truth, release, parts = run / "repeated/truth", run / "repeated/release", []
    write_tables(plan, exact, truth, truth=True)
    for number in range(runs):
        given = Authorization(f"accuracy {number}", plan.digest(), "")
        noisy = noisy_answers(plan, exact, NoiseSource(RunSecret.generate(), given))
        write_tables(plan, noisy, release, truth=False)
        parts.append(compare(described, release, truth))
        if averages:
            parts += _errors_of_averages(plan, in_run(plan, exact), in_run(plan, noisy))
    return pd.concat(parts)


def _errors_of_averages(plan: SDhcPlan, exact: Counts, noisy: Counts) -> Iterator[pd.DataFrame]:
    """Yield the errors of interval midpoints against the true ratios; half an interval's length is the margin."""
    for average, *queries in levels_of(plan):
        columns = average_columns(plan, average, queries, noisy)
        rows = average.rows([exact[each.query.name] for each in queries])
        above, below = np.array([row[2:] for row in rows]).T
        there = below > 0
        low, high = (np.array(columns[name])[there] for name in ("LOW", "HIGH"))
        ratio = above[there] / below[there]
        yield errors(average.name, "average", queries[0].key, (high - low) / 2, (low + high) / 2 - ratio)
