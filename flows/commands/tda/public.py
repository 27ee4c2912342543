"""`das tda public`: inputs of the TopDown Algorithm made of published microdata."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.marking import confirm_mark
from flows.commands.tda.options import StateOption
from flows.reports.terminal import Json, counting, show


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
    histograms: Annotated[
        bool, typer.Option("--histograms", help="Keep counts by block and cell only: a replicate of das tda accuracy.")
    ] = False,
    publisher: Annotated[str, typer.Option(help="Who published the records.")] = "the U.S. Census Bureau",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Make the input of `das tda run` of published microdata: the Bureau's PPMF, MDF or demonstration PPMF.

    Text with a header and commas or pipes, plain, gzip or zip, or Parquet, as downloaded; a nation is read as a stream.
    DATA gets persons.parquet, units.parquet, quarters.csv, states.csv, GRF-C.txt where the records have the codes of
    areas, and PUBLIC.json: runs on it charge nothing. Their truth is itself a published, noisy database. It asks
    before it marks.

    **Example:** `das tda public 2020_ppmf_person_44.csv 2020_ppmf_unit_44.csv ri-public/ --yes`
    """
    from tasks.lifecycle.errors import Refused
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
    with counting("records", quiet=as_json) as progress:
        made = make_inputs(
            sources,
            Path(data),
            publisher=publisher,
            states=only_state or (),
            histograms=histograms,
            progress=progress,
        )
    states = f"{len(made.states)} states" if len(made.states) > 6 else f"state(s) {', '.join(made.states)}"
    lines = [f"{made.persons:,} persons, {made.units:,} units on {made.blocks:,} blocks of {states}, marked public"]
    lines += [f"note: {note}" for note in made.notes]
    lines += [] if histograms else [f"next: das tda run {data} out/"]
    show(asdict(made), lambda: "\n".join(lines), as_json=as_json)
