"""`das tda explain` and `declare`, and the options of a declaration that other commands have."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table

from flows.commands.fields import given, option_of, options_of, refuse
from flows.execution.top_down_settings import DeclaredSettings, TopDownSettings
from flows.reports.curator import show_findings
from flows.reports.terminal import is_json, show
from privacy.accounting.composition import SpendRow
from spine.settings import Jurisdiction
from tasks.errors import Refused, refusing
from tasks.lifecycle.new_folder import check_empty, new_folder
from tasks.records.files import file_name, why
from tasks.records.public_table import open_table

if TYPE_CHECKING:
    from tasks.top_down.declared.block_declarations import Kept
    from tasks.top_down.declared.explain import Explanation

StateOption = Annotated[list[int] | None, option_of(TopDownSettings, "states")]
DeclarationOption = Annotated[str | None, option_of(DeclaredSettings, "declaration")]
DRAFT = "draft.toml"
OTHERS = "it is of the redistricting data; a declaration says it in its file"


def explain(
    declaration: Annotated[
        str, typer.Argument(metavar="DECLARATION", help="The declaration: a file, or the name of a shipped one.")
    ],
) -> None:
    """Say what a declaration means, without records: whom it protects, what it costs, and what it buys.

    Everything is checked that a run checks before it reads records; all findings are shown, each with its key.

    **Example:** `das tda explain districts.toml`
    """
    from tasks.top_down.declared.explain import explain as explained
    from tasks.top_down.declared.public_tables import Faulty, read_declared

    try:
        _, declared = read_declared(declaration)
    except Faulty as faults:
        show_findings(faults.args)
        raise Refused("the declaration does not pass") from None
    found = explained(declared)
    relations = declared.spend.rows()
    show(asdict(found), lambda: _explanation(found, relations))


def declare(
    places: Annotated[
        list[Path], typer.Argument(metavar="[DATA] OUT", help="The input of das tda run, and the folder to make.")
    ],
    leaves: Annotated[
        str | None,
        typer.Option("--from", metavar="LEAVES", help="Draft a declaration from this public table of places."),
    ] = None,
    axis: Annotated[
        list[str] | None,
        typer.Option(help="An axis of the draft, as `sex=1,2` or `age=0-99,[100-120]`; may be repeated."),
    ] = None,
    geography: Annotated[str | None, option_of(TopDownSettings, "geography")] = None,
    jurisdiction: Annotated[Jurisdiction, option_of(TopDownSettings, "jurisdiction")] = "us",
    only_state: StateOption = None,
    redistricting: Annotated[
        Path | None, typer.Option(help="Declare the DHC of DATA, with the counts of this release.")
    ] = None,
    units: Annotated[
        Path | None,
        typer.Option(help="The release of units whose tenures the DHC's households keep. Default: OUT/units/declared."),
    ] = None,
    anchored: Annotated[
        bool, typer.Option("--anchored", help="Of households: smaller errors above tracts than the program's way.")
    ] = False,
) -> None:
    """Write declarations to change: those of the redistricting data or the DHC, or a draft from a table of places.

    From DATA, OUT gets the shipped declarations, a table of the blocks with their declared living quarters, and the
    declared populations. Unchanged, they estimate what `das tda run --us-level` does. With --from, OUT gets a draft
    with comments, and of the table the columns of its levels and its key. Give a public table: one with a column named
    like an axis, or without a column that has another code in every row, is refused; other records are not recognized.

    With --redistricting, DATA is of `das synth --for dhc`: OUT gets the declarations of the DHC's persons, housing
    units and households, a table of the blocks on the DHC's spine with their facilities, and the release, whose counts
    are those of every estimate. Households keep the tenures of a release of the units, which is run first. With --units
    alone, OUT gets the declaration of households and the release. A release within OUT is named, and need not be there
    yet: so a census in OUT makes it.

    **Example:** `das tda declare ri/ mine/`

    **Example:** `das tda declare data/dhc mine/ --redistricting out/us`

    **Example:** `das tda declare data/dhc households/ --units units/declared --anchored`

    **Example:** `das tda declare --from leaves.csv --axis "sex=1,2" --axis "age=0-99,[100-120]" mine/`
    """
    *data, place = places
    if len(data) != (leaves is None):
        raise typer.BadParameter("give DATA and OUT, or --from LEAVES and OUT")
    of_dhc: dict[Kept, Path] = {"redistricting": redistricting} if redistricting else {}
    if units or redistricting:
        of_dhc["units"] = units or place / "units/declared"
    if of_dhc and (leaves or axis or geography or only_state):
        raise typer.BadParameter("--redistricting and --units go with DATA, OUT, --jurisdiction and --anchored alone")
    if anchored and not of_dhc:
        raise typer.BadParameter("--anchored is an option of --redistricting and --units")
    check_empty(place)
    if of_dhc:
        _dhc(data[0], place, jurisdiction, of_dhc, anchored=anchored)
    elif leaves is not None:
        _draft(leaves, axis or [], place)
    else:
        _redistricting(str(data[0]), place, geography, jurisdiction, tuple(only_state or ()))


def _draft(leaves: str, axes: Sequence[str], place: Path) -> None:
    """Write a draft and its table; nothing if the draft does not pass."""
    from tasks.top_down.declared.draft import draft, read_axis
    from tasks.top_down.declared.public_tables import Faulty, read_declared

    if not axes:
        raise Refused('a draft has one axis or more: give --axis "sex=1,2"')
    typed = {}
    for text in axes:
        with refusing(f"--axis {text}"):
            name, cells = read_axis(text)
        if name in typed:
            raise Refused(f"--axis {text}: there is an axis {name} already")
        typed[name] = cells
    try:
        table = open_table(leaves).read().table
    except OSError as error:
        raise Refused(f"--from {leaves}: {why(error)}") from None
    file = f"{Path(file_name(leaves)).stem}.csv"
    with refusing(f"--from {leaves}"):
        text, columns = draft(file, table.to_pydict(), typed)
    with new_folder(place) as folder:
        with (folder / file).open("w", encoding="utf-8", newline="") as out:  # codes as records have them
            rows = zip(*table.select(columns).to_pydict().values(), strict=True)
            csv.writer(out, lineterminator="\n").writerows([columns, *rows])
        (folder / DRAFT).write_text(text, "utf-8")
        try:
            read_declared(str(folder / DRAFT))
        except Faulty as faults:
            show_findings(faults.args)
            raise Refused("the draft would not pass") from None
    path = place / DRAFT
    show({"declarations": [path]}, lambda: f"{path}\nnext: das tda explain {path}")


def _redistricting(
    data: str,
    place: Path,
    geography: str | None,
    jurisdiction: Jurisdiction,
    states: tuple[int, ...],
) -> None:
    from tasks.top_down.declared.block_declarations import write_declarations
    from tasks.top_down.input.public_input import read_public

    settings = TopDownSettings(data=data, out=str(place), geography=geography, jurisdiction=jurisdiction, states=states)
    blocks, _, findings = read_public(settings.tables, settings.design())
    if findings and not (blocks and is_json()):
        show_findings(findings)
    if blocks is None:
        raise Refused(f"the public files of {data} do not pass")
    with new_folder(place) as folder:
        names = write_declarations(blocks, jurisdiction, folder)
    number, paths = len(blocks.geography), [place / name for name in names]
    next_steps = "".join(f"\nnext: das tda explain {path}" for path in paths)
    show({"blocks": number, "declarations": paths}, lambda: f"{number:,} blocks{next_steps}")


def _dhc(
    data: Path,
    place: Path,
    jurisdiction: Jurisdiction,
    releases: Mapping[Kept, Path],
    *,
    anchored: bool,
) -> None:
    from tasks.top_down.declared.block_declarations import ToKeep, write_dhc_declarations

    kept: dict[Kept, ToKeep] = {}
    for of, release in releases.items():
        inside = release.absolute().is_relative_to(place.absolute())
        name = release.absolute().relative_to(place.absolute()).as_posix() if inside else of
        kept[of] = ToKeep(name, None if inside else release)
    with new_folder(place) as folder:
        names, blocks = write_dhc_declarations(data, jurisdiction, folder, kept, anchored=anchored)
    paths, next_steps = [place / path.name for path in names], f"{blocks:,} blocks"
    for path in paths:
        records = path.name.split("-")[1]
        file = next((each for each in sorted(data.glob(f"{records}.*"))), data / f"{records}.txt")
        own = releases["units"].parent if records == "units" else place / records
        next_steps += f"\nnext: das tda run {file} {own} --declaration {path}"
    show({"blocks": blocks, "declarations": paths}, lambda: next_steps)


def _explanation(found: Explanation, relations: Sequence[SpendRow]) -> RenderableType:
    levels = Table("level", "units", "most in one parent", "total is estimated", "solved by", "share", title="Levels")
    for each in found.levels:
        family = f"{each.largest_family:,}"
        levels.add_row(
            each.level, f"{each.geounits:,}", family, each.passes.removeprefix("total "), each.solver, each.share
        )
    margins = Table("query", *(each.level for each in found.levels), title="Margin at 95% of one noisy answer")
    for row in found.margins:
        margins.add_row(*row)
    fewest, most = found.seconds
    least = f"{fewest:,.0f} to" if fewest >= 1 else "up to"
    seconds = f"{least} {most:,.0f} seconds" if most >= 1.5 else "about a second or less"
    return Group(
        f"{found.name}: {found.records}, {found.possible:,} of {found.cells:,} cells possible",
        "",
        "Declared, published unchanged and not protected:",
        *(f"  - {text}" for text in found.unchanged),
        "Protected:",
        *(f"  - {each.sentence}: {each.words}" for each in relations),
        f"Constraints: {found.why} (class {found.kind}); whole numbers always exist: {found.feasibility}",
        f"Records added because no count is negative: {found.excess}",
        f"Margins of all sums that are asked, for no further budget (--estimator gls, also later): {found.gls}",
        f"Foreseen: {found.answers:,} noisy answers, {seconds} of a core, {found.memory >> 20:,} MiB a process",
        levels,
        margins,
        *(f"Note: {remark}" for remark in found.remarks),
    )


def refuse_others(context: typer.Context, *more: str) -> None:
    """Refuse options of the redistricting data, and more of a command, next to --declaration.

    Raises typer.BadParameter.
    """
    names = ({name for name, _, _ in options_of(TopDownSettings)} | {*more}) - {"estimator"}
    options = {option.name for option in context.command.params if option.param_type_name == "option"}
    refuse(context, given(context).keys() & names & options, OTHERS)
