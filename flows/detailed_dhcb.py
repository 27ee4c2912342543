"""The stages of the Detailed DHC-B: SafeTab-H from files to release, for the US or Puerto Rico.

validate -> population groups -> reserve budget -> household type and tenure, per level -> coterminous -> release
(households, totals)                    (gate)
"""

from __future__ import annotations

from pathlib import Path

from flows.execution.detailed_dhcb_settings import DetailedDhcbSettings
from flows.execution.runner import Runner
from flows.execution.safetab import authorized
from tasks.detailed_dhcb.coterminous import equate_coterminous
from tasks.detailed_dhcb.estimates import estimate, has_both
from tasks.detailed_dhcb.measure import measure
from tasks.detailed_dhcb.release import stage_release


def stages(run: Runner[DetailedDhcbSettings]) -> Path | None:
    """Release one jurisdiction's tables by SafeTab-H; return their place, None where there is nothing.

    Groups and the details of their tables come from published totals, so there is no first step that is paid for.
    """
    settings, workers = run.settings, run.workers
    options, here = settings.shaping_options, {"workers": workers, "jurisdiction": settings.jurisdiction}
    gate = authorized(run, options)
    if gate is None:
        return None
    levels = settings.directory.parameters.configuration.levels(settings.jurisdiction)
    measured = [
        run.submit(f"household type and tenure ({level.name})", measure, gate, workers=workers, level=level)
        for level in levels
    ]
    if settings.estimates:
        both = [level for level in levels if has_both(settings.directory, level)]
        measured += [
            run.submit(f"estimates ({level.name})", estimate, *measured, workers=workers, level=level) for level in both
        ]
    equated = run.submit("coterminous", equate_coterminous, *measured, **here, estimates=settings.estimates)
    run.wait()
    staged = run.submit("release", stage_release, equated, **here, out=run.out, options=options)
    return run.commit(staged)
