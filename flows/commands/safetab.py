"""What the commands of both SafeTabs do alike: runs, validation and truth over the US and Puerto Rico."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import RenderableType
from rich.text import Text

from flows.commands.exact_tables import release_all
from flows.commands.fields import Chosen, check_needed
from flows.commands.findings import show_findings, show_validation
from flows.commands.inputs import validate_alone
from flows.commands.options import ExactOptions, RunOptions, WorkOptions
from flows.commands.runner import FlowCommand, summary_lines
from flows.execution.safetab_settings import SafeTabSettings
from flows.execution.systems import SYSTEMS
from flows.reports.terminal import err, show
from tasks.lifecycle.errors import Refused

if TYPE_CHECKING:
    from tasks.lifecycle.workers import Workers
    from tasks.population_groups.parameters import Parameters

S = TypeVar("S", bound=SafeTabSettings)
M = TypeVar("M")


def checked_parameters(kind: type[SafeTabSettings], params: str, data: str, *, as_json: bool) -> Parameters[Any]:
    """Return the parameters.

    Raises Refused where they have errors. These are shown, with any findings that the data has without them.
    """
    from tasks.inputs.findings import gather
    from tasks.population_groups.parameters import read_parameters
    from tasks.population_groups.validation import check_data_alone

    run = kind.run_class()
    parameters, findings = read_parameters(params, run.CONFIGURATION)
    if parameters is None:
        show_findings(gather(findings + check_data_alone(run.KIND, data)), as_json=as_json)
        raise Refused("the parameters do not pass validation")
    return parameters


def jurisdiction_settings(
    kind: type[S],
    options: ExactOptions | RunOptions,
    base: str,
    jurisdictions: Iterable[str],
    chosen: Mapping[str, Any],
) -> list[S]:
    """Return the settings of a run over each jurisdiction, with the id BASE-JURISDICTION; the rest they share."""
    return [options.new_settings(kind, f"{base}-{name}", {**chosen, "jurisdiction": name}) for name in jurisdictions]


def new_runs(kind: type[S], options: RunOptions, chosen: Chosen) -> list[S]:
    """Return the settings of a run for each jurisdiction, after what they will spend was shown.

    Raises Refused where the parameters have errors or OUT holds something.
    """
    from flows.execution.settings import new_run_id, run_directory
    from flows.reports.curator import spend_table
    from tasks.inputs.regions import REGION_TYPES
    from tasks.lifecycle.commit import holds_other
    from tasks.population_groups.reserve_budget import planned_spend

    check_needed(kind, chosen)
    base, release = options.run_id or new_run_id(), Path(chosen["out"])
    runs = {str(jurisdiction): run_directory(options.home, f"{base}-{jurisdiction}") for jurisdiction in REGION_TYPES}
    if release.exists() and (not release.is_dir() or holds_other(release, runs)):
        raise Refused(f"{release} is not empty: choose an empty or a new folder")
    configuration = checked_parameters(kind, chosen["params"], chosen["data"], as_json=options.as_json).configuration
    asked = configuration.jurisdictions
    err.print(spend_table({jurisdiction.upper(): planned_spend(configuration, jurisdiction) for jurisdiction in asked}))
    return jurisdiction_settings(kind, options, base, asked, chosen)


def validate_all(kind: type[SafeTabSettings], inputs: Chosen, options: WorkOptions) -> None:
    """Validate the input of a run over each jurisdiction that config.json asks for, and show the findings."""
    from flows.execution.settings import new_run_id
    from tasks.population_groups.parameters import read_parameters
    from tasks.population_groups.validation import check_data_alone, validate

    made, params, data = kind.run_class(), inputs["params"], inputs["data"]
    parameters, findings = read_parameters(params, made.CONFIGURATION)
    if parameters is None:
        findings += check_data_alone(made.KIND, data)
    base, reports = new_run_id("validate"), []
    for jurisdiction in parameters.configuration.jurisdictions if parameters else ():
        settings = kind.new(**inputs, out=".", jurisdiction=jurisdiction)
        run = made(options.home / "runs" / f"{base}-{jurisdiction}")
        title, given = f"Validating {jurisdiction.upper()}", (params, data, jurisdiction, None, settings.public_inputs)
        validated, found, kept = validate_alone(options, run, title, validate, *given)
        if validated is None and not kept:
            err.print(f"{jurisdiction.upper()} has no block in GRF-C: a run would skip it", style="yellow")
        findings += found
        reports += kept
    findings = list(dict.fromkeys(findings))  # both jurisdictions read the same parameter files
    show_validation(findings, reports, as_json=options.as_json)


def release_truths(kind: type[SafeTabSettings], chosen: Chosen, options: ExactOptions, *, curator: bool) -> None:
    """Release the exact tables of each jurisdiction that config.json asks for, and show where they are."""
    from flows.execution.settings import new_run_id

    parameters = checked_parameters(kind, chosen["params"], chosen["data"], as_json=options.as_json)
    asked = parameters.configuration.jurisdictions
    truths = jurisdiction_settings(kind, options, new_run_id("truth"), asked, chosen)
    made = dict(zip(asked, release_all(truths, options, curator=curator), strict=True))
    show(
        {"NOT_PRIVATE": True, "releases": made},
        lambda: "\n".join(f"{name.upper()}: {place or 'skipped, no block'}" for name, place in made.items()),
        as_json=options.as_json,
    )


def measured(
    kind: type[S], chosen: Chosen, options: ExactOptions, measure: Callable[[S, Workers], M | None]
) -> Iterator[tuple[S, M]]:
    """Yield what `measure` finds of each jurisdiction that config.json asks for, while its run directory is there."""
    from flows.execution.settings import new_run_id

    parameters = checked_parameters(kind, chosen["params"], chosen["data"], as_json=options.as_json)
    asked = parameters.configuration.jurisdictions
    for settings in jurisdiction_settings(kind, options, new_run_id("accuracy"), asked, chosen):
        name = settings.jurisdiction.upper()
        with options.leaving_nothing(settings.directory, f"Accuracy of {name}") as workers:
            if (found := measure(settings, workers)) is not None:
                yield settings, found
            else:
                err.print(f"{name} has no block in GRF-C: skipped", style="yellow")


def flow_command(kind: type[SafeTabSettings]) -> FlowCommand:
    """Return the command that runs the flow of a SafeTab."""
    return FlowCommand(
        SYSTEMS[kind.SYSTEM], partial(new_runs, kind), _details, lambda facts: facts, _summary, _siblings
    )


def _details(settings: SafeTabSettings, _manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {"region": settings.jurisdiction}


def _summary(facts: list[dict[str, Any]]) -> RenderableType:
    return Text.from_markup("\n".join(line for each in facts for line in summary_lines(each["region"].upper(), each)))


def _siblings(runs: Sequence[SafeTabSettings]) -> dict[str, str]:
    """Join both runs; one that is charged whatever becomes of the first has nothing to ask it."""
    if len(runs) == 1:
        return {}
    first, last = runs
    ids = str(first.run_id), str(last.run_id)
    return dict([ids]) if first.each_alone else dict([ids, ids[::-1]])
