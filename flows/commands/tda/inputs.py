"""`das tda synth` and `das tda public`: inputs of the TopDown Algorithm, made up or made of published microdata."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.commands.fields import option_of
from flows.commands.synth import RecordFormat, Seed, confirm_mark
from flows.commands.tda.declared import StateOption
from flows.execution.top_down_settings import TopDownSettings
from flows.reports.terminal import counting, is_json, show
from tasks.errors import Refused
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.run_directory import state_home


def synth(
    geography: Annotated[str, typer.Argument(metavar="GEOGRAPHY", help="Block tables, as das spine reads them.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="The folder to make.")],
    jurisdiction: Annotated[Literal["us", "pr"], option_of(TopDownSettings, "jurisdiction")] = "us",
    only_state: StateOption = None,
    seed: Seed = 0,
    record_format: RecordFormat = "parquet",
) -> None:
    """Make synthetic input: persons and units on the blocks of a real geography, as `das synth --for tda` does.

    Populations are those of the block table where it has them, else drawn; races follow the bundled example's list.
    DATA is marked synthetic: runs on it charge nothing.

    **Example:** `das tda synth ri2020.pl.zip ri/`
    """
    use_kernels(state_home())
    from tasks.synth.synthesize import synthesize_top_down

    with counting("persons", quiet=is_json()) as progress:
        made = synthesize_top_down(
            Path(geography),
            data,
            seed=seed,
            jurisdiction=jurisdiction,
            states=only_state or (),
            form=record_format,
            progress=progress,
        )
    units = made.counts["units"]
    lines = f"{made.persons:,} persons, {units:,} units on {made.blocks:,} blocks of states {', '.join(made.states)}"
    show(asdict(made) | {"data": data}, lambda: f"{lines}\nnext: das tda run {data} out/")


def public(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="PPMF... DATA",
            help="Files of persons and of units (.csv, .txt, .gz, .zip, .parquet), or folders of them; then the folder "
            "to make.",
        ),
    ],
    only_state: StateOption = None,
    published_by: Annotated[str, typer.Option(help="Who published the records.")] = "the U.S. Census Bureau",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Make the input of `das tda run` of published microdata: the Bureau's PPMF, MDF or demonstration PPMF.

    Text with a header and commas or pipes, plain, gzip or zip, or Parquet, as downloaded; a nation is read as a stream.
    DATA gets persons.parquet, units.parquet, quarters.csv, states.csv, GRF-C.txt where the records have the codes of
    areas, and PUBLIC.json: runs on it charge nothing. Their truth is itself a published, noisy database. It asks
    before it marks.

    **Example:** `das tda public 2020_ppmf_person_44.csv 2020_ppmf_unit_44.csv ri-public/ --yes`
    """
    from tasks.top_down.published.microdata.make_inputs import make_inputs

    if len(words) < 2:
        raise typer.BadParameter("give the files of persons and of units, and then the folder to make")
    *sources, data = words
    if "://" in data:
        raise Refused(f"{data}: inputs are made in a local folder")
    confirm_mark(
        f"{data} will be marked as public ({', '.join(sources)})",
        "published",
        "das tda public",
        "records of persons that were not published",
        yes=yes,
    )
    with counting("records", quiet=is_json()) as progress:
        made = make_inputs(
            sources,
            Path(data),
            publisher=published_by,
            states=only_state or (),
            progress=progress,
        )
    states = f"{len(made.states)} states" if len(made.states) > 6 else f"state(s) {', '.join(made.states)}"
    lines = [f"{made.persons:,} persons, {made.units:,} units on {made.blocks:,} blocks of {states}, marked public"]
    lines += [f"note: {note}" for note in made.notes]
    lines.append(f"next: das tda run {data} out/")
    show(asdict(made), lambda: "\n".join(lines))
