"""Names of regions from public files of the Census Bureau, zipped or not, and from the file kept beside a release.

* A geographic header of the P.L. 94-171 data, `??geo2020.pl` of a state or `usgeo2020.npl` of the nation: 97 fields
  without a header line; SUMLEV is the type.
* A Gazetteer file, `2020_Gaz_*_national.txt`: GEOID and NAME under a header line; the type is in the file's name.
  (https://www.census.gov/programs-surveys/geography/technical-documentation/records-layout/gaz-record-layouts.html)
* A list of codes, `national_place2020.txt`, or `st44_ri_place2020.txt` of one state: fields between bars,
  the type by the columns in the header line. (https://www.census.gov/library/reference/code-lists/ansi.html)
"""

from __future__ import annotations

import csv
import io
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from flows.reports.show.geography import Region
from tasks.inputs.blocks.columns import PL94
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.received import LARGEST_READ, NotOfRelease, path_in

KEPT = "names.csv"
KEPT_COLUMNS = ["REGION_TYPE", "REGION_ID", "NAME"]
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
    "_aiannh_": "AIANNH",  # not aiannhr, aiannhrt: its reservation or its trust land alone
}
CODE_LISTS = [  # type, columns of its code, column of its name; a list of subdivisions names their counties too
    ("COUSUB", ("STATEFP", "COUNTYFP", "COUSUBFP"), "COUSUBNAME"),
    ("PLACE", ("STATEFP", "PLACEFP"), "PLACENAME"),
    ("AIANNH", ("AIANNHCE",), "AIANNHNAME"),
    ("COUNTY", ("STATEFP", "COUNTYFP"), "COUNTYNAME"),
    ("STATE", ("STATEFP",), "STATE_NAME"),
]
DIGITS = {"STATE": 2, "COUNTY": 5, "COUSUB": 10, "TRACT": 11, "PLACE": 7, "AIANNH": 4}
PART = " (part)"  # of an area that crosses a state line, in the header of one state
Names = dict[Region, str]


def read_names(paths: Iterable[Path]) -> Names:
    """Return the names of regions in files, or folders of such files. Raises Refused where one has none."""
    names: Names = {}
    for path in paths:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        found: Names = {}
        for file in files:
            found |= {region: _printable(name) for region, name in _of_file(file)}
        if not found:
            raise Refused(
                f"{path} holds no names: give a ??geo2020.pl, a Gazetteer file, a national_place2020.txt or the like "
                f"(or a zip of one), or a {KEPT} that --keep-names wrote"
            )
        names |= found
    return names


def names_for(release: Path, given: Names) -> Names:
    """Return the names kept beside a release, overridden by those given."""
    if not os.path.lexists(release / KEPT):
        return given
    try:
        return {**read_names([path_in(release, KEPT, LARGEST_READ)]), **given}
    except NotOfRelease as fault:
        raise Refused(f"{release}: {fault}") from None


def write_names(release: Path, names: Names) -> Path:
    """Keep names beside an unchanged release; return their file, which is not in the manifest."""
    path = release / KEPT
    draft = path.with_name(f".{KEPT}.{os.getpid()}")
    with draft.open("w", newline="") as file:
        table = csv.writer(file, delimiter="|", lineterminator="\n")
        table.writerow(KEPT_COLUMNS)
        table.writerows((region.type, region.id, name) for region, name in sorted(names.items()))
    os.replace(draft, path)
    return path


def _printable(name: str) -> str:
    """Return a name without control characters, which could steer a terminal."""
    return "".join(letter for letter in name if letter.isprintable())


def _of_file(path: Path) -> Iterator[tuple[Region, str]]:
    try:
        if not path.is_file():  # a pipe would never end
            return
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if reader := _reader(name):
                        yield from reader(_text(archive.read(name)))
        elif reader := _reader(path.name):
            yield from reader(_text(path.read_bytes()))
    # a damaged archive, a password, an unknown compression; a field longer than any name
    except (OSError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, csv.Error) as error:
        raise Refused(f"{path} cannot be read: {error}") from None


def _reader(name: str) -> Callable[[str], Iterator[tuple[Region, str]]] | None:
    """Return the reader for a file of this name; None for one without names."""
    lower = Path(name).name.lower()
    if lower.endswith(("geo2020.pl", "geo2020.npl")):
        return _of_header
    if lower.endswith(".txt"):
        return partial(_of_gazetteer, lower) if "gaz" in lower else _of_code_list
    return _of_kept if lower == KEPT else None


def _of_kept(text: str) -> Iterator[tuple[Region, str]]:
    rows = csv.DictReader(io.StringIO(text), delimiter="|")
    if rows.fieldnames == KEPT_COLUMNS:
        for row in rows:
            if len(row) == len(KEPT_COLUMNS) and None not in row.values():
                yield Region(row["REGION_TYPE"], row["REGION_ID"]), row["NAME"]


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")  # as the Bureau wrote its headers


def _of_header(text: str) -> Iterator[tuple[Region, str]]:
    place = {name: number for number, name in enumerate(PL94.positions)}
    level, code, area, name = (place[column] for column in ("SUMLEV", "GEOCODE", "AIANHH", "NAME"))
    component = place["GEOCOMP"]
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) == len(place) and fields[level] in HEADER_LEVELS and fields[component] in ("", "00"):
            region_type = HEADER_LEVELS[fields[level]]
            yield from _named(region_type, fields[area if region_type == "AIANNH" else code], fields[name])


def _of_gazetteer(file: str, text: str) -> Iterator[tuple[Region, str]]:
    region_type = next((found for word, found in GAZETTEERS.items() if word in file), None)
    columns, rows = _table(text)
    if region_type is not None and {"GEOID", "NAME"} <= set(columns):
        for row in rows:  # 2430R is area 2430 by its reservation, 2430T by its trust land, whose name is skipped
            yield from _named(region_type, row["GEOID"].strip().removesuffix("R"), row["NAME"])


def _of_code_list(text: str) -> Iterator[tuple[Region, str]]:
    columns, rows = _table(text)
    for region_type, codes, name in CODE_LISTS:
        if {*codes, name} <= set(columns):
            for row in rows:
                yield from _named(region_type, "".join(row[code] for code in codes), row[name])
            return


def _table(text: str) -> tuple[list[str], Iterator[dict[str, str]]]:
    """Return the columns of a table with a header line, and its complete rows; Gazetteers have bars since 2025."""
    delimiter = "|" if "|" in text.partition("\n")[0] else "\t"
    lines = csv.reader(io.StringIO(text), delimiter=delimiter, quoting=csv.QUOTE_NONE)
    columns = [column.strip() for column in next(lines, [])]
    return columns, (dict(zip(columns, map(str.strip, row), strict=True)) for row in lines if len(row) == len(columns))


def _named(region_type: str, code: str, name: str) -> Iterator[tuple[Region, str]]:
    """Yield a region with its name, if its code is valid."""
    code, name = code.strip(), name.strip().removesuffix(PART)
    if len(code) == DIGITS[region_type] and code.isdecimal() and name:
        yield Region.named(region_type, code), name
