"""The made-up geography of the bundled example: small, but with every case that a real geography has.

Two states (numbered 31 and 46, as a state filter must name real ones, but otherwise invented) with three counties, and
a Puerto Rico with two. Places cross tracts; county 31003 is a single tract and, except for its water block 0001, a
single place; AIANNH area 0500 crosses the states; some blocks are empty.
"""

from __future__ import annotations

import numpy as np

from tasks.synth.blocks import GRF_COLUMNS, Blocks
from tasks.synth.proportions import apportion

US_PERSONS, PR_PERSONS = 6000, 2000
# State, county, tract, block group, place, AIANNH area, county subdivision, school district.
_BLOCK_GROUPS = """
31 001 000100 1 10100 9999 60100 00100
31 001 000100 2 10100 0500 60100 00100
31 001 000200 1 10100 9999 60100 00200
31 001 000200 2 99999 0500 60200 00200
31 001 000300 0 99999 9999 60200 00200
31 001 000300 1 99999 9999 60200 00200
31 003 950100 0 99999 9999 60300 00300
31 003 950100 1 10200 9999 60300 00300
31 003 950100 2 10200 9999 60300 00300
46 005 000100 1 20100 0500 70100 00100
46 005 000100 2 20100 9999 70100 00100
46 005 000200 1 20100 9999 70200 00100
46 005 000200 2 99999 9999 70200 00200
72 001 000100 1 30100 9999 99999 00030
72 001 000100 2 30100 9999 99999 00030
72 001 000200 1 30100 9999 99999 00030
72 001 000200 2 99999 9999 99999 00030
72 003 950100 1 30200 9999 99999 00030
72 003 950100 2 99999 9999 99999 00030
"""
GOVERNMENTS = {"10100", "20100", "60100"}  # places and county subdivisions with a government (functional status A)
BLOCKS_EACH = 6  # blocks of a block group; block group 0 is one block of water
EMPTY_SHARE = 0.15  # of the blocks


def example_blocks() -> Blocks:
    """Return the blocks of the example; always the same, with sizes as skewed as real ones."""
    rows = []
    for line in _BLOCK_GROUPS.strip().split("\n"):
        state, county, tract, group, place, area, subdivision, district = line.split()
        for number in range(BLOCKS_EACH if group != "0" else 1):
            block = f"{group}{number:03d}" if group != "0" else "0001"
            school = (district, "99999", "99999")
            status = (_status(subdivision), _status(place))
            rows.append((state, county, tract, block, place, area, group, subdivision, *school, *status))
    columns = {name: np.array(values, "S") for name, values in zip(GRF_COLUMNS, zip(*rows, strict=True), strict=True)}
    random = np.random.Generator(np.random.PCG64(2020))
    size = random.lognormal(0.0, 0.8, len(rows)) * (random.random(len(rows)) >= EMPTY_SHARE)
    size[columns["TABBLKGRPCE"] == b"0"] = 0.0
    population = np.zeros(len(rows), np.int64)
    puerto_rico = columns["TABBLKST"] == b"72"
    for country, persons in [(~puerto_rico, US_PERSONS), (puerto_rico, PR_PERSONS)]:
        population[country] = apportion(size[country], persons)
    return Blocks(columns, population)


def _status(code: str) -> str:
    return "9" if code == "99999" else "A" if code in GOVERNMENTS else "S"
