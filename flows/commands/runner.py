"""Run a command's flow: begin or resume its runs, report how they ended, and exit."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_args

import typer
from rich.progress import Progress

from flows import importing
from flows.commands.fields import Values, check_needed, given, options_of, refuse
from flows.commands.options import ExactOptions, RunOptions
from flows.execution.crash_report import report_crash
from flows.execution.policy import under_policy
from flows.execution.progress import bars
from flows.execution.run_status import charges_of, is_there, released_place
from flows.execution.settings import RUN_ID, ClusterSettings, RunSettings, keep_settings, load_settings, run_directory
from flows.execution.systems import SYSTEMS
from flows.reports.curator import (
    findings_data,
    findings_table,
    missing_directory,
    other_data,
    other_data_warning,
    run_directories,
    show_findings,
    spend_table,
)
from flows.reports.terminal import err, interruptible, is_json, labelled, out, show
from privacy.accounting.composition import Spend
from privacy.accounting.ledger import Ledger, LedgerError, LedgerUnusable
from spine.settings import Jurisdiction
from tasks.errors import Failed, Refused, all_or_none
from tasks.lifecycle.reservation import check_account
from tasks.lifecycle.run_directory import SETTINGS, RunDirectory, locked, state_home
from tasks.records.files import exists
from tasks.records.findings import IN_REPORT, REPORT, Finding, NotValid, has_errors, load_findings
from tasks.records.marks import read_mark
from tasks.releases.manifest import describe_spent, mark_of, read_manifest

S = TypeVar("S", bound=RunSettings)
CLUSTER = [name for name, _, _ in options_of(ClusterSettings)]
ALLOWED = {"resume", "ledger", "runs_folder", "as_json", *CLUSTER}  # next to --resume


def run_flow(context: typer.Context, options: RunOptions, kind: type[RunSettings], chosen: Values) -> None:
    """Run what was typed, or what --resume names, and show what it spends and how it ended.

    Raises Failed if the run stopped, naming the command that resumes it; Refused if it was refused.
    """
    if options.dry_run and options.resume is None:
        refuse(context, given(context).keys() & {"run_id"}, "a dry run has an id of its own")
        return _try_run(options, kind, chosen)
    again = _resumed(context, options, kind) if options.resume is not None else None
    if options.resume is not None and again is None:
        return
    _warn_of_earlier_runs(options, [part.directory.id for part in again.parts] if again else [])
    ask = may_ask(yes=options.yes) and not again
    outcomes = _outcomes(again or _new_run(options, kind, chosen), ask=ask)
    _report(outcomes)
    _raise_problem(outcomes)


def may_ask(*, yes: bool) -> bool:
    """Return whether to ask at the terminal before accounts are charged. yes: whether --yes was given."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not (yes or is_json())


def _try_run(options: RunOptions, kind: type[RunSettings], chosen: Values) -> None:
    """Do what a run does before its charge, leave nothing, and show what it would spend and where. Raises Refused."""
    from flows.dry_run import dry_run
    from flows.execution.no_server import without_server

    carry_out: Any = dry_run
    check_needed(kind, chosen)
    settings = planned_run(options, kind, kind.new_id(), chosen).model_copy(update={"run_id": None})
    try:
        with interruptible("interrupted; nothing was charged"), bars("Dry run"), without_server():
            found = carry_out(settings)
    except Refused as error:
        runs = re.findall(f"{IN_REPORT}({RUN_ID})", str(error))
        show_findings([each for run in runs for each in load_findings(run_directory(options.home, run))])
        raise
    lines = [f"{name}: {text}" for part in found for name, text in part.items()]
    show(found, lambda: "\n".join([*lines, "nothing was charged"]))


def run_briefly(options: RunOptions, kind: type[RunSettings], chosen: Values) -> Sequence[Outcome]:
    """Run a new flow with its bars only, while they move; return how each part ended. Raises as `run_flow`."""
    outcomes = _outcomes(_new_run(options, kind, chosen, brief=True), brief=True)
    _raise_problem(outcomes)
    return outcomes


def _raise_problem(outcomes: Sequence[Outcome]) -> None:
    """Show the warnings of runs that ended; raise the first problem."""
    for warning in dict.fromkeys(outcome.warning for outcome in outcomes if outcome.warning):
        _warn(warning)
    if problem := next((outcome.problem for outcome in outcomes if outcome.problem), None):
        raise problem


def _resumed(context: typer.Context, options: RunOptions, kind: type[RunSettings]) -> RunSettings | None:
    """Return the settings with which a stopped run continues; None, after a message, if it is released.

    kind: the command's kind of run.

    Raises Refused if the run has no directory here, or belongs to another command; typer.BadParameter for an option
    that a resumed run would ignore.
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
    return settings.without_ended().model_copy(update={"cluster": _cluster_of_resumed(context, settings.cluster)})


def _say_released(run: RunDirectory, options: RunOptions) -> None:
    """Report that a run without a directory here is released.

    Raises Refused if its row has another status, or if the other jurisdiction of the same run is not released.
    """
    try:
        row = Ledger(options.ledger_file).row(run.id)
    except LedgerError:
        row = None
    if row is None or row.status != "released":
        status = f"; the ledger calls it {row.status}" if row else ""
        if run.path.is_dir():
            raise Refused(
                f"run {run.id} has no {SETTINGS} in {run.path}, so it cannot be resumed{status}: das runs discard "
                f"{run.id} removes it"
            )
        raise Refused(
            f"{missing_directory(run)}{status}: if the run has not ended, give the --runs-folder it was started with"
        )
    base = run.id.rpartition("-")[0]
    for other in (RunDirectory(run.path.with_name(f"{base}-{name}")) for name in get_args(Jurisdiction)):
        if other.path.is_dir() and (rest := load_settings(other)):
            raise Refused(f"run {run.id} is released, but {other.id} is not: continue with {rest.resume}")
    out.print(f"run {run.id} is released; there is nothing to resume")


def _cluster_of_resumed(context: typer.Context, saved: ClusterSettings) -> ClusterSettings:
    """Return the cluster of a resumed run: its earlier one, as changed by the options.

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


def planned_run(options: RunOptions | ExactOptions, kind: type[S], base: str, chosen: Values) -> S:
    """Return the settings of a command's run. Raises Refused, after showing findings in its parameters."""
    try:
        return kind.new_run(base, {**options.shared_settings(), **chosen})
    except NotValid as refused:
        show_findings(refused.findings)
        raise


def _new_run(options: RunOptions, kind: type[RunSettings], chosen: Values, *, brief: bool = False) -> RunSettings:
    """Return the settings of a new run, kept in the directory of each part, after what it will spend was shown.

    brief: the spend is not shown.
    """
    check_needed(kind, chosen)
    settings = planned_run(options, kind, options.run_id or kind.new_id(), chosen)
    settings = under_policy(settings, settings.SYSTEM)
    for part in settings.parts:
        part.check_out()
    spends = [part.spends() for part in settings.parts]
    checks = {
        part.folder.upper(): partial(_check_input, part, spend)
        for part, spend in zip(settings.parts, spends, strict=True)
    }
    all_or_none(checks)
    if not brief:
        err.print(spend_table({name: spend for each in spends for name, spend in each.items()}))
    _keep(settings.parts, options)
    return settings


def _report(outcomes: Sequence[Outcome]) -> None:
    """Show how the runs ended. Errors here do not change how they ended."""
    try:
        facts = [outcome.as_json() for outcome in outcomes]
        lines = [line for outcome, known in zip(outcomes, facts, strict=True) for line in outcome.lines(known)]
        several = outcomes[0].settings.SEVERAL
        show(facts if several else facts[0], lambda: "\n".join(lines))
    except Exception as error:
        _warn(f"not all could be shown: {report_crash(error)}")
        for outcome in outcomes:
            err.print(f"run {outcome.settings.run_id}: {outcome.state} {outcome.release or ''}", soft_wrap=True)


def _outcomes(settings: RunSettings, *, brief: bool = False, ask: bool = False) -> list[Outcome]:
    """Run the flow, and return how each part ended.

    brief: the bars are without a title and vanish with the run. ask: ask before data that was charged is charged again;
        else print that it is.
    """
    from flows.execution.approval import answered_by
    from flows.execution.cluster import OneCluster
    from flows.execution.no_server import without_server

    parts, outcomes = settings.parts, list[Outcome]()
    try:
        with interruptible(f"interrupted; {how_to_resume(settings)}"), OneCluster(parts[-1].directory / "dask"):
            problem: Refused | Failed | None = None
            releases: list[str] = []
            try:
                title = "" if brief else f"Run {', '.join(part.directory.id for part in parts)}"
                with bars(title) as shown, answered_by(partial(answer_at_terminal, shown) if ask else go_on):
                    with importing():
                        flow = settings.system.part("flow")
                    with without_server():
                        result = flow(settings)
                        releases = [result] if isinstance(result, str) else result or []
            except Refused as refused:
                problem = refused
            except Exception as error:
                problem = error if isinstance(error, Failed) else report_crash(error)
            outcomes = _ended(settings.named("").parts, releases, problem)  # OUT's {date} is known now
    except Exception as error:
        if not outcomes:
            problem = error if isinstance(error, Refused | Failed) else report_crash(error)
            raise type(problem)(f"{problem}; {how_to_resume(settings)}") from None
        _warn(f"the cluster did not end as it should: {report_crash(error)}")  # the run has ended
    return outcomes


def answer_at_terminal(shown: Progress, charged: str, more: str) -> bool:
    """Pause the bars and ask on standard error whether data is charged again; only yes counts."""
    shown.stop()
    err.print(f"{charged}; charge {more}? [y/N] ", end="", soft_wrap=True)
    answer = sys.stdin.readline()
    shown.start()
    return answer.strip().casefold() in ("y", "yes")


def go_on(charged: str, more: str) -> bool:
    """Print what is charged, without asking."""
    _warn(f"{charged}; this run charges {more}")
    return True


def _ended(parts: Sequence[RunSettings], releases: Sequence[str], problem: Refused | Failed | None) -> list[Outcome]:
    """Return how each part ended. A failure after all parts were released is only a warning."""
    places = {Path(release).name: release for release in releases}
    if problem:
        places = {part.folder: str(place) for part in parts if (place := released_place(part))}
        if len(places) == len(parts) and isinstance(problem, Refused):
            places = {}  # released before, with other options: what was asked is not what is there
        elif len(places) == len(parts):
            warning = f"run {parts[-1].run_id} is released; after that, {problem}"
            return [Outcome(part, release=places[part.folder], warning=warning) for part in parts]
    if isinstance(problem, Failed):
        problem = Failed(f"{problem}; {_how_to_continue(parts)}")
    outcomes = []
    for part in parts:
        if part.folder in places:
            outcomes.append(Outcome(part, release=places[part.folder]))
        else:
            findings = _findings(part) if isinstance(problem, Refused) else []
            outcomes.append(Outcome(part, problem=problem, findings=findings))
    return outcomes


@dataclass(frozen=True)
class Outcome:
    """The end of a run: released, skipped (neither release nor problem), refused or failed.

    warning: a failure after the run was released.
    """

    settings: RunSettings
    release: str | None = None
    problem: Refused | Failed | None = None
    findings: Sequence[Finding] = field(default=())
    warning: str = ""

    @property
    def state(self) -> str:
        """The end of the run, in words."""
        if self.release:
            return "released"
        return "not released" if self.problem else "skipped: no block, or switched off"

    def as_json(self) -> dict[str, Any]:
        """Return the run's entry in --json."""
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
        """Yield the lines for the terminal: how the run ended, what it spent, where its release is; and warnings."""
        yield f"{self.settings.folder.upper()} {self.state} (run {facts['run']})"
        if self.release:
            manifest = read_manifest(Path(self.release))
            yield f"   spent    {describe_spent(facts['spent'], facts['mark'])}"
            yield f"   release  {self.release}"
            if "report.html" in manifest["files"]:
                yield f"   report   {self.release}/report.html"
            yield from self.settings.remarks(manifest)
        if facts["other_data"]:
            yield other_data_warning(facts["run"], facts["other_data"])


def _warn_of_earlier_runs(options: RunOptions, resumed: Sequence[str]) -> None:
    """Warn about confidential directories of earlier runs, those of the resumed run aside."""
    if earlier := [run for run in run_directories(options.home) if run.id not in resumed]:
        what = f"{len(earlier)} earlier {'run' if len(earlier) == 1 else 'runs'} left confidential files"
        where = f" --runs-folder {options.home}" if options.home != state_home() else ""
        err.print(f"{what} in {options.home / 'runs'}: das runs list{where} shows them, das runs discard removes them")


def _check_input(settings: RunSettings, spend: Mapping[str, Spend]) -> None:
    """Refuse a run before a server, workers or a directory exist.

    It is refused if its data is missing, or if the data has no mark and the ledger cannot be locked or the account
    cannot pay.
    """
    if check_data(settings) and read_mark(settings.marks) is None:  # for URLs, missing files are reported by validation
        try:
            Ledger(Path(settings.ledger)).check_locks()
        except LedgerUnusable as error:
            raise Refused(str(error)) from None
        with suppress(Failed):  # if the ledger cannot be read now, the run itself reports it, and can be resumed
            check_account(settings.directory, settings.charging, spend.values(), settings.charged_states())


def check_data(settings: RunSettings) -> bool:
    """Refuse a run whose local data is missing; return whether all of its data is there."""
    missing = [place for name in settings.DATA if (place := getattr(settings, name)) and not exists(place)]
    if local := [place for place in missing if "://" not in place]:
        raise Refused(f"there is no file or folder {local[0]}")
    return not missing


def _keep(parts: Sequence[RunSettings], options: RunOptions) -> None:
    """Save the settings of each part of a new run, so that it can be resumed. Raises Refused."""
    try:
        for settings in parts:
            with locked(settings.directory):
                keep_settings(settings.directory, settings)
    except OSError as error:
        remedy = "name another folder with --runs-folder or XDG_STATE_HOME"
        raise Refused(f"{options.home} cannot be written: {error.strerror}; {remedy}") from None


def _findings(settings: RunSettings) -> list[Finding]:
    """Return the findings for which a run was refused, shown as a table unless --json will contain them."""
    findings = load_findings(settings.directory)
    if not has_errors(findings):
        return []
    if not is_json():
        out.print(findings_table(findings))
    err.print(f"The values are in the curator's report: {settings.directory / REPORT}")
    return findings


def _how_to_continue(parts: Sequence[RunSettings]) -> str:
    kept = "nothing is lost; " if is_there(parts[-1]) else ""
    return f"{charges_of(parts)}; {kept}continue with: {parts[-1].resume}"


def how_to_resume(settings: RunSettings) -> str:
    """Return how to resume a run, without waiting for the ledger; its last part exists as long as any does."""
    return f"nothing is lost; das runs list says what was charged; continue with: {settings.parts[-1].resume}"


def _warn(text: str) -> None:
    err.print(labelled("warning:", text, "bold yellow"), soft_wrap=True)
