"""Boundaries of regions from a user's file: GeoJSON, GeoPackage, or a shapefile, zipped as downloaded.

A feature belongs to the region with the code in its GEOID (boundary_codes.py). Coordinates are degrees of longitude and
latitude.
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

from flows.reports.show.maps.boundary_codes import regions_of
from flows.reports.show.maps.boundary_reader import CODES
from flows.reports.show.maps.projection import Floats, unwrapped
from tasks.errors import Refused
from tasks.geography.points import POINTS, Points, points_of_2020
from tasks.geography.regions import Region
from tasks.records.files import members

DRIVERS = {"ESRI Shapefile", "GeoJSON", "GPKG"}  # drivers of GDAL
LIST_DRIVERS = "import pyogrio; print(*pyogrio.list_drivers(), sep=',')"
SUFFIXES = (".geojson", ".json", ".gpkg", ".zip", ".shp")
SHAPES_IN_ARCHIVE = ((".shp", ".gpkg", ".geojson"), (".json",))  # next to shapes, JSON may be anything
CURVED = (10, 12)  # types in WKB
READER = "flows.reports.show.maps.boundary_reader"
SECONDS = 120  # limit for reading a file; the tracts of the nation take about 10
REMEDY = "give GeoJSON, a GeoPackage or a shapefile, zipped as it is downloaded"
TOLERANCE = 0.4  # units of the picture within which a line may be simplified
Shapes = Mapping[Region, Any]  # in degrees
Keys = Callable[[Path, pa.Table], Sequence[Any]]  # return the key of each shape of a table, or None


def centers_of(shapes: Shapes) -> dict[Region, tuple[float, float]]:
    """Return longitude and latitude of a point within the shape of each region."""
    import shapely

    points = shapely.point_on_surface(list(shapes.values()))
    return {region: (point.x, point.y) for region, point in zip(shapes, points, strict=True)}


def corners_of(shapes: Shapes) -> Floats:
    """Return the corners of the boxes around the parts of shapes, in degrees."""
    import shapely

    boxes = shapely.bounds(shapely.get_parts(list(shapes.values())))
    corners: Floats = np.concatenate([boxes[:, [0, 1]], boxes[:, [0, 3]], boxes[:, [2, 1]], boxes[:, [2, 3]]])
    return corners


def paths_of(shapes: Shapes, place: Callable[[Floats], Floats]) -> dict[Region, str]:
    """Return the SVG paths of regions, sorted; neighbours keep their common line when it is simplified."""
    import shapely

    regions = sorted(shapes)
    plane = shapely.transform(np.array([shapes[region] for region in regions]), place)
    return dict(zip(regions, map(path_of, simplified(plane, TOLERANCE)), strict=True))


def simplified(shapes: Any, tolerance: float) -> Any:
    """Return simplified shapes that keep their common lines or, if they overlap, shapes simplified one by one."""
    import shapely

    try:
        return shapely.coverage_simplify(shapes, tolerance)
    except shapely.errors.GEOSException:  # they overlap
        return shapely.simplify(shapes, tolerance)


def path_of(shape: Any) -> str:
    """Return the SVG path of a shape in the plane: its rings."""
    import shapely

    rings = shapely.get_rings(shapely.get_parts(shape))
    corners = (shapely.get_coordinates(ring)[:-1].round(1).tolist() for ring in rings)
    return "".join("M" + "L".join(f"{x:g} {y:g}" for x, y in ring) + "Z" for ring in corners)


def read_boundaries(paths: Sequence[Path], keys: Keys = regions_of) -> dict[Any, Any]:
    """Return the shapes in files by `keys`, which names those of a table; shapes of one key are merged.

    Raises Refused for a file without shapes.
    """
    found: dict[Any, list[Any]] = {}
    for path in paths:
        for key, shape in _shapes_in_file(path, keys):
            found.setdefault(key, []).append(shape)
    return {key: together(shapes) for key, shapes in found.items()}


def together(shapes: Sequence[Any]) -> Any:
    """Return the union of shapes."""
    import shapely

    try:
        return shapely.union_all(shapes) if len(shapes) > 1 else shapes[0]
    except shapely.errors.GEOSException:  # a ring crosses itself
        return shapely.multipolygons([part for shape in shapes for part in shapely.get_parts(shape)])


@cache
def other_drivers() -> str:
    """Return the drivers of GDAL to disable, which must be named before pyogrio is imported.

    GDAL goes by the contents of a file, whatever its name ends with, and some drivers read the files and sites that
    these contents name.
    """
    listed = subprocess.run([sys.executable, "-P", "-c", LIST_DRIVERS], capture_output=True, text=True, check=True)
    return ",".join(set(listed.stdout.strip().split(",")) - DRIVERS)


def _data_sets(path: Path) -> list[str]:
    """Return the paths for GDAL to open: the file itself, or all files of shapes in an archive."""
    if path.suffix.lower() != ".zip":
        return [str(path)]
    try:
        inside = [member.removeprefix("zip://").partition("::")[0] for member in members(str(path))]
    except (OSError, Refused):
        raise Refused(f"{path} cannot be read as boundaries: {REMEDY}") from None
    for suffixes in SHAPES_IN_ARCHIVE:
        if found := [f"/vsizip/{{{path.absolute()}}}/{name}" for name in inside if name.lower().endswith(suffixes)]:
            return found
    raise Refused(f"{path} holds no file of boundaries: {REMEDY}")


def _read(path: Path) -> pa.Table:
    """Read a file in a process of its own, which limits the time and memory that GDAL can take. Raises Refused."""
    if not path.is_file() or path.suffix.lower() not in SUFFIXES:  # a pipe would never end
        raise Refused(f"{path} is not a file of boundaries: {REMEDY}")
    environment = os.environ | {"OGR_SKIP": other_drivers()}
    program = [sys.executable, "-P", "-m", READER, ",".join(sorted(DRIVERS)), *_data_sets(path)]
    try:
        read = subprocess.run(program, capture_output=True, env=environment, timeout=SECONDS, check=True)
        return pa.ipc.open_stream(read.stdout).read_all()
    except subprocess.TimeoutExpired:
        raise Refused(f"{path} was not read within {SECONDS} seconds: {REMEDY}, without views") from None
    except (subprocess.CalledProcessError, pa.ArrowException):
        raise Refused(f"{path} cannot be read as boundaries: {REMEDY}") from None


def _shapes_in_file(path: Path, keys: Keys) -> Iterator[tuple[Any, Any]]:
    """Yield each polygon of a file with its key. Raises Refused without polygons, or for an uncertain region."""
    import shapely

    table = _read(path)
    if not len(table):
        raise Refused(f"{path} has no polygon: {REMEDY}")
    wkb = table["shape"].to_pylist()
    if any(one and _type_of(one) in CURVED for one in wkb):
        raise Refused(f"{path} has curved polygons: convert them, as by ogr2ogr -nlt CONVERT_TO_LINEAR")
    with np.errstate(invalid="ignore"):
        shapes = shapely.from_wkb(np.array(wkb, object), on_invalid="ignore")
    areas = np.isin(shapely.get_type_id(shapes), (3, 6)) & ~shapely.is_empty(shapes)  # polygons and multipolygons
    if not areas.any():
        raise Refused(f"{path} has no polygon: {REMEDY}")
    if not np.isfinite(shapely.get_coordinates(shapes[areas])).all():
        raise Refused(f"{path} has a coordinate that is not a number: {REMEDY}")
    west, south, east, north = shapely.total_bounds(shapes[areas])
    if west < -180 or east > 180 or south < -90 or north > 90:
        raise Refused(f"{path} is not in degrees of longitude and latitude: convert it (EPSG:4269 or EPSG:4326)")
    named = keys(path, table)
    if not any(key and area for key, area in zip(named, areas, strict=True)):
        raise Refused(f"{path} has no areas with a code in a column {', '.join(CODES)}: it names no region")
    for key, shape, area in zip(named, shapes, areas, strict=True):
        if key and area:
            yield key, shapely.transform(shape, unwrapped)


def _type_of(wkb: bytes) -> int:
    """Return the type of a shape in WKB, without the flags for further dimensions."""
    return int.from_bytes(wkb[1:5], "little" if wkb[0] else "big") % (1 << 16) % 1000


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
    """Return the places of the regions of a release. Raises Refused for a file without boundaries."""
    own = POINTS.of_release(release, manifest["files"])
    return Places({**points_of_2020(), **own}, read_boundaries(boundaries))
