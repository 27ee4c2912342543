"""The files of a population for each system (docs/spec/files.md); a table is its columns in order, by groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from tasks.errors import Refused
from tasks.synth.blocks import digits
from tasks.synth.population.ages import AGES
from tasks.synth.population.codes import CENRACE, SETS
from tasks.synth.population.model import ADULT_AGE, HOUSEHOLDER, IntArray
from tasks.synth.writers import dhc
from tasks.synth.writers.columns import MAFID, IndexedColumns, Stretch, coded, numerals

# HOUSEHOLD_TYPE by HHT: married couple; other family, male and female householder; nonfamily alone and not alone.
TYPE_OF_HHT = ["0", "1", "2", "3", "4", "5", "4", "5"]
_REGIONS = {  # census region and division: their states
    "11": "09 23 25 33 44 50", "12": "34 36 42", "23": "17 18 26 39 55", "24": "19 20 27 29 31 38 46",
    "35": "10 11 12 13 24 37 45 51 54", "36": "01 21 28 47", "37": "05 22 40 48",
    "48": "04 08 16 30 32 35 49 56", "49": "02 06 15 41 53", "90": "72",
}  # fmt: skip
REGION_OF = {state: codes for codes, states in _REGIONS.items() for state in states.split()}
RTYPE_UNIT, RTYPE_PERSON = ["2", "4"], ["3", "5"]  # codes for housing units, and for group quarters
_TWO_DIGITS = [f"{number:02d}" for number in range(64)]


@dataclass(frozen=True)
class RecordTable:
    """A file of records. always_text: also where records are Parquet."""

    name: str
    rows: Callable[[Stretch], list[IndexedColumns]]
    delimiter: str = "|"
    extension: str = "txt"
    always_text: bool = False


@dataclass(frozen=True)
class SystemFiles:
    """A system's files. bytes_a_person: in text. geography: whether to write GRF-C. totals: file of state totals."""

    name: str
    tables: tuple[RecordTable, ...]
    bytes_a_person: int
    geography: bool = True
    totals: str | None = None


def _races(stretch: Stretch, cenrace: str, rows: IntArray | slice = slice(None)) -> list[IndexedColumns]:
    """Return CENRACE (under the name `cenrace`), QRACE1 to QRACE8 and QSPAN of these persons."""
    words = {cenrace if name == "CENRACE" else name: own for name, own in stretch.races.words.items()}
    span = IndexedColumns({"QSPAN": stretch.origins.span}, stretch.population.codes.span[rows])
    return [replace(stretch.races.take(rows), words=words), span]


def _person_records(stretch: Stretch) -> list[IndexedColumns]:
    people, cell = stretch.population, np.arange(4 * AGES)
    words = {
        "QAGE": digits(cell % AGES, 3),
        "QSEX": np.array(["1", "2"], "S")[cell // AGES % 2],
        "HOUSEHOLDER": np.array(["False", "True"], "S")[cell // (2 * AGES)],
    }
    own = people.age.astype(np.int64) + AGES * people.sex + 2 * AGES * (people.role == HOUSEHOLDER)
    return [IndexedColumns(words, own), stretch.at_persons, *_races(stretch, "CENRACE")]


def _household_records(stretch: Stretch) -> list[IndexedColumns]:
    rows, homes = stretch.households, stretch.population.homes
    return [
        stretch.at_households,
        *_races(stretch, "HHRACE", homes.head[rows]),
        coded("HOUSEHOLD_TYPE", TYPE_OF_HHT, stretch.recodes.hht[rows]),
        coded("TEN", list("01234"), stretch.population.tenure[rows]),
    ]


def _identity(stretch: Stretch, unit: IntArray, rtype: list[str]) -> list[IndexedColumns]:
    in_quarters = (stretch.population.homes.kind > 0).astype(np.int8)[unit]
    return [coded("RTYPE", rtype, in_quarters), IndexedColumns({MAFID: stretch.mafid}, unit)]


def _sdhc_persons(stretch: Stretch) -> list[IndexedColumns]:
    people, cell = stretch.population, np.arange(2 * SETS)
    words = {"CENHISP": np.array(["1", "2"], "S")[cell // SETS], "CENRACE": digits(CENRACE[cell % SETS], 2)}
    return [
        *_identity(stretch, people.homes.unit, RTYPE_PERSON),
        coded("QAGE", [str(age) for age in range(AGES)], people.age),
        IndexedColumns(words, people.cell),
        coded("RELSHIP", [str(role) for role in range(39)], people.role),
    ]


def _sdhc_units(stretch: Stretch) -> list[IndexedColumns]:
    homes, recodes = stretch.population.homes, stretch.recodes
    sizes, size = np.unique(homes.size, return_inverse=True)
    return [
        *_identity(stretch, np.arange(len(size)), RTYPE_UNIT),
        coded("FINAL_POP", sizes.astype(str).tolist() or ["0"], size),
        coded("NPF", [str(number) for number in range(98)], np.minimum(recodes.family, 97)),
        coded("HHSPAN", list("012"), recodes.hispanic),
        coded("HHRACE", _TWO_DIGITS, recodes.race),
        coded("TEN", list("01234"), stretch.population.tenure),
        coded("HHT", list("01234567"), recodes.hht),
        coded("HHT2", _TWO_DIGITS[:13], recodes.hht2),
        coded("CPLT", list("012345"), recodes.cplt),
    ]


def _sdhc_geo(stretch: Stretch) -> list[IndexedColumns]:
    block, grf = stretch.population.homes.block, stretch.blocks.columns
    of_state = REGION_OF[grf["TABBLKST"][0].decode()]
    words = {"TABBLKGRPCE": grf["TABBLK"].astype("S1")}
    words |= {"REGIONCE": np.full(len(stretch.blocks), of_state[0], "S1")}
    words |= {"DIVISIONCE": np.full(len(stretch.blocks), of_state[1], "S1")}
    words |= {name: grf[name] for name in ("PLACEFP", "AIANNHCE")}
    return [*_identity(stretch, np.arange(len(block)), RTYPE_UNIT), stretch.at_units, IndexedColumns(words, block)]


def _tda_persons(stretch: Stretch) -> list[IndexedColumns]:
    people, homes = stretch.population, stretch.population.homes
    kind, adult, hispanic, races = np.unravel_index(np.arange(8 * 4 * SETS), (8, 2, 2, SETS))
    words = {
        "RTYPE": np.array(RTYPE_PERSON, "S")[(kind > 0).astype(int)],
        "GQTYPE_PL": digits(kind, 1),
        "VOTING_AGE": digits(adult + 1, 1),
        "CENHISP": digits(hispanic + 1, 1),
        "CENRACE": digits(CENRACE[races], 2),
    }
    at = homes.kind[homes.unit].astype(np.int64) * 2 + (people.age >= ADULT_AGE)
    return [stretch.at_persons, IndexedColumns(words, at * 2 * SETS + people.cell)]


def _tda_units(stretch: Stretch) -> list[IndexedColumns]:
    homes = stretch.population.homes
    status = np.where(homes.kind > 0, 2, homes.head < 0)
    words = {"RTYPE": np.array(["2", "2", RTYPE_UNIT[1]], "S"), "HH_STATUS": np.array(["1", "2", "0"], "S")}
    return [stretch.at_units, IndexedColumns(words, status)]


def _tda_quarters(stretch: Stretch) -> list[IndexedColumns]:
    counts = stretch.facilities
    words = {"tabblk": stretch.blocks.codes, "hu": numerals(counts[:, 0])}
    words |= {f"gq{kind}": numerals(counts[:, kind]) for kind in range(1, counts.shape[1])}
    return [IndexedColumns(words, np.flatnonzero(counts.sum(axis=1)))]


SYSTEMS = {
    system.name: system
    for system in (
        SystemFiles("detailed-dhca", (RecordTable("person-records", _person_records),), 79),
        SystemFiles("ddhcb", (RecordTable("household-records", _household_records),), 28),
        SystemFiles(
            "sdhc",
            (
                RecordTable("persons", _sdhc_persons, ",", "csv"),
                RecordTable("units", _sdhc_units, ",", "csv"),
                RecordTable("geo", _sdhc_geo, ",", "csv"),
            ),
            58,
            geography=False,
        ),
        SystemFiles(
            "tda",
            (
                RecordTable("persons", _tda_persons),
                RecordTable("units", _tda_units),
                RecordTable("quarters", _tda_quarters, ",", "csv", always_text=True),
            ),
            44,
            totals="states.csv",
        ),
        SystemFiles(
            "dhc",
            (
                RecordTable("persons", dhc.person_records),
                RecordTable("households", dhc.household_records),
                RecordTable("units", dhc.unit_records),
                RecordTable("quarters", dhc.facilities, ",", "csv", always_text=True),
                RecordTable("prims", dhc.prims, ",", "csv", always_text=True),
            ),
            68,
        ),
    )
}


def find_systems(names: Iterable[str]) -> tuple[SystemFiles, ...]:
    """Return the systems with these names, each once; `all` names all. Raises Refused for an unknown name."""
    wanted = list(names)
    if unknown := sorted(set(wanted) - {*SYSTEMS, "all"}):
        raise Refused(f"{unknown[0]!r} is not a system: {', '.join(SYSTEMS)} or all")
    return tuple(system for name, system in SYSTEMS.items() if name in wanted or "all" in wanted)
