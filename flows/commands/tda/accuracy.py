"""`das tda accuracy`: the errors of the TopDown Algorithm on synthetic data, spine beside spine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from flows.commands.inputs import show_findings_of
from flows.commands.options import ExactOptions, check_empty, folder, with_options
from flows.commands.tda.options import DataArgument, InputOptions, Kind
from flows.reports.terminal import err, show
from tasks.lifecycle.errors import Refused


@with_options
def accuracy(
    data: DataArgument,
    place: Annotated[Path, typer.Argument(metavar="OUT", help="Where the reports go.", callback=folder)],
    spine: Annotated[
        list[Kind] | None, typer.Option(help="Only this spine; may be repeated.", show_default="all")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Independent runs on each spine.")] = 3,
    l1: Annotated[bool, typer.Option("--l1", help="Round to the least L1 distance instead.")] = False,
    *,
    inputs: InputOptions,
    options: ExactOptions,
) -> None:
    """Report the errors of total, voting age, Hispanic and race by level, place, county subdivision and AIAN area.

    OUT gets error.csv and error.html, with a chart. NOT PRIVATE, and of data that is marked synthetic only: on
    confidential data each spine would be a measurement, and a charge, of its own.

    **Example:** `das tda accuracy ri/ errors/ --seeds 3`
    """
    from flows.execution.settings import new_run_id
    from tasks.top_down.accuracy import LEVELS, averaged, measure_accuracy
    from tasks.top_down.accuracy_report import write_report
    from tasks.top_down.design import KINDS
    from tasks.top_down.run import TopDownRun

    check_empty(place)
    kinds = tuple(dict.fromkeys(kind.value for kind in spine)) if spine else KINDS
    base, by_spine = new_run_id("tda-accuracy"), {}
    for kind in kinds:
        settings = inputs.settings(
            data,
            str(place),
            spine=kind,
            rounding="l1" if l1 else "program",
        )
        run = TopDownRun(options.home / "runs" / f"{base}-{kind}")
        try:
            with options.working(run, f"{kind} spine") as workers:
                by_spine[kind] = measure_accuracy(
                    run, workers, settings.tables, settings.design(), range(seeds), ledger=options.ledger_file
                )
        except Refused:
            show_findings_of(run, as_json=options.as_json)
            raise
        finally:
            shutil.rmtree(run.path, ignore_errors=True)
    errors = averaged(by_spine)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_report(place, errors, kinds, {"Data": str(data), "Seeds": str(seeds)})
    err.print("[bold red]NOT PRIVATE:[/] errors against exact counts, of synthetic data.")

    def render() -> Table:
        table = Table("mean absolute error of", "level", "cells", *kinds, box=box.SIMPLE_HEAD)
        whole = errors[errors["size"] == "all"].set_index(["product", "quantity", "level", "spine"])
        for row in dict.fromkeys(index[:3] for index in whole.index):
            product, quantity, level = row
            figures = [f"{whole.loc[(*row, kind), 'mae']:.2f}" for kind in kinds]
            table.add_row(f"{product}: {quantity}", LEVELS[level], f"{whole.loc[(*row, kinds[0]), 'n']:,}", *figures)
        return table

    told = {"NOT_PRIVATE": True, "report": place / "error.html", "errors": errors.to_dict("records")}
    show(told, render, as_json=options.as_json)
