"""The same iteration in the regions within a region, and how far their sum lies from it beside what noise explains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flows.reports.show.detailed_dhca.iterations import Iteration
from flows.reports.show.detailed_dhca.noise import margin_of_cells, margin_of_difference
from flows.reports.show.detailed_dhca.presenters import present_group
from flows.reports.show.detailed_dhca.release import LevelFacts, Published, Release
from flows.reports.show.detailed_dhca.view_models import Inside, SumOfChildren
from flows.reports.show.geography import Region, title
from privacy.noise.laws import Law
from tasks.inputs.configuration import Level

FEW = 8  # rows beside others


def groups_inside(
    release: Release, within: Region, iteration: Iteration, region_type: str, parent: Published | None
) -> Inside | None:
    """Return the same iteration in the regions of one type in a region; None where none of them tabulates it."""
    level = Level(region_type, iteration.level)
    regions = release.regions_in(region_type, within.child_prefix)
    if not release.scope.complete_in(within):
        return None
    if (
        level not in release.levels
        or iteration.tabulated(nation_or_state=level.nation_or_state) is False
        or not regions
    ):
        return None
    rows = release.totals(region_type=region_type, prefix=within.child_prefix, code=iteration.code)
    rows.sort(key=lambda row: (-row.count, row.region.id))
    adds_up = parent is not None and iteration.tabulated(nation_or_state=level.nation_or_state)
    return Inside(
        type=region_type,
        kinds=title(region_type, several=True),
        address=f"iteration/{iteration.code}&type={region_type}&in={within.key}",
        rows=[present_group(release, row.region, iteration, row) for row in rows[:FEW]],
        published=len(rows),
        regions=len(regions),
        all_listed=release.lists_all_regions(region_type),
        sums=_sums(release, level, parent, rows, regions) if parent and adds_up else None,
    )


def _sums(
    release: Release, level: Level, parent: Published, rows: Sequence[Published], regions: Sequence[Region]
) -> SumOfChildren:
    facts = release.levels[level]
    missing = len(regions) - len(rows)
    total = sum(row.count for row in rows)
    difference = parent.count - total
    at_most = facts.suppressed_up_to
    if parent.noise.law is None:
        margin = 0
    else:
        own = margin_of_difference(parent.noise, *(row.noise for row in rows))
        margin = own if not missing else margin_of_cells(_noise_in(parent, rows, facts, missing))
    missing_at_most = missing * max(at_most or 0, 0)
    all_listed = release.lists_all_regions(level.region_type)
    return SumOfChildren(
        sum=total,
        difference=difference,
        margin=margin,
        published=len(rows),
        missing=missing,
        at_most=at_most,
        missing_at_most=missing_at_most,
        all_listed=all_listed,
        verdict=_verdict(difference, margin, missing, missing_at_most, all_listed),
    )


def _noise_in(
    parent: Published, rows: Sequence[Published], facts: LevelFacts, missing: int
) -> Iterator[tuple[Law | None, int]]:
    """Return the cells whose noise is in a parent less all of its children, the suppressed ones' totals among them."""
    shared = {row.noise.source for row in rows} & {parent.noise.source}
    yield from ((group.noise.law, group.noise.cells) for group in (parent, *rows) if group.noise.source not in shared)
    yield facts.laws["total"], missing


def _verdict(difference: int, margin: int, missing: int, missing_at_most: int, all_listed: bool) -> str:
    if missing == 0 and all_listed:
        if abs(difference) <= margin:
            return f"The parent and its parts differ by {abs(difference):,}; noise alone explains up to {margin:,}."
        return (
            f"The parent and its parts differ by {abs(difference):,}, more than the {margin:,} that noise alone stays "
            "within in 95 of 100 runs."
        )
    side = "less" if difference >= 0 else "more"
    some = f"{missing:,} of the parts {'is' if missing == 1 else 'are'}" if missing else "some parts may be"
    up_to = f" What is suppressed can lift the parent by up to {missing_at_most:,} more." if missing else ""
    return (
        f"The published parts sum to {abs(difference):,} {side} than the parent, but {some} missing "
        f"from the sum; were all published, noise alone would explain up to {margin:,}.{up_to}"
    )
