"""The same iteration in the regions within a region: do they sum to it, given the noise?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flows.reports.show.confidence import confidence
from flows.reports.show.detailed_dhca.iterations import Iteration
from flows.reports.show.detailed_dhca.presenters import present_group
from flows.reports.show.detailed_dhca.release import LevelFacts, Published, Release
from flows.reports.show.detailed_dhca.view_models import Inside, SumOfChildren
from flows.reports.show.geography import Region, title
from flows.reports.show.laws import margin_of_cells, margin_of_difference
from privacy.noise.laws import Law
from tasks.population_groups.levels import Level

FEW = 8  # rows of a table that is not the page's own


def groups_inside(
    release: Release, within: Region, iteration: Iteration, region_type: str, parent: Published | None
) -> Inside | None:
    """Return the same iteration in the regions of one type within a region; None where it is not tabulated there."""
    level = Level(region_type, iteration.level)
    regions = release.regions_in(region_type, within.child_prefix)
    tabulated = iteration.tabulated(nation_or_state=level.nation_or_state)
    if not release.scope.complete_in(within) or level not in release.levels or not tabulated or not regions:
        return None
    rows = release.totals(region_type=region_type, prefix=within.child_prefix, code=iteration.code)
    rows.sort(key=lambda row: (-row.count, row.region.id))
    return Inside(
        type=region_type,
        kinds=title(region_type, several=True),
        address=f"iteration/{iteration.code}&type={region_type}&in={within.key}",
        rows=[present_group(release, row.region, iteration, row) for row in rows[:FEW]],
        published=len(rows),
        regions=len(regions),
        sums=_sums(release, level, parent, rows, regions) if parent else None,
    )


def _sums(
    release: Release, level: Level, parent: Published, rows: Sequence[Published], regions: Sequence[Region]
) -> SumOfChildren:
    facts = release.levels[level]
    missing = len(regions) - len(rows)
    total = sum(row.count for row in rows)
    difference = parent.count - total
    missing_at_most = missing * max(facts.suppressed_up_to or 0, 0)
    if parent.noise.law is None:
        margin = 0
    elif missing:
        margin = margin_of_cells(_noise_in(parent, rows, facts, missing))
    else:
        margin = margin_of_difference(parent.noise, *(row.noise for row in rows))
    return SumOfChildren(
        sum=total,
        difference=difference,
        margin=margin,
        published=len(rows),
        missing=missing,
        at_most=facts.suppressed_up_to,
        missing_at_most=missing_at_most,
        verdict=_verdict(difference, margin, missing, missing_at_most),
    )


def _noise_in(
    parent: Published, rows: Sequence[Published], facts: LevelFacts, missing: int
) -> Iterator[tuple[Law | None, int]]:
    """Return the noisy cells in the difference of a parent and all its children, suppressed totals included."""
    shared = {row.noise.source for row in rows} & {parent.noise.source}
    yield from ((group.noise.law, group.noise.cells) for group in (parent, *rows) if group.noise.source not in shared)
    yield facts.laws["total"], missing


def _verdict(difference: int, margin: int, missing: int, missing_at_most: int) -> str:
    if missing == 0:
        differ = f"The parent and the sum of its parts differ by {abs(difference):,}"
        if abs(difference) <= margin:
            return f"{differ}; noise alone explains up to {margin:,}."
        return f"{differ}. In {confidence().percent} of 100 runs noise alone explains no more than {margin:,}."
    side = "less" if difference >= 0 else "more"
    are = "is" if missing == 1 else "are"
    return (
        f"The published parts sum to {abs(difference):,} {side} than the parent, but {missing:,} of the parts {are} "
        f"missing from the sum. If all were published, noise alone would explain a difference of up to {margin:,}. "
        f"The suppressed parts can add up to {missing_at_most:,} more."
    )
