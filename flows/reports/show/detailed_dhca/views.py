"""Make the views of a Detailed DHC-A release.

Margins of error are of the noise, at the confidence of the answer; those of sums and differences come from the exact
laws of their noise.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from flows.reports.show import search
from flows.reports.show.detailed_dhca.age_measures import age_measures
from flows.reports.show.detailed_dhca.ages import common_pyramids, differences, total_difference
from flows.reports.show.detailed_dhca.child_areas import groups_inside
from flows.reports.show.detailed_dhca.iterations import Iteration
from flows.reports.show.detailed_dhca.presenters import (
    CAVEATS,
    caveat,
    describe_law,
    explain_table,
    known_iteration,
    present_group,
    present_groups,
    present_iteration,
    present_level,
    present_region,
    regions_above,
)
from flows.reports.show.detailed_dhca.release import Release
from flows.reports.show.detailed_dhca.search import groups_named, index_of, iterations_named, regions_named
from flows.reports.show.detailed_dhca.view_models import (
    Comparison,
    GroupItem,
    GroupView,
    IterationItem,
    Iterations,
    IterationView,
    Overview,
    RegionView,
)
from flows.reports.show.geography import Region, title
from flows.reports.show.maps.view import link
from flows.reports.show.search import FOUND, Answer, Answers, FoundView, matches, words_of
from flows.reports.show.view import NotThere, limit, page_of
from tasks.detailed_dhca.pyramid import pyramid
from tasks.lifecycle.manifest import spend_of
from tasks.pages import number
from tasks.population_groups.levels import Level

ORDERS = {"": "COUNT DESC, REGION_ID", "code": "REGION_ID"}
ITERATION_KINDS = {
    "alone": "Alone",
    "combination": "Alone or in any combination",
    "ethnicity": "Hispanic or Latino",
    "": "All iterations",
}
LISTED = 60  # regions named within a region


def overview(release: Release) -> Overview:
    """Return the release as a whole: its levels, their noise, what was published."""
    manifest = release.manifest
    area = "Puerto Rico" if manifest["region"] == "PR" else "United States"
    first = next(iter(release.levels)).region_type
    tops = release.regions_in(first)[:1]
    states = [region for kind in ("STATE", "PR-STATE") for region in release.regions_in(kind)]
    return Overview(
        title=f"Detailed DHC-A, {area}",
        reading=caveat(release, "overview"),
        levels=[present_level(facts) for facts in release.levels.values()],
        largest=[present_region(release, region) for region in dict.fromkeys([*tops, *states])],
        spent=spend.rows() if (spend := spend_of(manifest)) else [],
        statements=manifest["statements"],
        states=len(manifest["geography"]["states"]),
        coterminous_sets=len(manifest["coterminous_sets"]),
    )


def region(
    release: Release, region: Region, query: str = "", level: str = "", sort: str = "", page: int = 1
) -> RegionView:
    """Return the published groups of a region whose iteration matches a query, the largest first or by code."""
    if region not in release.regions:
        raise NotThere(f"{region.key} is not a region of this release")
    rows = release.totals(region_type=region.type, region_id=region.id)
    level_of = {row.code: release.iterations[row.code].level for row in rows}
    counts = [
        (measured.iterations, Counter(level_of.values())[measured.iteration_level], facts.iterations)
        for measured, facts in release.levels.items()
        if measured.region_type == region.type
    ]
    wanted = words_of(query)
    rows = [
        row
        for row in rows
        if level in ("", str(level_of[row.code])) and matches(wanted, f"{row.code} {release.iterations[row.code].name}")
    ]
    rows.sort(key=(lambda row: row.code) if sort == "code" else (lambda row: (-row.count, row.code)))
    kinds = region.child_types if release.scope.complete_in(region) else ()
    inside = [(title(kind, several=True), release.regions_in(kind, region.child_prefix)) for kind in kinds]
    return RegionView(
        title=release.name(region),
        reading=caveat(release, "region"),
        region=present_region(release, region),
        above=[present_region(release, other) for other in regions_above(release, region)],
        coterminous=[present_region(release, other) for other in release.coterminous(region)],
        inside=[
            (words, len(regions), [present_region(release, other) for other in regions[:LISTED]])
            for words, regions in inside
            if regions
        ],
        page=page_of(len(rows), page, lambda shown: present_groups(release, rows[shown])),
        asked={"q": query, "level": level, "sort": sort},
        counts=counts,
    )


def iterations(release: Release) -> Iterations:
    """Return all iterations by kind, the Detailed ones within their Regional ones, in the order of their codes."""
    kinds = []
    for kind, heading in ITERATION_KINDS.items():
        own = sorted((one for one in release.iterations.values() if one.kind == kind), key=lambda one: one.code)
        regional = [(present_iteration(one), _detailed(release, one)) for one in own if one.level == 1]
        others = [present_iteration(one) for one in own if one.level > 1 and not one.regional]
        kinds += [(heading, regional, others)] if own else []
    return Iterations(title="Iterations by region of the world", reading=CAVEATS["iterations"], kinds=kinds)


def _detailed(release: Release, regional: Iteration) -> list[IterationItem]:
    """Return the Detailed iterations within a Regional one."""
    return [present_iteration(one) for one in release.iterations.values() if one.regional == regional.code]


def iteration(
    release: Release, code: str, region_type: str = "", within: Region | None = None, sort: str = "", page: int = 1
) -> IterationView:
    """Return the region types that an iteration is published for, and the regions of one, the largest first."""
    iteration = known_iteration(release, code)
    order = ORDERS["code" if sort == "code" else ""]
    prefix = within.child_prefix if within else ""
    by_type = []
    inside = f"&in={within.key}" if within else ""
    for measured, facts in release.levels.items():
        kind = measured.region_type
        if measured.iteration_level == iteration.level and (within is None or kind in within.child_types):
            listed = len(release.regions_in(kind, prefix))
            regions = listed if prefix or release.scope.state else facts.regions
            by_type.append((kind, regions, f"iteration/{code}&type={kind}{inside}"))
    if not by_type:
        raise NotThere(f"iteration {code} is not tabulated there")
    if within and not release.scope.complete_in(within):
        raise NotThere(release.scope.words)
    published = {kind: release.number(region_type=kind, prefix=prefix, code=code) for kind, *_ in by_type}
    if region_type and region_type not in published:
        raise NotThere(f"this iteration is not tabulated for {region_type}")
    chosen = region_type or next((kind for kind, number in published.items() if number), next(iter(published)))

    level = Level(chosen, iteration.level)

    def read(shown: slice) -> list[GroupItem]:
        part = f"ORDER BY {order} {limit(shown)}"
        return present_groups(release, release.totals(region_type=chosen, prefix=prefix, code=code, order=part))

    return IterationView(
        title=iteration.name + (f", {release.name(within)}" if within else ""),
        reading=caveat(release, "iteration"),
        iteration=present_iteration(iteration),
        within=present_region(release, within) if within else None,
        chosen=chosen,
        regional=present_iteration(release.iterations[iteration.regional]) if iteration.regional else None,
        detailed=_detailed(release, iteration),
        kinds=title(chosen, several=True),
        by_type=[
            (kind, title(kind, several=True), published[kind], regions, address) for kind, regions, address in by_type
        ],
        page=page_of(published[chosen], page, read),
        tables=[
            (words, link(f"table/{table}-{level.slug}", by_ITERATION_CODE=code, by_REGION_ID=prefix and f"{prefix}*"))
            for table, words in (("t1", "totals"), ("t2", "sex by age"))
        ],
    )


def group(release: Release, region: Region, code: str) -> GroupView:
    """Return one group: its count, its table, and the same iteration in other regions."""
    iteration = known_iteration(release, code)
    published = release.group(region, code)
    if region not in release.regions:
        raise NotThere(f"{region.key} is not a region of this release")
    parent = region.parent if region.parent in release.regions else None
    inside = [
        groups_inside(release, region, iteration, kind, published if kind == region.adds_up_from else None)
        for kind in region.child_types
    ]
    table = pyramid(release.cells(region, code)) if published and published.shape != "total" else None
    return GroupView(
        title=f"{iteration.name}, {release.name(region)}",
        reading=caveat(release, "group" if published else "missing"),
        group=present_group(release, region, iteration, published),
        law=describe_law(release, published),
        why_no_more=explain_table(release, published) if published else "",
        pyramid=table,
        measures=age_measures(table, published.margin, clipped=release.clipped) if table and published else (),
        coterminous=[present_region(release, other) for other in release.coterminous(region)],
        parents=[
            present_group(release, parent, iteration, release.group(parent, code))
            for parent in regions_above(release, region)
        ],
        siblings=groups_inside(release, parent, iteration, region.type, None) if parent else None,
        children=[children for children in inside if children],
    )


def compare(
    release: Release,
    a: tuple[Region, str],
    b: tuple[Region, str] | None,
    region_query: str = "",
    iteration_query: str = "",
) -> Comparison:
    """Return two groups side by side, with the margins of their differences; without the second, its candidates."""
    regions, iterations = [a[0]], [a[1]]
    if b is None:
        regions = regions_named(release, region_query) if region_query else regions
        iterations = iterations_named(release, iteration_query) if iteration_query else iterations
        if len(regions) == 1 and len(iterations) == 1:
            b = (regions[0], iterations[0])
    first = release.group(*a)
    asked = {"a": f"{a[0].key}/{a[1]}", "region": region_query, "iteration": iteration_query}
    left = present_group(release, a[0], known_iteration(release, a[1]), first)
    if b is None:
        return Comparison(
            title=f"Compare {left.iteration.name}, {left.region.name}",
            reading=CAVEATS["find"],
            a=left,
            asked=asked,
            regions=[present_region(release, region) for region in regions[:FOUND]],
            iterations=[present_iteration(release.iterations[code]) for code in iterations[:FOUND]],
        )
    second = release.group(*b)
    right = present_group(release, b[0], known_iteration(release, b[1]), second)
    same = bool(first and second and first.noise.source == second.noise.source)
    cells = [release.cells(*key) for key in (a, b)]
    measured = [
        age_measures(pyramid(of), one.margin, clipped=release.clipped)
        for one, of in zip((first, second), cells, strict=True)
        if one and of
    ]
    return Comparison(
        title=f"{left.iteration.name}, {left.region.name}, and {right.iteration.name}, {right.region.name}",
        reading=caveat(release, "same" if same else "compare"),
        a=left,
        b=right,
        same=same,
        total=total_difference(first, second),
        rows=differences(first, second, *cells) if first and second else (),
        pyramids=common_pyramids(first, second, *cells) if first and second else (),
        measures=list(zip(*measured, strict=True)) if len(measured) == 2 else (),
        asked=asked,
    )


def find(release: Release, query: str) -> FoundView:
    """Return the regions and iterations whose name or code matches a query, or its nearest, or else groups."""
    return search.find(query, CAVEATS["find"], index_of(release).vocabulary, partial(_answers, release))


def _answers(release: Release, query: str) -> list[Answers]:
    regions, iterations = regions_named(release, query), iterations_named(release, query)
    groups, total = ([], 0) if regions or iterations else groups_named(release, query)
    if groups:
        found = [_group_answer(release, *group) for group in groups]
        return [Answers("group", "groups", total, found)]
    places = [present_region(release, one) for one in regions[:FOUND]]
    codes = [present_iteration(release.iterations[code]) for code in iterations[:FOUND]]
    return [
        Answers(
            "geography",
            "geographies",
            len(regions),
            [Answer(f"region/{one.key}", one.kind, one.id, one.name, one.within) for one in places],
        ),
        Answers(
            "iteration",
            "iterations",
            len(iterations),
            [Answer(f"iteration/{one.code}", one.level, one.code, one.name) for one in codes],
        ),
    ]


def _group_answer(release: Release, region: Region, code: str) -> Answer:
    group = present_group(release, region, release.iterations[code], release.group(region, code))
    count = group.status if group.count is None else f"{number(group.count)} ± {number(group.margin or 0)}"
    return Answer(f"group/{group.key}", "group", group.key, f"{group.iteration.name}, {group.region.name}", count=count)
