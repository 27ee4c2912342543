"""What the accuracy curve is simulated on: counts typed in, or the exact histogram of a table."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flows.commands.inputs import show_findings_of
from flows.execution.cluster import ClusterSettings, open_cluster
from flows.execution.progress import report
from flows.execution.runner import digests_of
from flows.execution.settings import new_run_id
from privacy.analyses.accuracy_curve import Simulation
from tasks.bottom_up.domain import Domain, read_domain, read_totals
from tasks.bottom_up.measure import exact_counts
from tasks.bottom_up.tabulate import tabulate
from tasks.lifecycle.commit import end_run
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.reservation import register_if_synthetic
from tasks.lifecycle.run_directory import RunDirectory, locked, state_home
from tasks.lifecycle.workers import Workers

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
    table: str,
    domain_file: Path,
    totals_file: Path | None,
    *,
    curator: bool,
    workers: int | None,
    ledger: Path | None,
    as_json: bool,
) -> tuple[Simulation, str]:
    """Return a simulation on a table's exact histogram, calibrated if totals are given, and the unit of its counts.

    Raises
    ------
    Refused
        where the table is not synthetic and nobody says that they are the curator; where the ledger contradicts its
        mark or the absence of one; or as `tabulate` does.
    """
    domain = read_domain(domain_file)
    totals = read_totals(totals_file, domain) if totals_file else None
    given = ledger or state_home() / "ledger.sqlite"
    truth = _exact(table, domain, given, curator=curator, workers=workers, as_json=as_json)
    possible = domain.histogram.possible(np.arange(len(truth)))
    simulation = Simulation(truth[possible], domain.mechanism(Fraction(1)).sensitivity)
    if totals is not None:
        group = totals.grouping.of(np.flatnonzero(possible))
        simulation = simulation.calibrated(group, totals.published)
    return simulation, "records" if domain.weight is None else f"steps of {domain.grid}"


def _exact(
    table: str, domain: Domain, ledger: Path, *, curator: bool, workers: int | None, as_json: bool
) -> NDArray[np.int64]:
    """Return the exact histogram, by way of a confidential directory that is gone afterwards."""
    home = state_home()
    run = RunDirectory(home / "runs" / new_run_id("curve"))
    with locked(run):
        try:
            with open_cluster(ClusterSettings(workers=workers), run / "dask") as client:
                tabulated = tabulate(run, Workers(client, report), table, domain)
            if not (
                register_if_synthetic(run.id, ledger, digests_of(tabulated), marked=tabulated.synthetic) or curator
            ):
                raise Refused(
                    "the table is not marked synthetic, and its accuracy curve is not private: "
                    "only its curator may see it (--i-am-the-curator)"
                )
            return exact_counts(run, 0, domain.histogram.cells)
        except Refused:
            show_findings_of(run, as_json=as_json)
            raise
        finally:
            end_run(run)
