"""Run a command's flow: begin or resume its runs, report how they ended, and exit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import typer

from flows.commands.fields import Chosen, check_needed, given, options_of, refuse
from flows.commands.options import ExactOptions, RunOptions
from flows.execution.crash_report import report_crash
from flows.execution.policy import under_policy
from flows.execution.prefect_server import served
from flows.execution.progress import bars
from flows.execution.settings import ClusterSettings, RunSettings, keep_settings, load_settings, run_directory
from flows.execution.systems import SYSTEMS
from flows.reports.curator import (
    findings_data,
    findings_table,
    no_directory,
    other_data,
    other_data_warning,
    run_directories,
    show_findings,
    spend_table,
)
from flows.reports.terminal import err, interruptible, labelled, out, show
from privacy.accounting.composition import Spend
from privacy.accounting.ledger import Ledger, LedgerError
from tasks.errors import Failed, Refused
from tasks.lifecycle.run_directory import RunDirectory, locked, state_home
from tasks.records.findings import REPORT, Finding, NotValid, has_errors, load_findings
from tasks.releases.manifest import describe_spent, mark_of, read_manifest

S = TypeVar("S", bound=RunSettings)
CLUSTER = [name for name, _, _ in options_of(ClusterSettings)]
ALLOWED = {"resume", "ledger", "state", "as_json", *CLUSTER}  # next to --resume


def run_flow(context: typer.Context, options: RunOptions, kind: type[RunSettings], chosen: Chosen) -> None:
    """Run what was typed, or what --resume names, one after another.

    A run that ends without release stops later ones only where all or none are charged, before the first charge.

    Raises Failed where a run stopped; the message names the command that resumes it; Refused where a run was refused,
    and none stopped.
    """
    again = _resumed(context, options, kind) if options.resume is not None else None
    if options.resume is not None and again is None:
        return
    _say_left_behind(options)
    todo = _new_runs(options, kind, chosen) if again is None else [again]
    sibling = again and _sibling(again)  # now: a released run has no directory that names it
    outcomes = _outcomes(todo, as_json=options.as_json)
    _report(outcomes, as_json=options.as_json)
    if sibling and (waits := waiting(sibling)):
        _warn(waits)
    for warning in filter(None, (outcome.warning for outcome in outcomes)):
        _warn(warning)
    if problems := [outcome.problem for outcome in outcomes if outcome.problem]:
        worst = Failed if any(isinstance(problem, Failed) for problem in problems) else Refused
        raise worst("; and ".join(dict.fromkeys(str(problem) for problem in problems)))


def _resumed(context: typer.Context, options: RunOptions, kind: type[RunSettings]) -> RunSettings | None:
    """Return the settings with which a stopped run continues; None, after a message, where it is released.

    kind: of the command's runs.

    Raises Refused where the run has no directory here, or is of another command; typer.BadParameter where an option is
    given that a resumed run would ignore.
    """
    refuse(context, given(context).keys() - ALLOWED, "a resumed run keeps the options that it began with")
    run = run_directory(options.home, str(options.resume))
    settings = load_settings(run)
    if settings is None:
        _say_released(run, options)
        return None
    command = settings.system.command
    if command != SYSTEMS[kind.SYSTEM].command:
        raise Refused(f"run {run.id} was started by {command}: resume it with {command} --resume")
    if options.ledger and str(options.ledger.absolute()) != settings.ledger:
        refuse(context, ["ledger"], f"the run is charged in {settings.ledger}")
    return settings.model_copy(update={"cluster": _cluster_of_resumed(context, settings.cluster)})


def _say_released(run: RunDirectory, options: RunOptions) -> None:
    """Report that a run without a directory here is released. Raises Refused where its row has another status."""
    try:
        row = Ledger(options.ledger_file).row(run.id)
    except LedgerError:
        row = None
    if row is None or row.status != "released":
        status = f"; the ledger calls it {row.status}" if row else ""
        raise Refused(f"{no_directory(run)}{status}: it is over, in another folder (give its --state), or never was")
    out.print(f"run {run.id} is released; there is nothing to resume")


def _cluster_of_resumed(context: typer.Context, saved: ClusterSettings) -> ClusterSettings:
    """Return the cluster of a resumed run: the one it had, as changed by the options.

    If a cluster is lost, `--scheduler` names another, and `--workers` continues on this machine. Any other option
    changes one setting of the run's cluster.
    """
    changes = {name: value for name, value in given(context).items() if name in CLUSTER}
    if "scheduler" in changes or (saved.elsewhere and "workers" in changes):
        return ClusterSettings(**changes)
    if saved.elsewhere:
        only_here = "limits workers on this machine; to continue here, give --workers N"
        refuse(context, changes.keys() & {"memory_limit"}, only_here)
    return saved.model_copy(update=changes)


def planned_runs(options: RunOptions | ExactOptions, kind: type[S], base: str, chosen: Chosen) -> list[S]:
    """Return the settings of the runs of a command. Raises Refused; findings in parameters are shown."""
    try:
        return kind.new_runs(base, {**options.shared_settings(), **chosen})
    except NotValid as refused:
        show_findings(refused.findings, as_json=options.as_json)
        raise


def _new_runs(options: RunOptions, kind: type[RunSettings], chosen: Chosen) -> Sequence[RunSettings]:
    """Return the settings of new runs, kept in their directories, after what they will spend was shown."""
    check_needed(kind, chosen)
    runs = planned_runs(options, kind, options.run_id or kind.new_id(), chosen)
    todo = [under_policy(settings, settings.SYSTEM) for settings in runs]
    for settings in todo:
        settings.check_out()
    spends = [settings.spends() for settings in todo]
    siblings = kind.siblings(todo)
    _check_input(todo, spends, all_or_none=len(siblings) == len(todo))
    err.print(spend_table({name: spend for each in spends for name, spend in each.items()}))
    _keep(todo, options, siblings)
    return todo


def _report(outcomes: Sequence[Outcome], *, as_json: bool) -> None:
    """Show how the runs ended. What goes wrong here changes nothing of it."""
    try:
        facts = [outcome.as_json() for outcome in outcomes]
        lines = [line for outcome, known in zip(outcomes, facts, strict=True) for line in outcome.lines(known)]
        several = outcomes[0].settings.SEVERAL
        show(facts if several else facts[0], lambda: "\n".join(lines), as_json=as_json)
    except Exception as error:
        _warn(f"not all could be shown: {report_crash(error)}")
        for outcome in outcomes:
            err.print(f"run {outcome.settings.run_id}: {outcome.state} {outcome.release or ''}", soft_wrap=True)


def _outcomes(todo: Sequence[RunSettings], *, as_json: bool) -> list[Outcome]:
    """Run all on one cluster, whose scratch files are in the last run's directory: it stays the longest."""
    from flows.execution.cluster import OneCluster

    outcomes: list[Outcome] = []
    try:
        with interruptible(interrupted(todo[-1:])), OneCluster(todo[-1].directory / "dask"):
            for settings in todo:
                with interruptible(interrupted(left(todo, outcomes))):
                    held = _held_back(settings, outcomes, as_json=as_json)
                    outcomes.append(held or _outcome(settings, as_json=as_json))
    except Exception as error:
        if len(outcomes) < len(todo):
            problem = error if isinstance(error, Refused | Failed) else report_crash(error)
            raise type(problem)(f"{problem}; {_continue(left(todo, outcomes))}") from None
        _warn(f"the cluster did not end as it should: {report_crash(error)}")  # every run is over
    return outcomes


def _outcome(settings: RunSettings, *, as_json: bool) -> Outcome:
    """Run one run, and keep its failure; of a run that is released all the same, it is only a warning."""
    from flows.execution.run import start_workers
    from flows.execution.standing import released_place

    try:
        with bars(f"Run {settings.run_id}"):
            flow = settings.system.part("flow")
            start_workers(settings)
            with served():
                return Outcome(settings, release=flow(settings))
    except Refused as refused:
        return Outcome(settings, problem=refused, findings=_findings(settings, as_json=as_json))
    except Exception as error:
        problem = error if isinstance(error, Failed) else report_crash(error)
    if place := released_place(settings):
        warning = f"run {settings.run_id} is released; after that, {problem}"
        return Outcome(settings, release=str(place), warning=warning)
    return Outcome(settings, problem=Failed(f"{problem}; {_go_on(settings)}"))


@dataclass(frozen=True)
class Outcome:
    """How a run ended: released, skipped (neither release nor problem), refused or failed.

    warning: what failed after the run was released.
    """

    settings: RunSettings
    release: str | None = None
    problem: Refused | Failed | None = None
    findings: Sequence[Finding] = field(default=())
    warning: str = ""

    @property
    def state(self) -> str:
        """Whether the run was released, in words."""
        if self.release:
            return "released"
        return "not released" if self.problem else "skipped: no block, or switched off"

    def as_json(self) -> dict[str, Any]:
        """Return what --json prints of the run."""
        run_id, ledger = str(self.settings.run_id), Path(self.settings.ledger)
        facts: dict[str, Any] = {
            "region": self.settings.folder,
            "run": run_id,
            "state": self.state,
            "problem": str(self.problem) if self.problem else None,
            "other_data": other_data(ledger, run_id),
        }
        if self.findings:
            facts["findings"] = findings_data(self.findings)
        if self.release:
            manifest = read_manifest(Path(self.release))
            mark = mark_of(manifest)
            facts |= {"release": self.release, "spent": manifest["spent"], "synthetic": mark == "SYNTHETIC"}
            facts["mark"] = mark
        return facts

    def lines(self, facts: Mapping[str, Any]) -> Iterator[str]:
        """Yield what a person is shown: how the run ended, what it spent, where its release is; and warnings."""
        yield f"{self.settings.folder.upper()} {self.state} (run {facts['run']})"
        if self.release:
            yield f"   spent    {describe_spent(facts['spent'], facts['mark'])}"
            yield f"   release  {self.release}"
            yield f"   report   {self.release}/report.html"
            yield from self.settings.remarks(read_manifest(Path(self.release)))
        if facts["other_data"]:
            yield other_data_warning(facts["run"], facts["other_data"])


def _say_left_behind(options: RunOptions) -> None:
    """Warn of confidential directories that earlier runs left."""
    if left := run_directories(options.home):
        what = f"{len(left)} earlier {'run' if len(left) == 1 else 'runs'} left confidential files"
        where = f" --state {options.home}" if options.home != state_home() else ""
        err.print(f"{what} in {options.home / 'runs'}: das runs list{where} shows them, das runs discard removes them")


def _check_input(todo: Sequence[RunSettings], spends: Sequence[Mapping[str, Spend]], *, all_or_none: bool) -> None:
    """Refuse runs before a server and workers are there, or a directory.

    Their data is not there; or it has no mark, and the account cannot pay: all runs, or one of all or none.
    """
    from tasks.lifecycle.reservation import check_account
    from tasks.records.files import exists
    from tasks.records.marks import read_mark

    refusals = []
    for settings, spend in zip(todo, spends, strict=True):
        missing = [place for name in settings.DATA if (place := getattr(settings, name)) and not exists(place)]
        if local := [place for place in missing if "://" not in place]:
            raise Refused(f"there is no file or folder {local[0]}")
        if not missing and read_mark(settings.marks) is None:  # of a URL, validation names what is not there
            try:
                with suppress(Failed):  # a ledger that cannot be read now: the run itself says so, and can be resumed
                    check_account(settings.directory, settings.charging, spend.values(), settings.charged_states())
            except Refused as refused:
                refusals.append(refused)
    if refusals and (all_or_none or len(refusals) == len(todo)):
        raise refusals[0]


def _keep(todo: Sequence[RunSettings], options: RunOptions, siblings: Mapping[str, str]) -> None:
    """Save the settings of new runs: from now on each can be resumed. Raises Refused."""
    try:
        for settings in todo:
            with locked(settings.directory):
                keep_settings(settings.directory, settings, siblings.get(str(settings.run_id)))
    except OSError as error:
        raise Refused(f"{options.home} cannot be written: {error.strerror}") from None


def _findings(settings: RunSettings, *, as_json: bool) -> list[Finding]:
    """Return the findings that a run was refused for, shown as a table unless --json will hold them."""
    findings = load_findings(settings.directory)
    if not has_errors(findings):
        return []
    if not as_json:
        out.print(findings_table(findings))
    err.print(f"The values are in the curator's report: {settings.directory / REPORT}")
    return findings


def _held_back(settings: RunSettings, outcomes: Sequence[Outcome], *, as_json: bool) -> Outcome | None:
    """Return the outcome of a run that must not begin, for one before it was refused or stopped before its charge."""
    from flows.execution.standing import charge_of, is_reserved
    from tasks.lifecycle.commit import end_run

    before = next((each for each in outcomes if each.problem and not is_reserved(each.settings)), None)
    if not settings.all_or_none or before is None:
        return None
    if isinstance(before.problem, Refused):
        findings = _findings(settings, as_json=as_json)
        if not findings:
            with suppress(Refused), locked(settings.directory):
                end_run(settings.directory)  # it holds nothing of use
        return Outcome(settings, problem=before.problem, findings=findings)
    waiting = f"run {settings.run_id} did not begin, and {charge_of(settings)}; after that one, continue with: "
    return Outcome(settings, problem=Failed(waiting + settings.resume))


def _sibling(settings: RunSettings) -> RunSettings | None:
    """Return the settings of a run's sibling; None too where its directory keeps another run, which the flow judges."""
    with suppress(Refused):
        return settings.sibling
    return None


def waiting(sibling: RunSettings) -> str:
    """Return that the sibling of a resumed run waits for a resume of its own, empty where it does not."""
    from flows.execution.standing import charge_of, standing

    with suppress(Refused):  # others may have its directory by now
        if standing(sibling.directory, Path(sibling.ledger)).state == "stopped":
            name = sibling.folder.upper()
            return f"{name}, begun with this run, is not released yet, and {charge_of(sibling)}: {sibling.resume}"
    return ""


def _go_on(settings: RunSettings) -> str:
    from flows.execution.standing import charge_of, is_there

    kept = "nothing is lost; " if is_there(settings) else ""
    return f"{charge_of(settings)}; {kept}continue with: {settings.resume}"


def left(todo: Sequence[RunSettings], outcomes: Sequence[Outcome]) -> list[RunSettings]:
    """Return the runs that a command would leave if it ended now: those that stopped, and those not yet over."""
    return [each.settings for each in outcomes if isinstance(each.problem, Failed)] + [*todo[len(outcomes) :]]


def interrupted(left: Sequence[RunSettings]) -> str:
    """Return the message at a signal, which cannot wait for the ledger."""
    return f"interrupted; {_continue(left)}"


def _continue(left: Sequence[RunSettings]) -> str:
    commands = ", then ".join(settings.resume for settings in left)
    return f"nothing is lost; das runs list says what was charged; continue with: {commands}"


def _warn(text: str) -> None:
    err.print(labelled("warning:", text, "bold yellow"), soft_wrap=True)
