"""Projections from degrees to the plane: equal areas for the nation, true distances at the middle of a state.

The nation is in Albers' equal-area conic projection; Alaska, Hawaii and Puerto Rico have their own, below the other
states as is usual (Snyder, Map Projections: A Working Manual, 1987, 14-1 to 14-6). A state is equirectangular.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Projection = Callable[[Floats], Floats]  # from (n, 2) degrees, longitude first, to (n, 2) in the plane, y down


@dataclass(frozen=True)
class NationPart:
    """A part of the nation: its conic, a point of it, the place of this point, and a scale.

    box: west, south, east, north in degrees, west of 180; parallels, longitude and center are degrees, `place` is in
    radii of the earth, y up.
    """

    name: str
    box: tuple[float, float, float, float]
    parallels: tuple[float, float]
    center: tuple[float, float]
    place: tuple[float, float] = (0.0, 0.0)
    scale: float = 1.0


CONTERMINOUS = NationPart("the other states", (-130, 23.6, -60, 50), (29.5, 45.5), (-96, 37.5))
PARTS = (
    NationPart("Alaska", (-190, 50, -129, 73), (55, 65), (-153, 63), (-0.30, -0.20), 0.35),
    NationPart("Hawaii", (-179, 18, -154, 29), (8, 18), (-157.5, 20.6), (-0.165, -0.215)),
    NationPart("Puerto Rico", (-69, 17, -64, 19.5), (8, 18), (-66.4, 18.2), (0.27, -0.235), 1.5),
)


def albers(degrees: Floats, part: NationPart) -> Floats:
    """Project by the conic of a part, its center at (0, 0); y up, in radii of the earth."""
    first, second = np.radians(part.parallels)
    longitude, latitude = np.radians(degrees - [part.center[0], 0]).T
    cone = (np.sin(first) + np.sin(second)) / 2
    size = np.cos(first) ** 2 + 2 * cone * np.sin(first)
    radius, at_center = (np.sqrt(size - 2 * cone * np.sin(of)) / cone for of in (latitude, np.radians(part.center[1])))
    return np.column_stack([radius * np.sin(cone * longitude), at_center - radius * np.cos(cone * longitude)])


def nation(degrees: Floats) -> Floats:
    """Project points of the nation; points outside all parts are projected with the conterminous states."""
    west = unwrapped(degrees)
    plane = albers(west, CONTERMINOUS)
    for part in PARTS:
        inside = within(part, west)
        plane[inside] = albers(west[inside], part) * part.scale + part.place
    return plane * [1, -1]


def within(part: NationPart, degrees: Floats) -> NDArray[np.bool_]:
    """Return which points are in the box of a part."""
    west, south, east, north = part.box
    longitude, latitude = unwrapped(degrees).T
    inside: NDArray[np.bool_] = (longitude >= west) & (longitude <= east) & (latitude >= south) & (latitude <= north)
    return inside


def leeward(degrees: Floats) -> NDArray[np.bool_]:
    """Return which points are in the uninhabited islands northwest of Hawaii, which a map may omit."""
    out: NDArray[np.bool_] = within(PARTS[1], degrees) & (degrees[:, 0] < -161)
    return out


def unwrapped(degrees: Floats) -> Floats:
    """Return degrees with the end of the Aleutians, beyond 180 degrees, west of the rest."""
    beyond = (degrees[:, 0] > 170) & (degrees[:, 1] > 48)
    return degrees - np.column_stack([360.0 * beyond, np.zeros(len(degrees))])


def around(latitude: float) -> Projection:
    """Return the equirectangular projection that is true at a latitude."""
    shrink = np.cos(np.radians(latitude))
    return lambda degrees: unwrapped(degrees) * [shrink, -1]
