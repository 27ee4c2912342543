"""Bad input, one fault at a time: the fault and its finding.

The curator's finding has its line number and values; neither a value nor a person's line may show up anywhere else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dhca_inputs import BLOCK_COLUMNS, BUDGETS, Inputs, configuration, edit, person

CONFIG = "params/config.json"
CODES = "params/race-and-ethnicity-codes.txt"
RACE = "params/race-characteristic-iterations.txt"
ETHNICITY = "params/ethnicity-characteristic-iterations.txt"
MAPPING = "params/race-and-ethnicity-code-to-iteration.txt"
BLOCKS = "data/GRF-C.txt"
PERSONS = "data/person-records.txt"
CANARY = "8642"  # a value of the person with a fault

Change = Callable[[Path], None]


@dataclass(frozen=True)
class Fault:
    """A change to good input, and the one finding that it makes."""

    name: str
    file: str
    change: Change
    rule: str
    column: str = ""
    rows: int = 1
    first: int | None = None


def good_inputs() -> Inputs:
    """Good input: nine persons, on lines 2 to 10; the last two outside the state filter."""
    persons = [person(races=["1100", "1200"]), *[person() for _ in range(6)]]
    outside = ("11", "001", "000100", "1000", "50000", "9999")
    return Inputs(persons=[*persons, person(outside), person(outside)])


def swap(old: str, new: str) -> Callable[[bytes], bytes]:
    """Replace the first occurrence of a text."""

    def change(data: bytes) -> bytes:
        assert old.encode() in data
        return data.replace(old.encode(), new.encode("utf-8", "surrogateescape"), 1)

    return change


def field(number: int, column: str, new: str) -> Callable[[bytes], bytes]:
    """Replace one value."""

    def change(data: bytes) -> bytes:
        lines = data.decode().split("\n")
        values = lines[number - 1].split("|")
        values[lines[0].split("|").index(column)] = new
        lines[number - 1] = "|".join(values)
        return "\n".join(lines).encode("utf-8", "surrogateescape")

    return change


def add(text: str) -> Callable[[bytes], bytes]:
    """Add lines at the end."""
    return lambda data: data + text.encode()


def becomes(text: str) -> Callable[[bytes], bytes]:
    """Other contents."""
    return lambda data: text.encode()


def header_only(data: bytes) -> bytes:
    """Leave the header."""
    return data.partition(b"\n")[0] + b"\n"


def headless(data: bytes) -> bytes:
    """Leave the header out."""
    return data.partition(b"\n")[2]


def old_columns(data: bytes) -> bytes:
    """Leave the last column out."""
    return b"\n".join(row.rpartition(b"|")[0] for row in data.splitlines()) + b"\n"


def columns_more(value: str) -> Callable[[bytes], bytes]:
    """Add a value to every row."""
    return lambda data: b"".join(row + f"|{value}\n".encode() for row in data.splitlines())


def _config(**changes: Any) -> Callable[[bytes], bytes]:
    return lambda data: json.dumps(configuration(**changes)).encode()


def _fault(name: str, file: str, change: Callable[[bytes], bytes] | None, *finding: Any, **more: Any) -> Fault:
    def apply(folder: Path) -> None:
        if change is None:
            (folder / file).unlink()
        else:
            (folder / file).write_bytes(change((folder / file).read_bytes()))

    return Fault(name, file.rpartition("/")[2], apply, *finding, **more)


EMPTY = "is empty. This fails validation as records are expected."
NO_FILE = "the file does not exist"
INVALID = "Invalid values found"
NOT_UTF8 = "is not UTF-8 text"
WIDTH = "a row does not have"
RETURN = "a line holds a carriage return"

CONFIG_FAULTS = [
    _fault("no config", CONFIG, None, NO_FILE),
    _fault("config is not UTF-8", CONFIG, lambda data: b'{"run_us": "\xff"}', NOT_UTF8),
    _fault("config is not JSON", CONFIG, becomes("{"), "is not JSON as expected"),
    _fault("missing key", CONFIG, swap('"reader": "csv", ', ""), "missing required keys ['reader']"),
    _fault("key given twice", CONFIG, swap('"run_pr"', '"run_us"'), "keys given twice ['run_us']"),
    _fault("unknown key", CONFIG, _config(comment="x"), "unknown keys ['comment']"),
    _fault("NaN budget", CONFIG, _config(privacy_budget_p_level_1_usa=float("nan")), "usa must not be NaN", "budgets"),
    _fault("negative budget", CONFIG, _config(privacy_budget_p_level_1_usa=-1), "usa must not be negative", "budgets"),
    _fault(
        "noise too wide",
        CONFIG,
        _config(privacy_budget_p_level_2_place=1e-12),
        "Place, Detailed: the noise is too wide",
        "privacy_budget_p_level_2_place",
    ),
    _fault(
        "two thresholds",
        CONFIG,
        swap('"(STATE, 2)": [2, 8, 30]', '"(STATE, 2)": [2, 8]'),
        "(STATE, 2) must hold exactly three numbers",
        "thresholds_p",
    ),
    _fault(
        "falling thresholds",
        CONFIG,
        swap('"(STATE, 2)": [2, 8, 30]', '"(STATE, 2)": [2, 8, 7]'),
        "(STATE, 2) must not decrease",
        "thresholds_p",
    ),
    *(
        _fault(
            f"gamma {gamma}",
            CONFIG,
            _config(privacy_budget_p_stage_1_fraction=gamma),
            f"{gamma} should be {bound}",
            "privacy_budget_p_stage_1_fraction",
        )
        for gamma, bound in ((0, "greater than 0"), (1, "less than 1"))
    ),
    _fault("no region", CONFIG, _config(run_us=False), "At least one of 'run_us', 'run_pr' must be True.", "run_us"),
]

TABLES = {CODES: 8, RACE: 17, ETHNICITY: 5, MAPPING: 32, BLOCKS: 10, PERSONS: 10}  # lines, header included
TABLE_FAULTS = [  # of every table: what is wrong, the change, the rule, and the line that is named
    _fault(words.format(file), file, change, rule, first=first)
    for file, lines in TABLES.items()
    for words, change, rule, first in (
        ("no {}", None, NO_FILE, None),
        ("{} is empty", becomes(""), EMPTY, None),
        ("{} holds a header only", header_only, EMPTY, None),
        ("{} holds blank lines only", lambda data: header_only(data) + b"\r\n\n", EMPTY, None),
        ("{} lacks a column", old_columns, "Missing columns. Expected columns: [", None),
        ("{} is not UTF-8", lambda data: data.replace(b"0", b"\xff", 1), NOT_UTF8, 2),
        ("{} has a long row", lambda data: data.rstrip(b"\n") + b"|1\n\n", WIDTH, lines),
        ("{} has a short row", lambda data: data + b"\n\r\n1\n", WIDTH, lines + 3),
        ("{} has a stray carriage return", lambda data: data[:-3] + b"\r" + data[-3:], RETURN, lines),
        ("{} has the line ends of an old Mac", lambda data: data.replace(b"\n", b"\r"), RETURN, 1),
    )
]


def _race(number: int, column: str, value: str, rule: str, at: str = "ITERATION_CODE") -> Fault:
    return _fault(f"race iteration: {column} {value}", RACE, field(number, column, value), rule, at, first=number)


def _mapping(added: str, rule: str, column: str, first: int | None = None) -> Fault:
    return _fault(f"mapping: {added}", MAPPING, add(f"{added}\n"), rule, column, first=first)


PARAMETER_FAULTS = [
    *(
        _fault(f"unknown column of {file}", file, columns_more("x"), "Unexpected columns found: ['x']", first=1)
        for file in (CODES, RACE, ETHNICITY, MAPPING)
    ),
    _fault("code of three digits", CODES, add("120|x\n"), INVALID, "RACE_ETH_CODE", first=9),
    _fault("code that begins with 0", CODES, add("0120|x\n"), INVALID, "RACE_ETH_CODE", first=9),
    _fault("duplicate code", CODES, add("1110|x\n"), "codes that appear twice: ['1110']", "RACE_ETH_CODE", first=9),
    *(
        _fault(name, ETHNICITY, add(f"{code}|x|2|False|False\n"), f"{rule}: ['{code}']", "ITERATION_CODE", first=6)
        for name, code, rule in (
            ("duplicate iteration", "3002", "codes that appear twice"),
            ("iteration of both kinds", "2001", "codes that are race iterations as well"),
        )
    ),
    _race(9, "ITERATION_CODE", "20020", INVALID),
    _race(9, "ALONE", "true", INVALID, "ALONE"),
    _race(9, "COARSE_ONLY", "null", INVALID, "COARSE_ONLY"),
    _race(9, "LEVEL", "-1", INVALID, "LEVEL"),
    _race(9, "LEVEL", "3", "LEVEL above 2 is never tabulated: ['2002']"),
    _race(15, "COARSE_ONLY", "True", "DETAILED_ONLY and COARSE_ONLY are both True for: ['2008']"),
    _race(9, "DETAILED_ONLY", "Null", "DETAILED_ONLY must be Null exactly where LEVEL is 0; not so for: ['2002']"),
    _race(2, "COARSE_ONLY", "False", "COARSE_ONLY must be Null exactly where LEVEL is 0; not so for: ['0001']"),
    _mapping("2001|9999", "codes that are not in race-and-ethnicity-codes.txt: ['9999']", "RACE_ETH_CODE", 33),
    _mapping("9999|1100", "codes that are not in the iteration files: ['9999']", "ITERATION_CODE", 33),
    _mapping(
        "2007|1100",
        "codes that map to more than one alone iteration of level 2, nation/state: 1100: 2001, 2007",
        "RACE_ETH_CODE",
    ),
    _mapping(
        "2010|1200",
        "codes that map to more than one combination iteration of level 2, sub-state: 1200: 2006, 2010",
        "RACE_ETH_CODE",
    ),
    _mapping(
        "3003|2100",
        "codes that map to more than one ethnicity iteration of level 2, nation/state: 2100: 3002, 3003",
        "RACE_ETH_CODE",
    ),
]


def _one_level(folder: Path, change: Callable[[str], str], **changes: Any) -> None:
    """Give level 1 of the nation alone a budget, and change the mapping."""
    only = dict.fromkeys((key for key in BUDGETS if "level_1" in key and key != BUDGETS[0]), 0)
    (folder / CONFIG).write_text(json.dumps(configuration(**only, **changes)))
    edit(folder / MAPPING, change)


def _unstable(folder: Path) -> None:
    """Two codes of one alone iteration, each with an in-combination iteration of its own, but two codes a person."""
    _one_level(folder, lambda text: text.replace("1002|1110", "1012|1110"), max_race_codes=2)
    edit(folder / RACE, lambda text: text + "1012|x|1|False|False|False\n")


def _unreached(folder: Path) -> None:
    """No code maps to an iteration of level 1."""
    level_1 = ("1001", "1002", "1003", "1004", "3001")
    _one_level(folder, lambda text: "".join(row for row in text.splitlines(True) if row[:4] not in level_1))


STABILITY_FAULTS = [
    Fault(
        "stability formula not enough",
        MAPPING.removeprefix("params/"),
        _unstable,
        "Nation, Regional: a possible record is in 4 population groups, more than the stability formula's 3",
    ),
    Fault(
        "level that no code reaches",
        MAPPING.removeprefix("params/"),
        _unreached,
        "Nation, Regional: no code maps to an iteration of this level: set its budget to 0",
    ),
]

GOOD_BLOCK = dict(zip(BLOCK_COLUMNS, ("01", "001", "000100", "1009", "00500", "9999"), strict=True))
BLOCK_FAULTS = [
    *(
        _fault(
            f"GRF-C: {column} {value}",
            BLOCKS,
            add("|".join((GOOD_BLOCK | {column: value}).values()) + "\n"),
            f"Invalid values found in {column}: ['{value}']",
            column,
            first=11,
        )
        for column, value in (
            ("TABBLKST", "1"),
            ("TABBLKCOU", "01"),
            ("TABTRACTCE", "0001.0"),
            ("TABBLK", "1009A"),
            ("PLACEFP", ""),
            ("AIANNHCE", "Null"),
        )
    ),
    _fault(
        "duplicate block",
        BLOCKS,
        add("01|003|000100|1000|99999|9999\n"),
        "blocks that appear twice: ['1000']",
        "TABBLK",
        first=11,
    ),
    _fault(
        "column twice",
        BLOCKS,
        columns_more("PLACEFP"),
        "Columns that appear twice: ['PLACEFP']",
        first=1,
    ),
]

UNLISTED = "codes that are not in the code list"
DOMAINS = {
    "QAGE": ["116", "-1", "12.5", "abc", "", CANARY, "\u0663", " 30", "+30", "1e1", "None", "000116"],
    "QSEX": ["0", "3", "M", "", "01"],
    "HOUSEHOLDER": ["true", "TRUE", "1", ""],
    "TABBLKST": ["1", "0A", "", "001"],
    "TABBLKCOU": ["1", CANARY],
    "TABTRACTCE": ["1", "00010A"],
    "TABBLK": ["100", "10000"],
    "CENRACE": ["1", "100", "AB"],
    "QRACE1": ["Null", "0100", "110", "11000", ""],
    "QRACE2": ["null", "NULL", "", "12"],
    "QRACE8": ["NA", "nan"],
    "QSPAN": ["Null", "", "0200"],
}
PERSON_FAULTS = [
    *(
        _fault(f"person: {column} {value!r}", PERSONS, field(5, column, value), INVALID, column, first=5)
        for column, values in DOMAINS.items()
        for value in values
    ),
    *(
        _fault(f"person: {column} not listed", PERSONS, field(row, column, CANARY), UNLISTED, column, first=row)
        for row, column in ((5, "QRACE1"), (5, "QRACE2"), (2, "QRACE3"), (8, "QSPAN"))
    ),
    _fault(
        "person: code after Null", PERSONS, field(5, "QRACE8", "1200"), "race codes after a 'Null'", "QRACE2", first=5
    ),
    _fault(
        "person: block not in GRF-C", PERSONS, field(5, "TABBLK", CANARY), "block is not in GRF-C", "TABBLK", first=5
    ),
    Fault(
        "person: too many codes",
        "person-records.txt",
        lambda folder: (folder / CONFIG).write_text(json.dumps(configuration(max_race_codes=1))) and None,
        "more than 1 race codes",
        "QRACE1",
        first=2,
    ),
    _fault(
        "person: several rows",
        PERSONS,
        lambda data: field(8, "QAGE", "120")(field(3, "QAGE", "121")(field(5, "QAGE", "120")(data))),
        INVALID,
        "QAGE",
        rows=3,
        first=3,
    ),
    _fault(
        "person: unknown column",
        PERSONS,
        columns_more(CANARY),
        "Unexpected columns found",
        first=1,
    ),
]

FAULTS = [
    *CONFIG_FAULTS,
    *TABLE_FAULTS,
    *PARAMETER_FAULTS,
    *STABILITY_FAULTS,
    *BLOCK_FAULTS,
    *PERSON_FAULTS,
]
