"""Make the rows of a view from regions, iterations and groups; explain why a group has no count."""

from __future__ import annotations

from collections.abc import Sequence

from flows.reports.show.detailed_dhca.iterations import Iteration
from flows.reports.show.detailed_dhca.release import SHAPES, LevelFacts, Published, Release
from flows.reports.show.detailed_dhca.view_models import (
    EstimateItem,
    GroupItem,
    IterationItem,
    LevelRow,
    RegionItem,
    Status,
)
from flows.reports.show.geography import Region, title
from flows.reports.show.release_pages import NotThere
from tasks.detailed_dhca.report import LEVEL_WORDS, level_name
from tasks.inputs.configuration import Level

SHAPE_WORDS = {
    "total": "total",
    "age4": "sex by 4 ages",
    "age9": "sex by 9 ages",
    "age23": "sex by 23 ages",
}


NOTHING_OF_REGION = "Nothing was published for this region: all of its groups are suppressed, or it is not in the run."


def known_iteration(release: Release, code: str) -> Iteration:
    """Return the iteration of a code. Raises NotThere where the release has none such."""
    if code not in release.iterations:
        raise NotThere(f"{code!r} is not an iteration of this release")
    return release.iterations[code]


def explain_no_region(release: Release, region: Region) -> str:
    """Return why the release shows nothing of a region."""
    if release.lists_all_regions(region.type):
        return f"{region.key} is not a region of this release"
    return (
        f"{region.key} has no published count in this release: all of its groups are suppressed, or it is no region "
        "of it"
    )


def regions_above(release: Release, region: Region) -> list[Region]:
    """Return what a region lies in, the nearest first."""
    above = []
    while (parent := region.parent) is not None:
        if parent in release.regions:
            above.append(parent)
        region = parent
    return above


def describe_within(release: Release, region: Region) -> str:
    """Return what a region lies in, by name, the nation left out."""
    return ", ".join(release.name(above) for above in regions_above(release, region) if above.type != "USA")


def present_region(release: Release, region: Region) -> RegionItem:
    """Return a region in the words of a view."""
    return RegionItem(region.key, release.name(region), title(region.type), region.id, describe_within(release, region))


def present_iteration(iteration: Iteration) -> IterationItem:
    """Return an iteration in the words of a view."""
    return IterationItem(iteration.code, iteration.name, LEVEL_WORDS[iteration.level])


def present_group(release: Release, region: Region, iteration: Iteration, published: Published | None) -> GroupItem:
    """Return a group and what the release says of it."""
    key, named_region, named_iteration = (
        f"{region.key}/{iteration.code}",
        present_region(release, region),
        present_iteration(iteration),
    )
    if published is None:
        return GroupItem(key, named_region, named_iteration, *explain_missing(release, region, iteration))
    count, margin = published.count, published.margin
    return GroupItem(
        key=key,
        region=named_region,
        iteration=named_iteration,
        status="published",
        count=count,
        margin=margin,
        low=count - margin,
        high=count + margin,
        relative=margin / count if count > 0 else None,
        shape=SHAPE_WORDS[published.shape],
        estimate=published.estimate and published.estimate[0],
        estimate_margin=published.estimate and published.estimate[1],
    )


def present_estimate(pooled: tuple[int, int] | None) -> EstimateItem:
    """Return an estimate in the words of a view."""
    if pooled is None:
        return EstimateItem(None, None, None, None)
    estimate, margin = pooled
    return EstimateItem(estimate, margin, estimate - margin, estimate + margin)


def explain_missing(release: Release, region: Region, iteration: Iteration) -> tuple[Status, str]:
    """Return why a group has no count, as far as the release tells: its status, and the words for it."""
    level = Level(region.type, iteration.level)
    facts = release.levels.get(level)
    kinds = title(region.type, several=True)
    if facts is None:
        return "not tabulated", f"The run measured no {LEVEL_WORDS[iteration.level]} groups of {kinds}."
    tabulated = iteration.tabulated(nation_or_state=level.nation_or_state)
    if tabulated is False:
        return "not tabulated", f"Of this iteration nothing is tabulated for {kinds}."
    if region not in release.regions:
        return "not known", NOTHING_OF_REGION
    if tabulated is None:
        where = "the nation and the states" if level.nation_or_state else "areas below the state"
        return "not known", f"No such group was published in {where}: all were suppressed, or none is tabulated there."
    if facts.suppressed_up_to is None:
        return "not tabulated", f"Nothing is suppressed for {kinds}, so this group was not measured."
    return "suppressed", f"Suppressed: its noisy total was at most {facts.suppressed_up_to:,}."


def present_groups(release: Release, rows: Sequence[Published]) -> list[GroupItem]:
    """Return published rows in the words of a view."""
    return [present_group(release, row.region, release.iterations[row.code], row) for row in rows]


def describe_law(release: Release, published: Published | None) -> str:
    """Return the noise of a published total in words."""
    if published is None or published.noise.law is None:
        return ""
    law, cells = published.noise.law, published.noise.cells
    deviation = (law.variance() * cells) ** 0.5
    answer = "one noisy answer" if cells == 1 else f"the sum of {cells} noisy cells"
    spread = f"{deviation:,.0f}" if deviation >= 100 else f"{deviation:.3g}"
    return f"{answer}, {law.name}; standard deviation {spread}"


def present_level(facts: LevelFacts) -> LevelRow:
    """Return a level of the release, as the overview has it."""
    law = facts.laws["total"]
    published = facts.published
    by_shape = {shape: published[shape] + (published["total_only"] if shape == "total" else 0) for shape in SHAPES}
    return LevelRow(
        slug=facts.level.slug,
        name=level_name(facts.level),
        kinds=title(facts.level.region_type, several=True),
        type=facts.level.region_type,
        regions=facts.regions,
        iterations=facts.iterations,
        groups=facts.groups,
        published=sum(published.values()),
        by_shape=by_shape,
        total_only=published["total_only"],
        margins={shape: facts.margin(shape) for shape in SHAPES},
        thresholds=facts.thresholds,
        suppressed_up_to=facts.suppressed_up_to,
        deviation=law.variance() ** 0.5 if law else None,
    )
