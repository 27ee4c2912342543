"""Make the rows of a view from regions, iterations and groups; explain why a group has no count."""

from __future__ import annotations

from collections.abc import Sequence

from flows.reports.show import confidence as answers
from flows.reports.show.confidence import confidence
from flows.reports.show.detailed_dhca.iterations import Iteration
from flows.reports.show.detailed_dhca.release import LevelFacts, Published, Release
from flows.reports.show.detailed_dhca.view_models import GroupItem, IterationItem, LevelRow, RegionItem, Status
from flows.reports.show.geography import Region, title
from flows.reports.show.view import NotThere
from tasks.detailed_dhca.details import SHAPES, TABLE_NAMES
from tasks.population_groups.levels import ITERATION_LEVEL_NAMES, Level

MARGIN = "In at least 95 of 100 runs the noise is no larger than the margin. "
CAVEATS = {
    "overview": "A group's own noisy size chose its table. Below the state, a group whose noisy total was too small is "
    "suppressed: a group without a row may be small or empty, but its count is not known to be 0.",
    "region": MARGIN
    + "This holds over all runs, not only over those in which a count was large enough to be published: "
    "small published counts below the state are too high on average.",
    "iteration": MARGIN + "This holds over all runs, not only over those in which a count was published: where many "
    "regions are suppressed, the small counts that remain are too high on average.",
    "group": MARGIN
    + "This holds over all runs, whether or not they would have published this group. The margin covers "
    "the noise alone, not the errors of the census itself.",
    "missing": "No count does not mean a count of 0. The reason follows from a noisy total or from the run's settings; "
    "the group may be empty or not.",
    "same": "These are one and the same count: the two regions are made of the same blocks and share one noisy answer. "
    "Their difference is exactly 0, which is no information about the noise.",
    "compare": "The two groups have independent noise, even where one region contains the other, so the margin is that "
    "of the exact law of their difference: in at least 95 of 100 runs two groups of equal size differ by no more.",
    "iterations": "Regional iterations, and the Detailed ones in each: all their codes are in it. A person may "
    "be in several, so they do not add up.",
    "find": "The release contains every region and iteration listed here. The page of a group has its count, or the "
    "reason why it has none.",
}


def caveat(release: Release, view: str) -> str:
    """Return how to read a view of this release."""
    clipped = release.clipped and view not in ("find", "missing")
    return answers.caveat(release.manifest, CAVEATS[view], clipped=clipped)


def known_iteration(release: Release, code: str) -> Iteration:
    """Return the iteration of a code. Raises NotThere where the release has none."""
    if code not in release.iterations:
        raise NotThere(f"{code!r} is not an iteration of this release")
    return release.iterations[code]


def regions_above(release: Release, region: Region) -> list[Region]:
    """Return the regions that contain a region, the smallest first."""
    above = []
    while (parent := region.parent) is not None:
        if parent in release.regions:
            above.append(parent)
        region = parent
    return above


def present_region(release: Release, region: Region) -> RegionItem:
    """Return the row of a region."""
    within = ", ".join(release.name(above) for above in regions_above(release, region) if above.type != "USA")
    return RegionItem(region.key, release.name(region), title(region.type), region.id, within)


def present_iteration(iteration: Iteration) -> IterationItem:
    """Return the row of an iteration."""
    return IterationItem(iteration.code, iteration.name, ITERATION_LEVEL_NAMES[iteration.level])


def present_group(release: Release, region: Region, iteration: Iteration, published: Published | None) -> GroupItem:
    """Return the row of a group: its count, or why it has none."""
    named = f"{region.key}/{iteration.code}", present_region(release, region), present_iteration(iteration)
    if published is None:
        return GroupItem(*named, *explain_missing(release, region, iteration))
    count, margin = published.count, published.margin
    return GroupItem(
        *named,
        status="published",
        count=count,
        margin=margin,
        low=count - margin,
        high=count + margin,
        relative=margin / count if count > 0 else None,
        shape=TABLE_NAMES[published.shape],
        estimate=published.estimate,
        estimate_margin=published.estimate_margin,
    )


def explain_missing(release: Release, region: Region, iteration: Iteration) -> tuple[Status, str]:
    """Return why a group has no count: its status and a sentence."""
    level = Level(region.type, iteration.level)
    facts = release.levels.get(level)
    kinds = title(region.type, several=True)
    if facts is None:
        return "not tabulated", f"The run did not measure {level.iterations} iterations for {kinds}."
    if not iteration.tabulated(nation_or_state=level.nation_or_state):
        return "not tabulated", f"This iteration is not tabulated for {kinds}."
    if region not in release.regions:
        return "not tabulated", f"{region.key} is not a region of this release."
    if facts.suppressed_up_to is None:
        return "not tabulated", f"Nothing is suppressed for {kinds}, so this group was not measured."
    return "suppressed", f"Suppressed: its noisy total was at most {facts.suppressed_up_to:,}."


def present_groups(release: Release, rows: Sequence[Published]) -> list[GroupItem]:
    """Return the rows of published groups."""
    return [present_group(release, row.region, release.iterations[row.code], row) for row in rows]


def explain_table(release: Release, published: Published) -> str:
    """Return why a published group has no more ages; "" where there are none."""
    iteration = release.iterations[published.code]
    level = Level(published.region.type, iteration.level)
    more = SHAPES.index(published.shape) + 1
    if level.nation_or_state and iteration.total_only:
        return "For the nation and states this iteration is tabulated as a total alone."
    if more == len(SHAPES):
        return ""
    first = "first total" if published.noise.law is None else "noisy first total"
    starts = release.levels[level].thresholds[more - 1]
    return f"{TABLE_NAMES[SHAPES[more]].capitalize()} is for groups with a {first} of {starts:,} or more."


def describe_law(release: Release, published: Published | None) -> str:
    """Return the noise of a published total in words."""
    if published is None or published.noise.law is None:
        return ""
    law, cells = published.noise.law, published.noise.cells
    deviation = (law.variance() * cells) ** 0.5
    answer = "one noisy answer" if cells == 1 else f"the sum of {cells} noisy cells"
    spread = f"{deviation:,.0f}" if deviation >= 100 else f"{deviation:.3g}"
    relative = f", {deviation / published.count:.1%} of the count" if published.count > 0 else ""
    return f"{answer}, {law.name}; standard error {spread}{relative}"


def present_level(facts: LevelFacts) -> LevelRow:
    """Return the row of a level."""
    published, margins = facts.published, facts.margins_at(confidence())
    return LevelRow(
        slug=facts.level.slug,
        name=facts.level.name,
        regions=facts.regions,
        iterations=facts.iterations,
        groups=facts.groups,
        published=sum(published.values()),
        by_shape={name: published[name] + (published["total_only"] if name == "total" else 0) for name in SHAPES},
        margins={name: margins[name] for name in SHAPES},
        suppressed_up_to=facts.suppressed_up_to,
    )
