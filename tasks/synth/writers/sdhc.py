"""persons, units and geo of the S-DHC: relationships, household recodes and tenure by MAFID."""

from __future__ import annotations

import numpy as np

from tasks.inputs.block_codes import BLOCK_COLUMNS
from tasks.synth.population.ages import AGES
from tasks.synth.population.codes import CENRACE, SETS
from tasks.synth.writers.records import RTYPE_PERSON, RTYPE_UNIT, Columns, Stretch, System, Table, coded, digits

PERSONS = ("RTYPE", "MAFID", "QAGE", "CENHISP", "CENRACE", "RELSHIP")
UNITS = ("RTYPE", "MAFID", "FINAL_POP", "NPF", "HHSPAN", "HHRACE", "TEN", "HHT", "HHT2", "CPLT")
GEO = ("RTYPE", "MAFID", *BLOCK_COLUMNS, "TABBLKGRPCE", "REGIONCE", "DIVISIONCE", "PLACEFP", "AIANNHCE")
_REGIONS = {  # census region and division: their states
    "11": "09 23 25 33 44 50", "12": "34 36 42", "23": "17 18 26 39 55", "24": "19 20 27 29 31 38 46",
    "35": "10 11 12 13 24 37 45 51 54", "36": "01 21 28 47", "37": "05 22 40 48",
    "48": "04 08 16 30 32 35 49 56", "49": "02 06 15 41 53", "90": "72",
}  # fmt: skip
REGION_OF = {state: codes for codes, states in _REGIONS.items() for state in states.split()}
_TWO_DIGITS = [f"{number:02d}" for number in range(64)]


def _identity(stretch: Stretch, unit: np.ndarray, words: tuple[str, str]) -> list[Columns]:
    rtype = coded("RTYPE", list(words), (stretch.units.kind[unit] > 0).astype(np.int8))
    return [rtype, Columns({"MAFID": stretch.mafid}, unit)]


def _persons(stretch: Stretch) -> list[Columns]:
    people = stretch.people
    race = np.arange(2 * SETS)
    words = {
        "CENHISP": np.array(["1", "2"], "S")[race // SETS],
        "CENRACE": digits(CENRACE[race % SETS].astype(np.int64), 2),
    }
    return [
        *_identity(stretch, people.unit, RTYPE_PERSON),
        coded("QAGE", [str(age) for age in range(AGES)], people.age),
        Columns(words, people.hispanic.astype(np.int64) * SETS + people.races),
        coded("RELSHIP", [str(role) for role in range(39)], people.role),
    ]


def _units(stretch: Stretch) -> list[Columns]:
    units, recodes = stretch.units, stretch.recodes
    every = np.arange(len(units.size))
    sizes, size = np.unique(units.size, return_inverse=True)
    return [
        *_identity(stretch, every, RTYPE_UNIT),
        coded("FINAL_POP", sizes.astype(str).tolist() or ["0"], size),
        coded("NPF", [str(number) for number in range(98)], np.minimum(recodes.family, 97)),
        coded("HHSPAN", list("012"), recodes.hispanic),
        coded("HHRACE", _TWO_DIGITS, recodes.race),
        coded("TEN", list("01234"), units.tenure),
        coded("HHT", list("01234567"), recodes.hht),
        coded("HHT2", _TWO_DIGITS[:13], recodes.hht2),
        coded("CPLT", list("012345"), recodes.cplt),
    ]


def _geo(stretch: Stretch) -> list[Columns]:
    units, grf = stretch.units, stretch.blocks.columns
    block = units.block
    codes = REGION_OF[grf["TABBLKST"][0].decode()]
    words = {name: grf[name] for name in BLOCK_COLUMNS}
    words["TABBLKGRPCE"] = grf["TABBLK"].astype("S1")
    words |= {"REGIONCE": np.full(len(grf["TABBLK"]), codes[0], "S1")}
    words |= {"DIVISIONCE": np.full(len(grf["TABBLK"]), codes[1], "S1")}
    words |= {name: grf[name] for name in ("PLACEFP", "AIANNHCE")}
    return [*_identity(stretch, np.arange(len(block)), RTYPE_UNIT), Columns(words, block)]


SYSTEM = System(
    "sdhc",
    tuple(
        Table(name, columns, rows, ",", "csv")
        for name, columns, rows in (("persons", PERSONS, _persons), ("units", UNITS, _units), ("geo", GEO, _geo))
    ),
    bytes_a_person=58,
    geography=False,
)
