"""The region of a feature of boundaries, by its code as in the Census Bureau's cartographic boundary files.

A code with a level in front (`0500000US31001`) names its type; otherwise its number of digits does. Numbers have lost
their leading zeros: 1001 is county 01001 of Alabama or AIANNH area 1001, so a column of numbers is read only if one
type fits all of it. So is text whose codes never begin with 0: it may be made from numbers.
(https://www.census.gov/geographies/mapping-files/time-series/geo/cartographic-boundary.html)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from flows.reports.show.geography import title
from tasks.errors import Refused
from tasks.geography.names import names_of_2020
from tasks.geography.public_regions import HEADER_LEVELS
from tasks.geography.region_files import DIGITS
from tasks.geography.regions import Region

TYPES = {digits: kind for kind, digits in DIGITS.items()}
# Columns of other areas of the Bureau, with codes of as many digits: ZIP code areas, legislative, congressional, school
# and voting districts, PUMAs, urban and tribal areas. Counties may have a column of metropolitan areas too.
OTHERS = re.compile(r"ZCTA5CE\d*|SLD[UL]ST\d*|CD\d+FP|(UN|EL|SC)SDLEA|PUMACE\d*|UACE\d*|VTDST\d*|TTRACTCE|TBLKGPCE")
METROPOLITAN, COUNTY = {"CBSAFP", "CSAFP", "NECTAFP"}, "COUNTYFP"
WITH_LEVEL = re.compile(r"(\d{3})[0-9A-Z]{4}US(\d+)")


def regions_of(path: Path, table: pa.Table) -> list[Region | None]:
    """Return the region of each feature from the reader, layer by layer; None for features of other areas.

    Raises Refused if a layer's codes may be of two types.
    """
    names = ("layer", "column", "fields", "number", "code")
    rows = zip(*(table[name].to_pylist() for name in names), strict=True)
    found: list[Region | None] = []
    for (_, column, fields, is_number), of_layer in groupby(rows, key=lambda row: row[:4]):
        codes = [code or "" for *_, code in of_layer]
        kinds = {name.upper() for name in fields.split(" ")}
        other = any(map(OTHERS.fullmatch, kinds)) or (kinds & METROPOLITAN and COUNTY not in kinds)
        found += [None] * len(codes) if other else _regions_of_layer(path, column, codes, is_number=is_number)
    return found


def _regions_of_layer(path: Path, column: str, codes: Sequence[str], *, is_number: bool) -> list[Region | None]:
    plain = [code.strip().removesuffix(".0").removesuffix("R") for code in codes]
    digits = {code for code in plain if code.isascii() and code.isdecimal()}
    is_number |= any(code.strip().endswith(".0") for code in codes)
    if not digits or any(code.startswith("0") for code in digits) or any(map(WITH_LEVEL.search, codes)):
        return list(map(_region_of_code, codes))
    kinds = ["AIANNH"] if column.upper() == "AIANNHCE" else list(_kinds(digits, is_number=is_number))
    if is_number and len(kinds) == 1:
        (kind,) = kinds
        return [Region.named(kind, code.zfill(DIGITS[kind])) if code in digits else None for code in plain]
    shorter = [kind for kind in kinds if any(len(code) < DIGITS[kind] for code in digits)]
    if not is_number and not shorter:
        return list(map(_region_of_code, codes))
    example = min(digits, key=lambda code: (len(code), code))
    may_be = {*kinds, *([TYPES[len(example)]] if len(example) in TYPES else [])}
    types = " or ".join(f"{title(kind)} {example.zfill(DIGITS[kind])}" for kind in DIGITS if kind in may_be)
    raise Refused(
        f"{path}: numbers lose their leading zeros, so {column} {example} may be {types or 'of several types'}: "
        f"write {column} as text with all its digits"
    )


def _kinds(digits: Collection[str], *, is_number: bool) -> Iterator[str]:
    """Yield the types that fit all codes, some of which lack a leading zero, in existing states and counties.

    Numbers need only an existing state. The lowest code of an AIANNH area is 0010.
    """
    known = {region.id for region in names_of_2020()}
    for kind, length in DIGITS.items():
        shortest = 2 if kind == "AIANNH" and is_number else length - 1
        if any(not shortest <= len(code) <= length for code in digits):
            continue
        part = 5 if kind in ("COUNTY", "TRACT", "COUSUB") and not is_number else 2
        if kind == "AIANNH" or all(code.zfill(length)[:part] in known for code in digits):
            yield kind


def _region_of_code(text: str) -> Region | None:
    """Return the region of a code with all its digits."""
    code = text.strip().removesuffix("R")
    kind = TYPES.get(len(code), "")
    if match := WITH_LEVEL.fullmatch(code):
        kind, code = HEADER_LEVELS.get(match[1], ""), match[2]
    is_code = code.isascii() and code.isdecimal() and len(code) == DIGITS.get(kind)
    return Region.named(kind, code) if is_code else None
