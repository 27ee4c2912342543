"""`das truth`: exact tables, for synthetic data or a curator's eyes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.inputs import checked_parameters, show_findings_of
from flows.commands.options import Data, LedgerFile, MemoryLimit, Params, StateDirectory, WorkersOption, folder
from flows.reports.terminal import Json, err, interruptible, show
from tasks.lifecycle.errors import Refused


def truth(
    params: Params,
    data: Data,
    release: Annotated[
        Path, typer.Argument(metavar="OUT", help="Where the tables go, as OUT/us and OUT/pr.", callback=folder)
    ],
    curator: Annotated[
        bool, typer.Option("--i-am-the-curator", help="Allow it on data that is not marked synthetic.")
    ] = False,
    coterminous: Annotated[bool, typer.Option(help="Equate coterminous geographies.")] = False,
    ledger: LedgerFile = None,
    state: StateDirectory = None,
    workers: WorkersOption = None,
    memory_limit: MemoryLimit = "auto",
    as_json: Json = False,
) -> None:
    """Write the release that a run would give with its noise switched off. NOT PRIVATE: its owner alone may read it.

    One that was killed is cleared away, with what it had written beside OUT's tables, by `das runs discard ID`.

    **Example:** `das truth params/ data/ truth/`
    """
    from flows.execution.cluster import ClusterSettings, open_cluster
    from flows.execution.progress import bars, report
    from flows.execution.settings import new_run_id, state_home
    from tasks.detailed_dhca.run import DetailedRun
    from tasks.detailed_dhca.truth import release_truth
    from tasks.lifecycle.run_directory import locked
    from tasks.lifecycle.truth import end_truth
    from tasks.lifecycle.workers import Workers

    parameters = checked_parameters(params, data, as_json=as_json)
    if release.exists() and (not release.is_dir() or any(release.iterdir())):
        raise Refused(f"{release} is not empty: choose an empty or a new folder")
    base, made, home = new_run_id("truth"), {}, state or state_home()
    settings = ClusterSettings(workers=workers, memory_limit=memory_limit)
    for region in parameters.configuration.regions:
        run = DetailedRun(home / "runs" / f"{base}-{region}")
        stopped = interruptible(f"interrupted; of {region.upper()} nothing is left", partial(end_truth, run))
        try:
            with (
                stopped,
                locked(run),
                open_cluster(settings, run / "dask") as client,
                bars(f"Truth of {region.upper()}"),
            ):
                made[region] = release_truth(
                    run,
                    Workers(client, report),
                    params,
                    data,
                    release.absolute(),
                    region,
                    ledger=ledger or home / "ledger.sqlite",
                    coterminous=coterminous,
                    curator=curator,
                )
        except Refused:
            show_findings_of(run, as_json=as_json)
            raise
        finally:  # exact counts stay nowhere but where they were asked for
            end_truth(run)
    err.print("[bold red]NOT PRIVATE:[/] these are exact counts. Never publish them.")
    show(
        {"NOT_PRIVATE": True, "releases": made},
        lambda: "\n".join(f"{region.upper()}: {place or 'skipped, no block'}" for region, place in made.items()),
        as_json=as_json,
    )
