"""The bottom-up stages on small tables: declaration, tabulation, budget, noise, calibration, release."""

from __future__ import annotations

import csv
import json
from collections import Counter
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from declarations import BASE, LEAVES
from dhca_inputs import HERE, Here, cut_files
from forgeries import check_tables
from sums_of_draws import pmf_of_sum

from privacy.accounting.composition import spend
from privacy.accounting.ledger import Account, Ledger, LedgerError, Request
from privacy.accounting.states import EVERYWHERE
from privacy.noise.laws import TwoSidedGeometric
from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import RunSecret
from spine.declaration.declaration import read_declaration
from tasks.bottom_up import measure as bottom_up_measure
from tasks.bottom_up.check import checks
from tasks.bottom_up.declared_histogram import DeclaredHistogram, check_marginals, read_declared_histogram
from tasks.bottom_up.example import make_example
from tasks.bottom_up.measure import (
    CASES,
    CHOICES,
    FINAL,
    QUERY,
    BottomUpPlan,
    calibrate_counts,
    claim,
    exact_counts,
    measure,
)
from tasks.bottom_up.release import write_release
from tasks.bottom_up.release_tables import description
from tasks.bottom_up.tabulate import tabulate
from tasks.bottom_up.totals import read_totals
from tasks.errors import Failed, Refused
from tasks.lifecycle.authorization import SECRET, read_authorization
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.reservation import Charging, authorize
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.staging import stage_in_one_piece
from tasks.records.findings import load_findings
from tasks.records.marks import MARK_FILE, Mark
from tasks.records.tables import UNQUOTED
from tasks.releases.digests import file_digest
from tasks.releases.manifest import MANIFEST

COUNTIES = ["44001", "44003", "45001", "46001"]
DECLARED = {
    "states": ["44", "45", "46"],
    "leaves": {"file": "counties.csv", "key": "COUNTY"},
    "levels": [{"name": "state", "columns": ["STATE"]}, {"name": "county", "columns": ["COUNTY"]}],
    "axes": {"SEX": {"column": "SEX", "values": ["1", "2"]}, "GQ": {"column": "GQ", "values": ["101", "201", "301"]}},
    "zeros": [{"where": {"SEX": "1", "GQ": "301"}}],
}
WIDTH = "a row does not have 3 columns"
ROWS = [("44001", "1", "101")] * 5 + [("44001", "2", "301")] * 3 + [("44003", "2", "201"), ("45001", "1", "201")] * 2
ROWS += [("46001", "2", "101")] * 4


@pytest.fixture(autouse=True)
def fixed_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same noise in every test run: none here is about chance."""
    monkeypatch.setattr(RunSecret, "generate", classmethod(lambda cls: cls(bytes(range(32)))))


def new_run(folder: Path, name: str) -> RunDirectory:
    directory = RunDirectory(folder / "runs" / name)
    directory.create()
    return directory


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return new_run(tmp_path, "r1")


def write_declaration(folder: Path, **changes) -> Path:
    (folder / "counties.csv").write_text(
        "\n".join(["STATE,COUNTY", *(f"{code[:2]},{code}" for code in COUNTIES)]) + "\n"
    )
    path = folder / "declaration.json"
    path.write_text(json.dumps({key: value for key, value in (DECLARED | changes).items() if value is not None}))
    return path


def write_table(folder: Path, rows=ROWS, *, parquet: bool = False, weights=None) -> str:
    columns = dict(zip(("COUNTY", "SEX", "GQ"), map(list, zip(*rows, strict=True)), strict=True))
    if weights:
        columns["WT"] = weights
    path = folder / ("table.parquet" if parquet else "table.csv")
    if parquet:
        pq.write_table(pa.table(columns), path, row_group_size=5)
    else:
        lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
        path.write_text("\n".join([",".join(columns), *lines]) + "\n")
    return str(path)


def wanted(declared: DeclaredHistogram, rows=ROWS) -> list[int]:
    histogram = declared.histogram
    counts = Counter(rows)
    names = [[axis.codes[at] for at in histogram.coordinates[axis.name]] for axis in histogram.axes]
    return [counts[cell] for cell in zip(*names, strict=True)]


# The declared domain and published totals.


def axis(*values: str, column: str = "A") -> dict[str, Any]:
    return {"column": column, "values": [f"is:{value}" for value in values]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axes": {}}, "axes: "),
        ({"axes": {"A": axis()}}, "axes.A.values: it has no cell"),
        ({"axes": {"A": axis("x", "x")}}, "'x' is in two cells"),
        ({"states": []}, "states"),
        ({"states": ["44", "45", "RI"]}, "two-digit FIPS code.* not 'RI'"),
        ({"states": [" 44", "45", "46"]}, "not ' 44'"),
        ({"states": ["44", "45", "46", "03"]}, "not '03'"),
        ({"states": ["44", "45", "46", "44"]}, "twice: 44"),
        ({"states": ["44", "45"]}, "STATE has values that are not in states, .*: 46"),
        ({"axes": {"State": axis("44", "02")}, "leaves": None, "levels": []}, "State has values .*: 02"),
        ({"axes": {"State": axis("44", "02")}}, "axes.State: State is a level"),
        ({"colour": 1}, "colour"),
        ({"weigth": {"column": "W", "most": 1}}, "did you mean weight"),
        ({"recodes": {"OLD": {"axis": "TOWN", "width": 2}}}, "recodes.OLD.axis: there is no axis TOWN"),
        ({"recodes": {"SEX": {"axis": "GQ", "width": 2}}}, "recodes.SEX"),
        ({"recodes": {"ALL": {"axis": "GQ", "width": 2, "labels": ["a", "a"]}}}, "recodes.ALL: labels are distinct"),
        ({"recodes": {"ALL": {"axis": "GQ", "width": 2, "labels": ["a", "b|c"]}}}, "recodes.ALL: labels are distinct"),
        ({"zeros": [{"where": {"SEX": "3"}}]}, "SEX has no value '3'"),
        ({"weight": {"column": "W", "most": 1, "grid": 2}}, "grid is above most"),
        ({"weight": {"column": "W", "most": -1}}, "weight.most"),
        ({"delimiter": "and"}, "delimiter"),
        ({"axes": {"A/B": axis("x")}}, "'A/B': write it in letters"),
        ({"axes": {"A" * 300: axis("x")}}, "write it in letters"),
        ({"axes": {"\u0416": axis("x")}}, "write it in letters"),
        ({"axes": {"a": axis("x"), "A": axis("x", column="B")}}, "distinct, also in small letters"),
        ({"axes": {"a\u00f1o": axis("x")}}, "write it in letters"),
        ({"axes": {"COUNT": axis("x")}}, "axes.COUNT: "),
        ({"axes": {"Moe": axis("x")}}, "'Moe' cannot be"),
        ({"axes": {"TOTAL": axis("x")}}, "'TOTAL' cannot be"),
        ({"axes": {"case": axis("x")}}, "'case' cannot be"),
        ({"recodes": {"county": {"axis": "SEX", "width": 2}}}, "recodes.county: county is a level"),
        ({"axes": {"A": axis("x|y")}}, "axes.A.values"),
        ({"axes": {"A": axis('x"y')}}, "axes.A.values"),
        ({"axes": {"A": axis("x\ny")}}, "axes.A.values"),
        ({"axes": {"A": axis("\ud800")}}, "axes.A.values"),
        ({"axes": {"STATEFP": axis("44", "02")}}, "STATEFP look like places in states that are not charged: 02"),
        ({"axes": {"PLACE": axis("0212340", "4412340", "9999999")}}, "not charged: 02"),
        ({"axes": {"GEO": axis("0500000US02001", "0500000US44001")}}, "not charged: 02"),
        ({"axes": {"HOME": axis("RI", "AK")}}, "not charged: 02"),
        ({"axes": {"HOME": {"column": "HOME", "values": [["RI", "AK"]]}}}, "not charged: 02"),
        ({"axes": {"AGE": axis("01", "02")}, "not_places": ["AG"]}, "'AG' is not an axis, level or recode"),
        ({"weight": {"column": "W", "most": 3e9}}, "weight: most is above"),
        ({"weight": {"column": "W", "most": 1, "grid": 1e-10}}, "weight: most is above"),
        ({"leaves": {"file": "nowhere.csv", "key": "COUNTY"}}, "leaves.file: the file does not exist"),
        ({"leaves": {"file": "../counties.csv", "key": "COUNTY"}}, "not in the folder of the declaration"),
        ({"leaves": {"file": "counties.csv", "key": ["STATE", "COUNTY"]}}, "reads the leaf from one column"),
        ({"leaves": {"file": "counties.csv", "key": "STATE"}}, "a code twice"),
        ({"leaves": None}, "levels: they divide leaves"),
        ({"levels": [{"name": "state", "columns": ["STATE"]}]}, "give leaves and two levels"),
        ({"records_file": {"key": ["A", "B"]}}, "records_file.key: it names 2 columns for the 1"),
        ({"records": "dwelling"}, "unit: accounts are of persons or of households"),
        ({"records": "household", "unit": "person"}, "unit: a record is a household"),
    ],
    ids=str,
)
def test_bad_declarations_are_refused_in_one_line(tmp_path, changes, message):
    if "axes" in changes:
        changes = {"zeros": [], **changes}
    with pytest.raises(Refused, match=message) as refused:
        read_declared_histogram(write_declaration(tmp_path, **changes))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("code", ["a|b", "=1+1", ""])
def test_codes_of_leaves_that_no_release_could_hold_are_refused(tmp_path, code):
    path = write_declaration(tmp_path, states=["44"])
    with open(tmp_path / "counties.csv", "w", encoding="utf-8") as file:
        csv.writer(file).writerows([["STATE", "COUNTY"], ["44", "44001"], ["44", code]])
    with pytest.raises(Refused, match=r"leaves\.COUNTY: the code"):
        read_declared_histogram(path)


ALONE = {"leaves": None, "levels": [], "zeros": []}


@pytest.mark.parametrize("values", [["01", "02", "03"], ["1", "2"], ["02", "44", "other"], ["0", "101"], ["44", "99"]])
def test_values_that_are_no_places_are_left_alone(tmp_path, values):
    path = write_declaration(tmp_path, axes={"A": axis(*values)}, **ALONE)
    assert read_declared_histogram(path).histogram.cells == len(values)


def test_an_axis_that_only_looks_like_places_is_named(tmp_path):
    axes = {"AGE": axis("01", "02")}
    path = write_declaration(tmp_path, axes=axes, **ALONE, not_places=["AGE"])
    assert read_declared_histogram(path).form.not_places == ("AGE",)


@pytest.mark.parametrize(
    ("marginals", "message"),
    [
        ([["SEX"], ["SEX"]], "twice"),
        ([["SEX", "SEX"]], "twice"),
        ([["TOWN"]], "TOWN"),
        ([[f"{letter * 60}" for letter in "ABCD"]], "longer than"),
    ],
)
def test_marginals_that_no_file_could_hold_are_refused(tmp_path, marginals, message):
    axes = {letter * 60: axis("x", column=letter) for letter in "ABCD"} | {"SEX": axis("1", "2", column="SEX")}
    declared = read_declared_histogram(write_declaration(tmp_path, axes=axes, **ALONE))
    with pytest.raises(ValueError, match=message):
        check_marginals(declared, marginals)


def test_declarations_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(Refused, match="cannot be read"):
        read_declared_histogram(tmp_path / "nowhere.toml")
    for text in ("{", '{"weight": {"column": "W", "most": 1e999999999}}'):
        (tmp_path / "broken.json").write_text(text)
        with pytest.raises(Refused, match=r"broken\.json"):
            read_declared_histogram(tmp_path / "broken.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("STATE\n44\n", "column TOTAL"),
        ("TOWN,TOTAL\nx,1\n", "no axis, level or recode 'TOWN'"),
        ("STATE,TOTAL\n47,1\n", "no value '47'"),
        ("STATE,TOTAL\n44,1\n44,2\n", "repeats a group"),
        ("STATE,TOTAL\n44,-1\n", "not negative"),
        ("STATE,TOTAL\n44,1.5\n", "multiple of the grid"),
        ("STATE,TOTAL\n44,many\n", "not a number"),
        ("STATE,TOTAL\n44\n", "2 columns"),
    ],
)
def test_bad_totals_are_refused_in_one_line(tmp_path, text, message):
    totals = tmp_path / "totals.csv"
    totals.write_text(text)
    with pytest.raises(Refused, match=message):
        read_totals(totals, read_declared_histogram(write_declaration(tmp_path)))


def test_totals_and_groups(tmp_path):
    declared = read_declared_histogram(write_declaration(tmp_path))
    (tmp_path / "totals.csv").write_text("SEX,STATE,TOTAL\n1,44,5\n2,44,\n2,46,4\n")
    totals = read_totals(tmp_path / "totals.csv", declared)
    assert totals.published == {0: 5, 5: 4}
    groups = declared.histogram.groups(totals.names)
    assert [groups.label(number) for number in (0, 5)] == [{"SEX": "1", "STATE": "44"}, {"SEX": "2", "STATE": "46"}]
    design = BottomUpPlan(declared, Fraction(1), totals)
    group = [3 * sex + state for state in (0, 0, 1, 2) for sex in (0, 0, 0, 1, 1, 1)]
    possible = declared.histogram.possible
    cells = np.arange(declared.histogram.cells)
    assert design.groups_of_totals(cells).tolist() == np.where(possible, group, -1).tolist()
    assert set(BottomUpPlan(declared, Fraction(1)).groups_of_totals(cells).tolist()) == {-1}


# Tabulation.


def partitions_of(run) -> int:
    """How many partitions were counted."""
    return len([*(run / "counts").glob("*.report")])


@pytest.mark.parametrize("chunk", [7, 64, 1 << 26])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_text_is_counted_alike_however_it_is_cut(tmp_path, run, monkeypatch, chunk, newline):
    cut_files(monkeypatch, chunk)
    path = Path(write_table(tmp_path))
    path.write_bytes(
        path.read_text(encoding="utf-8").rstrip("\n").replace("\n", newline).encode()
    )  # no newline at the end
    declared = read_declared_histogram(write_declaration(tmp_path))
    tabulate(run, HERE, str(path), declared)
    assert partitions_of(run) == -(-path.stat().st_size // chunk)
    assert exact_counts(run, 0, declared.histogram.cells).tolist() == wanted(declared)
    assert exact_counts(run, 5, 11).tolist() == wanted(declared)[5:11]


def test_parquet_is_counted_by_row_group(tmp_path, run):
    declared = read_declared_histogram(write_declaration(tmp_path))
    tabulate(run, HERE, write_table(tmp_path, parquet=True), declared)
    assert partitions_of(run) == 4
    assert exact_counts(run, 0, declared.histogram.cells).tolist() == wanted(declared)


@pytest.mark.parametrize("parquet", [False, True])
@pytest.mark.parametrize(
    ("row", "rule"),
    [
        (("44002", "1", "101"), "Invalid values found in COUNTY; valid are 44001, 44003, 45001, 46001"),
        (("44001", "", "101"), "Invalid values found in SEX; valid are 1, 2"),
        (("44001", "1", "301"), "declared a zero, by SEX and GQ"),
    ],
)
def test_undeclared_records_are_findings_and_nothing_is_told_outside(tmp_path, run, parquet, row, rule):
    table = write_table(tmp_path, [*ROWS, row, row], parquet=parquet)
    with pytest.raises(Refused, match="curator's report") as refused:
        tabulate(run, HERE, table, read_declared_histogram(write_declaration(tmp_path)))
    assert "4400" not in str(refused.value)
    (finding,) = load_findings(run)
    assert (finding.rule, finding.rows) == (f"{'records in a cell that is ' if 'zero' in rule else ''}{rule}", 2)


def test_rows_of_another_width_and_missing_columns_are_refused(tmp_path, run):
    declared = read_declared_histogram(write_declaration(tmp_path))
    path = Path(write_table(tmp_path))
    path.write_text(path.read_text(encoding="utf-8") + "44001,1\n", encoding="utf-8")
    with pytest.raises(Refused, match="curator's report"):
        tabulate(run, HERE, str(path), declared)
    (finding,) = load_findings(run)
    assert (finding.rule, finding.rows, finding.first) == (f"{WIDTH}; {UNQUOTED}", 1, len(ROWS) + 2)
    other = new_run(tmp_path, "other")
    old_mac = "COUNTY,SEX,GQ,NOTE\r44001,1,101,\r"  # without a newline all of it is a header
    for text, message in (
        ("COUNTY,SEX\n", "no column GQ"),
        ('"COUNTY","SEX","GQ"\n', "no column COUNTY, SEX, GQ.*quotes join no cells here"),
        ("", "is empty"),
        ("COUNTY,SEX,GQ,SEX\n44001,1,101,2\n", r"Columns that appear twice: \['SEX'\]"),
        (old_mac, "a line holds a carriage return"),
    ):
        path.write_text(text, encoding="utf-8", newline="")
        with pytest.raises(Refused, match=message):
            tabulate(other, HERE, str(path), declared)
    with pytest.raises(Refused, match="does not exist"):
        tabulate(other, HERE, str(tmp_path / "nowhere.csv"), declared)


@pytest.mark.parametrize("parquet", [False, True])
def test_a_column_that_is_not_read_may_appear_twice(tmp_path, run, parquet):
    declared = read_declared_histogram(write_declaration(tmp_path))
    columns = [*zip(*ROWS, strict=True)]
    table = pa.table([pa.array(each) for each in (*columns, *columns[:2])], ["COUNTY", "SEX", "GQ", "NOTE", "NOTE"])
    if parquet:
        pq.write_table(table, path := tmp_path / "noted.parquet")
    else:
        lines = [",".join(row) for row in zip(*(each.to_pylist() for each in table.columns), strict=True)]
        (path := tmp_path / "noted.csv").write_text("\n".join([",".join(table.column_names), *lines]) + "\n")
    tabulate(run, HERE, str(path), declared)
    assert exact_counts(run, 0, declared.histogram.cells).tolist() == wanted(declared)


@pytest.mark.parametrize("chunk", [32, 1 << 26])
@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (b"44001,1,101\r44001,1,101", "a line holds a carriage return; only a newline ends a line"),
        (b"44001,1", f"{WIDTH}; {UNQUOTED}"),
        (b"44001,1,101,", f"{WIDTH}; {UNQUOTED}"),
        (b"44001,1,\xff", "is not UTF-8 text"),
    ],
)
def test_a_line_that_is_no_row_is_a_finding_with_its_place(tmp_path, run, monkeypatch, chunk, line, rule):
    cut_files(monkeypatch, chunk)
    path = Path(write_table(tmp_path))
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:7], line, *lines[7:]]))
    with pytest.raises(Refused, match="curator's report"):
        tabulate(run, HERE, str(path), read_declared_histogram(write_declaration(tmp_path)))
    (finding,) = load_findings(run)
    assert (finding.rule, finding.rows, finding.first) == (rule, 1, 8)


@pytest.mark.parametrize("text", ["", "\n\n", "\r\n\n\n\n"], ids=repr)
def test_a_table_without_a_record_is_counted_as_none(tmp_path, run, monkeypatch, text):
    cut_files(monkeypatch, 3)
    path = tmp_path / "table.csv"
    path.write_bytes(f"COUNTY,SEX,GQ\n{text}".encode())
    declared = read_declared_histogram(write_declaration(tmp_path))
    tabulate(run, HERE, str(path), declared)
    assert not exact_counts(run, 0, declared.histogram.cells).any()


class Stopped(Here):
    """Workers that die after the first piece of a stage."""

    def map(self, stage, run, function, arguments):
        super().map(stage, run, function, arguments[:1])
        raise Failed("stopped here")


@pytest.mark.parametrize("parquet", [False, True])
def test_a_run_whose_table_changed_since_it_was_counted_is_refused(tmp_path, run, parquet):
    table, declared = write_table(tmp_path, parquet=parquet), read_declared_histogram(write_declaration(tmp_path))
    counted = tabulate(run, HERE, table, declared)
    assert tabulate(run, HERE, table, declared) == counted
    write_table(tmp_path, ROWS[1:], parquet=parquet)
    with pytest.raises(Refused, match="the input of run r1 has changed"):
        tabulate(run, HERE, table, declared)


def test_a_run_goes_on_when_its_table_is_gone(tmp_path, run):
    table, declared = write_table(tmp_path), read_declared_histogram(write_declaration(tmp_path))
    counted = tabulate(run, HERE, table, declared)
    Path(table).unlink()
    assert tabulate(run, HERE, table, declared) == counted
    with pytest.raises(Refused, match="began with another table or declaration"):
        tabulate(run, HERE, str(tmp_path / "other.csv"), declared)


def test_a_resumed_run_counts_one_version_of_the_table(tmp_path, run, monkeypatch):
    cut_files(monkeypatch, 64)
    declared = read_declared_histogram(write_declaration(tmp_path))
    with pytest.raises(Failed, match="stopped here"):
        tabulate(run, Stopped(), write_table(tmp_path), declared)
    table = write_table(tmp_path, ROWS[::-1])  # the same records in another order
    resumed = tabulate(run, HERE, table, declared)
    assert exact_counts(run, 0, declared.histogram.cells).tolist() == wanted(declared)
    assert resumed == tabulate(new_run(tmp_path, "fresh"), HERE, table, declared)


@pytest.mark.parametrize("parquet", [False, True])
def test_a_table_replaced_while_it_is_read_is_refused(tmp_path, run, parquet):
    class Replacing(Here):
        def map(self, stage, run, function, arguments):
            done = super().map(stage, run, function, arguments)
            write_table(tmp_path, ROWS[::-1], parquet=parquet)
            return done

    declared = read_declared_histogram(write_declaration(tmp_path))
    table = write_table(tmp_path, parquet=parquet)
    with pytest.raises(Refused, match="changed while it was read"):
        tabulate(run, Replacing(), table, declared)
    tabulate(run, HERE, table, declared)
    assert exact_counts(run, 0, declared.histogram.cells).tolist() == wanted(declared)


def test_a_corrected_table_is_read_again(tmp_path, run):
    declared = read_declared_histogram(write_declaration(tmp_path))
    with pytest.raises(Refused, match="curator's report"):
        tabulate(run, HERE, write_table(tmp_path, [*ROWS, ("44002", "1", "101")]), declared)
    tabulate(run, HERE, write_table(tmp_path), declared)
    assert exact_counts(run, 0, declared.histogram.cells).tolist() == wanted(declared)
    assert load_findings(run) == []


def test_weights_are_steps_and_out_of_range_ones_are_findings(tmp_path, run):
    declared = read_declared_histogram(write_declaration(tmp_path, weight={"column": "WT", "most": 25.2, "grid": 0.5}))
    assert declared.mechanism(Fraction(1)).sensitivity == 51
    rows = [("44001", "1", "101")] * 4
    tabulate(run, HERE, write_table(tmp_path, rows, weights=["1.5", "0", "25.2", "2.24"]), declared)
    assert exact_counts(run, 0, 1).tolist() == [3 + 0 + 50 + 4]  # nearest steps of one half
    other = new_run(tmp_path, "other")
    with pytest.raises(Refused, match="curator's report"):
        tabulate(other, HERE, write_table(tmp_path, rows, weights=["1e999999999", "25.3", "-1", "heavy"]), declared)
    (finding,) = load_findings(other)
    assert (finding.rows, finding.values) == (4, ("-1", "1e999999999", "25.3", "heavy"))


# Budget, noise, calibration, release.


def planned(
    tmp_path: Path, run: RunDirectory, *, totals: str | None = None, table: str | None = None, **options
) -> BottomUpPlan:
    declared = read_declared_histogram(write_declaration(tmp_path))
    if totals is not None:
        (tmp_path / "totals.csv").write_text(totals)
        options["totals"] = read_totals(tmp_path / "totals.csv", declared)
    marginals = options.pop("marginals", ((), ("STATE",), ("SEX", "STATE")))
    design = BottomUpPlan(declared, options.pop("epsilon", Fraction(1, 2)), marginals=marginals, **options)
    save_object(run / CHOICES, design)
    tabulate(run, HERE, table or write_table(tmp_path), declared)
    return design


def account_in(folder: Path) -> Charging:
    Ledger(folder / "ledger.sqlite").open_account(Account("long-form", "puredp", Fraction(1)))
    return Charging("long-form", folder / "ledger.sqlite")


@pytest.fixture
def account(tmp_path: Path) -> Charging:
    return account_in(tmp_path)


def mark(table: str) -> None:
    """Declare a table synthetic."""
    path = Path(table)
    declared = Mark("a test", "1", None, {path.name: file_digest(path)})
    (path.parent / MARK_FILE).write_text(json.dumps(asdict(declared)))


def test_a_rho_account_is_charged_half_the_square(tmp_path, run):
    ledger = tmp_path / "rho.sqlite"
    Ledger(ledger).open_account(Account("rho", "zcdp", Fraction(1, 8)))
    planned(tmp_path, run)
    authorize(Charging("rho", ledger), claim(run))
    assert set(Ledger(ledger).spent("rho").values()) == {Fraction(1, 8)}


@pytest.mark.parametrize("each", [5, 1 << 20])
def test_every_cell_has_its_own_noise_however_cells_are_cut(tmp_path, run, account, monkeypatch, each):
    monkeypatch.setattr(bottom_up_measure, "CELLS_EACH", each)
    design = planned(tmp_path, run)
    authorize(account, claim(run))
    measure(run, HERE)
    calibrate_counts(run, HERE)
    given = read_authorization(run)
    assert given is not None
    drawn = QueryNoise(
        TwoSidedGeometric(Fraction(2)),
        RunSecret((run / SECRET).read_bytes()),
        input_digest=given.input_digest,
        configuration_digest=design.digest(),
        query=QUERY,
    ).draw_run(0, 24)
    possible = design.declared.histogram.possible
    counts = np.load(run / "noisy/final/count.npy")
    assert counts.tolist() == np.where(possible, np.array(wanted(design.declared)) + drawn, 0).tolist()
    assert np.load(run / "noisy/final/reported.npy").tolist() == possible.tolist()


def least_margin(cells: int, e: float = 0.5) -> int:
    """The least m with P(|S| > m) <= .05, by floats."""
    mass = pmf_of_sum(e, cells)
    beyond = [1 - mass[len(mass) // 2 - m : len(mass) // 2 + m + 1].sum() for m in range(100)]
    return next(m for m, tail in enumerate(beyond) if tail <= 0.05)


def released(
    tmp_path: Path, run: RunDirectory, account: Charging, design: BottomUpPlan
) -> tuple[dict, dict[str, pa.Table]]:
    authorize(account, claim(run))
    measure(run, HERE)
    calibrate_counts(run, HERE)
    out = tmp_path / "staged"
    stage_in_one_piece(run, HERE, out, write_release)
    tables = {path.stem: pq.read_table(path) for path in (out / "parquet").iterdir()}
    for name, table in tables.items():
        parse = pa.csv.ParseOptions(delimiter="|")
        types = {column: table.schema.field(column).type for column in table.column_names}
        text = pa.csv.read_csv(
            out / f"{name}.csv", parse_options=parse, convert_options=pa.csv.ConvertOptions(column_types=types)
        )
        assert text.equals(table.drop_columns(["MOE"]))
    return json.loads((out / MANIFEST).read_text()), tables


def test_a_release_adds_up(tmp_path, run, account):
    design = planned(tmp_path, run)
    manifest, tables = released(tmp_path, run, account, design)
    assert set(tables) == {"histogram", "total", "by-state", "by-sex-state"}
    cells = tables["histogram"].to_pylist()
    assert len(cells) == 20  # 24 but the structural zeros
    assert not any(cell["SEX"] == "1" and cell["GQ"] == "301" for cell in cells)
    for row in tables["by-sex-state"].to_pylist():
        mine = [cell["COUNT"] for cell in cells if cell["SEX"] == row["SEX"] and cell["COUNTY"][:2] == row["STATE"]]
        assert row["COUNT"] == sum(mine)
    assert tables["total"]["COUNT"].to_pylist() == [sum(cell["COUNT"] for cell in cells)]
    assert {cell["MOE"] for cell in cells} == {6}  # eps 1/2: 2 a^7 / (1 + a) = .038, and .062 for one less
    assert [row["MOE"] for row in tables["by-state"].to_pylist()] == [least_margin(cells) for cells in (10, 5, 5)]
    assert manifest["spent"]["relations"][1]["exact"] == "1"
    assert "SYNTHETIC" not in manifest
    assert str(sum(wanted(design.declared))) not in json.dumps(manifest["histogram"] | {"declaration": ""})  # a digest


@pytest.mark.parametrize("method", ["additive", "nonnegative"])
def test_calibration_meets_consistent_totals_and_drops_the_others(tmp_path, run, account, method):
    totals = "STATE,TOTAL\n44,10\n45,\n46,500\n"  # 44 agrees, 45 is unpublished, 46 has 4
    design = planned(tmp_path, run, totals=totals, calibration=method, marginals=(("STATE",), ()))
    manifest, tables = released(tmp_path, run, account, design)
    states = {row["STATE"]: row["COUNT"] for row in tables["by-state"].to_pylist()}
    assert states["44"] == 10
    assert set(states) == {"44", "45"}
    assert {cell["COUNTY"] for cell in tables["histogram"].to_pylist()} == {"44001", "44003", "45001"}
    assert tables["total"]["COUNT"].to_pylist() == [sum(states.values())]
    cases = {group["STATE"]: group["case"] for group in manifest["calibration"]["groups"]}
    assert (cases["45"], cases["46"]) == ("unpublished", "inconsistent")
    assert cases["44"] == "calibrated"
    assert "calibration" in manifest["statements"]


@pytest.mark.parametrize(("tolerance", "case"), [(300, "inconsistent"), (700, "calibrated")])
def test_a_tolerance_takes_a_total_that_is_near(tmp_path, run, account, tolerance, case):
    """46 has 4 records of 500: further than the noise reaches, also of data that is marked."""
    mark(write_table(tmp_path))
    design = planned(tmp_path, run, totals="STATE,TOTAL\n46,500\n", tolerance=Fraction(tolerance))
    manifest, tables = released(tmp_path, run, account, design)
    assert {"STATE": "46", "case": case} in manifest["calibration"]["groups"]
    counts = [row["COUNT"] for row in tables["by-state"].to_pylist() if row["STATE"] == "46"]
    assert counts == ([500] if case == "calibrated" else [])


def test_what_is_calibrated_follows_from_the_noisy_counts_and_public_totals(tmp_path, monkeypatch):
    """Two tables, one person apart, and noise that hides the difference: the same cases and the same release.

    An exact test would tell them apart by made-up totals, whatever the noise.
    """
    made = []
    for name, more in (("one", 0), ("two", 1)):
        folder = tmp_path / name
        folder.mkdir(0o700)
        rows = [*ROWS, *[("46001", "2", "101")] * more]
        directory = new_run(folder, "r1")
        design = planned(folder, directory, totals="STATE,TOTAL\n46,4\n", table=write_table(folder, rows))
        authorize(account_in(folder), claim(directory))
        noisy = np.array(wanted(design.declared), np.int64)
        noise = noisy - exact_counts(directory, 0, len(noisy))
        monkeypatch.setattr(bottom_up_measure, "_noise", lambda run, design, start, stop, noise=noise: noise)
        measure(directory, HERE)
        calibrate_counts(directory, HERE)
        cases = load_object(directory / CASES, list[dict[str, str]])
        made.append((cases, np.load(directory / f"{FINAL}/count.npy").tolist()))
    assert made[0] == made[1]
    assert {"STATE": "46", "case": "calibrated"} in made[0][0]


def test_clipping_is_after_the_sums_and_said(tmp_path, run, account):
    design = planned(tmp_path, run, clip=True)
    manifest, tables = released(tmp_path, run, account, design)
    counts = tables["histogram"]["COUNT"].to_numpy()
    raw = np.load(run / "noisy/final/count.npy")[np.load(run / "noisy/final/reported.npy")]
    assert (raw < 0).any()  # or the test would show nothing
    assert counts.tolist() == np.maximum(raw, 0).tolist()
    assert tables["total"]["COUNT"].to_pylist() == [max(int(raw.sum()), 0)]
    assert "clipping" in manifest["statements"]


def test_weighted_counts_are_in_units_of_the_weights(tmp_path, run, account):
    declared = read_declared_histogram(write_declaration(tmp_path, weight={"column": "WT", "most": 2, "grid": 0.5}))
    design = BottomUpPlan(declared, Fraction(1, 2), marginals=((),))
    save_object(run / CHOICES, design)
    tabulate(run, HERE, write_table(tmp_path, weights=["1.5"] * len(ROWS)), declared)
    manifest, tables = released(tmp_path, run, account, design)
    raw = np.load(run / "noisy/final/count.npy")[np.load(run / "noisy/final/reported.npy")]
    assert tables["histogram"]["COUNT"].to_pylist() == (raw * 0.5).tolist()
    assert (manifest["noise"]["sensitivity"], manifest["noise"]["scale"], manifest["noise"]["step"]) == (4, "8", "1/2")


def test_a_run_on_synthetic_data_needs_no_account(tmp_path, run):
    made = make_example(tmp_path / "made", 2000, states=3, counties=2)
    declared = read_declared_histogram(made.declaration)
    design = BottomUpPlan(declared, Fraction(1), read_totals(made.totals, declared))
    save_object(run / CHOICES, design)
    tabulate(run, HERE, str(made.table), declared)
    manifest, tables = released(tmp_path, run, Charging(None, tmp_path / "none"), design)
    assert "SYNTHETIC" in manifest
    assert (np.load(run / "noisy/00000/count.npy") != exact_counts(run, 0, declared.histogram.cells)).any()
    assert tables["histogram"]["COUNT"].type == pa.int64()
    assert [*Ledger(tmp_path / "none").books().marked] == [run.id]


def test_the_example_is_repeatable_and_bound_to_its_mark(tmp_path, run):
    first, second = (make_example(tmp_path / name, 3000, states=12, counties=3) for name in ("one", "two"))
    assert first.table.read_bytes() == second.table.read_bytes()
    assert first.totals.read_text().splitlines()[4] == "05,"  # unpublished
    table = pq.read_table(second.table).slice(1)
    pq.write_table(table, second.table)
    with pytest.raises(Refused, match="changed or replaced"):
        tabulate(run, HERE, str(second.table), read_declared_histogram(second.declaration))


def test_a_declaration_without_states_is_charged_everywhere(tmp_path: Path, run: RunDirectory) -> None:
    """Its values may be any codes, FIPS or not. Persons of any state may be in the table: each has spent it."""
    elsewhere = {"PROVINCE": ("ON-35", "44001", "99"), "STATE": ("Vaud", "RI"), "GQ": ("01", "02")}
    path = tmp_path / "elsewhere.json"
    path.write_text(json.dumps({"axes": {name: axis(*values, column=name) for name, values in elsewhere.items()}}))
    declared = read_declared_histogram(path)
    assert declared.charged == EVERYWHERE
    account = account_in(tmp_path)
    design = BottomUpPlan(declared, Fraction(1, 2), marginals=((),))
    save_object(run / CHOICES, design)
    table = tmp_path / "persons.csv"
    table.write_text("PROVINCE,STATE,GQ\nON-35,Vaud,01\n99,RI,02\n")
    tabulate(run, HERE, str(table), declared)
    authorize(account, claim(run))
    ledger = Ledger(account.ledger)
    assert ledger.spent("long-form") == dict.fromkeys(EVERYWHERE, Fraction(1, 2))
    request = Request(
        "more", "long-form", ("44",), spend("puredp", [Fraction(3, 4)]), "input", "configuration", 1, ("other",)
    )
    for states in (("44",), EVERYWHERE):
        with pytest.raises(LedgerError, match=r"the run needs epsilon 0\.75; it has 0\.5 of 1"):
            ledger.precheck(replace(request, states=states))
    ledger.reserve(replace(request, states=("72",), spend=spend("puredp", [Fraction(1, 2)])), lambda: "secret")
    with pytest.raises(LedgerError, match=r"needs epsilon 0\.25; state 72 has 0 of 1"):
        ledger.precheck(replace(request, run="third", states=EVERYWHERE, spend=spend("puredp", [Fraction(1, 4)])))
    assert [(what, over) for what, over, faults in ledger.examine().found if faults or "account" in what] == [
        ("account long-form", "epsilon 1 of 1 in state 72")
    ]


def write_zones(folder: Path) -> None:
    with open(folder / "zones.csv", "w", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([[*LEAVES], *zip(*LEAVES.values(), strict=True)])


def test_the_histogram_of_a_declaration_is_its_leaves_by_its_axes(tmp_path: Path) -> None:
    """Levels and recodes are coarser axes; the keys of das tda are not read."""
    path = tmp_path / "small.json"
    write_zones(tmp_path)
    path.write_text(json.dumps(BASE | {"budget": "much", "queries": 1}))
    declared = read_declared_histogram(path)
    assert {axis.name: axis.codes for axis in declared.histogram.axes} == {
        "zone": tuple(LEAVES["zone"]),
        "dwelling": ("1", "2"),
        "sex": ("1", "2"),
        "age": ("0", "1", "2", "3", "4", "5-9"),
    }
    assert declared.columns == ("zone", "DW", "SEX", "AGE")
    assert declared.codes("region") == ("1", "2")
    assert declared.codes("district") == ("1/10", "1/9", "2/9")  # 9 names two districts
    assert declared.codes("young") == ("0 to 2", "3 to 9")
    assert declared.histogram.zeros == ({"dwelling": {1}, "age": {0, 1}},)
    assert "budget" not in declared.declaration
    message = "no axis, level or recode 'SEX': choose from zone, dwelling, sex, age, region, district, young"
    with pytest.raises(ValueError, match=message):
        declared.codes("SEX")


def test_a_cell_of_several_values_counts_them_all(tmp_path: Path, run: RunDirectory) -> None:
    ages = {"column": "AGE", "values": ["0-1", ["2-4", "9"], "is:5-8"]}
    declared = read_declared_histogram(write_declaration(tmp_path, axes={"age": ages}, **ALONE))
    (tmp_path / "table.csv").write_text("AGE\n" + "\n".join(["0", "2", "9", "4", "5-8", "5-8"]) + "\n")
    tabulate(run, HERE, str(tmp_path / "table.csv"), declared)
    assert declared.histogram.axes[0].codes == ("0", "1", "2-9", "5-8")
    assert exact_counts(run, 0, 4).tolist() == [1, 0, 3, 2]


def test_a_release_names_the_table_of_leaves_without_its_folder(tmp_path: Path) -> None:
    write_declaration(tmp_path)
    (tmp_path / "public").mkdir()
    (tmp_path / "counties.csv").rename(tmp_path / "public/counties.csv")
    plain = read_declared_histogram(write_declaration(tmp_path))
    for file in ("public/counties.csv", str(tmp_path / "public/counties.csv")):
        leaves = {"file": file, "key": "COUNTY"}
        assert read_declared_histogram(write_declaration(tmp_path, leaves=leaves)) == plain


def test_the_topdown_algorithm_refuses_the_keys_of_bottom_up() -> None:
    for key, value in {"weight": {"column": "WT", "most": 1}, "states": ["44"], "not_places": ["age"]}.items():
        declaration, faults = read_declaration(BASE | {key: value})
        assert declaration is None
        assert faults == [(key, "only das bottom-up reads it: leave it out of a declaration for das tda")]


def test_a_declaration_of_dwellings_says_so_wherever_its_spend_is(
    tmp_path: Path, run: RunDirectory, account: Charging
) -> None:
    before = planned(tmp_path, run)
    path = write_declaration(tmp_path, records="dwelling", unit="person")
    design = replace(before, declared=read_declared_histogram(path))
    save_object(run / CHOICES, design)
    manifest, _ = released(tmp_path, run, account, design)
    sentences = ["a dwelling added or removed", "a dwelling replaced"]
    assert [each["sentence"] for each in manifest["spent"]["relations"]] == sentences
    page = (tmp_path / "staged/report.html").read_text()
    assert "a dwelling added or removed" in page
    assert "a person added" not in page
    assert [each for each in checks(tmp_path / "staged", manifest) if each.faults] == []
    path = write_declaration(tmp_path, records="dwelling", unit="household")
    spend = read_declared_histogram(path).mechanism(Fraction(1)).spend
    assert (spend.unit, spend.relations[0].sentence) == ("household", sentences[0])
    assert read_declared_histogram(path).digest() != read_declared_histogram(write_declaration(tmp_path)).digest()


def test_an_account_of_households_pays_for_households(tmp_path: Path, run: RunDirectory, account: Charging) -> None:
    own = read_declared_histogram(write_declaration(tmp_path, records="dwelling", unit="household"))
    design = replace(planned(tmp_path, run), declared=own)
    save_object(run / CHOICES, design)
    with pytest.raises(Refused, match="household"):
        authorize(account, claim(run))
    Ledger(tmp_path / "ledger.sqlite").open_account(Account("homes", "puredp", Fraction(1), unit="household"))
    manifest, _ = released(tmp_path, run, replace(account, account="homes"), design)
    assert manifest["spent"]["unit_of_privacy"] == manifest["histogram"]["unit"] == "household"
    assert [each for each in checks(tmp_path / "staged", manifest) if each.faults] == []


def test_a_leaf_may_have_accents_and_a_column_of_another_name(
    tmp_path: Path, run: RunDirectory, account: Charging
) -> None:
    sexes = {"sex": axis("1", column="SEX")}
    leaves = {"leaves": {"file": "regions.csv", "key": "región"}, "levels": [], "records_file": {"key": "REG"}}
    (tmp_path / "regions.csv").write_text("región\nnorte\nsur\n", encoding="utf-8")
    own = read_declared_histogram(write_declaration(tmp_path, axes=sexes, zeros=[], states=["44"], **leaves))
    (tmp_path / "table.csv").write_text("REG,SEX\n" + "norte,1\n" * 300 + "sur,1\n" * 200)
    design = BottomUpPlan(own, Fraction(1), marginals=(("región",),))
    save_object(run / CHOICES, design)
    tabulate(run, HERE, str(tmp_path / "table.csv"), own)
    manifest, tables = released(tmp_path, run, account, design)
    counts = dict(zip(*(tables["by-región"][name].to_pylist() for name in ("región", "COUNT")), strict=True))
    assert abs(counts["norte"] - 300) + abs(counts["sur"] - 200) < 80  # the noise passes 40 once in e^40
    checked = [*check_tables(tmp_path / "staged", manifest, description(manifest))]
    assert [each for each in checked if each.faults] == []
