"""Names of regions: those of states and counties, which the program has, and those that a geography has of its regions.

A geography has names in files that lie in it, plain or zipped, as the Census Bureau publishes them:

* A geographic header of the P.L. 94-171 data, `??geo2020.pl` of a state or `usgeo2020.npl` of the nation: 97 fields
  without a header line; SUMLEV is the type.
* A Gazetteer file.
* `names.csv`, as a release has it and `das synth` writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tasks.geography.blocks.pl94 import PL94_FIELDS
from tasks.geography.region_files import Lines, RegionFile, Rows
from tasks.geography.regions import Region

NAMED = 3  # states in a title; more are counted
ALL_STATES = 51  # of the United States, D.C. included
LONGEST = 200  # characters of a name
HEADER_LEVELS = {
    "040": "STATE",
    "050": "COUNTY",
    "060": "COUSUB",
    "140": "TRACT",
    "160": "PLACE",
    "250": "AIANNH",
    "280": "AIANNH",
}
PART = " (part)"  # of an area that crosses a state line, in the header of one state
Names = dict[Region, str]


@cache
def names_of_2020() -> Names:
    """Return the names of the states, counties and equivalents of 2020, Puerto Rico's included."""
    return NAMES.of_2020("names_2020.csv")


def name_of_state(code: str) -> str:
    """Return the name of a state, D.C. or Puerto Rico by its FIPS code."""
    return names_of_2020().get(Region.named("STATE", code), f"State {code}")


def title_of_states(names: Sequence[str]) -> str:
    """Return the states of a page in its title, from their names: a few by name, all as the United States."""
    if len(names) <= NAMED:
        return ", ".join(names)
    return "United States" if len(names) == ALL_STATES else f"{len(names)} states"


def coverage(states: Sequence[str]) -> str:
    """Return a warning where a release's nation is only some of the states; "" for all of them, or none."""
    if not 0 < len(states) < ALL_STATES:
        return ""
    named = " and ".join(map(name_of_state, states))
    some = named if len(states) <= 2 else f"{len(states)} of the 50 states and D.C."
    return f"The run covers only {some}; its counts of the nation include no others."


def states_of_nation(manifest: Mapping[str, Any]) -> list[str]:
    """Return the FIPS codes of the states in a release's counts of the nation; none where it has no such counts."""
    measured = (*manifest.get("levels", ()), *manifest.get("queries", ()))
    states = manifest.get("states", manifest.get("geography", {}).get("states", ()))
    return list(map(str, states)) if any("usa" in name.lower() for name in measured) else []


def write_names(out: Path, given: Mapping[Region, str], regions: Callable[[Region], bool]) -> None:
    """Write OUT/names.csv: names of 2020 and those given, of some regions, sorted; given ones go first."""
    NAMES.write_release(out, {**names_of_2020(), **given}, regions)


def _of_header(lines: Lines) -> Rows:
    place = {name: number for number, name in enumerate(PL94_FIELDS)}
    level, code, area, name = (place[column] for column in ("SUMLEV", "GEOCODE", "AIANHH", "NAME"))
    component = place["GEOCOMP"]
    for line in lines:
        if line.split("|", level + 1)[level : level + 1] == ["750"]:  # a block: nearly all lines, without a name
            continue
        fields = line.split("|")
        if len(fields) == len(place) and fields[level] in HEADER_LEVELS and fields[component] in ("", "00"):
            region_type = HEADER_LEVELS[fields[level]]
            yield region_type, fields[area if region_type == "AIANNH" else code].strip(), [fields[name]]


def _printable(texts: Sequence[str]) -> str | None:
    """Return a name as one line of print: no control character, which could steer a terminal, no bar."""
    name = texts[0].strip().removesuffix(PART)
    return "".join(letter for letter in name if letter.isprintable() and letter != "|")[:LONGEST].strip() or None


HEADERS = dict.fromkeys(("geo2020.pl", "geo2020.npl"), _of_header)
NAMES = RegionFile("names.csv", ("NAME",), ("names", "a name"), ("NAME",), _printable, str, HEADERS)
