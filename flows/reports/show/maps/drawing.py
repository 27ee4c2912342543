"""Draw regions as symbols or shapes: sizes for counts, classes of colour for shares and margins."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log10, sqrt
from typing import Any

import numpy as np

from flows.reports.show.maps.boundaries import Places, centers_of, corners_of, path_of, paths_of
from flows.reports.show.maps.projection import PARTS, Floats, Projection, around, leeward, nation, within
from tasks.geography.names import names_of_2020
from tasks.geography.points import Point
from tasks.geography.regions import Region
from tasks.releases.pages import end_of_axis, number

MOST = 5  # classes, the number of colours
RELATIVE_MARGINS = (0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True)
class Classes:
    """Classes between breaks: class k, from 1, has the values from break k - 1 up to but excluding break k."""

    breaks: tuple[float, ...]

    def of(self, value: float) -> int:
        """Return the class of a value, from 1; with few classes, the middle numbers are skipped."""
        number = bisect_right(self.breaks, value)
        return 1 + round(number * (MOST - 1) / max(len(self.breaks), 1))

    def words(self) -> list[tuple[int, str]]:
        """Return each class and its range in percent."""
        texts = [f"{100 * one:.12g}%" for one in self.breaks]
        ends = [f"below {texts[0]}"] if texts else ["all values"]
        ends += [f"{low} to {high}" for low, high in pairwise(texts)]
        ends += [f"{texts[-1]} and more"] if texts else []
        values = [*(one - 1e-12 for one in self.breaks), self.breaks[-1] if self.breaks else 0.0]
        return [(self.of(value), text) for value, text in zip(values, ends, strict=True)]


def quantile_classes(values: Sequence[float]) -> Classes:
    """Return classes with about equally many values, between breaks of two digits."""
    if len(values) < 2:
        return Classes(())
    breaks = np.quantile(np.array(values), np.arange(1, MOST) / MOST).tolist()
    rounded = sorted({round(one, 1 - floor(log10(one))) for one in breaks if one > 0})
    return Classes(tuple(one for one in rounded if min(values) < one <= max(values)))


WIDTH, HIGHEST, EDGE = 960, 780, 40  # the picture's width, largest height and padding
KILOMETRES = 111.2  # per degree of latitude
SMALLEST = 1.6  # radius of a symbol
ROOM = 14  # distance of a hull from its points
BY_CODE = ("COUNTY", "TRACT")  # types whose codes begin with that of their county
LABELLED = 12  # the most regions with names on the map; more names would cover each other


@dataclass(frozen=True)
class MapRow:
    """A region of a map; count and the fields below it are None if nothing was published, or a margin is unknown.

    share: the count's share of a whole, with its margin; relative: the margin as a share of the count. why: why the
        count is missing.
    """

    type: str
    id: str
    address: str
    name: str
    count: float | None
    margin: float | None = None
    share: float | None = None
    share_margin: float | None = None
    why: str = ""

    @property
    def region(self) -> Region:
        """The region."""
        return Region(self.type, self.id)

    @property
    def relative(self) -> float | None:
        """The margin as a share of the count; infinite for a count of 0 or less."""
        if self.count is None or self.margin is None:
            return None
        return self.margin / self.count if self.count > 0 else float("inf")

    def value(self, by: str) -> float | None:
        """Return the value that a map shows."""
        return {"count": self.count, "share": self.share, "margin": self.relative}[by]

    @property
    def words(self) -> str:
        """The region and its values, in one line."""
        if self.count is None:
            return f"{self.name}: {self.why}"
        words = f"{self.name}: {self.count:,}" + (f" ± {self.margin:,.12g}" if self.margin is not None else "")
        return words + (f", {100 * self.share:.3g}%" if self.share is not None else "")


@dataclass(frozen=True)
class Symbol:
    """A circle, or a shape by its path ("" for a circle), in the units of the picture; label: its name."""

    address: str
    words: str
    style: str
    x: float
    y: float
    radius: float
    path: str
    label: str


@dataclass(frozen=True)
class Legend:
    """An entry of the legend, in a style: a circle or, for radius 0, a square."""

    style: str
    radius: float
    words: str


@dataclass(frozen=True)
class Drawing:
    """A map: outlines first, with names, then symbols.

    scale: a round distance in words, and its length; 0 for a map of the nation, which has several scales. sizes:
    circles of round counts, at the scale of the map, the largest first; legend: the meaning of the styles; moved: a
    sentence on regions that are drawn elsewhere; unplaced: the number of regions without a place.
    """

    height: float
    outlines: Sequence[str]
    names: Sequence[tuple[str, float, float]]
    scale: tuple[str, float]
    symbols: Sequence[Symbol]
    sizes: Sequence[Legend]
    legend: Sequence[Legend]
    moved: str
    unplaced: int


def draw(
    rows: Sequence[MapRow],
    by: str,
    places: Places,
    *,
    of_nation: bool,
    classes: Classes | None,
    missing: str,
) -> Drawing:
    """Draw regions, those with the largest values first; regions with neither a shape nor a point are only counted.

    by: the value to draw: count, share or margin. of_nation: whether the map is of the nation, not of one state or a
    part of it. classes: the colour classes; None to show counts by size. missing: the reason why a region has no value,
    for the legend.
    """
    points = places.points
    shaped = {item.region: places.shapes[item.region] for item in rows if item.region in places.shapes}
    placed = [item for item in rows if item.region in shaped or item.region in points]
    centers = centers_of(shaped)
    degrees = np.array([centers.get(item.region) or points[item.region][::-1] for item in placed])
    if not placed:
        return Drawing(0, (), (), ("", 0), (), (), (), "", len(rows))
    hulls = {} if shaped else outlined([item.region for item in placed], points, of_nation=of_nation)
    bounds = [corners_of(shaped)] if shaped else [np.array(of)[:, ::-1] for of in hulls.values()]
    framed = np.concatenate([degrees, *bounds])
    projection = nation if of_nation else around(float((framed[:, 1].min() + framed[:, 1].max()) / 2))
    frame = _Frame.around(projection, framed)
    xy = frame.place(degrees)
    paths = paths_of(shaped, frame.place) if shaped else {}
    largest = max((item.value(by) or 0 for item in placed), default=0)
    widest = frame.widest(len(placed))
    fill = classes is not None
    symbols = []
    for item, (x, y) in zip(placed, xy.tolist(), strict=True):
        path = paths.get(item.region, "") if fill else ""
        radius = round(max(2.8, min(9.0, widest / 4)), 1) if fill else _radius(item.value(by), largest, widest)
        label = item.name if len(placed) <= LABELLED and (of_nation or item.region not in hulls) else ""
        style, at = _style(item.value(by), classes), (round(x, 1), round(y, 1))
        symbols.append(Symbol(item.address, item.words, style, *at, radius, path, label))
    around_points = {region: _hull(frame.place(np.array(of)[:, ::-1])) for region, of in hulls.items()}
    outlines = [*map(path_of, around_points.values())] or ([] if fill else list(paths.values()))
    under = {item.region: (one.x, one.y + one.radius + 16) for item, one in zip(placed, symbols, strict=True)}
    names = [] if of_nation else _names(around_points, under)
    moved = _moved(degrees) if of_nation else ""
    swatch = 0 if fill and paths else 6
    legend = [Legend(f"m{number}", swatch, words) for number, words in (classes.words() if classes else ())]
    if any(item.value(by) is None for item in placed):
        legend.append(Legend("absent", swatch, missing))
    sizes = [] if fill else _sizes(largest, widest)
    scale = ("", 0.0) if of_nation else frame.scale_bar()
    return Drawing(frame.height, outlines, names, scale, symbols, sizes, legend, moved, len(rows) - len(placed))


def _style(value: float | None, classes: Classes | None) -> str:
    if value is None:
        return "absent"
    return f"m{classes.of(value)}" if classes else "sized"


def _radius(value: float | None, largest: float, widest: float) -> float:
    """Return the radius of a circle whose area shows a count."""
    if value is None or largest <= 0:
        return round(max(SMALLEST, widest / 6), 1)
    return round(max(SMALLEST, widest * sqrt(max(value, 0) / largest)), 1)


def _sizes(largest: float, widest: float) -> list[Legend]:
    end = end_of_axis(max(largest, 1))
    counts = [one for one in (end, end / 2, end / 10, end / 40) if 1 <= one <= largest][:3]
    return [Legend("sized", _radius(one, largest, widest), number(round(one))) for one in counts]


def _moved(degrees: Floats) -> str:
    names = [part.name for part in PARTS if within(part, degrees).any()]
    if not names:
        return ""
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    smaller = ", Alaska at about a third of the scale" if "Alaska" in names else ""
    return f"{listed} {'is' if len(names) == 1 else 'are'} moved{smaller}."


@dataclass(frozen=True)
class _Frame:
    """A projection, fitted into the picture."""

    projection: Projection
    scale: float
    corner: Floats
    height: float

    @classmethod
    def around(cls, projection: Projection, degrees: Floats) -> _Frame:
        """Fit points into the picture."""
        plane = projection(degrees[~leeward(degrees)])
        low, high = plane.min(axis=0), plane.max(axis=0)
        span = np.maximum(high - low, 1e-4)
        scale = min((WIDTH - 2 * EDGE) / span[0], (HIGHEST - 2 * EDGE) / span[1])
        height = float(np.ceil(span[1] * scale + 2 * EDGE))
        left = (WIDTH - span[0] * scale) / 2
        return cls(projection, scale, low - [left / scale, EDGE / scale], height)

    def place(self, degrees: Floats) -> Floats:
        """Return the positions of points in the picture."""
        placed: Floats = (self.projection(degrees) - self.corner) * self.scale
        return placed

    def scale_bar(self) -> tuple[str, float]:
        """Return a round distance and its length in the picture, for a map that is true north to south."""
        far = end_of_axis(KILOMETRES / self.scale * WIDTH / 10)
        return f"{number(far)} km", round(far * self.scale / KILOMETRES, 1)

    def widest(self, count: int) -> float:
        """Return the radius of the largest circle, given their number."""
        return round(min(36.0, max(5.0, 0.7 * sqrt(WIDTH * self.height / count / 3.14))), 1)


def outlined(shown: Sequence[Region], points: Mapping[Region, Point], *, of_nation: bool) -> dict[Region, list[Point]]:
    """Return the points in the counties, or states, that contain the shown regions."""
    kind, digits = ("STATE", 2) if of_nation else ("COUNTY", 5)
    by_code = all(region.type.removeprefix("PR-") in BY_CODE for region in shown)
    within = {region.id[: digits if by_code else 2] for region in shown}
    found: dict[Region, list[Point]] = {}
    for region, point in sorted(points.items()):
        if region.type.removeprefix("PR-") in BY_CODE and region.id.startswith(tuple(within)):
            found.setdefault(Region.named(kind, region.id[:digits]), []).append(point)
    return found


def _hull(plane: Floats) -> Any:
    """Return a shape around points, with some distance from them."""
    import shapely

    return shapely.MultiPoint(plane).convex_hull.buffer(ROOM).simplify(1)


def _names(hulls: Mapping[Region, Any], under: Mapping[Region, Point]) -> list[tuple[str, float, float]]:
    """Return the names of counties and their positions: under a county's symbol, or in the part that is only its own.

    Hulls of neighbours overlap: a name within another county's hull would be read as that county's.
    """
    import shapely

    names = []
    for region, hull in hulls.items():
        name = names_of_2020().get(region, f"County {region.id}").removesuffix(" County")
        own = hull.difference(shapely.union_all([other for other in hulls.values() if other is not hull]))
        x, y = under.get(region) or _highest(hull if own.is_empty else own, 4.5 * len(name))
        names.append((name, round(x, 1), round(y, 1)))
    return names


def _highest(shape: Any, half: float) -> Point:
    """Return the highest point of a shape with space for a line of text of this half width; else a point within it."""
    import shapely
    from shapely.affinity import translate

    fits = translate(shape, half).intersection(translate(shape, -half)).buffer(-12)
    corners = shapely.get_coordinates(shape.representative_point() if fits.is_empty else fits)
    x, y = corners[corners[:, 1].argmin()].tolist()
    return x, y + 5
