"""`das tda estimate`: a release from the published measurements of another, which anyone can make."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import MemoryLimit, State, WorkersOption, folder
from flows.commands.tda.options import Estimator
from flows.reports.terminal import Json, interruptible, show
from tasks.lifecycle.errors import Refused


def estimate(
    measurements: Annotated[
        Path, typer.Argument(metavar="MEASUREMENTS", help="A release's folder measurements/, or the release.")
    ],
    release: Annotated[
        Path, typer.Argument(metavar="OUT", help="Where it goes, as OUT/us or OUT/pr.", callback=folder)
    ],
    estimator: Annotated[
        Estimator | None,
        typer.Option(
            help="The 2020 program's, or least squares with all measurements.", show_default="that of the release"
        ),
    ] = None,
    l1: Annotated[
        bool | None,
        typer.Option("--l1/--no-l1", help="Round to the least L1 distance.", show_default="as the release"),
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Microdata also as text, a row a record.")] = False,
    state: State = None,
    workers: WorkersOption = None,
    memory_limit: MemoryLimit = "auto",
    as_json: Json = False,
) -> None:
    """Estimate a private database from published noisy measurements alone: no records, no secret, no account.

    With the release's own estimator its histograms, microdata and margins come out again, byte by byte; with another,
    what the same measurements would have given. Nothing is measured, so nothing is spent.

    **Example:** `das tda estimate out/us/measurements/ again/ --estimator gls`
    """
    from flows.execution.cluster import ClusterSettings, open_cluster
    from flows.execution.progress import bars, report
    from flows.execution.settings import new_run_id, state_home
    from tasks.lifecycle.run_directory import locked
    from tasks.lifecycle.workers import Workers
    from tasks.top_down.reestimate import end_estimate, release_estimate
    from tasks.top_down.run import TopDownRun

    if release.exists() and (not release.is_dir() or any(release.iterdir())):
        raise Refused(f"{release} is not empty: choose an empty or a new folder")
    changes = {
        **({} if estimator is None else {"estimator": estimator.value}),
        **({} if l1 is None else {"rounding": "l1" if l1 else "program"}),
        **({"microdata": "text"} if text else {}),
    }
    run, out = TopDownRun((state or state_home()) / "runs" / new_run_id("tda-estimate")), release.resolve()
    end, cluster = partial(end_estimate, run, out), ClusterSettings(workers=workers, memory_limit=memory_limit)
    stopped = interruptible("interrupted; nothing is left", end)
    try:
        with stopped, locked(run), open_cluster(cluster, run / "dask") as client, bars("Estimate"):
            place = release_estimate(run, Workers(client, report), measurements, out, changes)
    finally:
        end()
    show({"release": place, "report": place / "report.html"}, lambda: str(place), as_json=as_json)
