"""`das synth`: one made-up population for every system, and the mark that declares data synthetic."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from flows.commands.fields import given, refuse
from flows.commands.tda.declared import DeclarationOption, StateOption
from flows.execution.systems import all_data_files
from flows.reports.terminal import counting, err, is_json, labelled, show
from tasks.errors import Refused
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.run_directory import state_home
from tasks.records.marks import MARK_FILE, data_files, mark_table, write_mark

if TYPE_CHECKING:
    from tasks.synth.synthesize import MadePopulation

FORMS = {  # forms of the command, with the options that apply to each
    (BLOCKS := "das synth BLOCKS PARAMS OUT"): {"shares", "systems"},
    (NATION := "das synth nation OUT"): {"shares", "persons", "only_state", "params", "systems"},
    (EXAMPLE := "das synth OUT"): {"systems"},
    (RECORDS := "das synth --declaration DECLARATION OUT"): {"shares", "persons", "declaration"},
    (MARK := "das synth --mark DATA"): set[str](),
}

NEXT = {  # the next command for the data of each system
    "detailed-dhca": "das validate {0} {1}",
    "ddhcb": "das ddhcb validate {0} {1}",
    "sdhc": "das sdhc validate {0}/config-sdhc.json {1}",
    "tda": "das tda validate {1}",
    "dhc": "das tda declare {1} DECLARED --redistricting RELEASE",
}

# An enumeration, because typer does not take a repeated option of a literal type.
SystemName = StrEnum("SystemName", ["detailed-dhca", "ddhcb", "sdhc", "tda", "dhc", "all"])
Words = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[BLOCKS PARAMS | nation] OUT", help="What to populate, and the new directory for it."),
]
Marked = Annotated[
    Path | None,
    typer.Option(metavar="DATA", help="Declare the files in DATA, or a table, synthetic; make no files."),
]
Yes = Annotated[bool, typer.Option("--yes", help="With --mark: do not ask for confirmation.")]
Shares = Annotated[
    Path | None,
    typer.Option(
        metavar="CSV",
        help="Published national counts (ITERATION_NAME, US_POP) for the groups to follow. Default: made up.",
    ),
]
Persons = Annotated[
    int | None,
    typer.Option(min=1, max=10**9, help="Persons in the nation and Puerto Rico. Default: 334,735,155, as in 2020."),
]
Params = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Parameter files of the nation. Default: those of the bundled example."),
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same bytes.")]
RecordFormat = Annotated[Literal["text", "parquet"], typer.Option(help="Format of the records.")]
Systems = Annotated[
    list[SystemName] | None,
    typer.Option(
        "--for",
        help="Write the population for this system in OUT/SYSTEM; may be repeated. Default: persons in OUT/data.",
    ),
]
Plausible = Annotated[
    bool, typer.Option("--report", help="Show how plausible the population is: its shares next to published ones.")
]


def synth(
    context: typer.Context,
    words: Words = None,
    mark: Marked = None,
    yes: Yes = False,
    declaration: DeclarationOption = None,
    shares: Shares = None,
    persons: Persons = None,
    only_state: StateOption = None,
    params: Params = None,
    seed: Seed = 0,
    record_format: RecordFormat = "text",
    systems: Systems = None,
    plausible: Plausible = False,
) -> None:
    """Make a synthetic population: OUT/data (person records, GRF-C.txt, SYNTHETIC.json) and OUT/params.

    `das synth BLOCKS PARAMS OUT` populates real geography, such as the P.L. 94-171 files of a state (ri2020.pl.zip) or
    a CSV of blocks: exactly its populations, with the code list of PARAMS and config.json adapted to its states.

    `das synth nation OUT` makes a nation and Puerto Rico with as many states, counties, tracts, blocks, places, AIANNH
    areas and persons as in 2020, with the code list of --params.

    `das synth OUT` makes the small bundled example, with a geography and a code list of its own.

    `das synth --declaration DECLARATION OUT` makes records for a declaration of das tda: its leaves and axes, which are
    independent and meet every declared figure; --shares is then a table of axis, value and share.

    `das synth --mark DATA` declares files of your own synthetic, for `das run` or `das tda`, or a table for `das
    bottom-up`: runs on them charge nothing, and anyone may write out their exact counts. It asks for confirmation.

    **Example:** `das synth ri2020.pl.zip NMFv7-2020 /tmp/ri`
    """
    words = words or []
    form = _form(words, marks=mark is not None, declares=declaration is not None)
    refuse(context, given(context).keys() & set().union(*FORMS.values()) - FORMS[form], f"not an option of {form}")
    if mark is not None:
        return _declare(mark, yes=yes)
    if declaration is not None:
        return _records(declaration, words[0], seed, record_format, persons, shares)
    use_kernels(state_home())  # before any import of kernels
    from tasks.synth.synthesize import synthesize_blocks, synthesize_example, synthesize_nation
    from tasks.synth.write import Options
    from tasks.synth.writers.systems import find_systems

    with counting("persons", quiet=is_json()) as progress:
        threads = os.cpu_count() or 1
        options = Options(seed, form=record_format, threads=threads, report=plausible, progress=progress)
        if systems:
            options = replace(options, places={each.name: each.name for each in find_systems(systems)})
        if form == NATION:
            codes = [f"{state:02d}" for state in only_state or ()]
            made = synthesize_nation(params, words[1], options, shares, persons=persons, states=codes)
        elif form == BLOCKS:
            made = synthesize_blocks(words[0], words[1], words[2], options, shares)
        else:
            made = synthesize_example(words[0], options)
    show(asdict(made) | {"data": made.data}, lambda: _summary(made))
    if plausible and not is_json():
        err.print(_plausibility(made))
    for label, text in _warnings(made):
        err.print(labelled(label, text, "bold yellow"), soft_wrap=True)


def _summary(made: MadePopulation) -> Table:
    """Return the contents of the population, and the commands to continue with."""
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


def _plausibility(made: MadePopulation) -> Table:
    """Return the plausibility of the population as a table."""
    from tasks.synth.report import FIGURES

    table = Table("figure", "here", "published", "within", title="How plausible it is")
    for figure in FIGURES:
        value = f"{figure.value(made.counts):.4f}"
        here = Text(value, style="" if figure.fits(made.counts) else "yellow")
        table.add_row(figure.words, here, f"{figure.target:.4f}", f"{figure.within:.3f}")
    return table


def _warnings(made: MadePopulation) -> Iterator[tuple[str, str]]:
    """Yield warnings: about blocks that were repaired, and groups without a published count."""
    for rule, blocks in ((made.mark.population or {}).get("repaired") or {}).items():
        yield "repaired:", f"{rule}: {blocks:,}"
    if made.uncounted:
        others = f"; and {len(made.uncounted) - 3:,} more" if len(made.uncounted) > 3 else ""
        named = "; ".join(made.uncounted[:3]) + others
        yield "warning:", f"{made.shares} has no count of these groups, which get one person each: {named}"


def _form(words: list[Path], *, marks: bool, declares: bool) -> str:
    """Return the form of the command. Raises typer.BadParameter."""
    match words, marks, declares:
        case [], True, False:
            return MARK
        case [_], False, True:
            return RECORDS
        case [_, _, _], False, False:
            return BLOCKS
        case [Path(name="nation"), _], False, False:
            return NATION
        case [out], False, False if out != Path("nation"):
            return EXAMPLE
    *others, last = FORMS
    raise typer.BadParameter(f"write {', '.join(others)} or {last}")


def _declare(data: Path, *, yes: bool) -> None:
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
    show(mark.facts, lambda: f"{place} declares {', '.join(mark.digests)} synthetic")


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


def _records(name: str, out: Path, seed: int, form: str, persons: int | None, shares: Path | None) -> None:
    """Make records of a declaration."""
    from tasks.top_down.declared.synth import synthesize_records

    made = synthesize_records(name, out, seed=seed, form=form, records=persons, shares=shares)
    lines = f"{made['records']:,} records in {made['leaves']:,} leaves: {made['data']}"
    show(made, lambda: f"{lines}\nnext: das tda run {made['data']} out/ --declaration {name}")
