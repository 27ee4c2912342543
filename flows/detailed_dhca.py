"""The stages of the Detailed DHC-A: SafeTab-P from files to release, for the US or Puerto Rico.

validate -> population groups -> reserve budget -> totals -> sex by age -> suppression -> coterminous -> release
                                                   \\_______ per population group level ______/            /
estimate tables (public laws only) -------------------------> estimates of a level, once all are suppressed/
geographic spine (public geography only) -------------------------------------------------------------------
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from flows.execution.detailed_dhca_settings import DetailedDhcaSettings
from flows.execution.runner import Runner
from tasks.detailed_dhca.coterminous import equate_coterminous
from tasks.detailed_dhca.estimate_tables import make_estimators
from tasks.detailed_dhca.estimates import estimate
from tasks.detailed_dhca.release import stage_release
from tasks.detailed_dhca.run import DetailedRun
from tasks.detailed_dhca.sex_by_age import measure_sex_by_age
from tasks.detailed_dhca.suppression import suppress
from tasks.detailed_dhca.totals import measure_totals
from tasks.lifecycle.authorization import AUTHORIZATION
from tasks.lifecycle.commit import check_out
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.population_groups.all_or_none import all_or_none, validate_sibling
from tasks.population_groups.coterminous_sets import save_sets
from tasks.population_groups.count import count_population_groups
from tasks.population_groups.reserve_budget import planned_spend, precheck_budget, reserve_budget
from tasks.population_groups.run import Validated
from tasks.population_groups.validation import check_public, validate
from tasks.spine.optimize import build_spine


def check(settings: DetailedDhcaSettings) -> bool:
    """Refuse parameters, paths and an account with which a run could not end; False for a jurisdiction switched off.

    Of a command that is charged for all or none, it refuses what one of them could not end with.
    """
    attempts = {settings.jurisdiction: partial(_check, settings)}
    if sibling := _not_charged_sibling(settings):
        attempts[sibling.jurisdiction] = partial(_check_sibling, sibling)
    return all_or_none(attempts)[settings.jurisdiction] if settings.all_or_none else _check(settings)


def _not_charged_sibling(settings: DetailedDhcaSettings) -> DetailedDhcaSettings | None:
    """Return the run that has to pass before this one is charged; None where one of them is charged already."""
    sibling = settings.sibling if settings.all_or_none else None
    if sibling is None or any((each.directory / AUTHORIZATION).exists() for each in (settings, sibling)):
        return None
    return sibling


def _check_sibling(settings: DetailedDhcaSettings) -> bool:
    check_out(settings.directory, Path(settings.out), settings.folder)
    return _check(settings)


def _check(settings: DetailedDhcaSettings) -> bool:
    run, inputs = settings.directory, (settings.params, settings.data, settings.jurisdiction)
    switched_on = check_public(run, *inputs)
    precheck_budget(run, *inputs, settings.charging)
    if settings.coterminous_list:
        _ = settings.shaping_options  # reads it
    return switched_on


def stages(run: Runner[DetailedDhcaSettings]) -> Path | None:
    """Release one jurisdiction's tables by SafeTab-P (Algorithm 1); return their place, None where there is nothing.

    Algorithm 1, lines 6 to 9: population groups. Algorithm 2, of each population group level: totals (step 1), sex by
    age (step 2); then suppression. Algorithm 4: coterminous.
    """
    settings, workers = run.settings, run.workers
    jurisdiction, options, estimates = settings.jurisdiction, settings.shaping_options, settings.estimates
    here = {"workers": workers, "jurisdiction": jurisdiction}

    validated = run.do("validate", _validate, settings=settings, workers=workers)
    if validated is None:
        return None
    configuration = settings.directory.parameters.configuration
    levels = configuration.levels(jurisdiction)

    sets = {"listed": settings.coterminous_list, "digest": options["coterminous_list"]}
    ready = [
        run.submit("population groups", count_population_groups, **here, blocks_each=settings.blocks_each),
        run.submit("coterminous sets", save_sets, jurisdiction=jurisdiction, enabled=settings.coterminous, **sets),
    ]
    if estimates:  # public, and what could fail in them fails before anything is spent
        ready.append(run.submit("estimate tables", make_estimators, **here))
    charge = partial(planned_spend, configuration, jurisdiction)
    approved = {"given": validated, "charge": charge, "states": configuration.states(jurisdiction)}
    gate = run.reserve(reserve_budget, *ready, **approved, jurisdiction=jurisdiction, options=options)
    if settings.spine:
        region = {"data": settings.data, "jurisdiction": jurisdiction, "states": configuration.states(jurisdiction)}
        spine = run.attempt("spine", _build_spine, workers=workers, folder=run.staged / "spine", **region)

    published = []
    for level in levels:
        of_level = {"workers": workers, "level": level}
        details = run.submit(f"totals ({level.name})", measure_totals, gate, **of_level, estimates=estimates)
        tables = run.submit(f"sex by age ({level.name})", measure_sex_by_age, details, **of_level)
        published.append(run.submit(f"suppression ({level.name})", suppress, tables, **of_level))
    if estimates:
        published += [
            run.submit(f"estimates ({level.name})", estimate, *published, workers=workers, level=level)
            for level in levels
        ]
    equated = run.submit("coterminous", equate_coterminous, *published, **here, estimates=estimates)
    run.wait()  # a run that fails does not wait for its spine

    line = (spine.result() or "not built: its stage failed") if settings.spine else "not asked for"
    staged = run.submit("release", stage_release, equated, **here, out=run.out, options=options, spine=line)
    return run.commit(staged)


def _validate(run: DetailedRun, settings: DetailedDhcaSettings, workers: Workers) -> Validated | None:
    """Validate the run's input, and, where all or none are charged, the input of its sibling run."""
    inputs = (workers, settings.params, settings.data)
    own = partial(validate, run, *inputs, settings.jurisdiction, settings.next_run)
    sibling = settings.next_run if _not_charged_sibling(settings) else None
    if sibling is None:
        return own()
    other = partial(validate_sibling, sibling, *inputs, settings.charging)
    return all_or_none({settings.jurisdiction: own, sibling.jurisdiction: other})[settings.jurisdiction]


def _build_spine(_run: RunDirectory, **arguments: Any) -> str:
    """Build the geographic spine from public files alone."""
    return build_spine(**arguments)
