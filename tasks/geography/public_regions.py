"""Names and points of the regions of a run: kept with what it prepares, and written into its release. Public."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tasks.geography.names import NAMES, Names, write_names
from tasks.geography.points import POINTS, Points, points_in, write_points
from tasks.geography.region_files import KEY
from tasks.geography.regions import Region
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.run_directory import RunDirectory
from tasks.releases.description import Column, Table, number

KEPT = "prepared/regions"
REGION_TYPES = {
    "USA": "nation",
    "STATE": "state",
    "COUNTY": "county or equivalent",
    "TRACT": "census tract",
    "PLACE": "place",
    "COUSUB": "county subdivision",
    "AIANNH": "American Indian, Alaska Native or Native Hawaiian area",
    "PR-STATE": "Puerto Rico",
    "PR-COUNTY": "municipio",
    "PR-TRACT": "census tract of Puerto Rico",
    "PR-PLACE": "place of Puerto Rico",
}
REGION = (
    Column(
        "REGION_TYPE",
        "code",
        "the kind of region; a nation has the states of the run",
        REGION_TYPES,
        title="Type of region",
        frame="region_type",
    ),
    Column(
        "REGION_ID",
        "code",
        "the region by the digits of its FIPS codes; 1 for the nation",
        title="Region",
        frame="region_id",
        region="{REGION_TYPE}",
        names="region",
    ),
)
NAMES_TABLE = Table(
    "Names of regions",
    (*REGION, Column("NAME", "text", "the name of the region", role="name")),
    text=NAMES.file,
    key=KEY,
)
POINTS_TABLE = Table(
    "Points of regions, to draw them on a map",
    (
        *REGION,
        number("LATITUDE", "degrees", "of a point of the region", role="latitude"),
        number("LONGITUDE", "degrees", "of the same point, east of Greenwich", role="longitude"),
    ),
    text=POINTS.file,
    key=KEY,
)


def keep_regions(run: RunDirectory, geography: str) -> None:
    """Keep the names and points that a geography, by path or URL, has of its regions."""
    save_object(run / KEPT, (NAMES.in_geography(geography), points_in(geography)))


def are_kept(run: RunDirectory) -> bool:
    """Return whether a run has kept names and points already; not of measurements of which only codes are published."""
    return (run / KEPT).exists()


def write_regions(run: RunDirectory, out: Path, regions: Callable[[Region], bool]) -> None:
    """Write names.csv and points.csv of some regions into OUT."""
    names, points = load_object(run / KEPT, tuple[Names, Points]) if are_kept(run) else ({}, {})
    write_names(out, names, regions)
    write_points(out, points, regions)
