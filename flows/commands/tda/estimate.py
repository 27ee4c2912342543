"""`das tda estimate`: a release from published measurements."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.options import WorkOptions
from flows.commands.tda.declared import DeclarationOption, estimate_declared, refuse_others
from flows.commands.tda.published import FileOptions, write_published
from flows.execution.top_down_settings import TopDownSettings
from flows.reports.terminal import show
from tasks.lifecycle.errors import Refused

CHANGES = ("estimator", "rounding", "microdata", "out")
AS_RELEASED = "that of the release; else as the 2020 program"


@with_options
def estimate(
    context: typer.Context,
    measurements: Annotated[
        Path,
        typer.Argument(
            metavar="MEASUREMENTS",
            help="A release's folder measurements/, or the release; or the Census Bureau's noisy measurement files.",
        ),
    ],
    changes: Annotated[Chosen, Settings(TopDownSettings, CHANGES, default=AS_RELEASED)],
    count: Annotated[
        Literal["pl94"] | None,
        typer.Option(help="With gls, margins also of each cell of the tables P1 to P5.", show_default="24 counts"),
    ] = None,
    free: Annotated[
        bool,
        typer.Option(
            "--free", help="With gls, leave declared totals and blocks' zeros unused: for das tda compare-gls."
        ),
    ] = False,
    declaration: DeclarationOption = None,
    *,
    files: FileOptions,
    options: WorkOptions,
) -> None:
    """Estimate from published noisy measurements: no records, no secret, no account.

    With the estimator of a release its histograms, microdata and margins are made again, byte by byte; with another,
    those that it makes of the same measurements. Nothing is measured, so nothing is spent.

    The Census Bureau's noisy measurement files of the 2020 redistricting product are read as they are downloaded
    (docs/published.md); a fault in them is a finding, and nothing is released.

    Of a declaration's release, --declaration FILE names one with other passes or histograms, all else equal.

    **Example:** `das tda estimate out/us/measurements/ again/ --estimator gls`
    """
    from tasks.top_down.declared.measurements import release_of
    from tasks.top_down.published.estimate import write_estimate
    from tasks.top_down.published.places import find_published

    if (declared := release_of(measurements)) is not None:
        refuse_others(context, "count", "free", *(field.name for field in fields(FileOptions)))
        estimate_declared(options, declared, Path(changes["out"]), declaration)
        return
    if declaration is not None:
        raise Refused(f"{measurements} holds no measurements of a declaration")
    if (count or free) and changes.get("estimator") != "gls":
        raise Refused("--count and --free are about margins of error, which only --estimator gls makes")
    release = Path(changes.pop("out"))
    changes |= ({"pl94": True} if count else {}) | ({"free": True} if free else {})
    published = find_published(measurements, files.request, files.states or ())
    places = write_published(options, "Estimate", published, release, write_estimate, changes)
    named = [{"release": place, "report": place / "report.html"} for place in places]
    show(named[0] if len(named) == 1 else named, lambda: "\n".join(map(str, places)), as_json=options.as_json)
