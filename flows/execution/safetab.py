"""The stages of a SafeTab before any noise is drawn, and its checks of settings before all stages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from flows.execution.runner import Runner, Stage
from flows.execution.safetab_settings import SafeTabSettings
from tasks.errors import Refused
from tasks.lifecycle.authorization import AUTHORIZATION
from tasks.lifecycle.commit import check_out
from tasks.lifecycle.workers import Workers
from tasks.safetab.coterminous import save_sets
from tasks.safetab.count import count_population_groups
from tasks.safetab.reserve_budget import planned_spend, reserve_budget
from tasks.safetab.run import SafeTabRun, Validated
from tasks.safetab.validation import Part, all_or_none, check_public, validate, validate_with_sibling


def check(settings: SafeTabSettings) -> bool:
    """Refuse parameters, paths and an account with which a run could not end; False for a jurisdiction switched off.

    Of a command that is charged for all or none, it refuses what one of them could not end with.
    """
    attempts = {settings.jurisdiction: partial(_check, settings)}
    if sibling := _not_charged_sibling(settings):
        attempts[sibling.jurisdiction] = partial(_check_sibling, sibling)
    return all_or_none(attempts)[settings.jurisdiction]


def _not_charged_sibling(settings: SafeTabSettings) -> SafeTabSettings | None:
    """Return the run that has to pass before this one is charged; None where one of them is charged already."""
    sibling = settings.sibling if settings.all_or_none else None
    if sibling is None or any((each.directory / AUTHORIZATION).exists() for each in (settings, sibling)):
        return None
    return sibling


def _check_sibling(settings: SafeTabSettings) -> bool:
    check_out(settings.directory, Path(settings.out), settings.folder)
    return _check(settings)


def _check(settings: SafeTabSettings) -> bool:
    run, inputs = settings.directory, (settings.params, settings.data, settings.jurisdiction)
    switched_on = check_public(run, *inputs, settings.charging)
    if settings.coterminous_list:
        _ = settings.shaping_options  # reads it
    return switched_on


def authorized(run: Runner[Any], options: dict[str, object], **public: Callable[..., Any]) -> Stage | None:
    """Validate, count the population groups (Algorithm 1, lines 6 to 9) and reserve; None where nothing is released.

    options: those that shape the release. public: further stages on public inputs, which the gate waits for, by name:
    what could fail in them fails before anything is spent.
    """
    settings, workers = run.settings, run.workers
    jurisdiction = settings.jurisdiction
    here = {"workers": workers, "jurisdiction": jurisdiction}
    validated = run.do("validate", _validate, settings=settings, workers=workers)
    if validated is None:
        return None
    if changed := [each for each, digest in validated.other_digests.items() if digest not in options.values()]:
        raise Refused(f"{changed[0]} changed while it was read")
    configuration = settings.directory.parameters.configuration
    sets = {"listed": settings.coterminous_list, "digest": options["coterminous_list"]}
    ready = [
        run.submit("population groups", count_population_groups, **here, blocks_each=settings.blocks_each),
        run.submit("coterminous sets", save_sets, jurisdiction=jurisdiction, enabled=settings.coterminous, **sets),
        *(run.submit(name.replace("_", " "), stage, **here) for name, stage in public.items()),
    ]
    charge = partial(planned_spend, configuration, jurisdiction)
    approved = {"given": validated, "charge": charge, "states": configuration.states(jurisdiction)}
    return run.reserve(reserve_budget, *ready, **approved, jurisdiction=jurisdiction, options=options)


def _validate(run: SafeTabRun, settings: SafeTabSettings, workers: Workers) -> Validated | None:
    """Validate the run's input, and, where all or none are charged, the input of its sibling run."""
    inputs = (workers, settings.params, settings.data)
    sibling = _not_charged_sibling(settings)
    if sibling is None:
        return validate(run, *inputs, settings.jurisdiction, settings.public_inputs)
    own, other = (Part(each.directory, each.jurisdiction, each.public_inputs) for each in (settings, sibling))
    return validate_with_sibling(own, other, *inputs, settings.charging)
