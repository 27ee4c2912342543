"""Every fault of a TopDown run's input is a finding: file, rule, column, line; and nothing is spent on it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from top_down_inputs import HERE, country, damage, design, edited, tables

from tasks.errors import Refused
from tasks.records.findings import Finding, load_findings
from tasks.top_down.input.block_run import TopDownRun
from tasks.top_down.input.validation import validate

Change = Callable[[list[str]], list[str]]


def field(column: str, text: str, line: int = 2) -> Change:
    """Change a field of a line, counted from 1."""

    def change(lines: list[str]) -> list[str]:
        mark = "|" if "|" in lines[0] else ","
        parts = lines[line - 1].split(mark)
        parts[lines[0].split(mark).index(column)] = text
        return [*lines[: line - 1], mark.join(parts), *lines[line:]]

    return change


def without(line: int) -> Change:
    return lambda lines: [*lines[: line - 1], *lines[line:]]


def doubled(line: int) -> Change:
    return lambda lines: [*lines, lines[line - 1]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return country(tmp_path_factory.mktemp("country"))


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    """Files of a country that a test may change."""
    return Path(shutil.copytree(whole, tmp_path / "data"))


def new_run(folder: Path, name: str = "run") -> TopDownRun:
    run = TopDownRun(folder / "runs" / name)
    run.create()
    return run


def faults(folder: Path, data: Path) -> list[Finding]:
    run = new_run(folder)
    with pytest.raises(Refused, match="does not pass validation") as refused:
        validate(run, HERE, tables(data), design(), None)
    assert "23" not in str(refused.value)  # nothing of the data
    assert not (run / "secret").exists()
    return [finding for finding in load_findings(run) if not finding.warning]


# file, what is changed in it, the rule's beginning, the column, the first line
FAULTS = [
    ("persons.txt", field("CENRACE", "64", 3), "Invalid values found in CENRACE", "CENRACE", 3),
    ("persons.txt", field("CENHISP", "x"), "Invalid values found in CENHISP", "CENHISP", 2),
    ("persons.txt", field("TABBLKST", "2"), "Invalid values found in TABBLKST", "TABBLKST", 2),
    ("persons.txt", field("TABBLK", "9999", 5), "block is not in the geography", "TABBLK", 5),
    ("persons.txt", field("RTYPE", "5"), "RTYPE and GQTYPE_PL disagree", "RTYPE", 2),
    (
        "persons.txt",
        lambda lines: [lines[0], *lines[2:]],
        "state 23 does not have the number",
        "TABBLKST",
        None,
    ),
    ("persons.txt", lambda lines: [lines[0].replace("CENRACE", "RACE"), *lines[1:]], "Missing columns", "", None),
    ("persons.txt", lambda lines: [*lines[:3], lines[3] + "|1", *lines[4:]], "a row does not have ", "", 4),
    ("persons.txt", lambda lines: lines[:1], "persons.txt is empty", "", None),
    ("units.txt", field("HH_STATUS", "3"), "Invalid values found in HH_STATUS", "HH_STATUS", 2),
    ("units.txt", field("RTYPE", "4"), "RTYPE and HH_STATUS disagree", "RTYPE", 2),
    ("units.txt", without(2), "blocks with fewer records than hu needs", "TABBLK", None),
    ("quarters.csv", field("hu", "many"), "Invalid values found in hu", "hu", 2),
    ("quarters.csv", field("tabblk", "123"), "Invalid values found in tabblk", "tabblk", 2),
    ("quarters.csv", doubled(2), "rows whose tabblk appears twice", "tabblk", None),
    ("quarters.csv", without(2), "block has neither a housing unit nor group quarters", "TABBLK", 2),
    ("states.csv", without(2), "states without a declared population: 23", "state", None),
    ("states.csv", field("pop", "-1"), "Invalid values found in pop", "pop", 2),
    ("GRF-C.txt", doubled(2), "", "", None),
]


@pytest.mark.parametrize(("file", "change", "rule", "column", "line"), FAULTS, ids=[f"{f[0]} {f[2]}" for f in FAULTS])
def test_fault_is_a_finding(
    tmp_path: Path, data: Path, file: str, change: Change, rule: str, column: str, line: int | None
) -> None:
    edited(data, file, change)
    found = faults(tmp_path, data)
    matching = [each for each in found if rule in each.rule and each.column == column]
    assert matching, found
    if line is not None:
        assert matching[0].first == line


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("persons.parquet", "pipe"),
        ("units.parquet", "pages"),
        *(pytest.param("persons.parquet", kind, marks=pytest.mark.ci) for kind in ("folder", "cut")),
    ],
)
def test_records_in_parquet_that_are_none_are_a_finding(tmp_path: Path, name: str, kind: str) -> None:
    data = country(tmp_path, form="parquet")
    path = data / name
    whole = path.read_bytes()
    path.unlink()
    rule = {
        "pipe": "a named pipe",
        "folder": "a folder",
        "cut": "cannot be read as a Parquet file",
        "pages": "row group 1 cannot be read",
    }
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "cut":
        path.write_bytes(whole[:-1])
    else:
        path.write_bytes(whole)
        damage(path)
    assert [finding.file for finding in faults(tmp_path, data) if rule[kind] in finding.rule] == [name]


def test_minor_in_nursing_is_a_finding(tmp_path: Path, data: Path) -> None:
    nursing = (data / "persons.txt").read_text().splitlines()
    at = next(number for number, text in enumerate(nursing) if "|5|3|2|" in text)
    edited(data, "persons.txt", lambda lines: [*lines[:at], lines[at].replace("|5|3|2|", "|5|3|1|"), *lines[at + 1 :]])
    (found,) = faults(tmp_path, data)
    assert (found.column, found.first) == ("VOTING_AGE", at + 1)


def test_quarters_that_no_person_lives_in_are_findings(tmp_path: Path, data: Path) -> None:
    rows = (data / "quarters.csv").read_text().splitlines()
    at = next(number for number, row in enumerate(rows) if number and row.split(",")[3] == "0")
    edited(data, "quarters.csv", field("gq2", "1", at + 1))
    rules = {finding.rule for finding in faults(tmp_path, data)}
    assert any(rule == "blocks with fewer records than gq2 needs" for rule in rules)
    assert any("another number of group quarters than declared" in rule for rule in rules)


def test_records_of_other_states_are_left_out(tmp_path: Path, data: Path) -> None:
    run = new_run(tmp_path)
    validated = validate(run, HERE, tables(data), design(states=(23,)), None)
    assert validated.states == ("23",)
    warnings = load_findings(run)
    assert {finding.rule for finding in warnings if finding.warning} >= {"records of other states, left out"}


def test_what_the_ledger_is_told_of_the_records_names_every_file(tmp_path: Path, data: Path) -> None:
    told = {}
    for products in (("persons",), ("units",), ("units", "persons")):
        run = new_run(tmp_path, "-".join(products))
        told[products] = validate(run, HERE, tables(data, products), design(products=products), None).records_digests
    assert sorted(told["units", "persons"]) == sorted((*told["units",], *told["persons",]))


def test_data_changed_under_its_mark_is_refused(tmp_path: Path, data: Path) -> None:
    path = data / "persons.txt"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")  # the same persons, another file
    run = new_run(tmp_path)
    with pytest.raises(Refused, match=r"persons.txt is not the file that SYNTHETIC.json declares synthetic"):
        validate(run, HERE, tables(data), design(), None)


def test_a_mark_that_cannot_be_read_is_refused(tmp_path: Path, data: Path) -> None:
    """Nobody can say then whether the data is synthetic; that it is not would be charged."""
    (data / "SYNTHETIC.json").unlink()
    (data / "SYNTHETIC.json").mkdir()
    run = new_run(tmp_path)
    with pytest.raises(Refused, match=r"SYNTHETIC.json cannot be read"):
        validate(run, HERE, tables(data), design(), None)
