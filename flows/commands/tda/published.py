"""What the commands on published noisy measurements share: options of the Bureau's files, and a place to work in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.findings import show_findings_of
from flows.commands.options import WorkOptions
from flows.commands.tda.options import StateOption
from flows.reports.terminal import interruptible
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.new_folder import check_empty

if TYPE_CHECKING:
    from tasks.lifecycle.workers import Workers
    from tasks.top_down.published.estimate import Readable, S
    from tasks.top_down.published.nmf.source import Request

Totals = Annotated[
    str | None,
    typer.Option(help="Of the Bureau's files: declared population, state,pop.", show_default="April 1, 2020"),
]
Geography = Annotated[
    str | None,
    typer.Option(help="Of the Bureau's files: block tables with places, county subdivisions, AIAN areas."),
]


@dataclass(frozen=True)
class FileOptions:
    """What may be said about the Census Bureau's noisy measurement files."""

    states: StateOption = None
    totals: Totals = None
    geography: Geography = None
    check_spine: Annotated[
        str | None,
        typer.Option(
            metavar="GEOGRAPHY",
            help="Compare the Bureau's geocodes with those of the spine that das-flows makes of these block tables.",
        ),
    ] = None

    @property
    def request(self) -> Request:
        """What is asked of the files. Raises Refused where options contradict each other."""
        from tasks.top_down.published.nmf.source import Request

        if None not in (self.geography, self.check_spine) and self.geography != self.check_spine:
            raise Refused("--check-spine names the geography: leave out --geography, or name the same")
        geography = self.geography or self.check_spine
        return Request(self.totals, geography, self.check_spine is not None)


def write_published(
    options: WorkOptions,
    title: str,
    published: Sequence[Readable[S]],
    out: Path,
    write: Callable[[S, Workers, Path], None],
    changes: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Read published measurements into private directories, which are removed, and write OUT of them, or nothing.

    write: as for `write_sources`. changes: as for `Published`. Where the input is refused, its findings are shown.
    """
    from flows.execution.settings import new_run_id
    from tasks.lifecycle.run_directory import RunDirectory, locked
    from tasks.top_down.published.estimate import end_sources, write_sources

    check_empty(out)
    out, is_new = out.resolve(), not out.exists()
    base = options.home / "runs" / new_run_id(f"tda-{title.lower()}")
    names = [base.name] if len(published) == 1 else [f"{base.name}-{each.jurisdiction}" for each in published]
    directories = [RunDirectory(base.with_name(name)) for name in names]

    def end() -> None:
        end_sources(directories, out)
        if is_new:
            with suppress(OSError):  # it holds a release, or was never made
                out.rmdir()

    try:
        with (
            interruptible("interrupted; nothing is left", end),
            options.working(directories[0], title) as workers,
            ExitStack() as others,
        ):
            for other in directories[1:]:
                others.enter_context(locked(other))
            places = zip(published, directories, strict=True)
            sources = [each.read(directory.path, workers, changes or {}, ()) for each, directory in places]
            return write_sources(sources, workers, out, write)
    except Refused:
        for directory in directories:
            show_findings_of(directory, as_json=options.as_json)
        raise
    finally:
        end()
