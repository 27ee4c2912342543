"""Files of boundaries as people have them: no shape is given to another region, and no refusal blames the release."""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyogrio
import pytest
import shapely

from flows.reports.show.maps.boundaries import read_boundaries
from flows.reports.show.maps.boundary_codes import regions_of
from tasks.errors import Refused
from tasks.records.files import is_passed_over, members

SQUARE = shapely.box(-98, 40, -97, 41)


def layer(*codes: str | None, column: str = "GEOID", number: bool = False, fields: str = "GEOID NAME") -> pa.Table:
    """What the reader finds in a layer."""
    words = {"layer": "a", "column": column, "fields": fields, "number": number}
    return pa.table({**{name: [value] * len(codes) for name, value in words.items()}, "code": list(codes)})


READ = {  # codes as they are in a column, and the regions that they are
    "counties as text": (layer("31001", "01001"), ["COUNTY/31001", "COUNTY/01001"]),
    "counties of two lengths, as numbers": (layer("1001", "31001", number=True), ["COUNTY/01001", "COUNTY/31001"]),
    "counties beside a missing value": (layer("6001.0", "", "31001.0"), ["COUNTY/06001", None, "COUNTY/31001"]),
    "tracts of two states, as numbers": (
        layer("1001020100", "31001020100", number=True),
        ["TRACT/01001020100", "TRACT/31001020100"],
    ),
    "states below 10 beside others, as numbers": (layer("1", "31", number=True), ["STATE/01", "STATE/31"]),
    "places as numbers": (layer("100124", number=True), ["PLACE/0100124"]),
    "places, whose first zero is there": (layer("0100124", "3103950"), ["PLACE/0100124", "PLACE/3103950"]),
    "AIANNH areas below 1000, as numbers": (layer("10", "2430", "110", number=True), None),
    "AIANNH areas of three digits, as numbers": (layer("110", "275", number=True), ["AIANNH/0110", "AIANNH/0275"]),
    "AIANNH areas by their own column": (layer("1001", column="AIANNHCE", number=True), ["AIANNH/1001"]),
    "AIANNH areas as text": (layer("2430R", "2430T", "1340"), ["AIANNH/2430", None, "AIANNH/1340"]),
    "codes with their level": (
        layer("0500000US01001", "1400000US31001020100", "2500000US1001", "860Z200US31001", column="GEOIDFQ"),
        ["COUNTY/01001", "TRACT/31001020100", "AIANNH/1001", None],
    ),
    "counties in a metropolitan file's columns": (
        layer("31001", fields="STATEFP COUNTYFP GEOID CSAFP CBSAFP"),
        ["COUNTY/31001"],
    ),
    "ZIP code areas, which have five digits too": (layer("31001", fields="ZCTA5CE20 GEOID20"), [None]),
    "legislative districts": (layer("31001", fields="STATEFP SLDUST GEOID"), [None]),
    "congressional districts": (layer("3101", fields="STATEFP20 CD118FP GEOID20"), [None]),
    "metropolitan areas": (layer("31080", fields="CSAFP CBSAFP GEOID"), [None]),
    "Puerto Rico's": (layer("72001", "72"), ["PR-COUNTY/72001", "PR-STATE/72"]),
    "what is no code": (layer("A1001", "31001x", None, "-31001", "٣١٠٠١"), [None] * 5),
}
REFUSED = {  # codes that may be of two types, and both of them
    "counties below 10 as numbers": (layer("1001", "1003", number=True), "county 01001 or AIANNH area 1001"),
    "the same as text": (layer("1001", "1003"), "county 01001 or AIANNH area 1001"),
    "the same beside others, as text": (layer("1001", "31001"), "county 01001 or AIANNH area 1001"),
    "the same as halves of a number": (layer("1001.0", "1003.0"), "county 01001 or AIANNH area 1001"),
    "tracts below 10 as numbers": (layer("1001020100", number=True), "county subdivision 1001020100 or tract 0100"),
    "the same tracts as text": (layer("6001400100"), "county subdivision 6001400100 or tract 06001400100"),
    "county subdivisions as numbers": (layer("1300190010", number=True), "subdivision 1300190010 or tract 01300190010"),
    "states as numbers": (layer("31", "46", number=True), "state 31 or AIANNH area 0031"),
    "states, counties and tracts as numbers": (layer("1", "1001", "1001020100", number=True), "of several types"),
}


@pytest.mark.parametrize("words", READ)
def test_a_code_is_of_the_region_that_it_names(words: str) -> None:
    table, expected = READ[words]
    if expected is None:
        expected = ["AIANNH/0010", "AIANNH/2430", "AIANNH/0110"]
    assert [region and region.key for region in regions_of(Path("a.gpkg"), table)] == expected


@pytest.mark.parametrize("words", REFUSED)
def test_a_code_that_may_be_of_two_regions_is_refused(words: str) -> None:
    table, said = REFUSED[words]
    with pytest.raises(Refused, match=f"may be .*{said}.*: write GEOID as text with all its digits"):
        regions_of(Path("a.gpkg"), table)


def collection(*features: tuple[dict[str, Any], Any]) -> str:
    """A collection of features, each with its properties and shape, as GeoJSON."""
    made = [
        {
            "type": "Feature",
            "properties": properties,
            "geometry": json.loads(shapely.to_geojson(shape)) if shape else None,
        }
        for properties, shape in features
    ]
    return json.dumps({"type": "FeatureCollection", "features": made})


def shapefile(folder: Path, codes: list[str], column: str = "GEOID") -> list[Path]:
    """Write a shapefile of squares; return its files."""
    folder.mkdir()
    shapes = shapely.to_wkb([shapely.box(-98 + at, 40, -97 + at, 41) for at in range(len(codes))])
    values = [np.array(codes, object)]
    pyogrio.raw.write(folder / "cb.shp", shapes, values, [column], geometry_type="Polygon", crs="EPSG:4269")
    return sorted(folder.iterdir())


def archive(path: Path, files: dict[str, bytes]) -> Path:
    """Write a zip archive."""
    with zipfile.ZipFile(path, "w") as made:
        for name, content in files.items():
            made.writestr(name, content)
    return path


LEFT = {
    "__MACOSX/._cb.shp": b"x",
    ".DS_Store": b"x",
    "Thumbs.db": b"x",
    "cb_2020/Desktop.ini": b"x",
    "README.txt": b"x",
}


@pytest.mark.ci
def test_shapes_are_read_wherever_they_lie_in_an_archive(tmp_path: Path) -> None:
    files = {path.name: path.read_bytes() for path in shapefile(tmp_path / "one", ["31001", "31003"])}
    other = {path.name: path.read_bytes() for path in shapefile(tmp_path / "two", ["46003"])}
    geojson = collection(({"geoid": "31001"}, SQUARE)).encode()
    made = {
        "in a folder": ({f"cb_2020/{name}": content for name, content in files.items()} | LEFT, {"31001", "31003"}),
        "capitals": ({name.upper(): content for name, content in files.items()} | LEFT, {"31001", "31003"}),
        "two of them": ({f"{n}/{name}": c for n, of in enumerate((files, other)) for name, c in of.items()}, None),
        "GeoJSON with other JSON": ({"a/b/areas.geojson": geojson, "a/metadata.json": b'{"a": 1}'}, {"31001"}),
        "{braces} and spaces": ({f"a {{b}}/{name}": content for name, content in files.items()}, {"31001", "31003"}),
    }
    for name, (content, codes) in made.items():
        found = read_boundaries([archive(tmp_path / f"{name}.zip", content)])
        assert {region.id for region in found} == (codes or {"31001", "31003", "46003"}), name
    with pytest.raises(Refused, match="holds no file of boundaries"):
        read_boundaries([archive(tmp_path / "empty.zip", {**LEFT, "cb.zip": b"x", "__MACOSX/a.geojson": geojson})])


@pytest.mark.ci
def test_a_region_has_all_its_shapes(tmp_path: Path) -> None:
    east, west = shapely.box(-96, 40, -95, 41), shapely.box(-97, 40, -96, 41)
    crossed = shapely.Polygon([(0, 0), (1, 1), (1, 0), (0, 1)])
    path = tmp_path / "a.geojson"
    path.write_text(
        collection(
            ({"GEOID": "31001"}, SQUARE), ({"GEOID": "31001"}, east), ({"GEOID": "31003"}, SQUARE),
            ({"GEOID": "31003"}, west), ({"GEOID": "31005"}, crossed), ({"GEOID": "31005"}, SQUARE),
            ({"GEOID": "31007"}, None), ({"GEOID": None}, SQUARE), ({"GEOID": "31009"}, shapely.Point(1, 2)),
        )
    )  # fmt: skip
    found = {region.id: shape for region, shape in read_boundaries([path]).items()}
    assert found.keys() == {"31001", "31003", "31005"}
    assert (found["31001"].area, found["31003"].area) == (2, 2)
    other = tmp_path / "b.geojson"
    other.write_text(collection(({"GEOID": "31001"}, west)))
    both = read_boundaries([path, other])
    assert {region.id: shape.area for region, shape in both.items()}["31001"] == 3


@pytest.mark.ci
def test_every_layer_of_a_geopackage_is_read_and_a_curve_is_refused(tmp_path: Path) -> None:
    path, wkb = tmp_path / "a.gpkg", shapely.to_wkb([SQUARE])
    for name, column, code in (("notes", "NAME", "x"), ("tracts", "GEOID20", "31001020100"), ("states", "geoid", "31")):
        values = [np.array([code], object)]
        pyogrio.raw.write(
            path, wkb, values, [column], layer=name, geometry_type="Polygon", crs="EPSG:4269", append=path.exists()
        )
    assert {region.key for region in read_boundaries([path])} == {"TRACT/31001020100", "STATE/31"}
    corners = np.array([[-98, 40], [-97, 41], [-96, 40], [-97, 39], [-98, 40]], "<f8")
    ring = struct.pack("<BII", 1, 8, len(corners)) + corners.tobytes()
    curved = b"GP\0\1" + struct.pack("<i", 4269) + struct.pack("<BII", 1, 10, 1) + ring
    shutil.copy(path, tmp_path / "c.gpkg")
    with closing(sqlite3.connect(tmp_path / "c.gpkg", isolation_level=None)) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f'DROP TRIGGER "{name}"')
        database.execute("UPDATE states SET geom = ?", [curved])
        database.execute("UPDATE gpkg_geometry_columns SET geometry_type_name = ?", ["CURVEPOLYGON"])
    with pytest.raises(Refused, match=r"c\.gpkg has curved polygons"):
        read_boundaries([tmp_path / "c.gpkg"])


@pytest.mark.ci
def test_what_has_no_polygon_says_so(tmp_path: Path) -> None:
    lines, points = shapely.LineString([(0, 0), (1, 1)]), shapely.MultiPoint([(0, 0), (1, 1)])
    files = {
        "lines": collection(({"GEOID": "31001"}, lines), ({"GEOID": "31003"}, points)),
        "collections": collection(({"GEOID": "31001"}, shapely.GeometryCollection([SQUARE]))),
        "nothing": collection(),
        "null": collection(({"GEOID": "31001"}, None)),
    }
    for name, text in files.items():
        path = tmp_path / f"{name}.geojson"
        path.write_text(text)
        with pytest.raises(Refused, match=rf"{name}\.geojson has no polygon"):
            read_boundaries([path])


@pytest.mark.ci
def test_numbers_of_a_file_are_whole_beside_a_missing_value(tmp_path: Path) -> None:
    path = tmp_path / "a.geojson"
    path.write_text(collection(({"GEOID": 6001}, SQUARE), ({"GEOID": None}, SQUARE), ({"GEOID": 31001}, SQUARE)))
    assert {region.key for region in read_boundaries([path])} == {"COUNTY/06001", "COUNTY/31001"}
    path.write_text(path.read_text().replace("6001,", "6001.5,").replace("6001}", "6001.5}"))
    assert {region.key for region in read_boundaries([path])} == {"COUNTY/31001"}


PASSED_OVER = (
    "__MACOSX/._a.csv",
    ".DS_Store",
    "a/Thumbs.db",
    "THUMBS.DB",
    "~$plan.xlsx",
    "_SUCCESS",
    ".a.csv.crc",
    "a\\.b",
)


def test_one_rule_says_what_is_passed_over(tmp_path: Path) -> None:
    kept = ("GRF-C.txt", "a/b.csv", "plan_2020.csv", "ne2020.pl", "a~1.txt")
    assert all(map(is_passed_over, PASSED_OVER))
    assert not any(map(is_passed_over, kept))
    made = archive(tmp_path / "a.zip", dict.fromkeys((*PASSED_OVER, *kept), b"x"))
    assert {name.removeprefix("zip://").partition("::")[0] for name in members(str(made))} == set(kept)
