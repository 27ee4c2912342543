"""Names of regions, of which the program has those of states and counties, and how texts name the states of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from tasks.geography.region_files import RegionFile
from tasks.geography.regions import Region

NAMED = 3  # states in a title; more are counted
ALL_STATES = 51  # of the United States, D.C. included
LONGEST = 200  # characters of a name
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


def _printable(texts: Sequence[str]) -> str | None:
    """Return a name as one line of print: no control character, which could steer a terminal, no bar."""
    name = texts[0].strip().removesuffix(PART)
    return "".join(letter for letter in name if letter.isprintable() and letter != "|")[:LONGEST].strip() or None


NAMES = RegionFile("names.csv", ("NAME",), ("names", "a name"), _printable, str)


def states_of_nation(manifest: Mapping[str, Any]) -> list[str]:
    """Return the FIPS codes of the states in a release's counts of the nation; empty without such counts."""
    measured = (*manifest.get("levels", ()), *manifest.get("queries", ()))
    states = manifest.get("states", manifest.get("geography", {}).get("states", ()))
    return list(map(str, states)) if any("usa" in name.lower() for name in measured) else []
