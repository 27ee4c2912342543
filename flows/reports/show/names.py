"""Names of regions, from public files: geographic headers (`ri2020.pl` and the like, zipped too), gazetteers, our own.

A geographic header is the `??geo2020.pl` of the P.L. 94-171 files; a gazetteer is the Census Bureau's
`2020_Gaz_*_national.txt`, whose name tells the type; our own is what `write_names` keeps beside a release.
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

from flows.reports.show.geography import PUERTO_RICO, Region
from tasks.inputs.blocks.columns import PL94
from tasks.lifecycle.errors import Refused

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
    "aiannh": "AIANNH",
}
Names = dict[Region, str]


def read_names(paths: Iterable[Path]) -> Names:
    """The names that files, or folders of such files, give to regions. Raises Refused where a file gives none."""
    names: Names = {}
    for path in paths:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        found: Names = {}
        for file in files:
            found |= {region: _printable(name) for region, name in _of_file(file)}
        if not found:
            raise Refused(
                f"{path} holds no names: give a ??geo2020.pl (or its zip), a Gazetteer file, or a {KEPT} that das kept"
            )
        names |= found
    return names


def write_names(release: Path, names: Names) -> Path:
    """Keep names beside a release, which itself stays as it is: its manifest does not name the file."""
    path = release / KEPT
    draft = path.with_name(f".{KEPT}.{os.getpid()}")
    with draft.open("w", newline="") as file:
        table = csv.writer(file, delimiter="|", lineterminator="\n")
        table.writerow(KEPT_COLUMNS)
        table.writerows((region.type, region.id, name) for region, name in sorted(names.items()))
    os.replace(draft, path)
    return path


def _printable(name: str) -> str:
    """A name without what would steer a terminal."""
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
    # a damaged archive, a password, a way of packing that is not known here; a field longer than any name
    except (OSError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, csv.Error) as error:
        raise Refused(f"{path} cannot be read: {error}") from None


def _reader(name: str) -> Callable[[str], Iterator[tuple[Region, str]]] | None:
    """What reads a file of this name; None for one that holds no names."""
    lower = Path(name).name.lower()
    if lower.endswith("geo2020.pl"):
        return _of_header
    if lower.endswith(".txt") and "gaz" in lower:
        return partial(_of_gazetteer, lower)
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
        if len(fields) != len(place) or fields[level] not in HEADER_LEVELS or fields[component] not in ("", "00"):
            continue
        region_type = HEADER_LEVELS[fields[level]]
        yield _typed(region_type, fields[area] if region_type == "AIANNH" else fields[code]), fields[name]


def _of_gazetteer(file: str, text: str) -> Iterator[tuple[Region, str]]:
    region_type = next((found for word, found in GAZETTEERS.items() if word in file), None)
    first = text.partition("\n")[0]
    rows = csv.DictReader(io.StringIO(text), delimiter="|" if "|" in first else "\t")  # tabs until 2024
    columns = {name.strip(): name for name in rows.fieldnames or []}
    if region_type is None or not {"GEOID", "NAME"} <= set(columns):
        return
    for row in rows:
        code, name = row[columns["GEOID"]], row[columns["NAME"]]
        if code is not None and name is not None:  # of a row that is cut short
            code = code.strip()
            yield _typed(region_type, code[:4] if region_type == "AIANNH" else code), name.strip()


def _typed(region_type: str, code: str) -> Region:
    """The region of a code: Puerto Rico's have types of their own."""
    in_puerto_rico = region_type not in ("AIANNH", "COUSUB") and code.startswith("72")
    return Region((PUERTO_RICO if in_puerto_rico else "") + region_type, code)
