"""Names and points of regions: read once from a run's geography, kept with its prepared files, and released. Public.

They come from files of the geography, plain or zipped, as the Census Bureau publishes them:

* A geographic header of the P.L. 94-171 data, `??geo2020.pl` of a state or `usgeo2020.npl` of the nation: 97 fields
  without a header line; SUMLEV is the type. It has names.
* A Gazetteer file, `2020_Gaz_*_national.txt`: names and points; the type is in its name.
  (https://www.census.gov/programs-surveys/geography/technical-documentation/records-layout/gaz-record-layouts.html)
* `names.csv` and `points.csv`, as in a release, or from `das synth`.
* A block table has points of its blocks (points.py); the other files take precedence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from tasks.errors import Refused
from tasks.geography.blocks.files import block_tables, list_files
from tasks.geography.blocks.pl94 import BLOCK, PL94_FIELDS
from tasks.geography.names import NAMES, Names, name_of_nation, names_of_2020
from tasks.geography.points import POINTS, Points, points_of_blocks
from tasks.geography.region_files import KEY, RegionFile, Rows, rows_of
from tasks.geography.regions import NATION, Region
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.run_directory import RunDirectory
from tasks.records.files import file_name, open_file, why
from tasks.records.marks import GRF_FILE
from tasks.releases.description import Column, Table, number

KEPT = "prepared/regions"
LONGEST_LINE = 1 << 16  # bytes; longer lines are ignored
HEADER_LEVELS = {
    "040": "STATE",
    "050": "COUNTY",
    "060": "COUSUB",
    "140": "TRACT",
    "160": "PLACE",
    "250": "AIANNH",
    "280": "AIANNH",
}
GAZETTEERS = {
    "state": "STATE",
    "count": "COUNTY",
    "cousub": "COUSUB",
    "tract": "TRACT",
    "place": "PLACE",
    "_aiannh_": "AIANNH",  # not aiannhr, aiannhrt: only its reservation or its trust land
}
GAZETTEER_COLUMNS = dict(zip(("INTPTLAT", "INTPTLONG"), POINTS.columns, strict=True))
REGION_TYPE_WORDS = {
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
REGION_COLUMNS = (
    Column(
        "REGION_TYPE",
        "code",
        "the kind of region; a nation has the states of the run",
        REGION_TYPE_WORDS,
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
    (*REGION_COLUMNS, Column("NAME", "text", "the name of the region", role="name")),
    text=NAMES.file,
    key=KEY,
)
POINTS_TABLE = Table(
    "Points of regions, to draw them on a map",
    (
        *REGION_COLUMNS,
        number("LATITUDE", "degrees", "of a point of the region", role="latitude"),
        number("LONGITUDE", "degrees", "of the same point, east of Greenwich", role="longitude"),
    ),
    text=POINTS.file,
    key=KEY,
)


def keep_regions(run: RunDirectory, geography: str, others: Sequence[RunDirectory] = ()) -> None:
    """Save the names and points of a geography for a run, and for others that read the same; once.

    Raises Refused as `read_regions` does.
    """
    if lacking := [each / KEPT for each in (run, *others) if not (each / KEPT).exists()]:
        facts = read_regions(geography)
        for path in lacking:
            save_object(path, facts)


def write_regions(run: RunDirectory, out: Path, regions: Callable[[Region], bool], states: Sequence[str] = ()) -> None:
    """Write names.csv, with names of 2020, and points.csv of some regions into OUT; omit points.csv without points.

    states: those of the run, which make up its nation; all by default.
    """
    names, points = load_object(run / KEPT, tuple[Names, Points]) if (run / KEPT).exists() else ({}, {})
    nation = {Region("USA", NATION): name_of_nation(states)}
    NAMES.write_release(out, {**nation, **names_of_2020(), **names}, regions)
    if any(map(regions, points)):
        POINTS.write_release(out, points, regions)


def read_regions(geography: str) -> tuple[Names, Points]:
    """Return the names and points in a geography by path or URL, as far as it has them.

    geography: a folder, an archive, or a file; next to GRF-C.txt, all files are read. The later file by name takes
        precedence.

    Raises Refused if a file of names or points cannot be read.
    """
    folder, _, file = geography.rstrip("/").rpartition("/")
    try:
        listed = list_files(folder if file == GRF_FILE else geography)
    except OSError:  # a store may allow reading files but not listing them
        listed = []
    names: Names = {}
    points = points_of_blocks([geography] if listed is None or file == GRF_FILE else block_tables(listed))
    for path in sorted([geography] if listed is None else listed):
        for row in _rows(path):
            NAMES.take(names, *row)
            POINTS.take(points, *row)
    return names, points


def _rows(path: str) -> Rows:
    """Yield the rows of a file in UTF-8 or Latin-1 (the Bureau's headers); none if it has no names or points."""
    name = file_name(path.partition("::")[0]).lower().removesuffix(".gz")
    own = next((each for each in (NAMES, POINTS) if name == each.file), None)
    reader: Callable[[Iterator[str]], Rows]
    if re.fullmatch(r"\d{4}_gaz_\w+\.txt", name):
        reader = partial(_read_gazetteer, name)
    elif name.endswith(("geo2020.pl", "geo2020.npl")):
        reader = _read_header
    elif own is not None:
        reader = partial(_read_own, own)
    else:
        return
    try:
        with open_file(path, compression="infer" if path.lower().endswith(".gz") else None) as stream:
            yield from reader(_lines(stream))
    except (OSError, NotImplementedError, RuntimeError) as error:  # also a password, or an unknown compression
        reason = why(error) if isinstance(error, OSError) else str(error)
        raise Refused(f"{path} cannot be read for names or points: {reason}") from None


def _lines(stream: IO[bytes]) -> Iterator[str]:
    for line in iter(partial(stream.readline, LONGEST_LINE), b""):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            text = line.decode("latin-1")
        yield text.removeprefix("\ufeff")


def _read_own(own: RegionFile[Any], lines: Iterator[str]) -> Rows:
    """Yield the rows of a file with a release's columns; other files of that name may have other content."""
    if next(lines, "").rstrip("\r\n") == own.header:
        yield from own.rows(lines)


def _read_gazetteer(file: str, lines: Iterator[str]) -> Rows:
    """Yield the rows of a Gazetteer file, a table with a header line; its delimiter is a bar since 2025."""
    kind = next((found for word, found in GAZETTEERS.items() if word in file), "")
    header = next(lines, "")
    delimiter = "|" if "|" in header else "\t"
    columns = [GAZETTEER_COLUMNS.get(column.strip(), column.strip()) for column in header.split(delimiter)]
    for row in rows_of(lines, columns, delimiter):
        # 2430R is area 2430's reservation, 2430T its trust land, whose name is skipped
        yield kind, row.get("GEOID", "").strip().removesuffix("R"), row


def _read_header(lines: Iterator[str]) -> Rows:
    """Yield the rows of a geographic header that describe a whole area."""
    level = PL94_FIELDS.index("SUMLEV")
    areas = (line for line in lines if line.split("|", level + 1)[level : level + 1] != [BLOCK])  # few lines are left
    for row in rows_of(areas, PL94_FIELDS):
        kind = HEADER_LEVELS.get(row["SUMLEV"], "")
        if row["GEOCOMP"] in ("", "00"):
            yield kind, row["AIANHH" if kind == "AIANNH" else "GEOCODE"].strip(), row
