"""Geocodes of the geounits of a spine, as the production programs write them (docs/spec/spine.md#geocodes).

A geounit's geocode is its parent's followed by its own part. On the optimized spine most own parts are numbers among
siblings. They do not affect the order of geounits in das-flows, nor the addresses of their noise.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spine.build import county_codes
from spine.entities import aian_part
from spine.geography import Geography, IntArray
from spine.hierarchy import Spine, changes
from spine.settings import SpineSettings

Digits = NDArray[np.uint8]
SpineKind = Literal["conventional", "aian", "optimized"]
NATION = {"County": 1, "Tract": 4, "Block_Group": 2}  # digits in the nation's redistricting runs of 2020


def form(settings: SpineSettings, kind: SpineKind) -> str:
    """Return the name that a release states for the form of a spine's geocodes."""
    return f"{'dhc' if _is_dhc(settings) else 'redistricting'}-2020" if kind == "optimized" else kind


def largest_numbers(spine: Spine, geography: Geography, settings: SpineSettings) -> tuple[int, ...]:
    """Return for each level above the blocks the largest number in an optimized geocode, or 0 without numbers."""
    found = (_numbers(spine, level, geography, settings) for level in range(len(spine.levels) - 1))
    return tuple(0 if numbers is None else int(numbers.max()) for numbers in found)


def geocodes(
    spine: Spine, geography: Geography, settings: SpineSettings, kind: SpineKind, largest: tuple[int, ...]
) -> list[Digits]:
    """Return for each level the (geounits, width) ASCII digits of the geocodes; a root has width 0.

    largest: the run's largest numbers by level, over all its states (`largest_numbers`).
    """
    prefixes: list[Digits] = []
    prefix: Digits = np.zeros((len(spine.starts[0]), 0), np.uint8)
    for level in range(len(spine.levels)):
        own = _own_part(spine, level, geography, settings, kind)
        if kind == "optimized" and (numbers := _numbers(spine, level, geography, settings)) is not None:
            own.append(digits(numbers, _width(spine.levels[level], largest[level], settings)))
        prefix = np.hstack([prefix[spine.parents[level]], *own])
        prefixes.append(prefix)
    return prefixes


def digits(number: IntArray, width: int) -> Digits:
    """Return the (n, width) ASCII digits of integers, zero-padded."""
    powers = 10 ** np.arange(width - 1, -1, -1, dtype=np.int64)
    return (number[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def _is_dhc(settings: SpineSettings) -> bool:
    return settings.product.startswith("dhc")


def _own_part(spine: Spine, level: int, geography: Geography, settings: SpineSettings, kind: SpineKind) -> list[Digits]:
    """Return the digits of geounits of a level before their number; empty if the number is all of their part."""
    name, first = spine.levels[level], spine.order[spine.starts[level]]
    geocode = geography.geocode[first]
    if name == "Block":
        own, whole = digits(geocode % 10**4, 4), digits(geocode, 16)  # its own part in its tabulation block group
        return {"conventional": [own], "aian": [own, whole], "optimized": [whole]}[kind]
    if name == "State":
        flag = [] if kind == "conventional" else [digits(aian_part(geography, settings)[first].astype(np.int64), 1)]
        return [*flag, digits(geography.state[first], 2)]
    if name == "County" and kind == "conventional":
        return [digits(geography.county[first] % 1000, 3)]
    if name == "County":
        return [digits(county_codes(geography, aian_part(geography, settings), settings)[first], 5)]
    if name == "US" or kind == "optimized":
        return []
    return [digits(geocode // 10**5 % 10**6, 6) if name == "Tract" else digits(geocode // 10**4 % 10, 1)]


def _numbers(spine: Spine, level: int, geography: Geography, settings: SpineSettings) -> IntArray | None:
    """Return the numbers, from 1, of a level's geounits among siblings; None for a level without numbers.

    States and counties are numbered among the geounits that a bypass under pure DP made of one: always for a
    redistricting county, otherwise for levels in `split`. On the levels below, siblings with one child come last,
    because the programs bypass them by removing them from their parent's list and appending their replacements. The
    tracts of a redistricting run keep their order, because each is alone in a tract group that is dissolved later.
    Geounits that pure DP makes of one are numbered in the order of the spine.
    """
    name, parents = spine.levels[level], spine.parents[level]
    if name in ("US", "Block"):
        return None
    alone = spine.children(level) == 1
    families = parents
    if name in ("State", "County"):
        splits = settings.definition == "puredp" and name in settings.split
        if not splits and (name == "State" or _is_dhc(settings)):
            return None
        families = np.cumsum(changes(parents, _codes(spine, level, geography, settings)))
        alone = np.zeros(len(parents), bool)
    elif name == "Tract" and "Tract_Group" not in spine.levels:
        alone = np.zeros(len(parents), bool)
    order = np.lexsort((alone, families))
    numbers = np.empty(len(parents), np.int64)
    numbers[order] = np.arange(len(parents)) - np.searchsorted(families, families) + 1
    return numbers


def _codes(spine: Spine, level: int, geography: Geography, settings: SpineSettings) -> IntArray:
    """Return the (geounits,) codes of states, with their AIAN flag, or of counties."""
    first, part = spine.order[spine.starts[level]], aian_part(geography, settings)
    if spine.levels[level] == "State":
        return geography.state[first] * 2 + part[first]
    return county_codes(geography, part, settings)[first]


def _width(level: str, largest: int, settings: SpineSettings) -> int:
    """Return the number of digits of a level's numbers: that of the run's largest or, if more, the nation's."""
    nation = settings.geocode_widths == "nation" and settings.jurisdiction == "us" and not _is_dhc(settings)
    return max(len(str(largest)), NATION.get(level, 1) if nation and not settings.tract_groups else 1)
