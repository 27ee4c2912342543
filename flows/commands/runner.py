"""Run a command's flow: begin or resume its runs, report how they ended, and exit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import RenderableType

from flows.commands.options import RunOptions
from flows.commands.resume import resumed
from flows.execution.crash_report import report_crash
from flows.execution.prefect_server import served
from flows.reports.terminal import err, interruptible, out, show
from tasks.lifecycle.errors import Failed, Refused

if TYPE_CHECKING:
    from flows.execution.settings import RunSettings
    from flows.execution.systems import System
    from tasks.inputs.findings import Finding


@dataclass(frozen=True)
class FlowCommand:
    """A command that runs a flow.

    details: the fields of --json that only this system has, from its manifest; empty where it released nothing.
    document: what --json prints, given the facts of all runs.
    summary: what the terminal shows of them.
    """

    system: System
    details: Callable[[Any, Mapping[str, Any]], dict[str, Any]]
    document: Callable[[list[dict[str, Any]]], Any]
    summary: Callable[[list[dict[str, Any]]], RenderableType]

    def run(self, context: typer.Context, options: RunOptions, begin: Callable[[], Sequence[RunSettings]]) -> None:
        """Run what `begin` returns, or what --resume names, one after another; a failed run does not stop later ones.

        Raises
        ------
        Failed
            where a run stopped; the message names the command that resumes it.
        Refused
            where a run was refused, and none stopped.
        """
        if options.resume is None:
            _say_left_behind(options)
            todo = begin()
            _keep(todo, options)
        elif (again := resumed(context, options, self.system)) is not None:
            _say_left_behind(options)
            todo = [again]
        else:
            return
        outcomes = self._outcomes(todo, as_json=options.as_json)
        facts = [outcome.as_json() | self.details(outcome.settings, outcome.manifest()) for outcome in outcomes]
        show(self.document(facts), lambda: self.summary(facts), as_json=options.as_json)
        if options.timings:
            _show_timings([outcome.settings for outcome in outcomes])
        if problems := [outcome.problem for outcome in outcomes if outcome.problem]:
            worst = Failed if any(isinstance(problem, Failed) for problem in problems) else Refused
            raise worst("\n".join(dict.fromkeys(str(problem) for problem in problems)))

    def _outcomes(self, todo: Sequence[RunSettings], *, as_json: bool) -> list[Outcome]:
        """Run all on one cluster, whose scratch files are in the last run's directory: it stays the longest."""
        from flows.execution.cluster import OneCluster

        outcomes = []
        with interruptible(f"interrupted; {_go_on(todo[-1])}"), OneCluster(todo[-1].directory / "dask"):
            for settings in todo:
                with interruptible(f"interrupted; {_go_on(settings)}"):
                    outcomes.append(self._outcome(settings, as_json=as_json))
        return outcomes

    def _outcome(self, settings: RunSettings, *, as_json: bool) -> Outcome:
        """Run one run, and keep its failure so that the next one still runs."""
        from flows.execution.progress import bars
        from flows.execution.run import start_workers

        try:
            with bars(f"Run {settings.run_id}"):
                flow = self.system.part("flow")
                start_workers(settings)
                with served():
                    return Outcome(settings, release=flow(settings))
        except Refused as refused:
            return Outcome(settings, problem=refused, findings=_findings(settings, as_json=as_json))
        except Failed as failed:
            return Outcome(settings, problem=Failed(f"{failed}; {_go_on(settings)}"))
        except Exception as error:
            return Outcome(settings, problem=Failed(f"{report_crash(error)}; {_go_on(settings)}"))


@dataclass(frozen=True)
class Outcome:
    """How a run ended: released, skipped (neither release nor problem), refused or failed."""

    settings: RunSettings
    release: str | None = None
    problem: Refused | Failed | None = None
    findings: Sequence[Finding] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """Return the fields of --json that every run has."""
        from flows.reports.curator import findings_data, other_data, together

        run_id, ledger = str(self.settings.run_id), Path(self.settings.ledger)
        skipped = "skipped: no block, or switched off"
        facts: dict[str, Any] = {
            "run": run_id,
            "state": "released" if self.release else "not released" if self.problem else skipped,
            "problem": str(self.problem) if self.problem else None,
            "other_data": other_data(ledger, run_id),
            "accounts_together": together(ledger, run_id),
        }
        if self.findings:
            facts["findings"] = findings_data(self.findings)
        if self.release:
            manifest = self.manifest()
            facts |= {"release": self.release, "spent": manifest["spent"], "synthetic": "SYNTHETIC" in manifest}
        return facts

    def manifest(self) -> dict[str, Any]:
        """Return the release's manifest, empty where there is no release."""
        from tasks.lifecycle.manifest import read_manifest

        return read_manifest(Path(self.release)) if self.release else {}


def summary_lines(name: str, facts: Mapping[str, Any]) -> list[str]:
    """Return what a person is shown of a run: its name, how it ended, what it spent, where its release is."""
    from flows.reports.curator import other_data_warning, together_warning

    lines = [f"{name} {facts['state']} (run {facts['run']})"]
    if spent := facts.get("spent"):
        charged = ", not charged: the data is synthetic" if facts["synthetic"] else ""
        amount = spent.get("unbounded") or spent["bounded"]  # not every system bounds the first
        lines.append(f"   spent    {spent['unit']} {amount['decimal']:g}{charged}")
        lines.append(f"   release  {facts['release']}")
    if facts["accounts_together"]:
        lines.append(together_warning(facts["accounts_together"]))
    if facts["other_data"]:
        lines.append(other_data_warning(facts["run"], facts["other_data"]))
    return lines


def _show_timings(runs: Sequence[RunSettings]) -> None:
    from flows.execution.timings import load_timings
    from flows.reports.curator import timings_table

    for settings in runs:
        for each in load_timings(Path(settings.state), str(settings.run_id))[-1:]:
            err.print(timings_table(str(settings.run_id), each))


def _say_left_behind(options: RunOptions) -> None:
    """Warn of confidential directories that earlier runs left."""
    from flows.reports.curator import run_directories

    if left := run_directories(options.home):
        ids = ", ".join(run.id for run in left)
        err.print(f"Confidential directories of earlier runs in {options.home / 'runs'}: {ids} (see das runs list)")


def _keep(todo: Sequence[RunSettings], options: RunOptions) -> None:
    """Save the settings of new runs: from now on each can be resumed. Raises Refused."""
    from flows.execution.settings import keep_settings
    from tasks.lifecycle.commit import check_out
    from tasks.lifecycle.run_directory import locked

    for settings in todo:
        check_out(settings.directory, Path(settings.out), settings.folder)
    try:
        for settings in todo:
            with locked(settings.directory):
                keep_settings(settings.directory, settings)
    except OSError as error:
        raise Refused(f"{options.home} cannot be written: {error.strerror}") from None


def _findings(settings: RunSettings, *, as_json: bool) -> list[Finding]:
    """Return the findings that a run was refused for, shown as a table unless --json will hold them."""
    from flows.reports.curator import findings_table, load_findings
    from tasks.inputs.findings import has_errors

    findings = load_findings(settings.directory)
    if not has_errors(findings):
        return []
    if not as_json:
        out.print(findings_table(findings))
    err.print(f"The values are in the curator's report: {settings.directory / 'findings.json'}")
    return findings


def _go_on(settings: RunSettings) -> str:
    return f"nothing is lost; continue with: {settings.resume}"
