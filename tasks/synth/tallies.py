"""How much geography the synthetic nation has: the tallies of 2020, by state.

Populations and counties are each state's own in 2020, and national totals are exact. The numbers of
tracts by state are right to within a few; other numbers follow from tracts and counties (blocks: 60 a tract and 1,000
a county, which gives 25,000 for Rhode Island and 670,000 for Texas).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from tasks.synth.proportions import apportion

# State, population, counties, tracts.
_STATES = """
01 5024279 67 1437|02 733391 30 177|04 7151502 15 1765|05 3011524 75 823|06 39538223 58 9129|08 5773714 64 1447
09 3605944 8 883|10 989948 3 262|11 689545 1 206|12 21538187 67 5160|13 10711908 159 2796|15 1455271 5 461
16 1839106 44 456|17 12812508 102 3265|18 6785528 92 1696|19 3190369 99 896|20 2937880 105 834|21 4505836 120 1306
22 4657757 64 1388|23 1362359 16 407|24 6177224 24 1475|25 7029917 14 1620|26 10077331 83 3017|27 5706494 87 1505
28 2961279 82 878|29 6154913 115 1654|30 1084225 56 319|31 1961504 93 553|32 3104614 17 779|33 1377529 10 350
34 9288994 21 2181|35 2117522 33 612|36 20201249 62 5411|37 10439388 100 2672|38 779094 53 228|39 11799448 88 3168
40 3959353 77 1205|41 4237256 36 1001|42 13002700 67 3446|44 1097379 5 250|45 5118425 46 1323|46 886667 66 242
47 6910840 95 1701|48 29145505 254 6896|49 3271616 29 716|50 643077 14 193|51 8631393 133 2198|53 7705281 39 1784
54 1793716 55 546|55 5893718 72 1542|56 576851 23 160
"""
NATION = {
    "tracts": 84_414,
    "block_groups": 239_780,
    "blocks": 8_132_968,
    "places": 31_617,
    "subdivisions": 35_629,
    "districts": 10_900,
}
_AREAS = 704
# Areas in several states, and about how many are in one state only.
_CROSSING_AREAS = [
    ("04", "35", "49"), ("04", "06"), ("04", "06"), ("38", "46"), ("38", "46"), ("31", "46"), ("19", "31"),
    ("20", "31"), ("16", "32"), ("32", "49"), ("32", "49"), ("06", "32"), ("08", "35"), ("01", "13"),
]  # fmt: skip
_AREAS_BY_STATE = {"02": 223, "06": 110, "15": 75, "40": 38, "35": 35, "53": 35, "32": 28, "04": 19, "27": 16}
_AREAS_BY_STATE |= {"36": 14, "26": 13, "55": 12, "41": 11, "37": 10, "01": 9, "45": 8, "51": 8, "22": 7, "30": 7}
_AREAS_BY_STATE |= {"46": 6, "12": 6, "49": 5, "09": 5, "23": 5, "48": 5, "16": 4, "20": 4, "25": 3, "31": 3, "38": 3}
_AREAS_BY_STATE |= {"08": 2, "13": 2, "34": 2, "10": 2, "44": 1, "28": 1, "56": 1, "19": 1, "29": 1, "18": 1}


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


PUERTO_RICO = Tally("72", 3_285_874, 78, 981, 2_555, 41_987, 292, 939, 78, ())


@cache
def tallies() -> dict[str, Tally]:
    """Return all 51 states in the order of their codes, then Puerto Rico."""
    rows = [row.split() for row in _STATES.strip().replace("\n", "|").split("|")]
    states = [row[0] for row in rows]
    persons, counties, tracts = np.array([row[1:] for row in rows], int).T
    tracts = apportion(tracts, NATION["tracts"])
    one_place = np.array(states) == "11"  # the District of Columbia is a county and a place
    shared = {
        "block_groups": apportion(tracts, NATION["block_groups"]),
        "blocks": apportion(60 * tracts + 1000 * counties, NATION["blocks"]),
        "places": apportion(np.where(one_place, 0, 0.15 * tracts + 6 * counties), NATION["places"] - 1) + one_place,
        "subdivisions": apportion(counties, NATION["subdivisions"] - 51) + 1,
        "districts": apportion(counties, NATION["districts"] - 51) + 1,
    }
    areas = _areas()
    return {
        state: Tally(
            state,
            int(persons[i]),
            int(counties[i]),
            int(tracts[i]),
            areas=areas.get(state, ()),
            **{name: int(counts[i]) for name, counts in shared.items()},
        )
        for i, state in enumerate(states)
    } | {"72": PUERTO_RICO}


def _areas() -> dict[str, tuple[str, ...]]:
    """Return codes of the AIANNH areas of each state, those that cross states among them.

    Ranges as in the Bureau's list: reservations below 5000, Hawaiian home lands, Oklahoma areas, Alaska villages.
    """
    counts = apportion(np.array(list(_AREAS_BY_STATE.values())), _AREAS - len(_CROSSING_AREAS))
    homes = [*_CROSSING_AREAS, *((state,) for state, n in zip(_AREAS_BY_STATE, counts, strict=True) for _ in range(n))]
    following = {"15": 5000, "40": 5500, "02": 6000, "reservation": 5}
    areas: dict[str, tuple[str, ...]] = {}
    for states in homes:
        kind = states[0] if states[0] in following else "reservation"
        for state in states:
            areas[state] = (*areas.get(state, ()), f"{following[kind]:04d}")
        following[kind] += 5
    return areas
