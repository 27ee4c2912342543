"""`das tda truth`: the exact tables of a TopDown run, for synthetic data or a curator's eyes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.inputs import show_findings_of
from flows.commands.options import LedgerFile, MemoryLimit, StateDirectory, WorkersOption, folder
from flows.commands.spine import Jurisdiction
from flows.commands.tda.options import (
    DataArgument,
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
from flows.reports.terminal import Json, err, interruptible, show
from tasks.lifecycle.errors import Refused


def truth(
    data: DataArgument,
    release: Annotated[Path, typer.Argument(metavar="OUT", help="Where the tables go.", callback=folder)],
    geography: GeographyOption = None,
    quarters: QuartersOption = None,
    totals: TotalsOption = None,
    region: RegionOption = Jurisdiction.us,
    only: StateOption = None,
    spine: Annotated[Kind, typer.Option(help="The spine whose geounits are written.")] = Kind.optimized,
    product: ProductsOption = None,
    text: Annotated[bool, typer.Option("--text", help="Microdata also as text, a row a record.")] = False,
    curator: Annotated[
        bool, typer.Option("--i-am-the-curator", help="Allow it on data that is not marked synthetic.")
    ] = False,
    ledger: LedgerFile = None,
    state: StateDirectory = None,
    workers: WorkersOption = None,
    memory_limit: MemoryLimit = "auto",
    as_json: Json = False,
) -> None:
    """Write the release that a run would give with its noise switched off. NOT PRIVATE: its owner alone may read it.

    **Example:** `das tda truth data/ truth/`
    """
    from flows.execution.cluster import ClusterSettings, open_cluster
    from flows.execution.progress import bars, report
    from flows.execution.settings import new_run_id, state_home
    from tasks.lifecycle.run_directory import locked
    from tasks.lifecycle.truth import end_truth
    from tasks.lifecycle.workers import Workers
    from tasks.top_down.run import TopDownRun
    from tasks.top_down.truth import release_truth

    if release.exists() and (not release.is_dir() or any(release.iterdir())):
        raise Refused(f"{release} is not empty: choose an empty or a new folder")
    settings = settings_of(
        data=data,
        out=str(release),
        geography=geography,
        quarters=quarters,
        totals=totals,
        region=region.value,
        states=tuple(only or ()),
        spine=spine.value,
        products=names(product),
        microdata="text" if text else "parquet",
        measurements=False,
    )
    home = state or state_home()
    known = ledger or home / "ledger.sqlite"
    run = TopDownRun(home / "runs" / new_run_id("tda-truth"))
    cluster = ClusterSettings(workers=workers, memory_limit=memory_limit)
    stopped = interruptible("interrupted; nothing is left", partial(end_truth, run))
    try:
        with stopped, locked(run), open_cluster(cluster, run / "dask") as client, bars("Truth"):
            to = (Path(settings.out), settings.folder)
            watched = Workers(client, report)
            place = release_truth(run, watched, settings.tables, settings.design(), *to, ledger=known, curator=curator)
    except Refused:
        show_findings_of(run, as_json=as_json)
        raise
    finally:  # exact counts stay nowhere but where they were asked for
        end_truth(run)
    err.print("[bold red]NOT PRIVATE:[/] these are exact counts. Never publish them.")
    show({"NOT_PRIVATE": True, "release": place}, lambda: str(place), as_json=as_json)
