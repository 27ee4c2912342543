"""`das tda areas`: estimates, standard errors and intervals of any areas, from published noisy measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import WorkOptions
from flows.commands.tda.published import StateTotals
from flows.execution.settings import new_run_id
from flows.reports.figures import fraction
from flows.reports.terminal import Format, FormatOption, is_json, report
from tasks.errors import Refused
from tasks.lifecycle.new_folder import check_empty
from tasks.lifecycle.run_directory import RunDirectory
from tasks.records.files import file_name

if TYPE_CHECKING:
    from tasks.geography.blocks.area_file import AreaFile
    from tasks.top_down.published.open_published import PublishedMeasurements
    from tasks.top_down.user_areas.area_estimates import AreaEstimates
    from tasks.top_down.user_areas.state_cache import CachedState


LIMITS = (Fraction(0), Fraction(200))  # bounds of --within, typed as a share or in per cent
Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="A TopDown release with measurements/, that folder, or the Census Bureau's measurement files.",
    ),
]
Blocks = Annotated[
    str,
    typer.Argument(
        metavar="AREAS",
        help="Blocks and their areas: a CSV, block assignment or equivalency file, list of blocks, zip of one.",
    ),
]
Out = Annotated[Path | None, typer.Argument(metavar="OUT", help="Folder for the tables and areas.html.")]
Count = Annotated[
    str | None,
    typer.Option(
        help="Counts, as `total,voting age`.",
        show_default="all; on the terminal the main ones, of a plan its districts",
    ),
]
PublishedCounts = Annotated[
    str | None,
    typer.Option(
        help="Published counts to show as well: P.L. 94-171 files (ri2020.pl.zip) or a release.",
        show_default="those of SOURCE, if it is a release",
    ),
]
Within = Annotated[
    str, typer.Option(help="The limit that is asked of a plan's range: a share of the ideal, `10%` or `0.1`.")
]
Boundaries = Annotated[
    list[Path] | None,
    typer.Option(
        help="Shapes for the map of a plan: tracts, block groups or blocks (GeoJSON, GeoPackage, zipped shapefile)."
    ),
]


@dataclass(frozen=True)
class AreaFileOptions:
    """Options for reading a file of areas."""

    area_column: Annotated[
        str | None,
        typer.Option(
            help="The column of the areas, or columns as COUNTYFP+DISTRICT.",
            show_default="DISTRICT, CD..., SLDU..., ...",
        ),
    ] = None
    block_column: Annotated[
        str | None, typer.Option(help="The column of the blocks.", show_default="GEOID20, GEOID, BLOCKID, ...")
    ] = None
    unassigned: Annotated[
        str | None,
        typer.Option(
            help="A further mark of blocks in no area, as `0`; `''`: only blank cells are marks.",
            show_default="ZZ, ZZZ, NA, nan, -1, ...",
        ),
    ] = None
    pad: Annotated[
        bool, typer.Option("--pad", help="Put back the leading zero of codes with 14 digits (states 01 to 09).")
    ] = False

    def read(self, blocks: str) -> AreaFile:
        """Read a file of areas. Raises Refused."""
        from tasks.geography.blocks.area_file import read_areas

        return read_areas(
            blocks, self.area_column, block_column=self.block_column, pad=self.pad, unassigned=self.unassigned
        )


def areas(
    source: Source,
    blocks: Blocks,
    out: Out = None,
    *,
    reading: AreaFileOptions,
    count: Count = None,
    published: PublishedCounts = None,
    state_totals: StateTotals = None,
    within: Within = "10%",
    boundaries: Boundaries = None,
    form: FormatOption = Format.table,
    options: WorkOptions,
) -> None:
    """Estimate the counts of any areas, with standard errors and intervals: towns, districts, lists of blocks.

    The first question reads the measurements; what further ones need is kept in the runs folder. No record, secret or
    account is needed, and nothing is spent. For a plan that divides a state, OUT has each district's deviation from the
    ideal, and bounds of the largest one and of the range; the answer, whether the range is within a limit, comes first.
    OUT/areas.html has a map, with the districts' shapes if --boundaries is given. --format csv prints the rows of
    areas.csv alone.

    **Example:** `das tda areas out/us plan.csv hearing/`

    **Example:** `das tda areas nmf/ BlockAssign_ST44_RI_SLDL22.txt hearing/ --published ri2020.pl.zip`
    """
    from flows.reports.show.maps.districts import district_shapes
    from tasks.geography.public_regions import read_regions
    from tasks.top_down.user_areas.hearing import tract_points
    from tasks.top_down.user_areas.report import as_data, rows_table, terminal_tables, write_files

    limit = limit_of(within)
    if out is not None:
        check_empty(out)
    elif boundaries:
        raise Refused("--boundaries is for the map in OUT/areas.html: name a folder OUT")
    file = reading.read(blocks)
    found, shown = _estimate(source, file, published, state_totals, options)
    found = replace(found, within=float(limit), file=file_name(blocks), published_file=file_name(published or ""))
    counts = [name.strip() for name in count.split(",")] if count else []
    if unknown := [name for name in counts if name not in found.counts]:
        raise Refused(f"--count {unknown[0]}: no such count; there are {', '.join(found.counts)}")
    sketch = None
    if boundaries and not found.plan:
        raise Refused("--boundaries is for the map of a plan, and these areas are not judged as one: leave it out")
    if out and found.plan and found.read and boundaries:
        sketch = district_shapes(boundaries, found.read)
    elif out and found.plan and found.read and shown:
        sketch = tract_points(found.read, read_regions(shown)[1])
    written = write_files(out.resolve(), found, counts, sketch) if out is not None else []
    data = as_data(found, counts) | ({"files": list(map(str, written))} if written else {})
    tables = (
        [rows_table(found, counts)]
        if form is Format.csv
        else terminal_tables(found, counts, out, mapped=boundaries is not None)
    )
    report(data, tables, form, found.unjudged)
    if written and not is_json():
        typer.echo("\n".join(map(str, written)), err=form is Format.csv)


def _estimate(
    source: Path, file: AreaFile, published: str | None, state_totals: str | None, options: WorkOptions
) -> tuple[AreaEstimates, str | None]:
    """Return the estimates of a file's areas, and the place of the published counts next to them, if there are any."""
    from tasks.top_down.published.nmf.source import FileRequest
    from tasks.top_down.published.open_published import find_published
    from tasks.top_down.user_areas.area_estimates import check_states, estimate_file
    from tasks.top_down.user_areas.published_counts import is_estimate, published_counts

    measured = find_published(source, FileRequest(state_totals))
    states = check_states(file, sorted(state for each in measured for state in each.states))
    first = next(each for each in measured if states[0] in each.states)
    shown = published or (str(first.release) if first.release else None)
    counts = published_counts(shown) if shown else None
    kept = [state for each in measured for state in _cached(each, [s for s in states if s in each.states], options)]
    own = shown is not None and is_estimate(shown)
    return estimate_file(kept, file, first.origin.name, counts, first.banners, published_is_estimate=own), shown


def limit_of(text: str) -> Fraction:
    """Return the limit of a range, typed as a share of the ideal or in per cent. Raises Refused."""
    if "," in text:
        raise Refused(f"--within {text}: write a decimal point, as {text.replace(',', '.')}")
    typed = fraction(text.removesuffix("%").strip(), "--within", LIMITS)
    if text.endswith("%"):
        return typed / 100
    if typed > 1:
        raise Refused(f"--within {text} is {text} times the ideal: write {text}% or {float(typed / 100):g}")
    return typed


def _cached(published: PublishedMeasurements, states: Sequence[str], options: WorkOptions) -> list[CachedState]:
    """Return the cached states; read missing ones and cache the trees that questions about their areas need."""
    from tasks.top_down.estimate.gls.pass_up import pass_up
    from tasks.top_down.user_areas.state_cache import cache_states, find_state

    digests = {state: published.digest(state) for state in states}
    missing = {state: digest for state, digest in digests.items() if find_state(options.home, digest) is None}
    if missing:
        directory = RunDirectory(options.home / "runs" / new_run_id("tda-areas"))
        with options.leaving_nothing("Areas", directory) as workers:
            source = published.read(directory.path, workers, {}, list(missing))
            pass_up(source, workers)
            if any(published.digest(state) != digest for state, digest in missing.items()):
                raise Refused("the measurements changed while they were read: ask again")
            cache_states(source, options.home, missing)
    kept = [find_state(options.home, digest) for digest in digests.values()]
    if None in kept:
        raise Refused("the cached states were removed while they were read: ask again")
    return [state for state in kept if state is not None]
