"""A made-up geography with a state's real tallies, and sizes as skewed as real ones.

Blocks are on a line in the order of their codes, cut into counties, tracts and block groups. Places and AIANNH areas
are stretches of the line that ignore other boundaries, so that places cross tracts and counties. County subdivisions
and school districts are stretches of a county.

The tallies of 2020 by state are in tallies.txt. Populations and counties are each state's own, and national totals are
exact. The numbers of tracts by state are right to within a few; other numbers follow from tracts and counties (blocks:
60 a tract and 1,000 a county, which gives 25,000 for Rhode Island and 670,000 for Texas). Codes of AIANNH areas are in
the ranges of the Bureau's list, some of them in several states.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tasks.geography.grf_c import NO_AREA, NO_PLACE
from tasks.synth.blocks import BlockTable, digits
from tasks.synth.draws import apportion, number_within

PUERTO_RICO = "72"
# Standard deviations of the logarithms of sizes.
COUNTY_SKEW, GROUPS_SKEW, BLOCKS_SKEW, PLACE_SKEW = 1.4, 0.22, 0.4, 1.2  # in tracts, block groups, blocks, blocks
TRACT_SKEW, BLOCK_SKEW = 0.4, 1.1  # in persons
EMPTY_SHARE = 0.28  # share of blocks without persons; 29% in 2020, including water
WATER_SHARE = 0.02  # share of tracts whose first block group, numbered 0, is water
PLACE_COVER, AREA_COVER, WIDE_AREA_COVER = 0.6, 0.03, 0.7  # share of a stretch that its place or area covers
WIDE_AREA_STATES = ("02", "40")  # Alaska's villages and Oklahoma's areas cover most of the state
INCORPORATED_SHARE = 0.6  # share of places with a government (functional status A, others S)
# States whose county subdivisions have governments.
TOWNSHIP_STATES = ("09", "23", "25", "26", "27", "33", "34", "36", "42", "44", "50", "55")


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
    """Return the tallies of all 51 states in the order of their codes, then of Puerto Rico."""
    header, *lines = (Path(__file__).parent / "tallies.txt").read_text("utf-8").splitlines()
    names, tally = header.split("|"), {}
    for line in lines:
        state, *counts, areas = line.split("|")
        named = dict(zip(names[1:-1], map(int, counts), strict=True))
        tally[state] = Tally(state, areas=tuple(areas.split()), **named)
    return tally


def state_blocks(tally: Tally, persons: int, seed: int) -> BlockTable:
    """Return the blocks of a state with `persons` in them; only the populations depend on `persons`."""
    random = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(1, int(tally.state)))))
    county_tracts = _sizes(random, tally.counties, COUNTY_SKEW, tally.tracts)
    tract_groups = _sizes(random, tally.tracts, GROUPS_SKEW, tally.block_groups)
    group_blocks = _sizes(random, tally.block_groups, BLOCKS_SKEW, tally.blocks)
    group = np.repeat(np.arange(tally.block_groups), group_blocks)
    tract = np.repeat(np.arange(tally.tracts), tract_groups)[group]
    county = np.repeat(np.arange(tally.counties), county_tracts)[tract]

    watered = (random.random(tally.tracts) < WATER_SHARE) & (tract_groups > 1)
    if group_blocks.max() > 1000:
        raise ValueError(f"a block group of state {tally.state} would have {group_blocks.max()} blocks")
    group_code = (number_within(tract_groups) + np.repeat(~watered, tract_groups))[group]
    place_cover = PLACE_COVER if tally.places > 1 else 1.0  # a state's one place is all of it
    place = _stretches(random, tally, _codes(tally.places), place_cover, NO_PLACE)
    incorporated = (random.random(NO_PLACE) < INCORPORATED_SHARE)[np.minimum(place, NO_PLACE - 1)]
    area_cover = WIDE_AREA_COVER if tally.state in WIDE_AREA_STATES else AREA_COVER
    area = _stretches(random, tally, np.array(tally.areas, int), area_cover, NO_AREA)
    columns = {
        "TABBLKST": np.full(tally.blocks, tally.state, "S2"),
        "TABBLKCOU": digits(2 * county + 1, 3),
        "TABTRACTCE": digits(100 * (number_within(county_tracts) + 1)[tract], 6),
        "TABBLK": digits(1000 * group_code + number_within(group_blocks), 4),
        "PLACEFP": digits(place, 5),
        "AIANNHCE": digits(area, 4),
        "TABBLKGRPCE": digits(group_code, 1),
        "COUSUBFP": digits(_county_parts(county, tally.subdivisions), 5),
        "SDUNILEA": digits(_county_parts(county, tally.districts), 5),
        "SDSECLEA": np.full(tally.blocks, b"99999"),
        "SDELMLEA": np.full(tally.blocks, b"99999"),
        "COUSUBFS": np.full(tally.blocks, b"A" if tally.state in TOWNSHIP_STATES else b"S"),
        "PLACEFS": np.where(place == NO_PLACE, b"9", np.where(incorporated, b"A", b"S")),
    }
    lived_in = (random.random(tally.blocks) >= EMPTY_SHARE) & (group_code > 0)
    size = random.lognormal(0.0, BLOCK_SKEW, tally.blocks) * lived_in
    tract_size = random.lognormal(0.0, TRACT_SKEW, tally.tracts) / np.maximum(np.bincount(tract, size), 1e-9)
    return BlockTable(columns, apportion(size * tract_size[tract], persons))


def _sizes(random: np.random.Generator, count: int, skew: float, total: int, least: int = 1) -> NDArray[np.int64]:
    return apportion(random.lognormal(0.0, skew, count), total, least=least)


def _stretches(
    random: np.random.Generator, tally: Tally, codes: np.ndarray, cover: float, none: int
) -> NDArray[np.int64]:
    """Cut the blocks into a stretch for each code; its first `cover` part, at least one block, gets the code."""
    if not len(codes):
        return np.full(tally.blocks, none)
    lengths = _sizes(random, len(codes), PLACE_SKEW, tally.blocks, least=2)
    covered = np.maximum(1, np.rint(cover * lengths))
    return np.where(number_within(lengths) < np.repeat(covered, lengths), np.repeat(codes, lengths), none)


def _county_parts(county: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """Return the code of each block's part of its county: `parts` in the state, at least one per county, by blocks."""
    blocks = np.bincount(county)
    of_county = apportion(blocks, parts, least=1) if parts > len(blocks) else np.ones_like(blocks)
    within = number_within(blocks) * of_county[county] // blocks[county]
    return _codes(int(of_county.sum()))[(of_county.cumsum() - of_county)[county] + within]


def _codes(count: int) -> NDArray[np.int64]:
    """Return distinct five-digit codes in increasing order, without 99999."""
    return 100 + np.arange(count) * (99_000 // count)
