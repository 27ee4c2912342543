"""`das tda estimate`: a release from measurements that were published, by das-flows or by the Census Bureau."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flows.commands.inputs import show_findings_of
from flows.commands.options import WorkOptions, with_options
from flows.commands.spine import StateOption
from flows.commands.tda.options import Estimator, Rounding, TextOption
from flows.reports.curator import findings_data, findings_table
from flows.reports.terminal import interruptible, show
from tasks.inputs.findings import Finding, gather, has_errors
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.new_folder import check_empty

if TYPE_CHECKING:
    from tasks.lifecycle.workers import Workers
    from tasks.top_down.run import TopDownRun


@with_options
def estimate(
    measurements: Annotated[
        Path,
        typer.Argument(
            metavar="MEASUREMENTS",
            help="A release's folder measurements/, or the release; or the Census Bureau's noisy measurement files.",
        ),
    ],
    release: Annotated[
        Path | None, typer.Argument(metavar="OUT", help="Where the release goes, as OUT/us, OUT/pr.")
    ] = None,
    estimator: Annotated[
        Estimator | None,
        typer.Option(
            help="The 2020 program's, or least squares with all measurements.",
            show_default="that of the release; else topdown",
        ),
    ] = None,
    rounding: Annotated[
        Rounding | None,
        typer.Option(
            "--round",
            help="As the 2020 program, or to the least L1 distance.",
            show_default="that of the release; else program",
        ),
    ] = None,
    mdf_text: TextOption = False,
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
    inventory: Annotated[
        bool,
        typer.Option("--inventory", help="Of the Bureau's files: show which are there, and their columns."),
    ] = False,
    states: StateOption = None,
    totals: Annotated[
        str | None,
        typer.Option(help="Of the Bureau's files: declared population, state,pop.", show_default="April 1, 2020"),
    ] = None,
    geography: Annotated[
        str | None,
        typer.Option(help="Of the Bureau's files: block tables with places, county subdivisions, AIAN areas."),
    ] = None,
    check_spine: Annotated[
        str | None,
        typer.Option(
            metavar="GEOGRAPHY",
            help="Compare the Bureau's geocodes with those of the spine that das-flows makes of these block tables.",
        ),
    ] = None,
    part_totals: Annotated[
        bool,
        typer.Option(
            "--part-totals",
            help="Of the Bureau's files: hold a state's AIAN areas, and the rest of it, to the totals in their bounds.",
        ),
    ] = False,
    as_tabulated: Annotated[
        bool | None,
        typer.Option(
            "--as-tabulated/--as-measured",
            help="Of the Bureau's files: count 15 blocks in water where the published tables have them.",
            show_default="as tabulated in 2020",
        ),
    ] = None,
    *,
    options: WorkOptions,
) -> None:
    """Estimate from published noisy measurements: no records, no secret, no account.

    With the estimator of a release its histograms, microdata and margins are made again, byte by byte; with another,
    those that it makes of the same measurements. Nothing is measured, so nothing is spent.

    The Census Bureau's noisy measurement files of the 2020 redistricting product are read as they are downloaded
    (docs/published.md); a fault in them is a finding, and nothing is released.

    **Example:** `das tda estimate out/us/measurements/ again/ --estimator gls`
    """
    from tasks.top_down.estimate_from_release import release_estimate, release_from_files
    from tasks.top_down.measure.published import is_own_release
    from tasks.top_down.published.nmf.inventory import described, is_published_files, take_inventory
    from tasks.top_down.published.nmf.read_files import Request

    if (count or free) and estimator is not Estimator.gls:
        raise Refused("--count and --free are about margins of error, which only --estimator gls makes")
    changes: dict[str, Any] = {
        **({} if estimator is None else {"estimator": estimator.value}),
        **({} if rounding is None else {"rounding": rounding}),
        **({"microdata": "text"} if mdf_text else {}),
        **({"pl94": True} if count else {}),
        **({"free": True} if free else {}),
    }
    given = (inventory, states, totals, geography, check_spine, part_totals, as_tabulated is not None)
    of_files = any(map(bool, given))  # a release may have both layouts
    from_files = is_published_files(measurements) and (of_files or not is_own_release(measurements))
    if of_files and not from_files:
        raise Refused(
            f"{measurements}: no folder such as US_Person_PL_PROD is in it, or one to three levels below; --inventory, "
            "--only-state, --totals, --geography, --check-spine, --part-totals and --as-tabulated are for such files"
        )
    if inventory:
        found, faults = take_inventory(measurements, tuple(states or ()))
        rows, findings = described(found), gather(faults.findings())
        show(
            {"files": rows, "findings": findings_data(findings)},
            lambda: _tables(rows, findings),
            as_json=options.as_json,
        )
        if has_errors(findings):
            raise Refused("the published files do not pass")
        return
    if release is None:
        raise Refused("name the folder OUT, where the release goes")
    check_empty(release)
    out = release.resolve()
    if None not in (geography, check_spine) and geography != check_spine:
        raise Refused("--check-spine names the geography: leave out --geography, or name the same")
    if part_totals and free:
        raise Refused("--free leaves declared totals unused: leave out --part-totals")
    request = Request(
        totals,
        geography or check_spine,
        changes,
        check_spine is not None,
        as_tabulated=as_tabulated,
        part_totals=part_totals,
    )
    files = take_inventory(measurements, tuple(states or ())) if from_files else None
    with leaving_nothing(options, out, "Estimate", *(files[0].jurisdictions if files else ())) as (runs, workers):
        if files:
            places = release_from_files(runs, workers, *files, request, out)
        else:
            places = [release_estimate(runs[0], workers, measurements, out, changes)]
    named = [{"release": place, "report": place / "report.html"} for place in places]
    show(named[0] if len(named) == 1 else named, lambda: "\n".join(map(str, places)), as_json=options.as_json)


def _tables(rows: list[dict[str, Any]], findings: list[Finding]) -> RenderableType:
    """Return the inventory as a table, the schemas once each, and the findings."""
    from tasks.top_down.published.nmf.inventory import LEVELS
    from tasks.top_down.run_plan import US

    table = Table("data", "product", "level", title="Published noisy measurements: files and rows")
    for head in ("DPQuery files", "rows", "Constraint files", "rows"):
        table.add_column(head, justify="right")
    table.add_column("State=")
    order, schemas = [US, *LEVELS], dict.fromkeys(schema for row in rows for schema in row["schemas"])
    keys = dict.fromkeys((row["jurisdiction"], row["product"], row["level"]) for row in rows)
    for key in sorted(keys, key=lambda key: (key[0] != "us", key[1], order.index(key[2]))):
        of = {row["rows of"]: row for row in rows if (row["jurisdiction"], row["product"], row["level"]) == key}
        kinds = [of.get(kind, {"files": 0, "rows": 0}) for kind in ("DPQuery", "Constraint")]
        states = sorted({state for row in of.values() for state in row["states"]})
        shown = ", ".join(states[:6]) + (f" ... ({len(states)})" if len(states) > 6 else "")
        table.add_row(*key, *(f"{kind[head]:,}" for kind in kinds for head in ("files", "rows")), shown)
    return Group(table, *(Text(f"columns: {schema}") for schema in schemas), findings_table(findings))


@contextmanager
def leaving_nothing(
    options: WorkOptions, out: Path, title: str, *jurisdictions: str
) -> Iterator[tuple[list[TopDownRun], Workers]]:
    """Yield a run directory for each jurisdiction (one at the least) and workers; at the end remove the directories.

    Where the input is refused, show its findings.
    """
    from flows.execution.settings import new_run_id
    from tasks.lifecycle.run_directory import locked
    from tasks.top_down.estimate_from_release import end_estimate
    from tasks.top_down.run import TopDownRun

    base = options.home / "runs" / new_run_id(f"tda-{title.lower()}")
    names = [f"{base.name}-{name}" for name in jurisdictions] if len(jurisdictions) > 1 else [base.name]
    runs = [TopDownRun(base.with_name(name)) for name in names]

    is_new = not out.exists()

    def end() -> None:
        for run in runs:
            end_estimate(run, out)
        if is_new:
            with suppress(OSError):  # it holds a release, or was never made
                out.rmdir()

    try:
        with (
            interruptible("interrupted; nothing is left", end),
            options.working(runs[0], title) as workers,
            ExitStack() as others,
        ):
            for run in runs[1:]:
                others.enter_context(locked(run))
            yield runs, workers
    except Refused:
        for run in runs:
            show_findings_of(run, as_json=options.as_json)
        raise
    finally:
        end()
