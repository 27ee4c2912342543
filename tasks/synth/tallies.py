"""How much geography the synthetic nation has: the tallies of 2020 by state, in tallies.txt.

Populations and counties are each state's own in 2020, and national totals are exact. The numbers of tracts by state are
right to within a few; other numbers follow from tracts and counties (blocks: 60 a tract and 1,000 a county, which gives
25,000 for Rhode Island and 670,000 for Texas). Codes of AIANNH areas are in the ranges of the Bureau's list, some of
them in several states.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

PUERTO_RICO = "72"


@dataclass(frozen=True)
class Tally:
    """The number of each kind of geounit in a state, its persons, and the codes of its AIANNH areas."""

    state: str
    persons: int
    counties: int
    tracts: int
    block_groups: int
    blocks: int
    places: int
    subdivisions: int
    districts: int
    areas: tuple[str, ...]


@cache
def tallies() -> dict[str, Tally]:
    """Return all 51 states in the order of their codes, then Puerto Rico."""
    header, *lines = Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines()
    names, tally = header.split("|"), {}
    for line in lines:
        state, *counts, areas = line.split("|")
        named = dict(zip(names[1:-1], map(int, counts), strict=True))
        tally[state] = Tally(state, areas=tuple(areas.split()), **named)
    return tally
