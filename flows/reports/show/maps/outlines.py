"""Outlines of a map without boundaries: the hull of the points in each county, or of a nation in each state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from flows.reports.show.maps.projection import Floats
from tasks.inputs.names import names_of_2020
from tasks.inputs.points import Point
from tasks.inputs.regions import Region

ROOM = 14  # of a hull around its points, in units of the picture
BY_CODE = ("COUNTY", "TRACT")  # types whose codes begin with that of their county


def hulls(
    shown: Sequence[Region], points: Mapping[Region, Point], place: Callable[[Floats], Floats], *, of_nation: bool
) -> tuple[list[str], list[tuple[str, float, float]]]:
    """Return paths around the points of the counties, or states, that the shown regions are in; names of counties."""
    import shapely

    digits = 2 if of_nation else 5
    by_code = all(region.type.removeprefix("PR-") in BY_CODE for region in shown)
    within = {region.id[: digits if by_code else 2] for region in shown}
    found: dict[str, list[Point]] = {}
    for region, point in points.items():
        if region.type.removeprefix("PR-") in BY_CODE and region.id.startswith(tuple(within)):
            found.setdefault(region.id[:digits], []).append(point)
    paths, names = [], []
    for code, of in sorted(found.items()):
        hull = shapely.MultiPoint(place(np.array(of)[:, ::-1])).convex_hull.buffer(ROOM)
        corners = shapely.get_coordinates(hull.simplify(1)).round(1).tolist()
        paths.append("M" + "L".join(f"{x:g} {y:g}" for x, y in corners) + "Z")
        if not of_nation:
            kind = "PR-COUNTY" if code.startswith("72") else "COUNTY"
            names.append(
                (
                    names_of_2020().get(Region(kind, code), f"County {code}"),
                    round(hull.centroid.x, 1),
                    round(hull.bounds[1] + 14, 1),
                )
            )
    return paths, names
