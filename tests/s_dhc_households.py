"""Made-up households for the S-DHC, and a naive program of its tables: loops over rows; it shares no code with it.

Universes, cells and recodes are written out again here, from the public table shells and code lists.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

PERSON_COLUMNS = ("RTYPE", "MAFID", "QAGE", "CENHISP", "CENRACE", "RELSHIP")
UNIT_COLUMNS = ("RTYPE", "MAFID", "FINAL_POP", "NPF", "HHSPAN", "HHRACE", "TEN", "HHT", "HHT2", "CPLT")
GEO_COLUMNS = (
    "RTYPE", "MAFID", "TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK", "TABBLKGRPCE", "REGIONCE", "DIVISIONCE",
    "PLACEFP", "AIANNHCE",
)  # fmt: skip
RELATIVE = {"21", "23", *map(str, range(25, 34))}
OWN = {"25", "26", "27"}
CELLS = {
    "PH1_num": ["2", "3"],
    "PH1_denom": ["1"],
    "PH2": ["3", "4", "6", "7", "9", "10", "12", "13"],
    "PH3": ["2", "4", "5", "6", "7", "9", "10"],
    "PH4": ["2", "3"],
    "PH5_num": ["2", "3"],
    "PH5_denom": ["1"],
    "PH6": ["3", "4", "5", "6", "8", "9", "10", "11", "13", "14", "15", "16", "18", "19", "20", "21"],
    "PH7": ["2", "3", "4"],
    "PH8_num": ["2", "3"],
    "PH8_denom": ["2", "3"],
}
TAU = {"PH1_num": 10, "PH2": 10, "PH3": 6, "PH4": 10, "PH6": 6, "PH7": 10}
Row = dict[str, str]


@dataclass
class Person:
    relation: int
    age: int
    race: int = 1
    hispanic: bool = False
    sex: str = "f"


@dataclass
class Unit:
    """A housing unit, or group quarters, with its persons."""

    mafid: int
    state: str
    persons: list[Person] = field(default_factory=list)
    tenure: int = 0
    quarters: bool = False

    def recodes(self) -> dict[str, int]:
        """What the unit file says of it, from the persons."""
        head = next((one for one in self.persons if one.relation == 20), None)
        names = ("HHSPAN", "HHRACE", "TEN", "HHT", "HHT2", "CPLT", "NPF")
        if self.quarters or head is None:
            return dict.fromkeys(names, 0) | {"FINAL_POP": len(self.persons)}
        partner = next((one.relation for one in self.persons if 21 <= one.relation <= 24), None)
        relatives = [one for one in self.persons if str(one.relation) in RELATIVE]
        own = any(str(one.relation) in OWN and one.age < 18 for one in self.persons)
        alone, female = len(self.persons) == 1, head.sex == "f"
        if partner in (21, 23):
            hht, hht2 = 1, 1 if own else 2
        elif partner:
            hht, hht2 = 0, 3 if own else 4
        else:
            hht, hht2 = 0, (5 if female else 9) + (0 if alone else 1 if own else 2 if relatives else 3)
        hht = hht or (2 + female if relatives else (4 if alone else 5) + 2 * female)
        return {
            "HHSPAN": 1 + head.hispanic,
            "HHRACE": head.race,
            "TEN": self.tenure,
            "HHT": hht,
            "HHT2": hht2,
            "CPLT": {21: 1, 23: 2, 22: 3, 24: 4, None: 5}[partner],
            "NPF": len(relatives) + 1 if relatives else 0,
            "FINAL_POP": len(self.persons),
        }


@dataclass
class Country:
    """Units, as the three files have them; tests edit the rows."""

    persons: list[Row]
    units: list[Row]
    geo: list[Row]

    def write(self, data: Path, *, form: str = "csv", delimiter: str = ",", integers: bool = False) -> Path:
        data.mkdir(parents=True, exist_ok=True)
        for name, columns in (("persons", PERSON_COLUMNS), ("units", UNIT_COLUMNS), ("geo", GEO_COLUMNS)):
            rows = getattr(self, name)
            if form == "parquet":
                table = pa.table({column: pa.array([row[column] for row in rows], pa.string()) for column in columns})
                if integers:
                    table = table.set_column(1, "MAFID", table["MAFID"].cast(pa.int64()))
                pq.write_table(table, data / f"{name}.parquet", row_group_size=200)
            else:
                lines = [delimiter.join(columns), *(delimiter.join(row[column] for column in columns) for row in rows)]
                (data / f"{name}.csv").write_text("\n".join(lines) + "\n")
        return data


def country(units: Iterable[Unit]) -> Country:
    made = Country([], [], [])
    for unit in units:
        recodes = unit.recodes()
        made.units.append(
            {"RTYPE": "4" if unit.quarters else "2", "MAFID": str(unit.mafid)}
            | {name: f"{value:02d}" if name in ("HHRACE", "HHT2") else str(value) for name, value in recodes.items()}
        )
        where = ("001", "000100", "1001", "1", "1", "1", "99999", "9999")
        made.geo.append(
            dict(zip(GEO_COLUMNS, (made.units[-1]["RTYPE"], str(unit.mafid), unit.state, *where), strict=True))
        )
        for one in unit.persons:
            values = ("5" if unit.quarters else "3", unit.mafid, one.age, 1 + one.hispanic, f"{one.race:02d}")
            made.persons.append(dict(zip(PERSON_COLUMNS, map(str, (*values, one.relation)), strict=True)))
    return made


def random_units(number: int, states: list[str], seed: int = 36) -> Iterator[Unit]:
    """Units of every kind: vacant, quarters, all relations, some households larger than any tau."""
    chance = random.Random(seed)
    for at in range(number):
        mafid, state = 100_000_001 + 7 * at, chance.choice(states)
        kind = chance.random()
        if kind < 0.08:
            yield Unit(mafid, state)
            continue
        race = lambda: chance.choice([1, 1, 1, 2, 3, 4, 5, 6, 7, 40, 63])  # noqa: E731
        if kind < 0.12:
            people = [Person(chance.choice((37, 38)), chance.randint(0, 115), race()) for _ in range(at % 15)]
            yield Unit(mafid, state, people, quarters=True)
            continue
        size = chance.choice([1, 1, 2, 2, 3, 4, 5, 7, 11, 13])
        one_race = race()
        people = [Person(20, chance.randint(15, 115), one_race, chance.random() < 0.2, chance.choice("mf"))]
        if size > 1 and chance.random() < 0.7:
            people.append(Person(chance.randint(21, 24), chance.randint(15, 90), race(), chance.random() < 0.2))
        while len(people) < size:
            relation = chance.choice([25, 25, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36])
            age = chance.choice([0, 3, 4, 5, 6, 11, 12, 17, 18, 40])
            people.append(Person(relation, age, chance.choice((one_race, race())), chance.random() < 0.3))
        chance.shuffle(people)
        yield Unit(mafid, state, people, tenure=chance.randint(1, 4))


def hash_of(row: Row, copy: int) -> str:
    """The hash by which the program of 2020 truncates, written out again."""
    values = [row["RTYPE"], f"{int(row['MAFID']):b}", f"{int(row['QAGE']):b}", f"{int(row['CENHISP']):b}"]
    values += [row["CENRACE"], row["RELSHIP"], f"{copy:b}"]
    joined = ",".join(sha256(value.encode()).hexdigest() for value in values)
    return sha256(sha256(joined.encode()).hexdigest().encode()).hexdigest()


def truncate(rows: list[Row], tau: int | None) -> Iterator[Row]:
    by_unit: dict[str, list[tuple[str, Row]]] = defaultdict(list)
    copies: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        key = tuple(row[name] for name in PERSON_COLUMNS)
        copies[key] += 1
        by_unit[row["MAFID"]].append((hash_of(row, copies[key]), row))
    for hashed in by_unit.values():
        yield from (row for _, row in sorted(hashed, key=lambda pair: pair[0])[:tau])


def iterations(race: str, hispanic: str) -> Iterator[str]:
    yield "ABCDEF"[int(race) - 1] if int(race) <= 6 else "G"
    if hispanic == "2":
        yield "H"
    elif race == "01":
        yield "I"
    yield "*"


def cell_of(table: str, row: Row, unit: Row) -> str:
    """The cell of a person's row in a unit, or of a unit."""
    minor = int(row.get("QAGE", "99")) < 18
    hht2, own = unit["HHT2"], row.get("RELSHIP") in OWN
    if table in ("PH1_denom", "PH5_denom"):
        return "1"
    if table == "PH8_denom":
        return "2" if unit["TEN"] in "12" else "3"
    if table in ("PH1_num", "PH4"):
        return "2" if minor else "3"
    if table == "PH7":
        return {"1": "2", "2": "3", "3": "4", "4": "4"}[unit["TEN"]]
    if table == "PH2":
        couple = {("01", "1"): "3", ("02", "1"): "3", ("01", "2"): "4", ("02", "2"): "4"}
        couple |= {("03", "3"): "6", ("04", "3"): "6", ("03", "4"): "7", ("04", "4"): "7"}
        return (
            couple.get((hht2, unit["CPLT"]))
            or ({"09": "9", "10": "10", "11": "10", "12": "10", "05": "12", "06": "13", "07": "13", "08": "13"}[hht2])
        )
    if table == "PH3":
        if own:
            return {"01": "4", "03": "5", "10": "6", "06": "7"}[hht2]
        relation = row["RELSHIP"]
        return "9" if relation == "30" else "10" if relation in ("28", "29", "31", "32", "33") else "2"
    age = int(row["QAGE"])
    return str(
        {"01": 3, "03": 8, "10": 13, "06": 18}[hht2] + (0 if age <= 3 else 1 if age <= 5 else 2 if age <= 11 else 3)
    )


def counted(table: str, row: Row) -> bool:
    """Whether a person's row is a candidate, before truncation."""
    minor = int(row["QAGE"]) < 18
    if row["RTYPE"] != "3":
        return False
    if table == "PH3":
        return minor
    if table == "PH6":
        return minor and row["RELSHIP"] in OWN
    return table != "PH4" or row["RELSHIP"] == "20" or row["RELSHIP"] in RELATIVE


def naive(made: Country, states: list[str], *, truncated: bool = True) -> Counter[tuple[str, str, str, str, str]]:
    """Exact counts by (table, region type, region, iteration, cell), of the eleven published tables."""
    found: Counter[tuple[str, str, str, str, str]] = Counter()
    states_of = {row["MAFID"]: row["TABBLKST"] for row in made.geo if row["RTYPE"] == "2"}
    units = {row["MAFID"]: row for row in made.units}

    def add(table: str, mafid: str, codes: Iterable[str], cell: str) -> None:
        if states_of[mafid] in states:
            for code in codes:
                if code == "*" or table not in ("PH2", "PH6"):
                    found[table, "USA", "1", code, cell] += 1
                    found[table, "STATE", states_of[mafid], code, cell] += 1

    for table, tau in TAU.items():
        rows = [row for row in made.persons if counted(table, row)]
        for row in truncate(rows, tau if truncated else None):
            unit = units[row["MAFID"]]
            if table == "PH4" and unit["HHT"] not in "123":
                continue
            names = (row["CENRACE"], row["CENHISP"]) if table == "PH3" else (unit["HHRACE"], unit["HHSPAN"])
            add(table, row["MAFID"], iterations(*names), cell_of(table, row, unit))
    for unit in made.units:
        if unit["RTYPE"] == "2" and unit["HHT"] != "0":
            codes = list(iterations(unit["HHRACE"], unit["HHSPAN"]))
            for table in ("PH1_denom", "PH8_denom", *(("PH5_denom",) if unit["HHT"] in "123" else ())):
                add(table, unit["MAFID"], codes, cell_of(table, {}, unit))
    for (table, *where, cell), count in list(found.items()):
        if table == "PH4":
            found["PH5_num", *where, cell] += count
        if table == "PH7":
            found["PH8_num", *where, "3" if cell == "4" else "2"] += count
    return found


NMFV8 = {
    10: {"usa": "0.002619", "state_H,I": "0.016371", "state_*": "0.016371", "state_A-G": "0.141622"},
    6: {"usa": "0.001061", "state_H,I": "0.006630", "state_*": "0.006630", "state_A-G": "0.662976"},
    0: {"usa": "0.000022", "state_H,I": "0.000135", "state_*": "0.000135", "state_A-G": "0.001170"},
}


def configuration(states: list[str], *, budget: str | None = None, **changes: object) -> dict[str, object]:
    """A config.json: the production budgets, or one budget for all keys; the nation's are 0 for Puerto Rico."""
    budgets = {}
    for table in ("PH1_num", "PH1_denom", "PH2", "PH3", "PH4", "PH5_denom", "PH6", "PH7", "PH8_denom"):
        levels = ("*",) if table in ("PH2", "PH6") else ("A-G", "H,I", "*")
        of_table = NMFV8[TAU.get(table, 0)]
        budgets[table] = {
            f"{region}_{level}": "0"
            if region == "usa" and states == ["72"]
            else budget or of_table.get(f"{region}_{level}", of_table["usa"])
            for region in ("usa", "state")
            for level in levels
        }
    return {
        "privacy_budget": budgets,
        "tau": dict(TAU),
        "state_filter": states,
        "reader": "csv",
        "privacy_defn": "zcdp",
        **changes,
    }


def write_configuration(path: Path, values: dict[str, object]) -> Path:
    """Write a config.json; budgets are written as numbers, as they are."""
    text = json.dumps(values)
    for budgets in values["privacy_budget"].values():  # type: ignore[attr-defined]
        for value in set(budgets.values()):
            text = text.replace(f'"{value}"', value) if isinstance(value, str) and value not in ("72",) else text
    path.write_text(text, encoding="utf-8")
    return path
