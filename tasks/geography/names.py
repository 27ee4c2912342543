"""Names of regions (those of states and counties ship with the program), and words for the states of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from tasks.geography.region_files import RegionFile
from tasks.geography.regions import Region

NAMED = 3  # states in a title; if there are more, their number
ALL_STATES = 51  # the United States, D.C. included
LONGEST = 200  # characters of a name
PART = " (part)"  # suffix of an area across a state line, in the header of one state
Names = dict[Region, str]


@cache
def names_of_2020() -> Names:
    """Return the names of the states, counties and equivalents of 2020, Puerto Rico's included."""
    return NAMES.of_2020("names_2020.csv")


def name_of_state(code: str) -> str:
    """Return the name of a state, D.C. or Puerto Rico by its FIPS code."""
    return names_of_2020().get(Region.named("STATE", code), f"State {code}")


def name_of_nation(states: Sequence[str]) -> str:
    """Return the name of the nation in a release of some states, by their FIPS codes; no state stands for all."""
    some = title_of_states([name_of_state(state) for state in states or ()])
    return "United States" if len(states) in (0, ALL_STATES) else f"United States: {some} only"


def title_of_states(names: Sequence[str]) -> str:
    """Return the states of a run for a title: a few by name, or the United States for all."""
    if len(names) <= NAMED:
        return ", ".join(names)
    return "United States" if len(names) == ALL_STATES else f"{len(names)} states"


def coverage(states: Sequence[str]) -> str:
    """Return a warning if a release's nation covers only some states; else ""."""
    if not 0 < len(states) < ALL_STATES:
        return ""
    named = " and ".join(map(name_of_state, states))
    some = named if len(states) <= 2 else f"{len(states)} of the 50 states and D.C."
    return f"The run covers only {some}; its counts of the nation include no others."


def _printable(texts: Sequence[str]) -> str | None:
    """Return a name as one printable line: without bars, or control characters that could steer a terminal."""
    name = texts[0].strip().removesuffix(PART)
    return "".join(letter for letter in name if letter.isprintable() and letter != "|")[:LONGEST].strip() or None


NAMES = RegionFile("names.csv", ("NAME",), ("names", "a name"), _printable, str)


def states_of_nation(manifest: Mapping[str, Any]) -> list[str]:
    """Return the FIPS codes of the states in a release's counts of the nation; empty without such counts."""
    measured = (*manifest.get("levels", ()), *manifest.get("queries", ()))
    states = manifest.get("states", manifest.get("geography", {}).get("states", ()))
    return list(map(str, states)) if any("usa" in name.lower() for name in measured) else []
