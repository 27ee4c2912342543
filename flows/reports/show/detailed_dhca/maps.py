"""Maps of an iteration: its regions of a type by count, by share of a whole and by margin."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import hypot

from flows.reports.show.detailed_dhca.presenters import caveat, explain_missing, known_iteration, regions_above
from flows.reports.show.detailed_dhca.release import Published, Release
from flows.reports.show.detailed_dhca.search import one_iteration
from flows.reports.show.geography import NATION, PUERTO_RICO, Region, title
from flows.reports.show.maps.boundaries import Places
from flows.reports.show.maps.view import MapRow, MapView, link, map_of
from flows.reports.show.view import NotThere


def iteration_map(
    release: Release, places: Places, code: str, region_type: str, within: Region | None, asked: Mapping[str, str]
) -> MapView:
    """Return the map of an iteration in the regions of a type, in the nation or in one region.

    Shares are of the iteration's count in the containing region, or with `of` of another iteration's in each region.
    """
    iteration = known_iteration(release, code)
    if region_type not in places.types:
        raise NotThere(f"no points of {region_type} are known; das show --boundaries takes a file of their shapes")
    inside = within or _whole(region_type)
    regions = release.regions_in(region_type, within.child_prefix if within else "")
    kinds = title(region_type, several=True)
    if not regions or not release.scope.complete_in(inside):
        raise NotThere(release.scope.words or f"the release has no {kinds} there")
    prefix = within.child_prefix if within else ""
    found = {row.region: row for row in release.totals(region_type=region_type, prefix=prefix, code=code)}
    of = one_iteration(release, asked["of"], iteration.kind) if asked.get("of") else ""
    wholes, whole = _wholes(release, inside, region_type, prefix, code, of)
    around = {"type": region_type, "in": within.key if within else ""}
    return map_of(
        [_row(release, one, code, found.get(one), wholes.get(one if of else inside)) for one in regions],
        places,
        asked,
        title=f"{iteration.name}, {kinds} of {release.name(inside)}",
        reading=caveat(release, "iteration"),
        of_nation=inside.type == "USA",
        missing=next((explain_missing(release, one, iteration)[0] for one in regions if one not in found), ""),
        subject="persons in the group",
        whole=whole,
        where=[
            (iteration.name, link(f"iteration/{code}", **around)),
            (release.name(inside), f"group/{inside.key}/{code}"),
        ],
        links=partial(link, f"map/{code}", **around, of=of),
        form={"view": f"map/{code}", **around, "by": "share"},
    )


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
