"""`das … validate`, `run` and `truth`: the same commands for every system, made from the settings of its runs."""

# Annotations are evaluated here, not kept as text: a command's options are those of its system.

from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

import typer

from flows.commands.accuracy import Place, Runs, report_errors
from flows.commands.fields import Settings, Values
from flows.commands.options import Curator, ExactOptions, RunOptions, WorkOptions
from flows.commands.runner import planned_run, run_flow
from flows.commands.tda.declared import refuse_others
from flows.execution.settings import RunSettings
from flows.execution.systems import System
from flows.execution.top_down_settings import DeclaredSettings, TopDownSettings
from flows.reports.curator import findings_data, findings_table
from flows.reports.terminal import err, is_json, labelled, out, show
from tasks.errors import Refused
from tasks.lifecycle.commit import end_run
from tasks.lifecycle.new_folder import check_empty
from tasks.records.findings import REPORT, NotValid, has_errors, load_findings

Command = Callable[..., None]

RUN = """{about}

What a run will spend is shown before any noise is drawn. If a run stops, `{run} --resume ID` continues it without
spending again; its id is printed at the start. With --resume, only these options are allowed: --runs-folder, --ledger,
--json, and, to continue on another cluster, --workers, --memory-limit, --scheduler, its certificates and --patience.

**Example:** {example}"""
VALIDATE = """Check every row of every file of a run's input; exit with 1 if a run would be refused.

The findings are shown without the values that broke a rule. The report with the values stays in the confidential
directory that is named below the table.

**Example:** `{validate} {words}`"""
TRUTH = """Write the release that a run would give with its noise switched off. NOT PRIVATE: only its owner may read it.

If the command is killed, `das runs discard ID` removes what it had written.

**Example:** `{truth} {words} truth/`"""
ERRORS = """Repeat a run on synthetic data and report its errors against the truth. NOT PRIVATE.

By table and cell, in errors.csv: bias, root mean square and 90% quantile of the error, the stated margin at 95% and
how often it held; of estimates, too, where these are asked for. Data that is not marked synthetic or public is refused,
whoever asks.

**Example:** `{accuracy} {words} accuracy/ --runs 20`"""


def commands_of(system: System) -> dict[str, Command]:
    """Return the commands of a system by their names."""
    settings: Any = system.part("settings_class")
    declaration = ("declaration",) if settings is TopDownSettings else ()  # has the commands run a declaration instead
    Declared = Annotated[Values, Settings(DeclaredSettings, declaration, needed=False)]

    def choose(context: typer.Context, chosen: Values, declared: Values) -> tuple[type[RunSettings], Values]:
        """Return the class of the settings, and the typed settings for it."""
        if not declared:
            return settings, chosen
        refuse_others(context)
        shared = {name: chosen[name] for name in ("data", "out", "estimator") if name in chosen}
        return DeclaredSettings, shared | declared

    def run(
        context: typer.Context,
        chosen: Annotated[Values, Settings(settings, needed=False)],
        declared: Declared,
        *,
        options: RunOptions,
    ) -> None:
        asked = {**chosen, **declared, "": True}
        options.start_ahead(*(each for name, modules in system.modules.items() if asked.get(name) for each in modules))
        run_flow(context, options, *choose(context, chosen, declared))

    def validate(
        context: typer.Context,
        chosen: Annotated[Values, Settings(settings, system.inputs)],
        declared: Declared,
        *,
        options: WorkOptions,
    ) -> None:
        validate_input(options, *choose(context, chosen, declared))

    exact = (*system.inputs, "out", *system.exact)

    def truth(
        context: typer.Context,
        chosen: Annotated[Values, Settings(settings, exact, instead=settings.OF_TRUTH)],
        declared: Declared,
        curator: Curator = False,
        *,
        options: ExactOptions,
    ) -> None:
        release_truths(options, *choose(context, chosen, declared), curator=curator)

    measured = (*system.inputs, *system.exact, *(["estimates"] if "estimates" in settings.model_fields else []))

    def accuracy(
        chosen: Annotated[Values, Settings(settings, measured)], place: Place, runs: Runs = 10, *, options: ExactOptions
    ) -> None:
        report_errors(options, settings, chosen, place, runs)

    made: dict[str, Command] = {"validate": validate, "run": run, "truth": truth, "accuracy": accuracy}
    words = {name: system.command.removesuffix("run") + name for name in made}
    for command, help in zip(made.values(), (VALIDATE, RUN, TRUTH, ERRORS), strict=True):
        command.__doc__ = help.format(about=system.about, example=system.example, words=system.words, **words)
    own = {"accuracy": resolve_name(system.accuracy)} if system.accuracy else {}
    return {name: made[name] for name in system.commands} | own


def validate_input(options: WorkOptions, kind: type[RunSettings], chosen: Values) -> None:
    """Run the stages that validate an input, and show the findings. Raises Refused if it does not pass."""
    from flows.execution.runner import InProcess

    findings, reports = [], []
    try:
        parts = kind.new_run(kind.new_id("validate"), {**chosen, **options.shared_settings(), "out": "."}).parts
    except NotValid as refused:
        parts, findings = (), [*refused.findings]
    for settings in parts:
        run, refusal = settings.directory, None
        name = settings.folder.upper()
        try:
            with options.working(f"Validating {name}", run) as workers:
                runner = InProcess(settings, workers, before=settings.VALIDATED)
                runner.run()
                if runner.results.get("validate", run) is None:
                    err.print(f"{name} has no block in GRF-C: a run would skip it", style="yellow")
        except Refused as error:
            refusal = error
        found = load_findings(run)
        findings += found
        if has_errors(found):
            reports.append(run.path)
            continue
        end_run(run)
        if refusal:
            raise refusal
    findings = list(dict.fromkeys(findings))  # both jurisdictions read the same parameter files
    show(
        {"valid": not has_errors(findings), "findings": findings_data(findings), "reports": reports},
        lambda: findings_table(findings) if findings else "No findings.",
    )
    if not is_json() and reports:
        out.print("The values are in the curator's report:", *(f"  {path}/{REPORT}" for path in reports), sep="\n")
    if has_errors(findings):
        raise Refused("the input does not pass validation")


def release_truths(options: ExactOptions, kind: type[RunSettings], chosen: Values, *, curator: bool) -> None:
    """Release the exact tables of each part of a run, and show their places."""
    from flows.execution.runner import release_truth

    check_empty(Path(chosen["out"]))
    made = {}
    for settings in planned_run(options, kind, kind.new_id("truth"), {**kind.OF_TRUTH, **chosen}).parts:
        with options.leaving_nothing(f"Truth of {settings.folder.upper()}", settings.directory) as workers:
            made[settings.folder] = release_truth(settings, workers, curator=curator)
    err.print(labelled("NOT PRIVATE:", "these are exact counts. Never publish them."))
    show(
        {"NOT_PRIVATE": True, "releases": made},
        lambda: "\n".join(f"{name.upper()}: {place or 'skipped, no block'}" for name, place in made.items()),
    )
