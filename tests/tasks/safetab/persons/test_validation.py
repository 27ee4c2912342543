"""Validation: every fault is found where it stands, and nothing is found in good input, however it is written."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from dhca_faults import BLOCKS, CANARY, FAULTS, PERSONS, Fault, field, good_inputs, headless
from dhca_inputs import (
    BLOCK,
    CODES,
    HERE,
    PERSON_COLUMNS,
    PROPERTY,
    RACES,
    Here,
    Inputs,
    configuration,
    cut_files,
    edit,
    mark_synthetic,
    new_run,
    people,
    person,
    valid_run,
    validate,
    validate_here,
)
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.errors import Refused
from tasks.geography.grf_c import RegionMap
from tasks.lifecycle.files import open_array
from tasks.lifecycle.run_directory import VALIDATED
from tasks.records import fast_records
from tasks.records.findings import Finding
from tasks.releases.digests import file_digest
from tasks.safetab.encode import encoded_chunks
from tasks.safetab.parameters import read_parameters
from tasks.safetab.persons.person import AGE23_BINS, PERSON
from tasks.safetab.persons.run import DetailedRun, SafeTabPConfiguration
from tasks.safetab.run import PublicInput, SafeTabRun
from tasks.safetab.validation import _input_digest, check_public

LEFT_OUT = "persons outside the states of US, left out"


def errors(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if not finding.warning]


def without_values(findings: list[Finding]) -> list[tuple[str, str, str, int, int | None]]:
    """Findings without their values."""
    return [(finding.file, finding.rule, finding.column, finding.rows, finding.first) for finding in findings]


def encoded(run: DetailedRun) -> Counter[tuple[int, int, tuple[str, ...]]]:
    """The encoded persons: block, cell, codes."""
    names = ("Null", *run.parameters.iterations.codes)
    blocks = run.geography.blocks
    number_of: Counter[tuple[int, int, tuple[str, ...]]] = Counter()
    for chunk in encoded_chunks(run):
        block, ends, cell, combination, codes = (
            np.asarray(open_array(chunk, name)) for name in ("block", "ends", "cell", "combination", "combinations")
        )
        assert np.all(block[1:] > block[:-1])
        block = np.repeat(block, np.diff(ends, prepend=0))
        assert len(np.unique(codes, axis=0)) == len(codes)
        for block_number, cell_number, combination_number in zip(
            blocks[block].tolist(), cell.tolist(), combination.tolist(), strict=True
        ):
            number_of[
                block_number, cell_number, tuple(names[number] for number in codes[combination_number].tolist())
            ] += 1
    return number_of


def expected(persons: list[dict[str, str]], states: tuple[str, ...] = ("01", "02")) -> Counter[object]:
    """What `encoded` must give for good persons."""
    return Counter(
        (
            int("".join(person[name] for name in BLOCK)),
            23 * (int(person["QSEX"]) - 1) + sum(int(person["QAGE"]) >= age for age in AGE23_BINS) - 1,
            tuple(person[name] for name in (*RACES, "QSPAN")),
        )
        for person in persons
        if person["TABBLKST"] in states
    )


def test_good_input_has_no_error(tmp_path: Path) -> None:
    inputs = good_inputs()
    run, findings = valid_run(tmp_path, inputs)
    assert without_values(findings) == [("person-records.txt", LEFT_OUT, "TABBLKST", 2, None)]
    assert findings[0].warning
    assert encoded(run) == expected(inputs.persons)


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, id=fault.name, marks=[pytest.mark.ci] * (at % 2)) for at, fault in enumerate(FAULTS)],
)
def test_every_fault_is_one_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    """Also where the fast reader takes a chunk first: it leaves every fault to the validating one."""
    monkeypatch.setattr(fast_records, "MIN_BYTES", 0)
    params, data = good_inputs().write(tmp_path)
    fault.change(tmp_path)
    validated, findings = validate_here(new_run(tmp_path), params, data)
    assert validated is None
    (error,) = errors(findings)
    assert fault.rule in error.rule
    assert (error.file, error.column, error.rows, error.first) == (fault.file, fault.column, fault.rows, fault.first)
    if fault.file == "person-records.txt":  # what others than the curator may see of it
        assert CANARY not in error.rule + error.column + error.file


def test_the_values_are_in_the_curators_report(tmp_path: Path) -> None:
    params, data = good_inputs().write(tmp_path)
    for row in (3, 4, 7):
        (data / "person-records.txt").write_bytes(
            field(row, "QAGE", f"{row}00")((data / "person-records.txt").read_bytes())
        )
    _, findings = validate_here(new_run(tmp_path), params, data)
    (error,) = errors(findings)
    assert (error.rows, error.lines, error.values) == (3, (3, 4, 7), ("300", "400", "700"))


def test_a_person_file_without_header_shows_nobody(tmp_path: Path) -> None:
    params, data = good_inputs().write(tmp_path)
    path = data / "person-records.txt"
    path.write_bytes(headless(field(2, "QSPAN", CANARY)(path.read_bytes())))
    validated, findings = validate_here(new_run(tmp_path), params, data)
    assert validated is None
    rules = [finding.rule for finding in errors(findings)]
    assert rules[0].startswith("Missing columns. Expected columns: ['QAGE', ")
    assert rules[1:] == ["Columns that appear twice", "Unexpected columns found"]
    assert not any(CANARY in rule or "000100" in rule for rule in rules)


def test_all_faults_of_a_file_are_found_together(tmp_path: Path) -> None:
    params, data = good_inputs().write(tmp_path)
    path = data / "person-records.txt"
    text = path.read_bytes()
    for row, column, value in ((3, "QAGE", "x"), (4, "QSEX", "x"), (5, "QSPAN", CANARY), (6, "TABBLK", CANARY)):
        text = field(row, column, value)(text)
    path.write_bytes(text + b"short\n")
    _, findings = validate_here(new_run(tmp_path), params, data)
    assert sorted((finding.column, finding.first) for finding in errors(findings)) == [
        ("", 11),
        ("QAGE", 3),
        ("QSEX", 4),
        ("QSPAN", 5),
        ("TABBLK", 6),
    ]


def test_faults_of_all_parameter_files_are_found_together(tmp_path: Path) -> None:
    params, _ = good_inputs().write(tmp_path)
    (params / "config.json").write_text("{")
    (params / "race-and-ethnicity-codes.txt").unlink()
    edit(params / "race-characteristic-iterations.txt", lambda text: text.replace("|1|", "|9|"))
    parameters, findings = read_parameters(str(params), SafeTabPConfiguration)
    assert parameters is None
    assert {finding.file for finding in errors(findings)} == {
        "config.json",
        "race-and-ethnicity-codes.txt",
        "race-characteristic-iterations.txt",
    }


# What is no fault


def _crlf(folder: Path) -> None:
    for path in folder.rglob("*.txt"):
        edit(path, lambda text: text.replace("\n", "\r\n") + "\r\n\r\n")


def _blank_lines(folder: Path) -> None:
    for path in folder.rglob("*.txt"):
        edit(path, lambda text: text + "\n\n\n")


def _no_last_newline(folder: Path) -> None:
    for path in folder.rglob("*.txt"):
        edit(path, lambda text: text.rstrip("\n"))


def _byte_order_marks(folder: Path) -> None:
    for path in [*folder.rglob("*.txt"), *folder.rglob("*.json")]:
        edit(path, lambda text: "\ufeff" + text)


def _reversed_columns(folder: Path) -> None:
    for path in folder.rglob("*.txt"):
        edit(path, lambda text: "".join("|".join(row.split("|")[::-1]) + "\n" for row in text.splitlines()))


def _more_columns_of_blocks(folder: Path) -> None:
    """GRF-C may hold more, in whatever encoding: it is not read."""
    path = folder / BLOCKS
    path.write_bytes(b"".join(b"Ca\xf1on|" + row + b"|x\n" for row in path.read_bytes().splitlines()))


def _quotes(folder: Path) -> None:
    """A quotation mark is a character like any other."""
    for name in ("race-and-ethnicity-codes", "race-characteristic-iterations"):
        edit(folder / f"params/{name}.txt", lambda text: text.replace("|Name", '|"Name').replace("|Iter", '|"Iter'))


def _faults_outside_the_state_filter(folder: Path) -> None:
    """The state filter comes first: the persons of line 9 and 10 and the block of line 8 are not looked at."""
    edit(folder / PERSONS, lambda text: text.replace("30|1|True|11", "999|\u00b2|?|11").replace("|50000", "|5"))
    edit(folder / BLOCKS, lambda text: text.replace("11|001|000100|1000|50000", f"11|1|{9**40}|\u00b2|"))


def _leading_zeros(folder: Path) -> None:
    edit(folder / PERSONS, lambda text: text.replace("\n30|", "\n030|", 1).replace("\n30|", "\n00000000000030|", 1))


def _a_block_twice_outside_the_state_filter(folder: Path) -> None:
    edit(folder / BLOCKS, lambda text: text + text.splitlines()[-1] + "\n")


@pytest.mark.parametrize(
    "change",
    [
        _crlf,
        _blank_lines,
        _no_last_newline,
        _byte_order_marks,
        _reversed_columns,
        _more_columns_of_blocks,
        _quotes,
        _faults_outside_the_state_filter,
        _leading_zeros,
        _a_block_twice_outside_the_state_filter,
    ],
)
def test_no_fault(tmp_path: Path, change: Callable[[Path], None]) -> None:
    inputs = good_inputs()
    params, data = inputs.write(tmp_path)
    change(tmp_path)
    run = new_run(tmp_path)
    validated, findings = validate_here(run, params, data)
    assert validated is not None
    assert without_values(findings) == [("person-records.txt", LEFT_OUT, "TABBLKST", 2, None)]
    assert encoded(run) == expected(inputs.persons)


def test_line_numbers_count_blank_lines_and_rows_left_out(tmp_path: Path) -> None:
    params, data = good_inputs().write(tmp_path)
    edit(data / "GRF-C.txt", lambda text: text.replace("\n", "\r\n\r\n"))  # row r stands on line 2r - 1
    edit(data / "GRF-C.txt", lambda text: text + "short\r\n01|001|000100|100X|99999|9999\r\n")
    _, findings = validate_here(new_run(tmp_path), params, data)
    assert [(finding.column, finding.first) for finding in errors(findings)] == [("", 21), ("TABBLK", 22)]


@pytest.mark.parametrize("size", [400, 1000])
def test_the_parser_may_hold_little_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("tasks.records.tables.PARSE_BYTES", size)
    inputs = Inputs()
    run, findings = valid_run(tmp_path, inputs)
    assert findings == []
    assert encoded(run) == expected(inputs.persons)
    params, data = tmp_path / "params", tmp_path / "data"
    edit(data / "GRF-C.txt", lambda text: text + "01|001|000100|1009|99999|999X\n" * 50 + "\n01|001\n")
    _, findings = validate_here(new_run(tmp_path, "again"), params, data)
    assert [(fault.column, fault.rows, fault.first) for fault in errors(findings)] == [
        ("", 1, 62),
        ("AIANNHCE", 50, 11),
    ]


def test_everybody_outside_the_state_filter_is_a_warning(tmp_path: Path) -> None:
    _, findings = valid_run(tmp_path, Inputs(config=configuration(state_filter_us=["11"])))
    assert without_values(findings) == [("person-records.txt", LEFT_OUT, "TABBLKST", 60, None)]


def test_puerto_rico_takes_its_own_persons(tmp_path: Path) -> None:
    inputs = Inputs()
    inputs.config |= {"run_us": False, "run_pr": True}
    inputs.persons = [*people(5), *people(7, blocks=inputs.blocks[7:])]
    run, findings = valid_run(tmp_path, inputs, "pr")
    assert run.validated.blocks == 2
    assert without_values(findings) == [("person-records.txt", LEFT_OUT.replace("US", "PR"), "TABBLKST", 5, None)]
    assert encoded(run) == expected(inputs.persons, ("72",))


def test_a_jurisdiction_without_a_block_is_skipped(tmp_path: Path) -> None:
    inputs = Inputs(config=configuration(state_filter_us=["44"]))
    params, data = inputs.write(tmp_path)
    validated, findings = validate_here(new_run(tmp_path), params, data)
    assert validated is None
    assert errors(findings) == []


def test_a_jurisdiction_that_is_switched_off_is_skipped(tmp_path: Path) -> None:
    """Its thresholds and the noise of its levels were never checked, so it may not get as far as a charge."""
    thresholds = {key: value for key, value in configuration()["thresholds_p"].items() if "PR-" not in key}
    params, data = Inputs(config=configuration(thresholds_p=thresholds)).write(tmp_path)
    run = new_run(tmp_path, "run-pr")
    assert not check_public(run, str(params), str(data), "pr")
    validated, findings = validate_here(run, params, data, "pr")
    assert validated is None
    assert errors(findings) == []
    assert not (run / VALIDATED).exists()


def test_a_state_without_a_block_is_a_warning(tmp_path: Path) -> None:
    _, findings = valid_run(tmp_path, Inputs(config=configuration(state_filter_us=["44", "02", "01", "04"])))
    rule = "states without a block; a run is charged to them all the same: ['04', '44']"
    assert without_values(findings) == [("GRF-C.txt", rule, "TABBLKST", 2, None)]


def test_a_code_without_a_mapping_is_a_warning(tmp_path: Path) -> None:
    inputs = good_inputs()
    inputs.codes += ["4000", "4001"]
    rule = "codes that map to no iteration: ['4000', '4001']"
    assert ("race-and-ethnicity-codes.txt", rule, "RACE_ETH_CODE", 2, 9) in without_values(
        valid_run(tmp_path, inputs)[1]
    )


def test_hierarchies_that_differ_are_a_warning(tmp_path: Path) -> None:
    inputs = good_inputs()
    inputs.race[3] = (*inputs.race[3][:-1], "1100")  # 1110 is in A alone, but in no combination
    _, findings = valid_run(tmp_path, inputs)
    rules = [finding.rule for finding in findings if finding.warning]
    for where in ("nation/state", "sub-state"):
        assert f"alone and in-combination iterations of level 1, {where}, group the codes differently" in rules


@pytest.mark.parametrize("name", ["params-2020-production", "toy/input_dir_zcdp", "toy/input_dir_puredp"])
def test_published_parameters_have_no_error(das_data: Path, name: str) -> None:
    parameters, findings = read_parameters(str(das_data / name), SafeTabPConfiguration)
    assert parameters is not None
    assert errors(findings) == []


# Parquet


def _as_parquet(data: Path, rows_each: int) -> None:
    path = data / "person-records.txt"
    table = pa.csv.read_csv(
        path,
        parse_options=pa.csv.ParseOptions(delimiter="|"),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(PERSON_COLUMNS, pa.string()), strings_can_be_null=False
        ),
    )
    pq.write_table(table, data / "person-records.parquet", row_group_size=rows_each)
    path.unlink()


@pytest.mark.parametrize("rows_each", [1, 7, 1000])
def test_parquet_persons_equal_text_persons(tmp_path: Path, rows_each: int) -> None:
    inputs = Inputs()
    params, data = inputs.write(tmp_path)
    _as_parquet(data, rows_each)
    run = new_run(tmp_path)
    validated, findings = validate_here(run, params, data)
    assert validated is not None
    assert findings == []
    assert encoded(run) == expected(inputs.persons)


@pytest.mark.parametrize("rows_each", [pytest.param(1, marks=pytest.mark.slow), 4])
@pytest.mark.parametrize(
    "fault",
    [fault for fault in FAULTS if fault.name.startswith("person:") and fault.column in ("QRACE1", "QRACE2", "TABBLK")],
    ids=lambda fault: fault.name,
)
def test_faults_in_parquet(tmp_path: Path, fault: Fault, rows_each: int) -> None:
    params, data = good_inputs().write(tmp_path)
    fault.change(tmp_path)
    _as_parquet(data, rows_each)
    _, findings = validate_here(new_run(tmp_path), params, data)
    (error,) = errors(findings)
    assert fault.rule in error.rule
    assert fault.first is not None
    assert (error.column, error.rows, error.first) == (fault.column, fault.rows, fault.first - 1)  # no header


def test_values_of_parquet_that_are_missing_or_of_another_type(tmp_path: Path) -> None:
    params, data = good_inputs().write(tmp_path)
    _as_parquet(data, 1000)
    path = data / "person-records.parquet"
    table = pq.read_table(path)
    ages = pa.array([30, 30, None, 130, *[30] * (len(table) - 4)], pa.int64())
    pq.write_table(table.set_column(0, "QAGE", ages), path)
    _, findings = validate_here(new_run(tmp_path), params, data)
    (error,) = errors(findings)
    assert (error.column, error.rows, error.first, error.values) == ("QAGE", 2, 3, ("", "130"))


def _age_column(table: pa.Table, values: list[object]) -> pa.Table:
    return table.set_column(0, "QAGE", pa.array(values))


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda table: table.drop_columns(["QSPAN"]), "Missing columns"),
        (lambda table: table.append_column(CANARY, table["QSEX"]), "Unexpected columns found"),
        (lambda table: table.slice(0, 0), "is empty. This fails validation as records are expected."),
        (lambda table: _age_column(table, [[30]] * len(table)), "a column holds neither text nor numbers"),
        (lambda table: _age_column(table, [[30] * 10**5] * len(table)), "a column holds neither text nor numbers"),
        (lambda table: _age_column(table, [b"8642\xff"] * len(table)), "a column holds neither text nor numbers"),
    ],
)
def test_damaged_parquet(tmp_path: Path, damage: Callable[[pa.Table], pa.Table], rule: str) -> None:
    params, data = good_inputs().write(tmp_path)
    _as_parquet(data, 1000)
    path = data / "person-records.parquet"
    pq.write_table(damage(pq.read_table(path)), path)
    validated, findings = validate_here(new_run(tmp_path), params, data)
    assert validated is None
    (error,) = errors(findings)
    assert rule in error.rule
    assert CANARY not in error.rule


def test_what_is_no_parquet(tmp_path: Path) -> None:
    params, data = good_inputs().write(tmp_path)
    (data / "person-records.txt").rename(data / "person-records.parquet")
    _, findings = validate_here(new_run(tmp_path), params, data)
    assert without_values(errors(findings)) == [
        ("person-records.parquet", "cannot be read as a Parquet file", "", 1, None)
    ]


# Chunk boundaries


PATTERNS = {  # apart from the fields that both readers go by
    "QAGE": r"0*([0-9]|[1-9][0-9]|10[0-9]|11[0-5])",
    "QSEX": "1|2",
    "HOUSEHOLDER": "True|False",
    **dict(zip(BLOCK, ("[0-9]{2}", "[0-9]{3}", "[0-9]{6}", "[0-9]{4}"), strict=True)),
    "CENRACE": "[0-9]{2}",
    **dict.fromkeys(RACES, "[1-9][0-9]{3}|Null"),
    **dict.fromkeys(("QRACE1", "QSPAN"), "[1-9][0-9]{3}"),
}


def naive_findings(lines: list[str], max_race_codes: int) -> set[tuple[str, str, int, int]]:
    """(rule, column, rows, first) of the lines below a header, one line after the other."""
    blocks = {("01", "001", "000100", "1000"), ("01", "001", "000100", "1001")}
    rows_of: dict[tuple[str, str], list[int]] = {}
    for number, text in enumerate(lines, start=2):
        if not text:
            continue
        values = text.split("|")
        if len(values) != 17:
            rows_of.setdefault(("a row does not have 17 columns", ""), []).append(number)
            continue
        person = dict(zip(PERSON_COLUMNS, values, strict=True))
        if re.fullmatch("[0-9]{2}", person["TABBLKST"]) and person["TABBLKST"] not in ("01", "02"):
            continue
        rules = [
            (f"Invalid values found; valid are {PERSON.fields[name].words}", name)
            for name in PERSON_COLUMNS
            if not re.fullmatch(PATTERNS[name], person[name])
        ]
        bad = {name for _, name in rules}
        for name in (*RACES, "QSPAN"):
            if name not in bad and person[name] != "Null" and person[name] not in CODES:
                rules.append(("codes that are not in the code list", name))
        races = [(person[name], name not in bad) for name in RACES]
        codes = [good and code != "Null" for code, good in races]
        if any(then and before == "Null" for (before, _), then in zip(races, codes[1:], strict=False)):
            rules.append(("race codes after a 'Null'", "QRACE2"))
        if sum(codes) > max_race_codes:
            rules.append((f"more than {max_race_codes} race codes", "QRACE1"))
        if not rules and tuple(person[name] for name in BLOCK) not in blocks:
            rules.append(("block is not in GRF-C", "TABBLK"))
        for rule in rules:
            rows_of.setdefault(rule, []).append(number)
    return {(*rule, len(numbers), numbers[0]) for rule, numbers in rows_of.items()}


VALUES = {
    "QAGE": ["0", "115", "007", "116", "x", ""],
    "QSEX": ["1", "2", "3"],
    "TABBLKST": ["01", "11", "0x"],
    "TABBLK": ["1000", "1001", "1009"],
    "QRACE1": ["1100", "1200", "9999", "Null"],
    "QRACE2": ["Null", "1110", "9999", ""],
    "QRACE3": ["Null", "Null", "1200", "é"],
    "QSPAN": ["2000", "2200", "8000", "Null"],
}


@st.composite
def person_lines(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(["person"] * 8 + ["blank", "short", "long"]))
    if kind == "blank":
        return ""
    row = person(**{name: draw(st.sampled_from([values[0], values[0], *values])) for name, values in VALUES.items()})
    text = "|".join(row.values())
    return {"short": text.rpartition("|")[0], "long": text + "|", "person": text}[kind]


@given(
    lines=st.lists(person_lines(), max_size=8),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    mark=st.booleans(),
    sizes=st.lists(st.integers(20, 1500), min_size=2, max_size=2),
    most=st.integers(1, 3),
)
@example(lines=["|".join(person().values())] * 3, end="\n", last=True, mark=False, sizes=[7, 80], most=8)
@example(lines=["|".join(person(QAGE="x").values())] * 3, end="\r\n", last=False, mark=True, sizes=[1, 5], most=8)
@settings(PROPERTY, max_examples=6)
def test_chunks_may_end_anywhere(
    lines: list[str], end: str, last: bool, mark: bool, sizes: list[int], most: int
) -> None:
    text = ("\ufeff" if mark else "") + end.join(["|".join(PERSON_COLUMNS), *lines]) + (end if last else "")
    good = [dict(zip(PERSON_COLUMNS, line.split("|"), strict=True)) for line in lines if line.count("|") == 16]
    rules = naive_findings(lines, most)
    if not rules and not good:
        rules = {("person-records.txt is empty. This fails validation as records are expected.", "", 1, None)}
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        params, data = Inputs(config=configuration(max_race_codes=most)).write(Path(folder))
        edit(data / "GRF-C.txt", lambda text: "\n".join(text.split("\n")[:3]))
        (data / "person-records.txt").write_bytes(text.encode())
        for number, size in enumerate([*sizes, len(text.encode())]):
            cut_files(patch, size)
            run = new_run(Path(folder), f"run-{number}")
            validated, findings = validate_here(run, params, data)
            assert {without_values[1:] for without_values in without_values(errors(findings))} == rules
            left_out = [finding.rows for finding in findings if finding.rule == LEFT_OUT]
            assert sum(left_out) == sum(record["TABBLKST"] == "11" for record in good)
            if not rules:
                assert validated is not None
                assert encoded(run) == expected(good)


def test_the_input_digest_is_of_the_very_bytes(tmp_path: Path) -> None:
    """Other persons, or the same in another order: another digest."""
    digests = []
    for number, change in enumerate((lambda rows: rows, lambda rows: rows[::-1], lambda rows: rows[1:])):
        folder, inputs = tmp_path / str(number), Inputs()
        inputs.persons = change(inputs.persons)
        run, _ = valid_run(folder, inputs)
        files = [file_digest(folder / "data" / name) for name in ("person-records.txt", "GRF-C.txt")]
        assert run.validated.input_digest == _input_digest(run, *files)
        digests.append(run.validated.input_digest)
    assert len(set(digests)) == 3


class Meddler(Here):
    """Workers in this process; somebody changes the files as soon as a stage's first or last piece has ended."""

    def __init__(self, stage: str, change: Callable[[], object], after: int) -> None:
        self.stage, self.change, self.after = stage, change, after

    def map(self, stage: str, run: DetailedRun, function: Any, arguments: Any) -> list[Any]:
        results = []
        for number, each in enumerate(calls := list(arguments)):
            results.append(function(run, *each))
            if stage == self.stage and number == self.after % len(calls):
                self.change()
        return results


def test_real_persons_are_never_encoded_under_a_mark_of_others(tmp_path: Path) -> None:
    """Sixty persons are read; by the time that their file is digested, thirty synthetic ones lie there."""
    _, marked = Inputs(persons=people(30)).write(tmp_path / "synthetic")
    _as_parquet(marked, 1000)
    mark_synthetic(marked)
    params, data = Inputs().write(tmp_path / "real")
    _as_parquet(data, 1000)
    shutil.copy(marked / "SYNTHETIC.json", data)
    name = "person-records.parquet"
    workers: Any = Meddler("validate", lambda: shutil.copy(marked / name, data / name), -1)
    run = new_run(tmp_path)
    with pytest.raises(Refused, match=r"person-records\.parquet changed while it was read"):
        validate(run, workers, str(params), str(data), "us")
    assert not (run / VALIDATED).exists()


@pytest.mark.parametrize("name", ["person-records.txt", "GRF-C.txt"])
def test_a_data_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    cut_files(monkeypatch, 1000)
    params, data = Inputs().write(tmp_path)
    path = data / name
    reversed_rows = lambda text: "\n".join([*text.splitlines()[:1], *text.splitlines()[:0:-1]]) + "\n"  # noqa: E731
    workers: Any = Meddler("validate", lambda: edit(path, reversed_rows), 0)
    run = new_run(tmp_path)
    with pytest.raises(Refused, match=f"{name} changed while it was read"):
        validate(run, workers, str(params), str(data), "us")
    assert not (run / VALIDATED).exists()
    validated, _ = validate_here(run, params, data)  # the same run, when nobody meddles
    assert validated is not None
    assert validated.input_digest == _input_digest(
        run, *(file_digest(data / name) for name in ("person-records.txt", "GRF-C.txt"))
    )


@pytest.mark.parametrize("name", ["config.json", "race-and-ethnicity-codes.txt"])
def test_a_parameter_file_that_changes_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    params, _ = Inputs().write(tmp_path)

    def meddle(*_: object) -> list[Finding]:
        edit(params / name, lambda text: text + "\n")
        return []

    monkeypatch.setattr("tasks.safetab.parameters._check_levels", meddle)
    with pytest.raises(Refused, match=f"{name} changed while it was read"):
        read_parameters(str(params), SafeTabPConfiguration)


# A server's answers


class WholeFiles(MemoryFileSystem):
    """A server that ignores the range that it is asked for."""

    protocol = "whole"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        return bytes(super().cat_file(path))


class CutShort(WholeFiles):
    """A server whose answers end too soon."""

    protocol = "short"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        return bytes(super().cat_file(path)[start:end][:-1])


@pytest.mark.parametrize(("kind", "words"), [(WholeFiles, "byte ranges"), (CutShort, "fewer bytes than the file has")])
def test_a_part_of_a_file_is_that_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[WholeFiles], words: str
) -> None:
    """Else each chunk would count everybody, or lose somebody."""
    fsspec.register_implementation(kind.protocol, kind, clobber=True)
    cut_files(monkeypatch, 2000)
    params, data = Inputs().write(tmp_path)
    for path in data.iterdir():
        kind().pipe_file(f"{kind.protocol}://data/{path.name}", path.read_bytes())
    with pytest.raises(Refused, match=words):
        validate(new_run(tmp_path), HERE, str(params), f"{kind.protocol}://data", "us")


# The mark of synthetic data


def test_marked_data_is_marked_and_a_mark_never_covers_other_data(tmp_path: Path) -> None:
    params, data = good_inputs().write(tmp_path)
    mark_synthetic(data)
    validated, _ = validate_here(new_run(tmp_path, "marked"), params, data)
    assert validated is not None
    assert validated.mark == "SYNTHETIC"
    edit(data / "person-records.txt", lambda text: text.replace("\n30|", "\n31|", 1))
    with pytest.raises(Refused, match="changed or replaced"):
        validate(new_run(tmp_path, "changed"), HERE, str(params), str(data), "us")
    (data / "SYNTHETIC.json").write_text(json.dumps({"generator": "x"}))
    with pytest.raises(Refused, match="is not a mark"):
        validate(new_run(tmp_path, "damaged"), HERE, str(params), str(data), "us")
    (data / "SYNTHETIC.json").unlink()
    validated, _ = validate_here(new_run(tmp_path, "unmarked"), params, data)
    assert validated is not None
    assert validated.mark is None


def test_a_person_file_that_changes_under_a_validated_run_is_refused(tmp_path: Path) -> None:
    params, data = good_inputs().write(tmp_path)
    run = new_run(tmp_path)
    first, _ = validate_here(run, params, data)
    assert validate(run, HERE, str(params), str(data), "us") == first
    edit(data / "person-records.txt", lambda text: text.replace("\n30|", "\n31|", 1))
    with pytest.raises(Refused, match="put back what it began with"):
        validate(run, HERE, str(params), str(data), "us")
    assert run.validated == first


def test_a_further_public_input_is_checked_and_may_not_change(tmp_path: Path) -> None:
    params, data = good_inputs().write(tmp_path)
    totals = tmp_path / "totals.txt"
    totals.write_text("bad")

    def read(run: SafeTabRun, geography: RegionMap) -> list[Finding]:
        assert (len(geography.blocks), run.parameters.configuration.run_us) == (6, True)
        return [Finding("totals", "the file is bad")] if totals.read_text() == "bad" else []

    run = new_run(tmp_path)
    inputs: Any = (run, HERE, str(params), str(data), "us", [PublicInput("totals", (str(totals),), read)])
    with pytest.raises(Refused, match="; totals: the file is bad;"):
        validate(*inputs)
    totals.write_text("good")
    validated = validate(*inputs)
    assert validated is not None
    assert set(validated.other_digests) == {"totals"}
    assert validate(*inputs) == validated == run.validated
    totals.write_text("better")
    with pytest.raises(Refused, match="totals of run run-us changed"):
        validate(*inputs)
