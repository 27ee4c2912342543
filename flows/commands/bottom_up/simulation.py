"""The counts that the accuracy curve is simulated on: typed in, or the exact histogram of a table."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.commands.options import ExactOptions
from flows.execution.runner import is_marked
from flows.execution.settings import new_run_id
from privacy.analyses.accuracy_curve import Simulation
from tasks.bottom_up.domain import Domain, read_domain, read_totals
from tasks.bottom_up.measure import exact_counts
from tasks.bottom_up.tabulate import tabulate
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.run_directory import RunDirectory

LARGEST_COUNT = 10**15  # whole as a float, and noise on it as a 64-bit integer


def simulate_counts(text: str) -> Simulation:
    """Return a simulation on counts written as `120,40,15`. Raises Refused."""
    try:
        counts = [int(count) for count in text.split(",")]
    except ValueError:
        raise Refused(f"--counts are whole numbers separated by commas, not {text[:100]!r}") from None
    if min(counts) < 0:
        raise Refused("--counts are true counts and cannot be negative")
    if max(counts) > LARGEST_COUNT:
        raise Refused(f"--counts are at most {LARGEST_COUNT:,}, not {max(counts)}")
    return Simulation(np.array(counts, np.int64))


def simulate_table(
    chosen: Mapping[str, Any],
    options: ExactOptions,
    *,
    curator: bool,
) -> tuple[Simulation, str]:
    """Return a simulation on a table's exact histogram, calibrated if totals are given, and the unit of its counts.

    chosen: settings of a bottom-up run, of which it takes table, domain and totals.

    Raises Refused where the table is not synthetic and --i-am-the-curator is not given; where the ledger contradicts
    its mark or the absence of one; or as `tabulate` does.
    """
    domain = read_domain(Path(chosen["domain"]))
    totals = read_totals(Path(chosen["totals"]), domain) if "totals" in chosen else None
    truth = _exact(chosen["table"], domain, options, curator=curator)
    possible = domain.histogram.possible(np.arange(len(truth)))
    simulation = Simulation(truth[possible], domain.mechanism(Fraction(1)).sensitivity)
    if totals is not None:
        group = totals.grouping.of(np.flatnonzero(possible))
        simulation = simulation.calibrated(group, totals.published)
    return simulation, "records" if domain.weight is None else f"steps of {domain.grid}"


def _exact(table: str, domain: Domain, options: ExactOptions, *, curator: bool) -> NDArray[np.int64]:
    """Return the exact histogram, by way of a confidential directory that is gone afterwards."""
    run = RunDirectory(options.home / "runs" / new_run_id("curve"))
    with options.leaving_nothing(run, "Exact histogram") as workers:
        tabulated = tabulate(run, workers, table, domain)
        if not (is_marked(run.id, options.ledger_file, tabulated) or curator):
            raise Refused(
                "the table is not marked synthetic, and its accuracy curve is not private: "
                "only its curator may see it (--i-am-the-curator)"
            )
        return exact_counts(run, 0, domain.histogram.cells)
