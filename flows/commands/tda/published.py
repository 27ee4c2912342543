"""`das tda inventory`, `import` and `estimate`: published noisy measurements, read without records and secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flows.commands.fields import Settings, Values
from flows.commands.options import WorkOptions
from flows.commands.tda.declared import DeclarationOption, StateOption, refuse_others
from flows.execution.settings import new_run_id
from flows.execution.top_down_settings import TopDownSettings
from flows.reports.curator import findings_data, findings_table
from flows.reports.terminal import show
from tasks.errors import Refused
from tasks.lifecycle.new_folder import check_empty
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.records.findings import Finding, gather, has_errors

if TYPE_CHECKING:
    from tasks.top_down.published.estimate import S
    from tasks.top_down.published.nmf.source import FileRequest

CHANGES = ("estimator", "microdata", "out")
AS_RELEASED = "that of the release; else as the 2020 program"
Files = Annotated[
    Path, typer.Argument(metavar="NMF", help="The Census Bureau's noisy measurement files, as downloaded.")
]
StateTotals = Annotated[
    str | None,
    typer.Option(help="Of the Bureau's files: declared population, state,pop.", show_default="April 1, 2020"),
]
Geography = Annotated[
    str | None,
    typer.Option(help="Of the Bureau's files: block tables with places, county subdivisions, AIAN areas."),
]


@dataclass(frozen=True)
class MeasurementFileOptions:
    """Options for reading the Census Bureau's noisy measurement files."""

    only_state: StateOption = None
    state_totals: StateTotals = None
    geography: Geography = None
    check_spine: Annotated[
        bool,
        typer.Option(
            "--check-spine",
            help="Compare the Bureau's geocodes with those of the spine that das-flows makes of --geography.",
        ),
    ] = False

    @property
    def request(self) -> FileRequest:
        """Return the request. Raises typer.BadParameter if a spine is to be checked without a geography."""
        from tasks.top_down.published.nmf.source import FileRequest

        if self.check_spine and self.geography is None:
            raise typer.BadParameter("--check-spine needs the block tables of the spine: --geography GEOGRAPHY")
        return FileRequest(self.state_totals, self.geography, self.check_spine)


def inventory(
    files: Files,
    only_state: StateOption = None,
) -> None:
    """Show which noisy measurement files of the Census Bureau are there, and their columns; no data is read.

    **Example:** `das tda inventory nmf/`
    """
    from tasks.top_down.published.nmf.inventory import described, is_published_files, take_inventory
    from tasks.top_down.published.open_published import NO_FILES

    if not is_published_files(files):
        raise Refused(f"{files}: {NO_FILES}")
    found, faults = take_inventory(files, tuple(only_state or ()))
    rows, findings = described(found), gather(faults.findings())
    show({"files": rows, "findings": findings_data(findings)}, lambda: _inventory_tables(rows, findings))
    if has_errors(findings):
        raise Refused("the published files do not pass")


def _inventory_tables(rows: list[dict[str, Any]], findings: list[Finding]) -> RenderableType:
    """Return the inventory as a table, the schemas once each, and the findings."""
    from tasks.top_down.release.nmf_layout import LEVELS
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


def import_(
    files: Files,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the measurements go, as DIR/us, DIR/pr.")],
    only_state: StateOption = None,
    state_totals: StateTotals = None,
    geography: Geography = None,
    *,
    options: WorkOptions,
) -> None:
    """Read published noisy measurement files once, and keep them in das-flows' own layout for repeated use.

    `das tda estimate DIR/us` estimates from what is kept, without reading and validating the files again. Blocks stay
    where they were measured.

    **Example:** `das tda import nmf/ ri-measurements/ --only-state 44`
    """
    from tasks.top_down.published.nmf.source import FileRequest
    from tasks.top_down.published.open_published import find_published
    from tasks.top_down.release.measurements import write_own_layout

    published = find_published(files, FileRequest(state_totals, geography, as_measured=True), only_state or ())
    readers = {str(each.jurisdiction): partial(each.read, changes={}) for each in published}
    places = write_published(options, "Import", readers, folder, write_own_layout)
    show([{"measurements": place} for place in places], lambda: "\n".join(map(str, places)))


def estimate(
    context: typer.Context,
    measurements: Annotated[
        Path,
        typer.Argument(
            metavar="MEASUREMENTS",
            help="A release's folder measurements/, or the release; or the Census Bureau's noisy measurement files.",
        ),
    ],
    changes: Annotated[Values, Settings(TopDownSettings, CHANGES, default=AS_RELEASED)],
    count: Annotated[
        Literal["pl94"] | None,
        typer.Option(help="With gls, margins also of each cell of the tables P1 to P5.", show_default="25 counts"),
    ] = None,
    declaration: DeclarationOption = None,
    *,
    files: MeasurementFileOptions,
    options: WorkOptions,
) -> None:
    """Estimate from published noisy measurements: no records, no secret, no account.

    With the estimator of a release its histograms, microdata and margins are made again, byte by byte; with another,
    those that it makes of the same measurements. Nothing is measured, so nothing is spent.

    The Census Bureau's noisy measurement files of the 2020 redistricting product are read as they are downloaded
    (docs/published.md); a fault in them is a finding, and nothing is released.

    For a declaration's release, --declaration FILE names one with other passes or histograms, all else equal.

    **Example:** `das tda estimate out/us/measurements/ again/ --estimator gls`
    """
    from tasks.top_down.declared.measurements import read_measurements
    from tasks.top_down.declared.release import write_release as write_declared
    from tasks.top_down.published.estimate import write_estimate
    from tasks.top_down.published.open_published import find_published, release_of
    from tasks.top_down.release.stage_release import write_release

    out = Path(changes.pop("out"))
    readers: Mapping[str, Callable[..., Any]]
    write: Callable[..., None]
    if (declared := release_of(measurements)) is not None:
        refuse_others(context, "count", *(field.name for field in fields(MeasurementFileOptions)))
        measured = read_measurements(declared, declaration, changes.get("estimator"))
        readers, write = {"declared": measured.read}, write_declared
    else:
        if declaration is not None:
            raise Refused(f"{measurements} holds no measurements of a declaration")
        if count and changes.get("estimator") != "gls":
            raise Refused("--count is about margins of error, which only --estimator gls makes")
        changes |= {"pl94": True} if count else {}
        published = find_published(measurements, files.request, files.only_state or ())
        readers, write = {each.jurisdiction: partial(each.read, changes=changes) for each in published}, write_release
    places = write_published(options, "Estimate", readers, out, partial(write_estimate, write=write))
    named = [{"release": place, "report": place / "report.html"} for place in places]
    show(named[0] if len(named) == 1 else named, lambda: "\n".join(map(str, places)))


def write_published(
    options: WorkOptions,
    title: str,
    readers: Mapping[str, Callable[[Path, Workers], S]],
    out: Path,
    write: Callable[[S, Workers, Path], None],
) -> list[Path]:
    """Read published measurements into private directories, which are removed, and write OUT of them, or nothing.

    readers: by the folder of OUT what reads them into the directory at a path. write: as for `write_sources`. Where
    input is refused, its findings are shown.
    """
    from tasks.top_down.published.estimate import end_sources, write_sources

    check_empty(out)
    out, is_new = out.resolve(), not out.exists()
    base = options.home / "runs" / new_run_id(f"tda-{title.lower()}")
    names = [base.name] if len(readers) == 1 else [f"{base.name}-{jurisdiction}" for jurisdiction in readers]
    directories = [RunDirectory(base.with_name(name)) for name in names]

    def end() -> None:
        end_sources(directories, out, readers)
        if is_new:
            with suppress(OSError):  # it holds a release, or was never made
                out.rmdir()

    with options.leaving_nothing(title, *directories, end=end) as workers:
        places = zip(readers.values(), directories, strict=True)
        sources = [read(directory.path, workers) for read, directory in places]
        return write_sources(sources, workers, out, write)
