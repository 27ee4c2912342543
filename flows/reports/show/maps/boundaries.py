"""Boundaries of regions from a file of the user's: GeoJSON, GeoPackage, or a shapefile, zipped as it is downloaded.

A feature is of the region whose code its GEOID has, as in the Census Bureau's cartographic boundary files; the number
of digits gives the type. Coordinates are degrees of longitude and latitude.
(https://www.census.gov/geographies/mapping-files/time-series/geo/cartographic-boundary.html)
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flows.reports.show.maps.projection import Floats, unwrapped
from tasks.inputs.points import POINTS, Points, points_of_2020
from tasks.inputs.regions import Region
from tasks.lifecycle.errors import Refused

CODES = ("GEOID", "GEOID20", "GEOID10", "GEO_ID", "AFFGEOID", "AIANNHCE")  # columns that may hold a region's code
TYPES = {2: "STATE", 5: "COUNTY", 11: "TRACT", 7: "PLACE", 10: "COUSUB", 4: "AIANNH"}  # by digits
DRIVERS = {"ESRI Shapefile", "GeoJSON", "GPKG"}  # of GDAL
LIST_DRIVERS = "import pyogrio; print(*pyogrio.list_drivers(), sep=',')"
SUFFIXES = (".geojson", ".json", ".gpkg", ".zip", ".shp")
READER, GEOMETRY = "flows.reports.show.maps.boundary_reader", "geometry"
SECONDS = 120  # that a file may take; the tracts of the nation take some 10
REMEDY = "give GeoJSON, a GeoPackage or a shapefile, zipped as it is downloaded"
TOLERANCE = 0.4  # units of the picture within which a line may be simplified
Shapes = Mapping[Region, Any]  # in degrees


def centers_of(shapes: Shapes) -> dict[Region, tuple[float, float]]:
    """Return longitude and latitude of a point within the shape of each region."""
    return {region: _center(shape) for region, shape in shapes.items()}


def corners_of(shapes: Shapes) -> Floats:
    """Return the corners of the boxes around the parts of shapes, in degrees."""
    import shapely

    boxes = np.array([shapely.bounds(part) for shape in shapes.values() for part in shapely.get_parts(shape)])
    corners: Floats = np.concatenate([boxes[:, [0, 1]], boxes[:, [0, 3]], boxes[:, [2, 1]], boxes[:, [2, 3]]])
    return corners


def paths_of(shapes: Shapes, place: Callable[[Floats], Floats]) -> dict[Region, str]:
    """Return the SVG paths of regions, sorted; neighbours keep their common line when it is simplified."""
    import shapely

    regions = sorted(shapes)
    plane = shapely.transform(np.array([shapes[region] for region in regions]), place)
    try:
        plain = shapely.coverage_simplify(plane, TOLERANCE)
    except shapely.errors.GEOSException:  # shapes that overlap
        plain = shapely.simplify(plane, TOLERANCE)
    return dict(zip(regions, map(path_of, plain), strict=True))


def path_of(shape: Any) -> str:
    """Return the SVG path of a shape in the plane: its rings."""
    import shapely

    rings = shapely.get_rings(shapely.get_parts(shape))
    corners = (shapely.get_coordinates(ring)[:-1].round(1).tolist() for ring in rings)
    return "".join("M" + "L".join(f"{x:g} {y:g}" for x, y in ring) + "Z" for ring in corners)


def _center(shape: Any) -> tuple[float, float]:
    import shapely

    parts = shapely.get_parts(shape)
    largest = parts[np.argmax(shapely.area(parts))]
    middle = largest.centroid
    point = middle if largest.contains(middle) else largest.representative_point()
    return point.x, point.y


def read_boundaries(paths: Sequence[Path]) -> Shapes:
    """Return the shapes in files. Raises Refused where one has none of a region."""
    shapes: dict[Region, Any] = {}
    for path in paths:
        found = dict(_of_file(path))
        if not found:
            raise Refused(f"{path} has no areas with a code in a column {', '.join(CODES[:4])}: it names no region")
        shapes |= found
    return shapes


@cache
def other_drivers() -> str:
    """Return the drivers of GDAL to leave out, which must be named before pyogrio is imported.

    GDAL goes by what a file holds, whatever its name ends with, and some drivers read the files and sites that it
    names.
    """
    listed = subprocess.run([sys.executable, "-P", "-c", LIST_DRIVERS], capture_output=True, text=True, check=True)
    return ",".join(set(listed.stdout.strip().split(",")) - DRIVERS)


def _read(path: Path) -> pa.Table:
    """Read a file in a process of its own, which GDAL can only keep busy, and fill, so long. Raises Refused."""
    if not path.is_file() or path.suffix.lower() not in SUFFIXES:  # a pipe would never end
        raise Refused(f"{path} is no file of boundaries: {REMEDY}")
    environment = os.environ | {"OGR_SKIP": other_drivers()}
    program = [sys.executable, "-P", "-m", READER, str(path), *sorted(DRIVERS)]
    try:
        read = subprocess.run(program, capture_output=True, env=environment, timeout=SECONDS, check=True)
        return pa.ipc.open_stream(read.stdout).read_all()
    except subprocess.TimeoutExpired:
        raise Refused(f"{path} was not read within {SECONDS} seconds: {REMEDY}, without views") from None
    except (subprocess.CalledProcessError, pa.ArrowException):
        raise Refused(f"{path} cannot be read as boundaries: {REMEDY}") from None


def _of_file(path: Path) -> Iterator[tuple[Region, Any]]:
    import shapely

    table = _read(path)
    column = next((name for name in CODES if name in table.column_names), None)
    if column is None or GEOMETRY not in table.column_names:
        return
    with np.errstate(invalid="ignore"):
        shapes = shapely.from_wkb(table[GEOMETRY].to_numpy(), on_invalid="ignore")
    areas = np.isin(shapely.get_type_id(shapes), (3, 6)) & ~shapely.is_empty(shapes)  # polygons and multipolygons
    if not np.isfinite(shapely.get_coordinates(shapes[areas])).all():
        raise Refused(f"{path} has a coordinate that is no number: {REMEDY}")
    west, south, east, north = shapely.total_bounds(shapes[areas])
    if west < -180 or east > 180 or south < -90 or north > 90:
        raise Refused(f"{path} is not in degrees of longitude and latitude: convert it (EPSG:4269 or EPSG:4326)")
    for code, shape in zip(table[column].to_numpy()[areas], shapes[areas], strict=True):
        plain = str(code).rpartition("US")[2].removesuffix("R")
        if plain.isdecimal() and len(plain) in TYPES:
            region = Region.named(TYPES[len(plain)], plain)
            yield region, shapely.transform(shape, unwrapped)


@dataclass(frozen=True)
class Places:
    """Points, as (latitude, longitude), and shapes of regions."""

    points: Points = field(default_factory=dict)
    shapes: Shapes = field(default_factory=dict)

    @cached_property
    def types(self) -> frozenset[str]:
        """The region types that a map can show."""
        return frozenset(region.type for region in (*self.points, *self.shapes))


def places_of(release: Path, manifest: Mapping[str, Any], boundaries: Sequence[Path] = ()) -> Places:
    """Return where the regions of a release are. Raises Refused where a file of boundaries has none."""
    own = POINTS.of_release(release, manifest["files"])
    return Places({**points_of_2020(), **own}, read_boundaries(boundaries))
