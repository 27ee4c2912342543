"""`das tda estimate`: a release from the published measurements of another."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import OUT, WorkOptions, check_empty, with_options
from flows.commands.tda.options import Estimator, Rounding, TextOption
from flows.reports.terminal import interruptible, show


@with_options
def estimate(
    measurements: Annotated[
        Path, typer.Argument(metavar="MEASUREMENTS", help="A release's folder measurements/, or the release.")
    ],
    release: Annotated[Path, OUT],
    estimator: Annotated[
        Estimator | None,
        typer.Option(
            help="The 2020 program's, or least squares with all measurements.", show_default="that of the release"
        ),
    ] = None,
    rounding: Annotated[
        Rounding | None,
        typer.Option(
            "--round", help="As the 2020 program, or to the least L1 distance.", show_default="that of the release"
        ),
    ] = None,
    mdf_text: TextOption = False,
    *,
    options: WorkOptions,
) -> None:
    """Estimate a private database from published noisy measurements alone: no records, no secret, no account.

    With the release's own estimator its histograms, microdata and margins are made again, byte by byte; with another,
    those that it makes of the same measurements. Nothing is measured, so nothing is spent.

    **Example:** `das tda estimate out/us/measurements/ again/ --estimator gls`
    """
    from flows.execution.settings import new_run_id
    from tasks.top_down.estimate_from_release import end_estimate, release_estimate
    from tasks.top_down.run import TopDownRun

    check_empty(release)
    changes = {
        **({} if estimator is None else {"estimator": estimator.value}),
        **({} if rounding is None else {"rounding": rounding}),
        **({"microdata": "text"} if mdf_text else {}),
    }
    run, out = TopDownRun(options.home / "runs" / new_run_id("tda-estimate")), release.resolve()
    end = partial(end_estimate, run, out)
    try:
        with interruptible("interrupted; nothing is left", end), options.working(run, "Estimate") as workers:
            place = release_estimate(run, workers, measurements, out, changes)
    finally:
        end()
    show({"release": place, "report": place / "report.html"}, lambda: str(place), as_json=options.as_json)
