"""`das run`: the Detailed DHC-A from files to release."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from flows.commands.options import (
    LedgerFile,
    MemoryLimit,
    Scheduler,
    State,
    TlsCa,
    TlsCert,
    TlsKey,
    WorkersOption,
    folder,
)
from flows.commands.resume import check_resume, cluster_of_resumed, refuse
from flows.reports.terminal import Json, err, interruptible, out, show, unforeseen
from tasks.lifecycle.errors import Failed, Refused

if TYPE_CHECKING:
    from flows.execution.settings import RunSettings


def run(
    context: typer.Context,
    params: Annotated[str | None, typer.Argument(help="Parameters directory (path or URL).")] = None,
    data: Annotated[str | None, typer.Argument(help="Data directory (path or URL).")] = None,
    release: Annotated[
        Path | None,
        typer.Argument(metavar="OUT", help="Where the release goes, as OUT/us and OUT/pr.", callback=folder),
    ] = None,
    account: Annotated[str | None, typer.Option(help="The account that is charged; none for synthetic data.")] = None,
    resume: Annotated[str | None, typer.Option(metavar="ID", help="Go on with a run that stopped.")] = None,
    run_id: Annotated[str | None, typer.Option(help="Name the run; each region adds -us or -pr.")] = None,
    ledger: LedgerFile = None,
    state: State = None,
    coterminous: Annotated[bool, typer.Option(help="Equate coterminous geographies.")] = True,
    coterminous_list: Annotated[str | None, typer.Option(help="Further sets: SET|REGION_TYPE|REGION_ID.")] = None,
    spine: Annotated[bool, typer.Option(help="Optimize the geographic spine beside the release.")] = True,
    workers: WorkersOption = None,
    memory_limit: MemoryLimit = "auto",
    scheduler: Scheduler = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    blocks_each: Annotated[int | None, typer.Option(min=1, help="Blocks in a partition; no effect on results.")] = None,
    as_json: Json = False,
) -> None:
    """Run SafeTab-P over the regions that config.json asks for, and release their tables.

    What a run will spend is shown before any noise is drawn. A run that stops is taken up by `das run --resume ID`
    without spending again, elsewhere if options name another cluster; its id is printed at the start. Beside --resume
    stand only --state, --ledger and --json, --workers and --memory-limit, --scheduler and its certificates.

    **Example:** `das ledger open census-2020 --definition zcdp --total 4.944`, then
    `das run params/ data/ out/ --account census-2020`
    """
    from flows.execution.cluster import ClusterSettings
    from flows.execution.settings import RunSettings, keep_settings, new_run_id, run_directory, state_home
    from flows.reports.curator import run_directories
    from tasks.inputs.configuration import REGION_TYPES
    from tasks.lifecycle.commit import holds_other
    from tasks.lifecycle.run_directory import RunDirectory, locked

    if resume is not None:
        check_resume(context)
    home = state or state_home()
    if left := run_directories(home):
        ids = ", ".join(run.id for run in left)
        err.print(f"Confidential directories of earlier runs in {home / 'runs'}: {ids} (das runs list tells of them)")
    if resume is not None:
        settings = RunSettings.load(run_directory(home, resume))
        if settings is None:
            _say_state(resume, ledger or home / "ledger.sqlite")
            return
        if ledger and str(ledger.absolute()) != settings.ledger:
            refuse(context, ["ledger"], f"the run is charged in {settings.ledger}")
        todo = [settings.model_copy(update={"cluster": cluster_of_resumed(context, settings.cluster)})]
    else:
        if params is None or data is None or release is None:
            raise typer.BadParameter("PARAMS, DATA and OUT are needed, or --resume ID")
        cluster = ClusterSettings(
            workers=workers,
            memory_limit=memory_limit,
            scheduler=scheduler,
            tls_ca=tls_ca,
            tls_cert=tls_cert,
            tls_key=tls_key,
        )
        base = run_id or new_run_id()
        run_directory(home, base)
        runs = {str(region): run_directory(home, f"{base}-{region}") for region in REGION_TYPES}
        if release.exists() and (not release.is_dir() or holds_other(release, runs)):
            raise Refused(f"{release} holds something already; a release goes into an empty or a new folder")
        todo = [
            RunSettings(
                params=params,
                data=data,
                out=str(release),
                region=region,
                account=account,
                ledger=str(ledger or home / "ledger.sqlite"),
                state=str(home),
                run_id=f"{base}-{region}",
                coterminous=coterminous,
                coterminous_list=coterminous_list,
                spine=spine,
                blocks_each=blocks_each,
                cluster=cluster,
            )
            for region in _regions(params, data)
        ]
        try:
            for settings in todo:
                run = RunDirectory(settings.runs / str(settings.run_id))
                with locked(run):  # from here on each region can be resumed
                    keep_settings(run, settings)
        except OSError as error:
            raise Refused(f"{home} cannot be written: {error.strerror}") from None
    outcomes = []
    for settings in todo:
        with interruptible(f"interrupted; {_resume(settings)}"):
            outcomes.append(_run(settings))
    told = [outcome.told() for outcome in outcomes]
    show(told, lambda: _summary(told), as_json=as_json)
    if problems := [outcome.problem for outcome in outcomes if outcome.problem]:
        worst = Failed if any(isinstance(problem, Failed) for problem in problems) else Refused
        raise worst("\n".join(str(problem) for problem in problems))


@dataclass(frozen=True)
class _Outcome:
    """How the run of one region ended: released, skipped (neither release nor problem), refused or failed."""

    settings: RunSettings
    release: str | None = None
    problem: Refused | Failed | None = None

    def told(self) -> dict[str, Any]:
        from flows.reports.curator import other_data
        from tasks.lifecycle.manifest import read_manifest

        run_id, ledger = str(self.settings.run_id), Path(self.settings.ledger)
        state = (
            "released" if self.release else "skipped: no block, or switched off" if not self.problem else "not released"
        )
        problem = str(self.problem) if self.problem else None
        told: dict[str, Any] = {
            "run": run_id,
            "region": self.settings.region,
            "state": state,
            "problem": problem,
            "other_data": other_data(ledger, run_id),
        }
        if self.release:
            manifest = read_manifest(Path(self.release))
            told |= {"release": self.release, "spent": manifest["spent"], "synthetic": "SYNTHETIC" in manifest}
        return told


def _regions(params: str, data: str) -> tuple[Any, ...]:
    """The regions to run, after what they will spend was shown; a parameters directory with errors is refused."""
    from flows.reports.curator import findings_table, spend_table
    from tasks.detailed_dhca.budget_check import region_spend
    from tasks.detailed_dhca.validation import check_data_alone
    from tasks.inputs.findings import gather
    from tasks.inputs.parameters import read_parameters

    parameters, found = read_parameters(params)
    if parameters is None:
        out.print(findings_table(gather(found + check_data_alone(data))))
        raise Refused("the parameters do not pass validation")
    regions = parameters.configuration.regions
    err.print(spend_table({region: region_spend(parameters.configuration, region) for region in regions}))
    return regions


def _run(settings: RunSettings) -> _Outcome:
    """Run one region; a failure is kept, so that the other region still runs."""
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")  # bars are shown instead of its log
    from flows.detailed_dhca import detailed_dhca
    from flows.execution.progress import bars
    from flows.reports.curator import findings_table, load_findings
    from tasks.inputs.findings import has_errors
    from tasks.lifecycle.run_directory import RunDirectory

    try:
        with bars(f"Run {settings.run_id}"):
            return _Outcome(settings, release=detailed_dhca(settings))
    except Refused as refused:
        report = RunDirectory(settings.runs / str(settings.run_id))
        if has_errors(found := load_findings(report)):
            out.print(findings_table(found))
            err.print(f"The values are in the curator's report: {report / 'findings.json'}")
        return _Outcome(settings, problem=refused)
    except Failed as failed:
        return _Outcome(settings, problem=Failed(f"{failed}; {_resume(settings)}"))
    except Exception as error:
        return _Outcome(settings, problem=Failed(f"{unforeseen(error)}; {_resume(settings)}"))


def _resume(settings: RunSettings) -> str:
    return f"nothing is lost, go on with: das run --resume {settings.run_id} --state {settings.state}"


def _summary(outcomes: list[dict[str, Any]]) -> RenderableType:
    """Where each release is, what it spent, and whether the account had other data before."""
    from flows.reports.curator import other_data_warning

    lines = []
    for told in outcomes:
        lines.append(f"[bold]{told['region'].upper()}[/] {told['state']} (run {told['run']})")
        if spent := told.get("spent"):
            charged = ", not charged: the data is synthetic" if told["synthetic"] else ""
            lines.append(f"   spent    {spent['unit']} {spent['unbounded']['decimal']:g}{charged}")
            lines.append(f"   release  {told['release']}")
        if told["other_data"]:
            lines.append(other_data_warning(told["run"], told["other_data"]))
    return Text.from_markup("\n".join(lines))


def _say_state(run_id: str, ledger: Path) -> None:
    """Tell what became of a run that has no directory here."""
    from privacy.accounting.ledger import Ledger, LedgerError

    try:
        row = Ledger(ledger).row(run_id)
    except LedgerError:
        row = None
    if row is None or row.state != "released":
        state = f"; the ledger calls it {row.state}" if row else ""
        raise Refused(f"run {run_id} has no confidential directory here{state}")
    out.print(f"run {run_id} is released; there is nothing to resume")
