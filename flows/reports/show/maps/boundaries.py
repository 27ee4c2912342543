"""Boundaries of regions from a file of the user's: GeoJSON, GeoPackage, or a shapefile, zipped as it is downloaded.

A feature is of the region whose code its GEOID has, as in the Census Bureau's cartographic boundary files; the number
of digits tells the type. Coordinates are degrees of longitude and latitude.
(https://www.census.gov/geographies/mapping-files/time-series/geo/cartographic-boundary.html)
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from flows.reports.show.maps.projection import Floats, unwrapped
from tasks.inputs.regions import Region
from tasks.lifecycle.errors import Refused

CODES = ("GEOID", "GEOID20", "GEOID10", "GEO_ID", "AFFGEOID", "AIANNHCE")  # columns that may hold a region's code
TYPES = {2: "STATE", 5: "COUNTY", 11: "TRACT", 7: "PLACE", 10: "COUSUB", 4: "AIANNH"}  # by digits
DRIVERS = {"ESRI Shapefile", "GeoJSON", "GPKG"}  # of GDAL
LIST_DRIVERS = "import pyogrio; print(*pyogrio.list_drivers(), sep=',')"
SUFFIXES = (".geojson", ".json", ".gpkg", ".zip", ".shp")
REMEDY = "give GeoJSON, a GeoPackage or a shapefile, zipped as it is downloaded"
TOLERANCE = 0.4  # units of the picture within which a line may be simplified
KEPT = 8  # maps whose paths are kept


class Shapes:
    """The shapes of regions, in degrees."""

    def __init__(self, shapes: Mapping[Region, Any]) -> None:
        self._shapes = dict(shapes)
        self._centers: dict[Region, tuple[float, float]] = {}
        self._paths: dict[tuple[Any, ...], dict[Region, str]] = {}
        self.types = {region.type for region in self._shapes}

    def of(self, keys: Iterable[Region]) -> dict[Region, Any]:
        """Return the shapes of those regions that have one."""
        return {key: self._shapes[key] for key in keys if key in self._shapes}

    def centers(self, keys: Iterable[Region]) -> dict[Region, tuple[float, float]]:
        """Return longitude and latitude of a point within the shape of each region."""
        for key in keys:
            if key not in self._centers:
                self._centers[key] = _center(self._shapes[key])
        return {key: self._centers[key] for key in keys}

    def bounds(self, shaped: Mapping[Region, Any]) -> Floats | None:
        """Return the corners of the boxes around shapes, in degrees."""
        import shapely

        if not shaped:
            return None
        boxes = np.array([shapely.bounds(part) for shape in shaped.values() for part in shapely.get_parts(shape)])
        corners: Floats = np.concatenate([boxes[:, [0, 1]], boxes[:, [0, 3]], boxes[:, [2, 1]], boxes[:, [2, 3]]])
        return corners

    def paths(self, keys: Sequence[Region], place: Callable[[Floats], Floats]) -> dict[Region, str]:
        """Return the SVG paths of regions; neighbours keep their common line when it is simplified."""
        import shapely

        corners = place(np.array([[-100.0, 40.0], [-70.0, 45.0]])).ravel().tolist()  # tell one frame from another
        known = (*keys, *corners)
        if known in self._paths:
            return self._paths[known]
        plane = shapely.transform(np.array([self._shapes[key] for key in keys]), place)
        try:
            plain = shapely.coverage_simplify(plane, TOLERANCE)
        except shapely.errors.GEOSException:  # shapes that overlap
            plain = shapely.simplify(plane, TOLERANCE)
        if len(self._paths) >= KEPT:
            self._paths.clear()
        self._paths[known] = {key: "".join(_rings(shape)) for key, shape in zip(keys, plain, strict=True)}
        return self._paths[known]


def _center(shape: Any) -> tuple[float, float]:
    import shapely

    parts = shapely.get_parts(shape)
    largest = parts[np.argmax(shapely.area(parts))]
    middle = largest.centroid
    point = middle if largest.contains(middle) else largest.representative_point()
    return point.x, point.y


def _rings(shape: Any) -> Iterator[str]:
    import shapely

    for ring in shapely.get_rings(shapely.get_parts(shape)):
        steps = np.round(shapely.get_coordinates(ring), 1).tolist()
        yield "M" + "L".join(f"{x:g} {y:g}" for x, y in steps[:-1]) + "Z"


def read_boundaries(paths: Sequence[Path]) -> Shapes | None:
    """Return the shapes in files; None without a file. Raises Refused where one has none of a region."""
    shapes: dict[Region, Any] = {}
    for path in paths:
        found = dict(_of_file(path))
        if not found:
            raise Refused(f"{path} has no areas with a code in a column {', '.join(CODES[:4])}: it names no region")
        shapes |= found
    return Shapes(shapes) if paths else None


@cache
def reader() -> Any:
    """Return pyogrio with drivers of three formats alone.

    GDAL goes by what a file holds, whatever its name ends with, and some drivers read the files and sites that it
    names. Those to leave out must be named before pyogrio is imported, so another process lists them.
    """
    listed = subprocess.run([sys.executable, "-P", "-c", LIST_DRIVERS], capture_output=True, text=True, check=True)
    os.environ["OGR_SKIP"] = ",".join(set(listed.stdout.strip().split(",")) - DRIVERS)
    import pyogrio

    if more := set(pyogrio.list_drivers()) - DRIVERS:
        raise Refused(f"boundaries are not read: GDAL cannot be kept from {', '.join(sorted(more))}")
    return pyogrio


def _of_file(path: Path) -> Iterator[tuple[Region, Any]]:
    import shapely

    pyogrio = reader()
    if not path.is_file() or path.suffix.lower() not in SUFFIXES:  # a pipe would never end
        raise Refused(f"{path} is no file of boundaries: {REMEDY}")
    try:
        about, _, geometry, columns = pyogrio.raw.read(path)
    except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError, ValueError, RuntimeError):
        raise Refused(f"{path} cannot be read as boundaries: {REMEDY}") from None
    names = list(about["fields"])
    column = next((name for name in CODES if name in names), None)
    if column is None or geometry is None:
        return
    shapes = shapely.from_wkb(geometry, on_invalid="ignore")
    areas = np.isin(shapely.get_type_id(shapes), (3, 6))  # polygons and multipolygons
    west, south, east, north = shapely.total_bounds(shapes[areas])
    if west < -180 or east > 180 or south < -90 or north > 90:
        raise Refused(f"{path} is not in degrees of longitude and latitude: convert it (EPSG:4269 or EPSG:4326)")
    for code, shape in zip(columns[names.index(column)][areas], shapes[areas], strict=True):
        plain = str(code).rpartition("US")[2].removesuffix("R")
        if plain.isdecimal() and len(plain) in TYPES:
            region = Region.named(TYPES[len(plain)], plain)
            yield region, shapely.transform(shape, unwrapped)
