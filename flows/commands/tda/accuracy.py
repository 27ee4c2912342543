"""`das tda accuracy`: the errors of the TopDown Algorithm on synthetic data, spine beside spine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from flows.commands.inputs import show_findings_of
from flows.commands.options import LedgerFile, MemoryLimit, State, WorkersOption, folder
from flows.commands.spine import Region
from flows.commands.tda.options import (
    DataArgument,
    Estimator,
    GeographyOption,
    Kind,
    ProductsOption,
    QuartersOption,
    RegionOption,
    StateOption,
    TotalsOption,
    names,
    settings_of,
)
from flows.reports.terminal import Json, err, show
from tasks.lifecycle.errors import Refused


def accuracy(
    data: DataArgument,
    place: Annotated[Path, typer.Argument(metavar="OUT", help="Where the reports go.", callback=folder)],
    geography: GeographyOption = None,
    quarters: QuartersOption = None,
    totals: TotalsOption = None,
    region: RegionOption = Region.us,
    only: StateOption = None,
    spine: Annotated[list[Kind] | None, typer.Option(help="Only this spine; repeatable.", show_default="all")] = None,
    estimator: Annotated[
        list[Estimator] | None, typer.Option(help="Only this estimator; repeatable.", show_default="both")
    ] = None,
    product: ProductsOption = None,
    seeds: Annotated[int, typer.Option(min=1, help="Independent runs on each spine.")] = 3,
    l1: Annotated[bool, typer.Option("--l1", help="Round to the least L1 distance instead.")] = False,
    ledger: LedgerFile = None,
    state: State = None,
    workers: WorkersOption = None,
    memory_limit: MemoryLimit = "auto",
    as_json: Json = False,
) -> None:
    """Report the errors of total, voting age, Hispanic and race by level, place, county subdivision and AIAN area.

    For each spine and estimator, both estimators on the same measurements; and how many counts lie within their margins
    of error. OUT gets error.csv, coverage.csv, error.html with charts, and board.svg, one picture of it all. NOT
    PRIVATE, and of data that is marked synthetic only: on confidential data each spine would be a measurement, and a
    charge, of its own.

    **Example:** `das tda accuracy ri/ errors/ --seeds 3`
    """
    from flows.execution.cluster import ClusterSettings, open_cluster
    from flows.execution.progress import bars, report
    from flows.execution.settings import new_run_id, state_home
    from tasks.lifecycle.run_directory import locked
    from tasks.lifecycle.workers import Workers
    from tasks.top_down.accuracy import LEVELS, averaged, covered, measure_accuracy
    from tasks.top_down.accuracy_report import write_report
    from tasks.top_down.design import ESTIMATORS, KINDS
    from tasks.top_down.run import TopDownRun

    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise Refused(f"{place} holds something already; a report goes into an empty or a new folder")
    kinds = tuple(dict.fromkeys(kind.value for kind in spine)) if spine else KINDS
    chosen = {each.value for each in estimator} if estimator else set(ESTIMATORS)
    estimators = tuple(each for each in ESTIMATORS if each in chosen)
    home, base, found = state or state_home(), new_run_id("tda-accuracy"), {}
    for kind in kinds:
        settings = settings_of(
            data=data,
            out=str(place),
            geography=geography,
            quarters=quarters,
            totals=totals,
            region=region.value,
            states=tuple(only or ()),
            spine=kind,
            products=names(product),
            rounding="l1" if l1 else "program",
        )
        run = TopDownRun(home / "runs" / f"{base}-{kind}")
        cluster = ClusterSettings(workers=workers, memory_limit=memory_limit)
        try:
            with locked(run), open_cluster(cluster, run / "dask") as client, bars(f"{kind} spine"):
                watched, book = Workers(client, report), ledger or home / "ledger.sqlite"
                found[kind] = measure_accuracy(
                    run, watched, settings.tables, settings.design(), range(seeds), book, estimators
                )
        except Refused:
            show_findings_of(run, as_json=as_json)
            raise
        finally:
            shutil.rmtree(run.path, ignore_errors=True)
    errors = averaged({kind: measured.errors for kind, measured in found.items()})
    coverage = covered({kind: measured.coverage for kind, measured in found.items()})
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_report(place, errors, coverage, kinds, estimators, {"Data": str(data), "Seeds": str(seeds)})
    err.print("[bold red]NOT PRIVATE:[/] errors against exact counts, of synthetic data.")

    def render() -> Table:
        columns = [(kind, each) for kind in kinds for each in estimators]
        titles = [f"{kind}\n{each}" for kind, each in columns]
        table = Table("mean absolute error of", "level", "cells", *titles, box=box.SIMPLE_HEAD)
        whole = errors[errors["size"] == "all"].set_index(["product", "quantity", "level", "spine", "estimator"])
        for of in dict.fromkeys(index[:3] for index in whole.index):
            figures = [f"{whole.loc[(*of, *at), 'mae']:.2f}" for at in columns]
            table.add_row(f"{of[0]}: {of[1]}", LEVELS[of[2]], f"{whole.loc[(*of, *columns[0]), 'n']:,}", *figures)
        return table

    told = {
        "NOT_PRIVATE": True,
        "report": place / "error.html",
        "errors": errors.to_dict("records"),
        "coverage": coverage.to_dict("records"),
    }
    show(told, render, as_json=as_json)
