"""persons and units of the TopDown Algorithm, the living quarters that are declared by block, and states' totals."""

from __future__ import annotations

import numpy as np

from tasks.inputs.block_codes import BLOCK_COLUMNS
from tasks.synth.population.codes import CENRACE, SETS
from tasks.synth.population.model import ADULT_AGE
from tasks.synth.writers.records import RTYPE_PERSON, RTYPE_UNIT, Columns, Stretch, System, Table, digits

PERSONS = (*BLOCK_COLUMNS, "RTYPE", "GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE")
UNITS = (*BLOCK_COLUMNS, "RTYPE", "HH_STATUS")
QUARTERS = ("tabblk", "hu", *(f"gq{kind}" for kind in range(1, 8)))


def _persons(stretch: Stretch) -> list[Columns]:
    people, cell = stretch.people, np.arange(8 * 4 * SETS)
    kind, adult, hispanic, races = np.unravel_index(cell, (8, 2, 2, SETS))
    words = {
        "RTYPE": np.array(RTYPE_PERSON, "S")[(kind > 0).astype(int)],
        "GQTYPE_PL": digits(kind, 1),
        "VOTING_AGE": digits(adult + 1, 1),
        "CENHISP": digits(hispanic + 1, 1),
        "CENRACE": digits(CENRACE[races].astype(np.int64), 2),
    }
    at = stretch.units.kind[people.unit].astype(np.int64) * 2 + (people.age >= ADULT_AGE)
    block = stretch.units.block[people.unit]
    return [stretch.at_block(block), Columns(words, (at * 2 + people.hispanic) * SETS + people.races)]


def _units(stretch: Stretch) -> list[Columns]:
    units = stretch.units
    status = np.where(units.kind > 0, 2, units.head < 0)
    words = {"RTYPE": np.array(["2", "2", RTYPE_UNIT[1]], "S"), "HH_STATUS": np.array(["1", "2", "0"], "S")}
    return [stretch.at_block(units.block), Columns(words, status)]


def _quarters(stretch: Stretch) -> list[Columns]:
    counts, grf = stretch.facilities, stretch.blocks.columns
    there = np.flatnonzero(counts.sum(axis=1))
    code = np.column_stack([grf[name].view(np.uint8).reshape(len(counts), -1) for name in BLOCK_COLUMNS])
    words = {"tabblk": np.ascontiguousarray(code).view("S15").ravel()}
    words |= {name: counts[:, kind].astype("S") for kind, name in enumerate(QUARTERS[1:])}
    return [Columns(words, there)]


SYSTEM = System(
    "tda",
    (
        Table("persons", PERSONS, _persons),
        Table("units", UNITS, _units),
        Table("quarters", QUARTERS, _quarters, ",", "csv", always_text=True),
    ),
    bytes_a_person=44,
    totals="states.csv",
)
