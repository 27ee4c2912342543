"""The stages of a SafeTab before any noise is drawn, and the check of its settings before all stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from flows.execution.runner import Ask, Runner, Stage
from flows.execution.safetab_settings import SafeTabSettings
from tasks.errors import Refused
from tasks.geography.public_regions import keep_regions
from tasks.lifecycle.run_directory import VALIDATED
from tasks.lifecycle.workers import Workers
from tasks.safetab.coterminous import save_sets
from tasks.safetab.count import count_population_groups
from tasks.safetab.run import SafeTabRun, ValidatedSafeTab, claim
from tasks.safetab.validation import RunPart, check_public, validate


def check(settings: SafeTabSettings) -> bool:
    """Refuse parameters and paths with which a run could not end; False for a jurisdiction switched off."""
    switched_on = check_public(settings.directory, settings.params, settings.data, settings.jurisdiction)
    if settings.coterminous_list:
        _ = settings.shaping_options  # reads it
    return switched_on


def authorized(run: Runner[Any], **public: Callable[..., Any]) -> Stage | None:
    """Validate, count the population groups (Algorithm 1, lines 6 to 9) and reserve; None if nothing is released.

    The first part does this for all. public: further stages on public inputs, by name. The reservation waits
    for them: if they fail, nothing was spent.
    """
    if run is run.parts[0]:
        _authorize(run, public)
    return run.reserved


def _authorize(run: Runner[Any], public: dict[str, Callable[..., Any]]) -> None:
    """Reserve for all parts that have a block: they are validated in one reading and charged together."""
    run.do("validate", _validate, parts=[part.settings for part in run.parts], workers=run.workers)
    parts = [part for part in run.parts if (part.settings.directory / VALIDATED).exists()]
    if not parts:
        return
    first, *others = parts
    regions = {"geography": first.settings.data, "others": [part.directory for part in others]}
    asks, ready = list[Ask](), [first.submit("regions", keep_regions, **regions)]
    for part in parts:
        settings, options = part.settings, part.settings.shaping_options
        validated = settings.directory.validated
        own_claim = partial(claim, jurisdiction=settings.jurisdiction, options=options)
        asks.append(Ask(part, validated, own_claim))
        ready += _prepare(part, validated, options, public)
    first.reserve_all(asks, *ready)


def _validate(_run: SafeTabRun, parts: Sequence[SafeTabSettings], workers: Workers) -> ValidatedSafeTab | None:
    """Validate the input of all parts in one reading; return the result for the first part."""
    first = parts[0]
    inputs = [RunPart(part.directory, part.jurisdiction, part.public_inputs) for part in parts]
    return validate(inputs, workers, first.params, first.data)[first.jurisdiction]


def _prepare(
    run: Runner[Any], validated: ValidatedSafeTab, options: dict[str, object], public: dict[str, Callable[..., Any]]
) -> list[Stage]:
    """Start the stages of a part between its validation and its reservation."""
    settings = run.settings
    if changed := [each for each, digest in validated.other_digests.items() if digest not in options.values()]:
        raise Refused(f"{changed[0]} changed while it was read")
    here = {"workers": run.workers, "jurisdiction": settings.jurisdiction}
    sets = {"listed": settings.coterminous_list, "digest": options["coterminous_list"]}
    return [
        run.submit("population groups", count_population_groups, **here, blocks_each=settings.blocks_each),
        run.submit(
            "coterminous sets", save_sets, jurisdiction=settings.jurisdiction, enabled=settings.coterminous, **sets
        ),
        *(run.submit(name.replace("_", " "), stage, **here) for name, stage in public.items()),
    ]
