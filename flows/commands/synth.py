"""`das synth`: one made-up population for every system, and the mark that declares data synthetic."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from flows.execution.systems import all_data_files
from flows.reports.terminal import Json, counting, err, labelled, show
from tasks.errors import Refused
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.run_directory import state_home

if TYPE_CHECKING:
    from tasks.synth.synthesize import Made

FORMS = "das synth BLOCKS PARAMS OUT, das synth nation OUT, das synth OUT, or das synth --mark DATA"
NEXT = {  # what to do with the data of each system
    "detailed-dhca": "das validate {0} {1}",
    "ddhcb": "das ddhcb validate {0} {1}",
    "sdhc": "das sdhc validate {0}/config-sdhc.json {1}",
    "tda": "das tda validate {1}",
}


def synth(
    words: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[BLOCKS PARAMS | nation] OUT", help="What to populate, and the new directory for it."),
    ] = None,
    mark: Annotated[
        Path | None,
        typer.Option("--mark", metavar="DATA", help="Declare the files in DATA, or a table, synthetic; make no files."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --mark: do not ask for confirmation.")] = False,
    shares: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="Published national counts (ITERATION_NAME, US_POP) for the groups to follow. Default: made up.",
        ),
    ] = None,
    persons: Annotated[
        int | None,
        typer.Option(
            min=1, max=10**9, help="Persons in the nation, Puerto Rico included. Default: 334,735,155, as in 2020."
        ),
    ] = None,
    states: Annotated[
        str | None,
        typer.Option(metavar="44,09,72", help="Make only these states of the nation; 72 is Puerto Rico. Default: all."),
    ] = None,
    params: Annotated[
        Path | None,
        typer.Option(
            "--params", metavar="DIR", help="Parameter files of the nation. Default: those of the bundled example."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bytes.")] = 0,
    form: Annotated[Literal["text", "parquet"], typer.Option("--format", help="Format of the records.")] = "text",
    systems: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="ddhcb,sdhc",
            help="Write the same population for these systems, each in OUT/SYSTEM: detailed-dhca, ddhcb, sdhc, tda; or "
            "all. Default: person records in OUT/data. Or the declaration of a TopDown run (see das tda explain).",
        ),
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Show how plausible the population is: its shares next to published ones.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a synthetic population: OUT/data (person records, GRF-C.txt, SYNTHETIC.json) and OUT/params.

    With --for, the same persons and households are written for several systems, each in a folder of its own. With the
    declaration of a TopDown run, OUT gets records of its leaves and axes, which are independent and meet every declared
    figure; --shares is then a table of axis, value and share.

    `das synth BLOCKS PARAMS OUT` populates real geography, as the P.L. 94-171 files of a state (ri2020.pl.zip) or a CSV
    of blocks: exactly its populations, the code list of PARAMS, config.json fitted to its states.

    `das synth nation OUT` makes a nation and Puerto Rico with as many states, counties, tracts, blocks, places, AIANNH
    areas and persons as in 2020, over the code list of --params.

    `das synth OUT` makes the small bundled example, with a geography and a code list of its own.

    `das synth --mark DATA` declares files of your own synthetic, of `das run` or of `das tda`, or a table of `das
    bottom-up`: runs on them charge nothing, and anyone may write out their exact counts. It asks before it does so.

    **Example:** `das synth ri2020.pl.zip NMFv7-2020 /tmp/ri`
    """
    from tasks.records.declarations import declarations

    given = {"--shares": shares, "--persons": persons, "--states": states, "--params": params, "--for": systems}
    if not words and mark is not None:
        _only(given, "--mark DATA")
        return _declare(mark, as_json, yes=yes)
    if systems is not None and (systems.endswith((".toml", ".json")) or systems in declarations()):
        _only(given, "das synth --for DECLARATION OUT", "--shares", "--persons", "--for")
        return _records(words or [], systems, seed, form, persons, shares, as_json)
    prepare_kernels()
    from tasks.synth.synthesize import synthesize_blocks, synthesize_example, synthesize_nation
    from tasks.synth.write import Options
    from tasks.synth.writers.systems import find_systems

    with counting("persons", quiet=as_json) as progress:
        options = Options(seed, form=form, threads=os.cpu_count() or 1, report=report, progress=progress)
        if systems is not None:
            places = {system.name: system.name for system in find_systems(systems.split(","))}
            options = replace(options, places=places)
        match words or []:
            case [Path(name="nation"), out] if mark is None:
                codes = states.split(",") if states else []
                made = synthesize_nation(params, out, options, shares, persons=persons, states=codes)
            case [blocks, code_list, out] if mark is None:
                _only(given, "das synth BLOCKS PARAMS OUT", "--shares", "--for")
                made = synthesize_blocks(blocks, code_list, out, options, shares)
            case [out] if mark is None and out != Path("nation"):
                _only(given, "das synth OUT", "--for")
                made = synthesize_example(out, options)
            case _:
                raise typer.BadParameter(f"write {FORMS}")
    show(asdict(made) | {"data": made.data}, lambda: _table(made), as_json=as_json)
    for rule, blocks in ((made.mark.population or {}).get("repaired") or {}).items():
        err.print(labelled("repaired:", f"{rule}: {blocks:,}", "bold yellow"), soft_wrap=True)
    if report and not as_json:
        err.print(_figures(made))
    if made.uncounted:
        others = f"; and {len(made.uncounted) - 3:,} more" if len(made.uncounted) > 3 else ""
        named = "; ".join(made.uncounted[:3]) + others
        warning = f"{made.shares} has no count of these groups, which get one person each: {named}"
        err.print(labelled("warning:", warning, "bold yellow"), soft_wrap=True)


def prepare_kernels() -> None:
    """Decide where compiled kernels are cached; call it before what imports them."""
    use_kernels(state_home())


def _only(given: dict[str, Any], form: str, *allowed: str) -> None:
    for option, value in given.items():
        if value is not None and option not in allowed:
            raise typer.BadParameter(f"{option} cannot be used with {form}")


def _declare(data: Path, as_json: bool, *, yes: bool) -> None:
    from tasks.records.marks import MARK_FILE, data_files, mark_table, write_mark

    is_table = data.is_file()
    names = [data.name] if is_table else data_files(data, all_data_files())
    asked = f"{data} will be marked as synthetic ({', '.join(names)})"
    confirm_mark(asked, "synthetic", "--mark", "records of real persons", yes=yes)
    by = {"generator": "declared by its owner", "version": version("das-flows")}
    place = (data.parent if is_table else data) / MARK_FILE
    try:
        mark = mark_table(data, **by) if is_table else write_mark(data, names, **by)
    except OSError as error:
        raise Refused(f"{place} cannot be written: {error.strerror or error}") from error
    show(mark.facts, lambda: f"{place} declares {', '.join(mark.digests)} synthetic", as_json=as_json)


def confirm_mark(data: str, kind: str, command: str, never: str, *, yes: bool) -> None:
    """Ask for confirmation of a mark, unless `yes`; kind: synthetic or published. never: what must not be marked.

    Raises Refused if the answer is no, or without a terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused(f"{command} asks before it exempts data from charges; without a terminal, add --yes")
    err.print(
        f"{data}: runs on it charge nothing to any account, and das truth writes out its exact counts. Never mark "
        f"{never}.",
        soft_wrap=True,
    )
    if not typer.confirm(f"Are all these records {kind}?", default=False, err=True):
        raise Refused(f"{data.partition(' will')[0]} is not marked")


def _figures(made: Made) -> Table:
    """Return the plausibility of the population as a table."""
    from tasks.synth.report import FIGURES

    table = Table("figure", "here", "published", "within", title="How plausible it is")
    for figure in FIGURES:
        value = f"{figure.value(made.counts):.4f}"
        here = Text(value, style="" if figure.fits(made.counts) else "yellow")
        table.add_row(figure.words, here, f"{figure.target:.4f}", f"{figure.within:.3f}")
    return table


def _table(made: Made) -> Table:
    table = Table.grid(padding=(0, 2))
    many = len(made.states) > 6
    states = f"{len(made.states)} states" if many else f"states {', '.join(made.states)}"
    table.add_row(
        "persons", f"{made.persons:,} synthetic, seed {made.mark.seed}, in {made.counts['units']:,} living quarters"
    )
    table.add_row("blocks", f"{made.blocks:,} in {states}")
    made_up = "have made-up shares; --shares CSV gives them published counts"
    table.add_row("groups", f"follow {made.shares}" if made.shares else made_up)
    table.add_row("data", "\n".join(map(str, made.folders.values())))
    table.add_row("parameters", str(made.params))
    table.add_row("next", "\n".join(NEXT[name].format(made.params, data) for name, data in made.folders.items()))
    return table


def _records(
    words: list[Path], name: str, seed: int, form: str, persons: int | None, shares: Path | None, as_json: bool
) -> None:
    """Make records of a declaration."""
    from tasks.top_down.declared.synth import synthesize_records

    if len(words) != 1:
        raise typer.BadParameter("das synth --for DECLARATION OUT needs the folder OUT alone")
    made = synthesize_records(name, words[0], seed=seed, form=form, records=persons, shares=shares)
    show(
        made,
        lambda: (
            f"{made['records']:,} records in {made['leaves']:,} leaves: {made['data']}\n"
            f"next: das tda run {made['data']} out/ --declaration {name}"
        ),
        as_json=as_json,
    )
