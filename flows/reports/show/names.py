"""Names of regions, from public files: geographic headers (`ri2020.pl` and the like, zipped too), gazetteers, our own.

A geographic header is the `??geo2020.pl` of the P.L. 94-171 files; a gazetteer is the Census Bureau's
`2020_Gaz_*_national.txt`, whose name tells the type; our own is what `write_names` keeps beside a release.
"""

from __future__ import annotations

import csv
import io
import os
import zipfile
from collections.abc import Iterable, Iterator
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
            found |= dict(_of_file(file))
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


def _of_file(path: Path) -> Iterator[tuple[Region, str]]:
    try:
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    yield from _of_text(name, archive.read(name))
        elif path.is_file():
            yield from _of_text(path.name, path.read_bytes())
    except (OSError, zipfile.BadZipFile) as error:
        raise Refused(f"{path} cannot be read: {error}") from None


def _of_text(name: str, content: bytes) -> Iterator[tuple[Region, str]]:
    lower = Path(name).name.lower()
    if lower.endswith("geo2020.pl"):
        yield from _of_header(_text(content))
    elif lower.endswith(".txt") and "gaz" in lower:
        yield from _of_gazetteer(lower, _text(content))
    elif lower == KEPT:
        rows = csv.DictReader(io.StringIO(_text(content)), delimiter="|")
        if rows.fieldnames == KEPT_COLUMNS:
            yield from ((Region(row["REGION_TYPE"], row["REGION_ID"]), row["NAME"]) for row in rows)


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
        code = row[columns["GEOID"]].strip()
        region = _typed(region_type, code[:4] if region_type == "AIANNH" else code)
        yield region, row[columns["NAME"]].strip()


def _typed(region_type: str, code: str) -> Region:
    """The region of a code: Puerto Rico's have types of their own."""
    in_puerto_rico = region_type not in ("AIANNH", "COUSUB") and code.startswith("72")
    return Region((PUERTO_RICO if in_puerto_rico else "") + region_type, code)
