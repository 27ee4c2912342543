"""The stages of the Detailed DHC-A: SafeTab-P from files to release, for the US or Puerto Rico.

validate -> population groups -> reserve budget -> totals -> sex by age -> suppression -> coterminous -> release
                                                   \\_______ per population group level ______/            /
estimate tables (public laws only) -------------------------> estimates of a level, once all are suppressed/
geographic spine (public geography only) -------------------------------------------------------------------
"""

from __future__ import annotations

from pathlib import Path

from flows.execution.runner import Runner
from flows.execution.safetab import authorized
from flows.execution.safetab_settings import DetailedDhcaSettings
from tasks.safetab.coterminous import equate_coterminous
from tasks.safetab.persons.estimate_tables import make_estimators
from tasks.safetab.persons.estimates import estimate
from tasks.safetab.persons.release import stage_release
from tasks.safetab.persons.sex_by_age import measure_sex_by_age
from tasks.safetab.persons.suppression import EstimatedGroups, PublishedGroups, suppress
from tasks.safetab.persons.totals import measure_totals
from tasks.spine.optimize import build_spine


def stages(run: Runner[DetailedDhcaSettings]) -> Path | None:
    """Release one jurisdiction's tables by SafeTab-P (Algorithm 1); return their place, or None without any.

    Population groups are lines 6 to 9 of Algorithm 1. Totals (step 1) and sex by age (step 2) are Algorithm 2, for each
    population group level; suppression follows. Coterminous is Algorithm 4.
    """
    settings, workers = run.settings, run.workers
    jurisdiction, estimates = settings.jurisdiction, settings.estimates
    here = {"workers": workers, "jurisdiction": jurisdiction}

    reserved = authorized(run, **({"estimate_tables": make_estimators} if estimates else {}))
    if reserved is None:
        return None
    configuration = settings.directory.parameters.configuration
    levels = configuration.levels(jurisdiction)
    if settings.spine:
        region = {"data": settings.data, "jurisdiction": jurisdiction, "states": configuration.states(jurisdiction)}
        spine = run.attempt("spine", build_spine, workers=workers, folder=run.staged / "spine", **region)

    published = []
    for level in levels:
        of_level = {"workers": workers, "level": level}
        details = run.submit(f"totals ({level.name})", measure_totals, reserved, **of_level, estimates=estimates)
        tables = run.submit(f"sex by age ({level.name})", measure_sex_by_age, details, **of_level)
        published.append(run.submit(f"suppression ({level.name})", suppress, tables, **of_level))
    if estimates:
        published += [
            run.submit(f"estimates ({level.name})", estimate, *published, workers=workers, level=level)
            for level in levels
        ]
    kinds = (PublishedGroups, EstimatedGroups) if estimates else (PublishedGroups,)
    equated = run.submit("coterminous", equate_coterminous, *published, **here, kinds=kinds)
    run.wait()  # a run that fails does not wait for its spine

    line = (spine.result() or "not built: its stage failed") if settings.spine else "not asked for"
    staged = run.submit(
        "release", stage_release, equated, **here, out=run.out, options=settings.release_options, spine=line
    )
    return run.commit(staged)
