"""Maps of `das show`: where regions are, what their symbols and colours show, and files of boundaries."""

from __future__ import annotations

import json
import math
import re
import shutil
import sqlite3
import struct
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pyogrio
import pytest
import shapely
from show_release import serving, urlopen

from flows.commands.show import open_release
from flows.reports.show.maps import boundaries, projection
from flows.reports.show.maps.boundaries import Places, read_boundaries
from flows.reports.show.maps.drawing import SMALLEST, Classes, MapRow, draw, outlined, quantile_classes
from flows.reports.show.view import NotThere
from tasks.errors import Refused
from tasks.geography.points import POINTS, points_of_2020
from tasks.geography.public_regions import read_regions
from tasks.geography.regions import Region
from tasks.releases.digests import file_digest
from tasks.releases.pages import style

GRF_C = """TABBLKST|TABBLKCOU|TABTRACTCE|TABBLK|PLACEFP|AIANNHCE|INTPTLAT|INTPTLON
44|007|000100|1000|59000|9999|+41.10|-071.30
44|007|000100|1001|99999|9999|+41.30|-071.50
44|007|000200|1000|59000|2415| |-071.50
02|016|000100|1000|99999|9999|+52.00|+179.00
02|016|000100|1001|99999|9999|+52.00|-179.00
72|001|000100|1000|99999|9999|+18.00|-066.00
"""


@pytest.fixture(scope="module")
def placed(released: Path, tmp_path_factory: pytest.TempPathFactory):
    """The small release with points of its tracts, in its manifest."""
    release = Path(shutil.copytree(released, tmp_path_factory.mktemp("placed") / "release"))
    regions = [line.split("|") for line in (release / "tabulated/regions.csv").read_text().splitlines()]
    tracts = [Region(*one) for one in regions if one[0] == "TRACT"]
    POINTS.write_release(
        release, {key: (30 + 0.01 * at, -90 + at % 7) for at, key in enumerate(tracts)}, lambda key: True
    )
    manifest = json.loads((release / "manifest.json").read_text())
    manifest["files"][POINTS.file] = file_digest(release / POINTS.file)
    (release / "manifest.json").write_text(json.dumps(manifest))
    return open_release(release)


def test_a_region_has_the_mean_of_its_blocks_points(tmp_path):
    (tmp_path / "GRF-C.txt").write_text(GRF_C)
    points = read_regions(str(tmp_path))[1]
    assert points[Region("TRACT", "44007000100")] == pytest.approx((41.2, -71.4))
    assert points[Region("COUNTY", "44007")] == pytest.approx((41.2, -71.4))  # a block without a latitude is left out
    assert points[Region("PLACE", "4459000")] == pytest.approx((41.1, -71.3))
    assert points[Region("COUNTY", "02016")] == pytest.approx((52, -180))  # across the line where days change
    assert Region("PR-COUNTY", "72001") in points
    assert {Region("TRACT", "44007000200"), Region("AIANNH", "2415")}.isdisjoint(points)
    POINTS.write_release(tmp_path, points, lambda key: key.type != "PLACE")
    kept = POINTS.of_release(tmp_path, [POINTS.file])
    assert kept == {key: pytest.approx(at, abs=1e-5) for key, at in points.items() if key.type != "PLACE"}
    assert POINTS.of_release(tmp_path, []) == {}
    (tmp_path / POINTS.file).unlink()
    (tmp_path / "GRF-C.txt").write_text(GRF_C.replace("INTPTLAT", "ELSE"))
    assert read_regions(str(tmp_path))[1] == {}


def test_the_conic_is_that_of_the_manual():
    """Snyder, Map Projections: A Working Manual, p. 291: the sphere's example."""
    part = projection.NationPart("", (0, 0, 0, 0), (29.5, 45.5), (-96, 23))
    assert projection.albers(np.array([[-75.0, 35.0]]), part)[0] == pytest.approx([0.2952720, 0.2416774], abs=2e-7)


def test_the_parts_of_the_nation_lie_apart():
    coded = [((region.type, region.id), at) for region, at in points_of_2020().items()]
    boxes = {}
    for codes in (("02",), ("15",), ("72",), sorted({code[:2] for (_, code), _ in coded} - {"02", "15", "72"})):
        degrees = np.array([at[::-1] for (_, code), at in coded if code[:2] in codes])
        plane = projection.nation(degrees)
        boxes[codes[0]] = (*plane.min(axis=0), *plane.max(axis=0))
    ours = [boxes[code] for code in ("02", "15", "72")]
    for at, one in enumerate(ours):
        for other in ours[at + 1 :]:
            assert one[2] < other[0] or other[2] < one[0]
        assert one[1] > np.median([projection.nation(np.array([[-98.0, 35.0]]))[0, 1]])  # below Oklahoma


DEFICIENT = {  # Machado, Oliveira, Fernandes, 2009, severity 1.0; linear RGB
    "none": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("deficiency", DEFICIENT)
@pytest.mark.parametrize("dark", [False, True])
def test_classes_differ_in_lightness_for_every_eye_and_in_grey(deficiency, dark):
    ramps = re.findall(r"--m1: (#\w{6}); --m2: (#\w{6}); --m3: (#\w{6}); --m4: (#\w{6}); --m5: (#\w{6})", style())
    colours = np.array([[int(one[at : at + 2], 16) / 255 for at in (1, 3, 5)] for one in ramps[dark]])
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.array(DEFICIENT[deficiency]).T, 0, 1) @ [0.2126, 0.7152, 0.0722]
    steps = np.diff(116 * np.cbrt(seen) - 16)  # CIE L*
    assert len(ramps) == 2
    assert (steps > 12).all() if dark else (steps < -12).all()


def test_classes_are_named_as_they_are_made():
    classes = quantile_classes([one / 1000 for one in range(1, 101)])
    assert classes.breaks == (0.021, 0.041, 0.06, 0.08)
    assert [classes.of(one) for one in (0.001, 0.021, 0.0599, 0.08, 5.0, float("inf"))] == [1, 2, 3, 5, 5, 5]
    assert [words for _, words in classes.words()][::4] == ["below 2.1%", "8% and more"]
    assert [number for number, _ in classes.words()] == [1, 2, 3, 4, 5]
    assert quantile_classes([0.2, 0.2, 0.2]).words() == [(1, "all values")]
    assert [number for number, _ in Classes((0.5,)).words()] == [1, 5]


def rows_of(release: Path, code: str) -> dict[str, tuple[int, int]]:
    """Count and margin by tract of an iteration."""
    rows = pd.read_parquet(release / "parquet/t1/tract-1.parquet")
    return {row.REGION_ID: (row.COUNT, row.MOE) for row in rows[code == rows.ITERATION_CODE].itertuples()}


def test_a_map_shows_each_region_by_its_count_share_or_margin(placed):
    address = {"view": "table-map/t1-tract-1", "by_ITERATION_CODE": "1002", "by_REGION_ID": "01*"}
    known = {code: row for code, row in rows_of(placed.folder, "1002").items() if code[:2] == "01"}
    listed = {region.id for region in placed.regions if region.type == "TRACT" and region.id[:2] == "01"}
    for by in ("count", "share", "margin"):
        view = placed.view({**address, "by": by})
        rows, symbols = [*view.page.rows, *view.missing], view.drawing.symbols
        assert len(symbols) == len(rows) == len(listed)
        assert view.title == "Iteration 1002: tracts of Alabama"
        assert [one.label for one in symbols] == [row.name for row in rows]
        assert {row.id: (row.count, row.margin) for row in rows if row.count is not None} == known
        assert {row.id for row in rows if row.count is None} == listed - set(known)
        assert all(row.why.startswith("Suppressed") for row in rows if row.count is None)
        assert [one.style == "absent" for one in symbols] == [row.count is None for row in rows]
        if by == "count":
            largest = symbols[0]
            for row, one in zip(rows, symbols, strict=True):
                expected = largest.radius * (max(row.count or 0, 0) / rows[0].count) ** 0.5
                assert row.count is None or one.radius == pytest.approx(max(expected, SMALLEST), abs=0.06)
        whole = sum(count for count, _ in known.values())
        assert all(row.share == pytest.approx(row.count / whole) for row in rows if row.count is not None)
    other = rows_of(placed.folder, "1001")
    among = placed.view({**address, "by": "share", "of": "1001"})
    shares = [row for row in among.page.rows if row.share is not None]
    assert shares
    for row in shares:
        count, margin = other[row.id]
        assert row.share == pytest.approx(row.count / count)
        assert row.share_margin == pytest.approx(math.hypot(row.margin, row.share * margin) / count)
    placed.places, kept = Places(), placed.places
    with pytest.raises(NotThere, match="no regions that a map can show"):
        placed.view(address)
    placed.places = kept


def test_a_map_is_served_without_scripts_and_its_table_is_whole(placed):
    tracts = "table-map/t1-tract-1&by_ITERATION_CODE=1002&by_REGION_ID=01"
    with serving(placed.folder) as page:
        with urlopen(f"{page}?view=group/STATE/01/1002") as answer:
            assert (
                "?view=table-map/t1-county-1&amp;by_ITERATION_CODE=1002&amp;by_REGION_ID=01*" in answer.read().decode()
            )
        with urlopen(f"{page}?view=group/COUNTY/01001/1002") as answer:  # a county leads to the map of its tracts
            assert f"?view={tracts}001*".replace("&", "&amp;") in answer.read().decode()
        with urlopen(f"{page}?view=region/COUNTY/01001") as answer:
            assert "Maps: <a" in answer.read().decode()
        with urlopen(f"{page}?view={tracts}*&by=share") as answer:
            text = answer.read().decode()
        with urlopen(f"{page}?view={tracts}*&format=csv") as answer:
            lines = answer.read().decode().splitlines()
    assert "<script" not in text
    assert 'style="' not in text  # the page's policy forbids both
    assert len(lines) - 1 == sum(region.type == "TRACT" and region.id[:2] == "01" for region in placed.regions)


def test_a_map_without_boundaries_has_outlines_around_the_points_of_counties():
    points = {Region("TRACT", f"{county}{at:06d}"): (41 + at, 71.0) for county in ("44001", "44003") for at in range(3)}
    counties = [Region("COUNTY", "44001"), Region("COUNTY", "44003")]
    assert list(outlined([Region("TRACT", "44001000000")], points, of_nation=False)) == counties[:1]  # that is shown
    assert list(outlined([Region("PLACE", "4400100")], points, of_nation=False)) == counties  # a code of no county
    assert list(outlined([counties[0]], points, of_nation=True)) == [Region("STATE", "44")]


NORTH = ((41.8, -71.8), (41.8, -71.4), (41.5, -71.6))  # latitude and longitude of tracts, of which one is far south
SOUTH = ((41.6, -71.8), (41.4, -71.8), (41.4, -71.4), (41.6, -71.4))


def test_a_map_of_counties_holds_their_outlines_and_names_each_once_within_its_own():
    """The hull of Providence's tracts reaches into that of Kent's, where a name would be read as the other's."""
    counties = {"44003": ((41.45, -71.6), SOUTH), "44007": ((41.75, -71.6), NORTH)}
    points = {Region("COUNTY", code): at for code, (at, _) in counties.items()}
    points |= {Region("TRACT", f"{code}{n:06d}"): at for code, (_, of) in counties.items() for n, at in enumerate(of)}
    for kind in ("COUNTY", "TRACT"):
        rows = [MapRow(one.type, one.id, "", one.id, 10) for one in points if one.type == kind]
        drawn = draw(rows, "count", Places(points), of_nation=False, classes=None, missing="")
        corners = [np.array(re.findall(r"[\d.]+", path), float).reshape(-1, 2) for path in drawn.outlines]
        hulls = [shapely.Polygon(one) for one in corners]
        assert hulls[0].intersection(hulls[1]).area > 0
        assert min(one.min() for one in corners) >= 0
        assert max(one[:, 1].max() for one in corners) <= drawn.height  # below it are the circles of the legend
        assert [name for name, *_ in drawn.names] == ["Kent", "Providence"]
        for own, (_, *at) in enumerate(drawn.names):
            assert [hull.contains(shapely.Point(at)) for hull in hulls] == [own == 0, own == 1]
        labelled = {one.label for one in drawn.symbols}
        assert labelled == ({""} if kind == "COUNTY" else {row.name for row in rows})


COUNTED = (("total", 0, 0), ("voting age", 0, 2), ("Hispanic", 0, 1), ("race: black", 2, 0))  # row, column of a table


def test_a_topdown_map_counts_what_the_tables_count(top_down_released):
    pages = open_release(top_down_released)
    for count, row, column in COUNTED:
        address = {"view": "table-map/histograms-persons-tabulation-county-counts", "by_statistic": count}
        view = pages.view({**address, "by": "share", "of": "total"})
        assert {one.id for one in view.page.rows} == {region.id for region in pages.regions if region.type == "COUNTY"}
        for one in view.page.rows:
            (race, *_) = pages.region(Region("COUNTY", one.id), {}).tables
            assert one.count == race.rows[row][1][column]
            assert one.share == pytest.approx(one.count / race.rows[0][1][0])
    assert dict(pages.region(Region("STATE", "46"), {}).around)["Maps"]


@pytest.fixture(scope="module")
def boundary_files(tmp_path_factory) -> dict[str, Path]:
    """Two counties side by side, with one line between them, in three formats."""
    folder = tmp_path_factory.mktemp("boundaries")
    squares = shapely.to_wkb([shapely.box(-87, 32, -86, 33), shapely.box(-86, 32, -85, 33)])
    codes = [np.array(["01001", "01003"], object)]
    made = {"geojson": folder / "a.geojson", "gpkg": folder / "a.gpkg", "shp": folder / "shape/a.shp"}
    (folder / "shape").mkdir()
    for path in made.values():
        pyogrio.raw.write(path, squares, codes, ["GEOID"], geometry_type="Polygon", crs="EPSG:4269")
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        for file in (folder / "shape").iterdir():
            archive.write(file, file.name)
    return {**made, "zip": folder / "a.zip"}


@pytest.mark.parametrize("kind", ["geojson", "gpkg", "zip"])
@pytest.mark.ci
def test_boundaries_of_every_format_give_the_same_shapes(kind, boundary_files, released):
    pages = open_release(released, boundaries=[boundary_files[kind]])
    address = {"view": "table-map/t1-county-1", "by_ITERATION_CODE": "1002", "by_REGION_ID": "01*"}
    view = pages.view({**address, "by": "share"})
    paths = [one.path for one in view.drawing.symbols if one.path]
    assert len(paths) == 2
    corners = [set(re.findall(r"[\d.]+ [\d.]+", path)) for path in paths]
    assert len(corners[0] & corners[1]) == 2  # the common line
    counted = pages.view(address)
    assert sorted(counted.drawing.outlines) == sorted(paths)  # circles over the outlines


@pytest.mark.ci
def test_a_file_that_is_no_boundaries_is_refused(tmp_path, boundary_files):
    (tmp_path / "a.zip").write_text("no shapes")
    with pytest.raises(Refused, match="cannot be read as boundaries: give GeoJSON"):
        read_boundaries([tmp_path / "a.zip"])
    other = boundary_files["geojson"]
    hostile = {  # GDAL goes by content: these would read what they name, another file or a site
        "vrt.json": "<OGRVRTDataSource><OGRVRTLayer name='a'>"
        f"<SrcDataSource>{other}</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>",
        "wfs.geojson": "<OGRWFSDataSource><URL>http://127.0.0.1:9/</URL></OGRWFSDataSource>",
        "alg.json": json.dumps({"type": "gdal_streamed_alg", "command_line": f"gdal vector pipeline ! read {other}"}),
    }
    for name, text in hostile.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(Refused, match="cannot be read as boundaries"):
            read_boundaries([tmp_path / name])
    for path in (tmp_path, tmp_path / "a.vrt"):
        with pytest.raises(Refused, match="is not a file of boundaries"):
            read_boundaries([path])
    square = shapely.to_wkb([shapely.box(500_000, 0, 600_000, 9)])
    for name, column, words in (("m", "GEOID", "is not in degrees"), ("n", "NAME", "names no region")):
        shape = square if name == "m" else shapely.to_wkb([shapely.box(1, 2, 3, 4)])
        codes = [np.array(["01001"], object)]
        pyogrio.raw.write(tmp_path / f"{name}.gpkg", shape, codes, [column], geometry_type="Polygon", crs="EPSG:5070")
        with pytest.raises(Refused, match=words):
            read_boundaries([tmp_path / f"{name}.gpkg"])


def test_a_layer_without_an_end_is_refused(tmp_path, boundary_files, monkeypatch):
    """A GeoPackage whose layer is a view that never ends."""
    path = tmp_path / "endless.gpkg"
    path.write_bytes(boundary_files["gpkg"].read_bytes())
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        ((table,),) = database.execute("SELECT table_name FROM gpkg_contents")
        database.execute(f'ALTER TABLE "{table}" RENAME TO other')
        database.execute(
            f'CREATE VIEW "{table}" AS WITH RECURSIVE row(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM row) '
            "SELECT n AS fid, geom, GEOID FROM row, other"
        )
    monkeypatch.setattr(boundaries, "SECONDS", 0.2)
    with pytest.raises(Refused, match=r"was not read within 0\.2 seconds"):
        read_boundaries([path])


def test_a_coordinate_that_is_no_number_is_refused(tmp_path):
    shape = [
        shapely.to_wkb(shapely.box(-87, 32, -86, 33)).replace(struct.pack("<d", 33.0), struct.pack("<d", math.nan))
    ]
    codes = [np.array(["01001"], object)]
    pyogrio.raw.write(
        tmp_path / "n.gpkg", np.array(shape, object), codes, ["GEOID"], geometry_type="Polygon", crs="EPSG:4269"
    )
    with pytest.raises(Refused, match=r"n\.gpkg has a coordinate that is not a number"):
        read_boundaries([tmp_path / "n.gpkg"])
