"""`das tda validate`: check the input of a TopDown run without spending anything."""

from __future__ import annotations

from flows.commands.options import MemoryLimit, StateDirectory, WorkersOption
from flows.commands.spine import Jurisdiction
from flows.commands.tda.options import (
    DataArgument,
    GeographyOption,
    ProductsOption,
    QuartersOption,
    RegionOption,
    StateOption,
    TotalsOption,
    names,
    settings_of,
)
from flows.reports.terminal import Json, out, show
from tasks.lifecycle.errors import Refused


def validate(
    data: DataArgument,
    geography: GeographyOption = None,
    quarters: QuartersOption = None,
    totals: TotalsOption = None,
    region: RegionOption = Jurisdiction.us,
    only: StateOption = None,
    product: ProductsOption = None,
    state: StateDirectory = None,
    workers: WorkersOption = None,
    memory_limit: MemoryLimit = "auto",
    as_json: Json = False,
) -> None:
    """Check every row of every file, and the records against what is declared; leaves with 1 where a run is refused.

    The findings are shown without the values that broke a rule. The report with the values stays in the confidential
    directory that is named below the table.

    **Example:** `das tda validate data/`
    """
    import shutil

    from flows.execution.cluster import ClusterSettings, open_cluster
    from flows.execution.progress import bars, report
    from flows.execution.settings import new_run_id, state_home
    from flows.reports.curator import findings_data, findings_table, load_findings
    from tasks.inputs.findings import has_errors
    from tasks.lifecycle.run_directory import locked
    from tasks.lifecycle.workers import Workers
    from tasks.top_down.run import TopDownRun
    from tasks.top_down.validation import check_input

    settings = settings_of(
        data=data,
        out=".",
        geography=geography,
        quarters=quarters,
        totals=totals,
        region=region.value,
        states=tuple(only or ()),
        products=names(product),
    )
    run = TopDownRun((state or state_home()) / "runs" / new_run_id("tda-validate"))
    cluster = ClusterSettings(workers=workers, memory_limit=memory_limit)
    refused: Refused | None = None
    try:
        with locked(run), open_cluster(cluster, run / "dask") as client, bars("Validating"):
            check_input(run, Workers(client, report), settings.tables, settings.design())
    except Refused as error:
        refused = error
    findings = load_findings(run)
    if not has_errors(findings):
        shutil.rmtree(run.path, ignore_errors=True)
        if refused is not None:  # of the data as a whole, as a mark that does not cover it
            raise refused
    show(
        {"valid": refused is None, "findings": findings_data(findings), "reports": [run.path] if refused else []},
        lambda: findings_table(findings) if findings else "[green]No findings.[/]",
        as_json=as_json,
    )
    if refused is not None:
        if not as_json:
            out.print(f"The values are in the curator's report: {run.path}/findings.json")
        raise Refused("the input does not pass validation")
