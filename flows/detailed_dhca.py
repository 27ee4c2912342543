"""The Detailed DHC-A as a Prefect flow: SafeTab-P from files to release, for the US or Puerto Rico.

validate -> population groups -> budget check -> totals -> sex by age -> suppression -> coterminous -> release
                                                 \\_______ per population group level ______/            /
estimate tables (public laws only) -----------------------> estimates of a level, once all are suppressed/
geographic spine (public geography only) -----------------------------------------------------------------
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow

from flows.execution.detailed_dhca_settings import DetailedDhcaSettings
from flows.execution.expected_work import expected_work
from flows.execution.progress import expect
from flows.execution.run import Future, Run, carry_out, flow_options
from tasks.detailed_dhca.budget_check import planned_spend, precheck_budget, reserve_budget
from tasks.detailed_dhca.coterminous import equate_coterminous
from tasks.detailed_dhca.estimate_tables import make_estimators
from tasks.detailed_dhca.estimates import estimate
from tasks.detailed_dhca.population_groups import count_population_groups
from tasks.detailed_dhca.release import stage_release
from tasks.detailed_dhca.run import Validated
from tasks.detailed_dhca.sex_by_age import measure_sex_by_age
from tasks.detailed_dhca.suppression import suppress
from tasks.detailed_dhca.totals import measure_totals
from tasks.detailed_dhca.validation import check_public, validate
from tasks.population_groups.coterminous_sets import save_sets
from tasks.spine.run_branch import build_spine

LEVELS_AT_ONCE = 4  # their stages; the Dask workers behind them are the limit


@flow(name=DetailedDhcaSettings.SYSTEM, **flow_options(LEVELS_AT_ONCE))
def detailed_dhca(settings: DetailedDhcaSettings) -> Any:
    """Run SafeTab-P over one jurisdiction and release its tables; returns the release's path, None where it is skipped.

    A jurisdiction that has no block or that config.json switches off is skipped and charges nothing. Retried or started
    again under the same run id, the flow takes up its own run: the same noise, one charge, one release.
    """
    jurisdiction = settings.jurisdiction.upper()
    return carry_out(settings, stages, check, f"{jurisdiction} has no block, or config.json switches it off")


def check(settings: DetailedDhcaSettings) -> bool:
    """Refuse parameters, paths and an account with which a run could not end; False for a jurisdiction switched off."""
    run, inputs = settings.directory, (settings.params, settings.data, settings.jurisdiction)
    switched_on = check_public(run, *inputs)
    precheck_budget(run, *inputs, settings.charging)
    if settings.coterminous_list:
        _ = settings.shaping_options  # reads it
    return switched_on


def stages(run: Run[DetailedDhcaSettings]) -> Path | None:
    """The DAG of a run."""
    settings, workers = run.settings, run.workers
    jurisdiction, charging, options = settings.jurisdiction, settings.charging, settings.shaping_options
    inputs = {"params": settings.params, "data": settings.data, "jurisdiction": jurisdiction}
    equating = {"enabled": settings.coterminous, "listed": settings.coterminous_list}
    expect(partial(expected_work, settings.directory, jurisdiction, settings.spine, settings.estimates))

    validated = run.submit("validate", validate, workers=workers, **inputs, next_run=settings.next_run)
    checked: Validated | None = validated.result()
    if checked is None:
        return None
    counted = run.submit(
        "population groups",
        count_population_groups,
        validated,
        workers=workers,
        jurisdiction=jurisdiction,
        blocks_each=settings.blocks_each,
    )
    sets = run.submit(
        "coterminous sets",
        save_sets,
        validated,
        jurisdiction=jurisdiction,
        **equating,
        digest=options["coterminous_list"],
    )
    ready = [counted, sets]
    if settings.estimates:  # public, and what could fail in them fails before anything is spent
        ready.append(
            run.submit("estimate tables", make_estimators, validated, workers=workers, jurisdiction=jurisdiction)
        )
    if not checked.synthetic and settings.approval:
        for future in ready:
            future.result()
        spend = planned_spend(settings.directory.parameters.configuration, jurisdiction)
        run.await_approval(spend.definition, spend.unbounded)
    gate = run.submit_gate(reserve_budget, *ready, jurisdiction=jurisdiction, charging=charging, options=options)
    configuration = settings.directory.parameters.configuration
    built = _submit_spine(run, configuration.states(jurisdiction)) if settings.spine else None
    measured: list[Future] = []
    published = []
    for level in configuration.levels(jurisdiction):
        each = {"workers": workers, "level": level}
        totals = run.submit(f"totals {level}", measure_totals, gate, **each, estimates=settings.estimates)
        tables = run.submit(f"sex by age {level}", measure_sex_by_age, totals, **each)
        published.append(run.submit(f"suppression {level}", suppress, tables, **each))
        measured += [totals, tables, published[-1]]
    estimated = []
    if settings.estimates:
        for level in configuration.levels(jurisdiction):
            estimated.append(run.submit(f"estimates {level}", estimate, *published, workers=workers, level=level))
    equated = run.submit(
        "coterminous",
        equate_coterminous,
        *published,
        *estimated,
        workers=workers,
        jurisdiction=jurisdiction,
        **equating,
        estimates=settings.estimates,
    )
    for future in (*ready, gate, *measured, *estimated, equated):
        future.result()  # what failed says why; the stages after it would only say that they never ran
    spine = _line(built)  # asked for only now: a run that fails does not wait for it
    staged = run.submit(
        "release",
        stage_release,
        equated,
        workers=workers,
        jurisdiction=jurisdiction,
        out=run.out,
        options=options,
        spine=spine,
    )
    done = run.submit_commit(staged, charged=not checked.synthetic)
    staged.result()
    place: Path = done.result()
    return place


def _submit_spine(run: Run[DetailedDhcaSettings], states: tuple[str, ...]) -> Future:
    """Start the spine branch; what it raises goes into the manifest's line, never into the run's way."""
    build = partial(
        build_spine, run.workers, run.settings.data, run.settings.jurisdiction, states, run.staged / "spine"
    )
    return run.submit("spine", lambda _directory: build())


def _line(built: Future | None) -> str:
    """Return what the manifest says of the spine branch."""
    if built is None:
        return "not asked for"
    line = built.result(raise_on_failure=False)
    return line if isinstance(line, str) else "not built: its stage failed"
