"""Names of regions: those of states and counties, which the program has, and those that a geography has of its regions.

A geography has names in files that lie in it, plain or zipped, as the Census Bureau publishes them:

* A geographic header of the P.L. 94-171 data, `??geo2020.pl` of a state or `usgeo2020.npl` of the nation: 97 fields
  without a header line; SUMLEV is the type.
* A Gazetteer file, `2020_Gaz_*_national.txt`: GEOID and NAME under a header line; the type is in the file's name.
  (https://www.census.gov/programs-surveys/geography/technical-documentation/records-layout/gaz-record-layouts.html)
* A list of codes, `national_place2020.txt`, or `st44_ri_place2020.txt` of one state: fields between bars,
  the type by the columns in the header line. (https://www.census.gov/library/reference/code-lists/ansi.html)
* `names.csv`, as a release has it and `das synth` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from sys import intern
from typing import IO

from tasks.inputs.blocks.columns import PL94
from tasks.inputs.blocks.files import list_files
from tasks.inputs.files import open_file, why
from tasks.inputs.marks import GRF_FILE
from tasks.inputs.regions import Region
from tasks.lifecycle.check import Check
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.received import NotOfRelease, read_in

NAMES_FILE = "names.csv"
NAME_COLUMNS = ("REGION_TYPE", "REGION_ID", "NAME")
NAMED = 3  # states in a title; more are counted
ALL_STATES = 51  # of the United States, D.C. included
LONGEST = 200  # characters of a name
LONGEST_LINE = 1 << 16  # bytes; a longer one is no name's
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
Lines = Iterator[str]


@cache
def names_of_2020() -> Names:
    """Return the names of the states, counties and equivalents of 2020, Puerto Rico's included."""
    lines = files("tasks.inputs").joinpath("names_2020.csv").read_text("utf-8").splitlines()
    return dict(_of_names(line for line in lines if not line.startswith("#")))


def name_of_state(code: str) -> str:
    """Return the name of a state, D.C. or Puerto Rico by its FIPS code."""
    return names_of_2020().get(Region.named("STATE", code), f"State {code}")


def title_of_states(names: Sequence[str]) -> str:
    """Return the states of a page in its title, from their names: a few by name, all as the United States."""
    if len(names) <= NAMED:
        return ", ".join(names)
    return "United States" if len(names) == ALL_STATES else f"{len(names)} states"


def names_in(geography: str) -> Names:
    """Return the names in a geography by path or URL: a folder, an archive, or a file with those next to a GRF-C.txt.

    Empty where it has none. Raises Refused where a file of names cannot be read.
    """
    folder, _, file = geography.rstrip("/").rpartition("/")
    try:
        listed = list_files(folder if file == GRF_FILE else geography)
    except OSError:  # a store whose files may be read, not listed
        listed = []
    names: Names = {}
    for path in sorted([geography] if listed is None else listed):
        if reader := _reader(path.partition("::")[0].rsplit("/", 1)[-1]):
            names |= _read(path, reader)
    return names


def write_names(out: Path, given: Mapping[Region, str], regions: Callable[[Region], bool]) -> None:
    """Write OUT/names.csv: names of 2020 and those given, of some regions, sorted; given ones go first."""
    names = {region: name for region, name in {**names_of_2020(), **given}.items() if regions(region)}
    rows = (f"{region.type}|{region.id}|{name}\n" for region, name in sorted(names.items()))
    (out / NAMES_FILE).write_text("|".join(NAME_COLUMNS) + "\n" + "".join(rows), "utf-8")


def names_of_release(release: Path, named: Collection[str]) -> Names:
    """Return the names that a release has, whose manifest names these files; of any but its own file none.

    Raises NotOfRelease where its file is damaged.
    """
    if NAMES_FILE not in named:
        return {}
    lines = read_in(release, NAMES_FILE).decode("utf-8", "replace").split("\n")
    if lines[0] != "|".join(NAME_COLUMNS):
        raise NotOfRelease(f"{NAMES_FILE} has other columns than {', '.join(NAME_COLUMNS)}")
    return dict(_of_names(iter(lines)))


def check_names(release: Path, named: Collection[str]) -> Iterator[Check]:
    """Check that each line of a release's names is one region with one printable name."""
    if NAMES_FILE in named:
        lines = read_in(release, NAMES_FILE).decode("utf-8", "replace").splitlines()[1:]
        known = names_of_release(release, named)
        wrong = len(lines) - len(known)
        faults = (f"{wrong:,} lines are not a region's only line, with a name",) if wrong else ()
        yield Check("names of regions", f"{len(known):,} regions", faults)


def _read(path: str, reader: Callable[[Lines], Iterator[tuple[Region, str]]]) -> Names:
    """Return the names in a file, in UTF-8 or, as the Bureau wrote its headers, Latin-1."""

    def lines(stream: IO[bytes]) -> Lines:
        for number, line in enumerate(iter(partial(stream.readline, LONGEST_LINE), b"")):
            yield _text(line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line)

    try:
        with open_file(path, compression="infer" if path.lower().endswith(".gz") else None) as stream:
            return dict(reader(lines(stream)))
    except (OSError, NotImplementedError, RuntimeError) as error:  # also a password, an unknown compression
        reason = why(error) if isinstance(error, OSError) else str(error)
        raise Refused(f"{path} cannot be read for names: {reason}") from None


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _reader(name: str) -> Callable[[Lines], Iterator[tuple[Region, str]]] | None:
    """Return the reader for a file of this name; None for one without names."""
    lower = name.lower().removesuffix(".gz")
    if lower.endswith(("geo2020.pl", "geo2020.npl")):
        return _of_header
    if re.fullmatch(r"\d{4}_gaz_\w+\.txt", lower):
        return partial(_of_gazetteer, lower)
    if re.fullmatch(r"(national|st\d\d_[a-z]{2})_\w+\.txt", lower):
        return _of_code_list
    return _of_own_file if lower == NAMES_FILE else None


def _of_own_file(lines: Lines) -> Iterator[tuple[Region, str]]:
    """Yield the names of a file with the columns of a release's; another file of its name may hold anything."""
    if next(lines, "").rstrip("\r\n") == "|".join(NAME_COLUMNS):
        yield from _of_names(lines)


def _of_names(lines: Lines) -> Iterator[tuple[Region, str]]:
    for line in lines:
        kind, code, name = [*line.rstrip("\r\n").split("|", 2), "", ""][:3]
        if is_region(kind, code):
            yield from _printable(Region(intern(kind), code), name)


def is_region(kind: str, code: str) -> bool:
    """Return whether a type of region and a code are those of a region: nothing else becomes part of a release."""
    return len(code) == {"USA": 1, **DIGITS}.get(kind.removeprefix("PR-"), 0) and code.isascii() and code.isdecimal()


def _of_header(lines: Lines) -> Iterator[tuple[Region, str]]:
    place = {name: number for number, name in enumerate(PL94.positions)}
    level, code, area, name = (place[column] for column in ("SUMLEV", "GEOCODE", "AIANHH", "NAME"))
    component = place["GEOCOMP"]
    for line in lines:
        if line.split("|", level + 1)[level : level + 1] == ["750"]:  # a block: nearly all lines, without a name
            continue
        fields = line.split("|")
        if len(fields) == len(place) and fields[level] in HEADER_LEVELS and fields[component] in ("", "00"):
            region_type = HEADER_LEVELS[fields[level]]
            yield from _named(region_type, fields[area if region_type == "AIANNH" else code], fields[name])


def _of_gazetteer(file: str, lines: Lines) -> Iterator[tuple[Region, str]]:
    region_type = next((found for word, found in GAZETTEERS.items() if word in file), None)
    columns, rows = read_rows(lines)
    if region_type is not None and {"GEOID", "NAME"} <= set(columns):
        for row in rows:  # 2430R is area 2430 by its reservation, 2430T by its trust land, whose name is skipped
            yield from _named(region_type, row["GEOID"].strip().removesuffix("R"), row["NAME"])


def _of_code_list(lines: Lines) -> Iterator[tuple[Region, str]]:
    columns, rows = read_rows(lines)
    for region_type, codes, name in CODE_LISTS:
        if {*codes, name} <= set(columns):
            for row in rows:
                yield from _named(region_type, "".join(row[code] for code in codes), row[name])
            return


def read_rows(lines: Lines) -> tuple[list[str], Iterator[dict[str, str]]]:
    """Return the columns of a table with a header line, and its complete rows; Gazetteers have bars since 2025."""
    first = next(lines, "")
    delimiter = "|" if "|" in first else "\t"
    columns = [column.strip() for column in first.split(delimiter)]
    cut = (line.rstrip("\r\n").split(delimiter) for line in lines)
    return columns, (dict(zip(columns, map(str.strip, row), strict=True)) for row in cut if len(row) == len(columns))


def _named(region_type: str, code: str, name: str) -> Iterator[tuple[Region, str]]:
    """Yield a region with its name, if its code is valid."""
    code, name = code.strip(), name.strip().removesuffix(PART)
    if is_region(region_type, code):
        yield from _printable(Region.named(region_type, code), name)


def _printable(region: Region, name: str) -> Iterator[tuple[Region, str]]:
    """Yield a region with its name as one line of print: no control character, which could steer a terminal, no bar."""
    kept = "".join(letter for letter in name if letter.isprintable() and letter != "|")[:LONGEST].strip()
    if kept:
        yield region, kept
