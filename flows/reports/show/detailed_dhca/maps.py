"""Maps of an iteration: its regions of a type by count, by share of a whole and by margin."""

from __future__ import annotations

from functools import partial
from math import hypot

from flows.reports.show.detailed_dhca.caveats import caveat
from flows.reports.show.detailed_dhca.presenters import explain_missing, known_iteration, regions_above
from flows.reports.show.detailed_dhca.release import Published, Release
from flows.reports.show.detailed_dhca.search import one_iteration
from flows.reports.show.geography import NATION, PUERTO_RICO, Region, title
from flows.reports.show.maps.places import Places
from flows.reports.show.maps.view import BY, MapRow, MapView, drawing_of, key_of, link, page_of_rows
from flows.reports.show.view import NotThere

NO_SHARES = "the count is not published of which these are shares"
NO_MARGINS = "there are none"


def iteration_map(
    release: Release,
    places: Places,
    code: str,
    region_type: str,
    within: Region | None,
    by: str = "",
    of: str = "",
    page: int = 1,
) -> MapView:
    """Return the map of an iteration in the regions of a type, in the nation or in one region.

    Shares are of the iteration's count in the containing region, or with `of` of another iteration's in each region.
    """
    iteration = known_iteration(release, code)
    by = by or "count"
    if by not in BY:
        raise NotThere(f"a map is by {', '.join(BY)}, not by {by!r}")
    if region_type not in places.types:
        raise NotThere(f"no points of {region_type} are known; das show --boundaries takes a file of their shapes")
    inside = within or _whole(region_type)
    regions = release.regions_in(region_type, within.child_prefix if within else "")
    if not regions or not release.scope.complete_in(inside):
        raise NotThere(release.scope.words or f"the release has no {title(region_type, several=True)} there")
    prefix = within.child_prefix if within else ""
    found = {row.region: row for row in release.totals(region_type=region_type, prefix=prefix, code=code)}
    of = one_iteration(release, of, iteration.kind) if of else ""
    wholes, whole = _wholes(release, inside, region_type, prefix, code, of)
    rows = [_row(release, one, code, found.get(one), wholes.get(one if of else inside)) for one in regions]
    rows.sort(key=lambda row: (row.count is None, -(row.count or 0), row.id))
    there = {"count": True, "share": any(row.share is not None for row in rows), "margin": release_has_noise(found)}
    if not there[by]:
        raise NotThere(f"a map by {by} is not possible: {NO_SHARES if by == 'share' else NO_MARGINS}")
    missing = next((explain_missing(release, one, iteration)[0] for one in regions if one not in found), "")
    kinds = title(region_type, several=True)
    around = {"in": within.key if within else ""}
    map_by = partial(link, f"map/{code}", type=region_type, of=of, **around)
    of_nation = inside.type == "USA"
    return MapView(
        title=f"{iteration.name}, {kinds} of {release.name(inside)}",
        reading=caveat(release, "iteration"),
        drawing=drawing_of(rows, places, by, of_nation=of_nation, missing=missing),
        page=page_of_rows(rows, page),
        choices=[("Map by", [(one, map_by(by=one), one == by) for one in BY if there[one]])],
        where=[
            (iteration.name, link(f"iteration/{code}", type=region_type, **around)),
            (release.name(inside), f"group/{inside.key}/{code}"),
        ],
        subject="persons in the group",
        whole=whole,
        by=by,
        key=key_of(by, "persons in the group", whole),
        margins=there["margin"],
        asked={"view": f"map/{code}", "type": region_type, "in": around["in"], "by": "share"},
    )


def release_has_noise(found: dict[Region, Published]) -> bool:
    """Return whether published counts have margins."""
    return any(row.noise.law is not None for row in found.values())


def _whole(region_type: str) -> Region:
    return Region("PR-STATE", "72") if region_type.startswith(PUERTO_RICO) else Region("USA", NATION)


def _wholes(
    release: Release, inside: Region, region_type: str, prefix: str, code: str, of: str
) -> tuple[dict[Region, Published], str]:
    """Return the counts of which shares are, by region, and in words."""
    if of:
        other = known_iteration(release, of)
        rows = release.totals(region_type=region_type, prefix=prefix, code=of)
        return {row.region: row for row in rows}, f"among those of {other.name} in each {title(region_type)}"
    row = release.group(inside, code)
    return ({inside: row} if row else {}), f"of all persons of the group in {release.name(inside)}"


def _row(release: Release, region: Region, code: str, row: Published | None, whole: Published | None) -> MapRow:
    within = ", ".join(release.name(above) for above in regions_above(release, region) if above.type != "USA")
    address, name = f"group/{region.key}/{code}", release.name(region)
    if row is None:
        why = explain_missing(release, region, release.iterations[code])[1]
        return MapRow(region.type, region.id, address, name, within, None, why=why)
    margin = row.margin if row.noise.law is not None else None
    share = share_margin = None
    if whole is not None and whole.count > 0:
        share = row.count / whole.count
        if margin is not None:  # the noises of two groups are independent; to first order
            same = row.noise.source == whole.noise.source
            share_margin = 0.0 if same else hypot(margin, share * whole.margin) / whole.count
    return MapRow(region.type, region.id, address, name, within, row.count, margin, share, share_margin)
