"""The stages of the Detailed DHC-B: SafeTab-H from files to release, for the US or Puerto Rico.

validate -> population groups -> reserve budget -> household type and tenure -> coterminous -> estimates -> release
(households, totals)                               \\___ per level ________/                  \\_ per level
"""

from __future__ import annotations

from pathlib import Path

from flows.execution.runner import Runner
from flows.execution.safetab import authorized
from flows.execution.safetab_settings import DetailedDhcbSettings
from tasks.safetab.coterminous import equate_coterminous
from tasks.safetab.households.estimates import estimate, has_both
from tasks.safetab.households.measure import measure
from tasks.safetab.households.release import stage_release
from tasks.safetab.households.run import HouseholdRun
from tasks.safetab.households.tables import KINDS


def stages(run: Runner[DetailedDhcbSettings]) -> Path | None:
    """Release one jurisdiction's tables by SafeTab-H; return their place, or None without any.

    Groups and the details of their tables come from published totals, so no first step spends budget.
    """
    settings, workers = run.settings, run.workers
    options, here = settings.shaping_options, {"workers": workers, "jurisdiction": settings.jurisdiction}
    reserved = authorized(run)
    if reserved is None:
        return None
    directory = HouseholdRun(settings.directory.path)
    levels = directory.parameters.configuration.levels(settings.jurisdiction)
    measured = [
        run.submit(f"household type and tenure ({level.name})", measure, reserved, workers=workers, level=level)
        for level in levels
    ]
    ready = [run.submit("coterminous", equate_coterminous, *measured, **here, kinds=tuple(KINDS.values()))]
    if settings.estimates:
        ready += [
            run.submit(f"estimates ({level.name})", estimate, *ready[:1], workers=workers, level=level)
            for level in levels
            if has_both(directory, level)
        ]
    run.wait()
    staged = run.submit("release", stage_release, *ready, **here, out=run.out, options=options)
    return run.commit(staged)
