"""The bottom-up stages on small tables: domain, tabulation, budget, noise, calibration, release."""

from __future__ import annotations

import copy
import csv
import json
from collections import Counter
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from declarations import BASE, LEAVES
from dhca_inputs import HERE, Here, cut_files
from sums_of_draws import pmf_of_sum

from privacy.accounting.composition import spend
from privacy.accounting.ledger import Account, Ledger, LedgerError, Request
from privacy.accounting.states import EVERYWHERE
from privacy.noise.laws import TwoSidedGeometric
from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import RunSecret
from tasks.bottom_up import measure as bottom_up_measure
from tasks.bottom_up.check import checks
from tasks.bottom_up.description import description
from tasks.bottom_up.domain import Domain, check_marginals, read_domain, read_totals
from tasks.bottom_up.example import make_example
from tasks.bottom_up.measure import (
    CASES,
    CHOICES,
    FINAL,
    QUERY,
    Design,
    calibrate_counts,
    exact_counts,
    measure,
)
from tasks.bottom_up.release import write_release
from tasks.bottom_up.reserve_budget import reserve_budget
from tasks.bottom_up.tabulate import tabulate
from tasks.errors import Failed, Refused
from tasks.lifecycle.authorization import SECRET, read_authorization
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.reservation import Charging
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.staging import stage_in_one_piece
from tasks.records.findings import load_findings
from tasks.records.marks import MARK_FILE, Mark
from tasks.releases.check_tables import check_tables
from tasks.releases.digests import file_digest
from tasks.releases.manifest import MANIFEST

DECLARED = {
    "factors": {"COUNTY": ["44001", "44003", "45001", "46001"], "SEX": ["1", "2"], "GQ": ["101", "201", "301"]},
    "states": ["44", "45", "46"],
    "groups": {"STATE": {"of": "COUNTY", "first": 2}},
    "structural_zeros": [{"SEX": "1", "GQ": "301"}],
}
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


def write_domain(folder: Path, **changes) -> Path:
    path = folder / "domain.json"
    path.write_text(json.dumps(DECLARED | changes))
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


def wanted(domain: Domain, rows=ROWS) -> list[int]:
    histogram = domain.histogram
    counts = Counter(rows)
    names = [[axis.codes[at] for at in histogram.coordinates[axis.name]] for axis in histogram.axes]
    return [counts[cell] for cell in zip(*names, strict=True)]


# The declared domain and published totals.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"factors": {}}, "at least one axis"),
        ({"factors": {"A": []}}, "no codes"),
        ({"factors": {"A": ["x", "x"]}}, "twice"),
        ({"states": []}, "states"),
        ({"states": ["44", "45", "RI"]}, "two-digit FIPS code.* not 'RI'"),
        ({"states": [" 44", "45", "46"]}, "not ' 44'"),
        ({"states": ["44", "45", "46", "03"]}, "not '03'"),
        ({"states": ["44", "45", "46", "44"]}, "twice: 44"),
        ({"states": ["44", "45"]}, "STATE has levels that are not in states, .*: 46"),
        ({"factors": {"State": ["44", "02"]}, "groups": {}, "structural_zeros": []}, "State has levels .*: 02"),
        ({"colour": 1}, "colour"),
        ({"groups": {"STATE": {"of": "TOWN", "first": 2}}}, "no axis 'TOWN'"),
        ({"groups": {"SEX": {"of": "COUNTY", "first": 2}}}, "a factor and a group"),
        ({"structural_zeros": [{"SEX": "3"}]}, "no level '3'"),
        ({"weight": {"column": "W", "most": 1, "grid": 2}}, "grid is above most"),
        ({"weight": {"column": "W", "most": -1}}, "weight.most"),
        ({"delimiter": "and"}, "delimiter"),
        ({"factors": {"A/B": ["x"]}}, "'A/B' is not a valid name"),
        ({"factors": {"A" * 300: ["x"]}}, "is not a valid name"),
        ({"factors": {"\u0416": ["x"]}}, "is not a valid name"),
        ({"factors": {"a\u00f1o": ["x"], "ano": ["x"]}}, "distinct, also in small letters and without accents"),
        ({"factors": {"a": ["x"], "A": ["x"]}}, "distinct, also in small letters"),
        ({"factors": {"COUNT": ["x"]}}, "'COUNT' cannot be"),
        ({"factors": {"Moe": ["x"]}}, "'Moe' cannot be"),
        ({"factors": {"TOTAL": ["x"]}}, "'TOTAL' cannot be"),
        ({"factors": {"case": ["x"]}}, "'case' cannot be"),
        ({"groups": {"county": {"of": "COUNTY", "first": 2}}}, "distinct"),
        ({"factors": {"A": ["x|y"]}}, "characters that no release can hold"),
        ({"factors": {"A": ['x"y']}}, "characters that no release can hold"),
        ({"factors": {"A": ["x\ny"]}}, "characters that no release can hold"),
        ({"factors": {"A": ["\ud800"]}}, "characters that no release can hold"),
        ({"factors": {"STATEFP": ["44", "02"]}}, "STATEFP look like places in states that are not charged: 02"),
        ({"factors": {"PLACE": ["0212340", "4412340", "9999999"]}}, "not charged: 02"),
        ({"factors": {"GEO": ["0500000US02001", "0500000US44001"]}}, "not charged: 02"),
        ({"factors": {"HOME": ["RI", "AK"]}}, "not charged: 02"),
        ({"factors": {"AGE": ["01", "02"]}, "not_places": ["AG"]}, "unknown factor 'AG'"),
        ({"weight": {"column": "W", "most": 3e9}}, "weight: most is above"),
        ({"weight": {"column": "W", "most": 1, "grid": 1e-10}}, "weight: most is above"),
    ],
    ids=str,
)
def test_bad_domains_are_refused_in_one_line(tmp_path, changes, message):
    if "factors" in changes:
        changes = {"groups": {}, "structural_zeros": [], **changes}
    with pytest.raises(Refused, match=message) as refused:
        read_domain(write_domain(tmp_path, **changes))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("levels", [["01", "02", "03"], ["1", "2"], ["02", "44", "other"], ["0", "101"], ["44", "99"]])
def test_levels_that_are_no_places_are_left_alone(tmp_path, levels):
    write_domain(tmp_path, factors={"A": levels}, groups={}, structural_zeros=[])
    assert read_domain(tmp_path / "domain.json").histogram.cells == len(levels)


def test_a_factor_that_only_looks_like_places_is_named(tmp_path):
    changes = {"groups": {}, "structural_zeros": [], "not_places": ["AGE"]}
    assert read_domain(write_domain(tmp_path, factors={"AGE": ["01", "02"]}, **changes)).not_places == ("AGE",)


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
    factors = {letter * 60: ["x"] for letter in "ABCD"} | {"SEX": ["1", "2"]}
    domain = read_domain(write_domain(tmp_path, factors=factors, groups={}, structural_zeros=[]))
    with pytest.raises(ValueError, match=message):
        check_marginals(domain, marginals)


def test_domains_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(Refused, match="cannot be read"):
        read_domain(tmp_path / "nowhere.json")
    for text in ("{", '{"weight": {"column": "W", "most": 1e999999999}}'):
        (tmp_path / "broken.json").write_text(text)
        with pytest.raises(Refused, match=r"broken\.json"):
            read_domain(tmp_path / "broken.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("STATE\n44\n", "column TOTAL"),
        ("TOWN,TOTAL\nx,1\n", "no factor or group 'TOWN'"),
        ("STATE,TOTAL\n47,1\n", "no level '47'"),
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
        read_totals(totals, read_domain(write_domain(tmp_path)))


def test_totals_and_groups(tmp_path):
    domain = read_domain(write_domain(tmp_path))
    (tmp_path / "totals.csv").write_text("SEX,STATE,TOTAL\n1,44,5\n2,44,\n2,46,4\n")
    totals = read_totals(tmp_path / "totals.csv", domain)
    assert totals.published == {0: 5, 5: 4}
    assert [totals.grouping.label(number) for number in (0, 5)] == [
        {"SEX": "1", "STATE": "44"},
        {"SEX": "2", "STATE": "46"},
    ]
    group = totals.grouping.of(np.arange(domain.histogram.cells))
    assert group.tolist() == [3 * sex + state for state in (0, 0, 1, 2) for sex in (0, 0, 0, 1, 1, 1)]
    ones = np.ones(domain.histogram.cells, np.int64)
    assert domain.marginal(ones, ("SEX", "STATE")).tolist() == np.bincount(group).tolist()
    assert domain.marginal(ones, ()).tolist() == [24]


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
    domain = read_domain(write_domain(tmp_path))
    tabulate(run, HERE, str(path), domain)
    assert partitions_of(run) == -(-path.stat().st_size // chunk)
    assert exact_counts(run, 0, domain.histogram.cells).tolist() == wanted(domain)
    assert exact_counts(run, 5, 11).tolist() == wanted(domain)[5:11]


def test_parquet_is_counted_by_row_group(tmp_path, run):
    domain = read_domain(write_domain(tmp_path))
    tabulate(run, HERE, write_table(tmp_path, parquet=True), domain)
    assert partitions_of(run) == 4
    assert exact_counts(run, 0, domain.histogram.cells).tolist() == wanted(domain)


@pytest.mark.parametrize("parquet", [False, True])
@pytest.mark.parametrize(
    ("row", "rule"),
    [
        (("44002", "1", "101"), "levels that are not declared"),
        (("44001", "", "101"), "levels that are not declared"),
        (("44001", "1", "301"), "declared a structural zero"),
    ],
)
def test_undeclared_records_are_findings_and_nothing_is_told_outside(tmp_path, run, parquet, row, rule):
    table = write_table(tmp_path, [*ROWS, row, row], parquet=parquet)
    with pytest.raises(Refused, match="curator's report") as refused:
        tabulate(run, HERE, table, read_domain(write_domain(tmp_path)))
    assert "4400" not in str(refused.value)
    (finding,) = load_findings(run)
    assert (finding.rule, finding.rows) == (f"{'records in a cell that is ' if 'zero' in rule else ''}{rule}", 2)


def test_rows_of_another_width_and_missing_columns_are_refused(tmp_path, run):
    domain = read_domain(write_domain(tmp_path))
    path = Path(write_table(tmp_path))
    path.write_text(path.read_text(encoding="utf-8") + "44001,1\n", encoding="utf-8")
    with pytest.raises(Refused, match="curator's report"):
        tabulate(run, HERE, str(path), domain)
    (finding,) = load_findings(run)
    assert (finding.rule, finding.rows, finding.first) == ("a row does not have 3 columns", 1, len(ROWS) + 2)
    other = new_run(tmp_path, "other")
    old_mac = "COUNTY,SEX,GQ,NOTE\r44001,1,101,\r"  # without a newline all of it is a header
    for text, message in (
        ("COUNTY,SEX\n", "no column GQ"),
        ("", "no column COUNTY, SEX, GQ"),
        ("COUNTY,SEX,GQ,SEX\n44001,1,101,2\n", "column SEX appears twice"),
        (old_mac, "a line holds a carriage return"),
    ):
        path.write_text(text, encoding="utf-8", newline="")
        with pytest.raises(Refused, match=message):
            tabulate(other, HERE, str(path), domain)
    with pytest.raises(Refused, match="cannot be read"):
        tabulate(other, HERE, str(tmp_path / "nowhere.csv"), domain)


@pytest.mark.parametrize("chunk", [32, 1 << 26])
@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (b"44001,1,101\r44001,1,101", "a line holds a carriage return; only a newline ends a line"),
        (b"44001,1", "a row does not have 3 columns"),
        (b"44001,1,101,", "a row does not have 3 columns"),
        (b"44001,1,\xff", "is not UTF-8 text"),
    ],
)
def test_a_line_that_is_no_row_is_a_finding_with_its_place(tmp_path, run, monkeypatch, chunk, line, rule):
    cut_files(monkeypatch, chunk)
    path = Path(write_table(tmp_path))
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:7], line, *lines[7:]]))
    with pytest.raises(Refused, match="curator's report"):
        tabulate(run, HERE, str(path), read_domain(write_domain(tmp_path)))
    (finding,) = load_findings(run)
    assert (finding.rule, finding.rows, finding.first) == (rule, 1, 8)


@pytest.mark.parametrize("text", ["", "\n\n", "\r\n\n\n\n"], ids=repr)
def test_a_table_without_a_record_is_counted_as_none(tmp_path, run, monkeypatch, text):
    cut_files(monkeypatch, 3)
    path = tmp_path / "table.csv"
    path.write_bytes(f"COUNTY,SEX,GQ\n{text}".encode())
    domain = read_domain(write_domain(tmp_path))
    tabulate(run, HERE, str(path), domain)
    assert not exact_counts(run, 0, domain.histogram.cells).any()


def test_a_run_id_stays_with_its_table(tmp_path, run):
    domain = read_domain(write_domain(tmp_path))
    tabulate(run, HERE, write_table(tmp_path), domain)
    with pytest.raises(Refused, match="another table or domain"):
        tabulate(run, HERE, write_table(tmp_path, parquet=True), domain)


class Stopped(Here):
    """Workers that die after the first piece of a stage."""

    def map(self, stage, run, function, arguments):
        super().map(stage, run, function, arguments[:1])
        raise Failed("stopped here")


@pytest.mark.parametrize("parquet", [False, True])
def test_a_run_whose_table_changed_since_it_was_counted_is_refused(tmp_path, run, parquet):
    table, domain = write_table(tmp_path, parquet=parquet), read_domain(write_domain(tmp_path))
    counted = tabulate(run, HERE, table, domain)
    assert tabulate(run, HERE, table, domain) == counted
    write_table(tmp_path, ROWS[1:], parquet=parquet)
    with pytest.raises(Refused, match="the input of run r1 has changed"):
        tabulate(run, HERE, table, domain)


def test_a_run_goes_on_when_its_table_is_gone(tmp_path, run):
    table, domain = write_table(tmp_path), read_domain(write_domain(tmp_path))
    counted = tabulate(run, HERE, table, domain)
    Path(table).unlink()
    assert tabulate(run, HERE, table, domain) == counted
    with pytest.raises(Refused, match="began with another table or domain"):
        tabulate(run, HERE, str(tmp_path / "other.csv"), domain)


def test_a_resumed_run_counts_one_version_of_the_table(tmp_path, run, monkeypatch):
    cut_files(monkeypatch, 64)
    domain = read_domain(write_domain(tmp_path))
    with pytest.raises(Failed, match="stopped here"):
        tabulate(run, Stopped(), write_table(tmp_path), domain)
    table = write_table(tmp_path, ROWS[::-1])  # the same records in another order
    resumed = tabulate(run, HERE, table, domain)
    assert exact_counts(run, 0, domain.histogram.cells).tolist() == wanted(domain)
    assert resumed == tabulate(new_run(tmp_path, "fresh"), HERE, table, domain)


@pytest.mark.parametrize("parquet", [False, True])
def test_a_table_replaced_while_it_is_read_is_refused(tmp_path, run, parquet):
    class Replacing(Here):
        def map(self, stage, run, function, arguments):
            done = super().map(stage, run, function, arguments)
            write_table(tmp_path, ROWS[::-1], parquet=parquet)
            return done

    domain = read_domain(write_domain(tmp_path))
    table = write_table(tmp_path, parquet=parquet)
    with pytest.raises(Refused, match="changed while it was read"):
        tabulate(run, Replacing(), table, domain)
    tabulate(run, HERE, table, domain)
    assert exact_counts(run, 0, domain.histogram.cells).tolist() == wanted(domain)


def test_a_corrected_table_is_read_again(tmp_path, run):
    domain = read_domain(write_domain(tmp_path))
    with pytest.raises(Refused, match="curator's report"):
        tabulate(run, HERE, write_table(tmp_path, [*ROWS, ("44002", "1", "101")]), domain)
    tabulate(run, HERE, write_table(tmp_path), domain)
    assert exact_counts(run, 0, domain.histogram.cells).tolist() == wanted(domain)
    assert load_findings(run) == []


def test_weights_are_steps_and_out_of_range_ones_are_findings(tmp_path, run):
    domain = read_domain(write_domain(tmp_path, weight={"column": "WT", "most": 25.2, "grid": 0.5}))
    assert domain.mechanism(Fraction(1)).sensitivity == 51
    rows = [("44001", "1", "101")] * 4
    tabulate(run, HERE, write_table(tmp_path, rows, weights=["1.5", "0", "25.2", "2.24"]), domain)
    assert exact_counts(run, 0, 1).tolist() == [3 + 0 + 50 + 4]  # nearest steps of one half
    other = new_run(tmp_path, "other")
    with pytest.raises(Refused, match="curator's report"):
        tabulate(other, HERE, write_table(tmp_path, rows, weights=["1e999999999", "25.3", "-1", "heavy"]), domain)
    (finding,) = load_findings(other)
    assert (finding.rows, finding.values) == (4, ("-1", "1e999999999", "25.3", "heavy"))


# Budget, noise, calibration, release.


def planned(
    tmp_path: Path, run: RunDirectory, *, totals: str | None = None, table: str | None = None, **options
) -> Design:
    domain = read_domain(write_domain(tmp_path))
    if totals is not None:
        (tmp_path / "totals.csv").write_text(totals)
        options["totals"] = read_totals(tmp_path / "totals.csv", domain)
    marginals = options.pop("marginals", ((), ("STATE",), ("SEX", "STATE")))
    design = Design(domain, options.pop("epsilon", Fraction(1, 2)), marginals=marginals, **options)
    save_object(run / CHOICES, design)
    tabulate(run, HERE, table or write_table(tmp_path), domain)
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


def test_epsilon_is_charged_to_every_state_once(tmp_path, run, account):
    planned(tmp_path, run)
    reserve_budget(run, account)
    secret = (run / SECRET).read_bytes()
    reserve_budget(run, account)
    assert (run / SECRET).read_bytes() == secret
    assert Ledger(account.ledger).spent("long-form") == dict.fromkeys(DECLARED["states"], Fraction(1, 2))
    (row,) = Ledger(account.ledger).rows("long-form")
    assert (row.amount, row.status) == (Fraction(1, 2), "reserved")


def test_a_spend_beyond_the_account_is_refused_before_any_secret(tmp_path, run, account):
    planned(tmp_path, run, epsilon=Fraction(3, 2))
    with pytest.raises(Refused, match="has too little budget left"):
        reserve_budget(run, account)
    with pytest.raises(Refused, match="needs an account"):
        reserve_budget(run, Charging(None, account.ledger))
    assert not (run / SECRET).exists()
    with pytest.raises(Refused, match="the secret of the run is gone"):
        measure(run, HERE)


def test_another_configuration_under_the_same_run_is_refused(tmp_path, run, account):
    design = planned(tmp_path, run)
    reserve_budget(run, account)
    save_object(run / CHOICES, replace(design, clip=True))
    with pytest.raises(Refused, match="another configuration"):
        reserve_budget(run, account)


def test_a_rho_account_is_charged_half_the_square(tmp_path, run):
    ledger = tmp_path / "rho.sqlite"
    Ledger(ledger).open_account(Account("rho", "zcdp", Fraction(1, 8)))
    planned(tmp_path, run)
    reserve_budget(run, Charging("rho", ledger))
    assert set(Ledger(ledger).spent("rho").values()) == {Fraction(1, 8)}


@pytest.mark.parametrize("each", [5, 1 << 20])
def test_every_cell_has_its_own_noise_however_cells_are_cut(tmp_path, run, account, monkeypatch, each):
    monkeypatch.setattr(bottom_up_measure, "CELLS_EACH", each)
    design = planned(tmp_path, run)
    reserve_budget(run, account)
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
    possible = design.domain.histogram.possible
    counts = np.load(run / "noisy/final/count.npy")
    assert counts.tolist() == np.where(possible, np.array(wanted(design.domain)) + drawn, 0).tolist()
    assert np.load(run / "noisy/final/reported.npy").tolist() == possible.tolist()


def least_margin(cells: int, e: float = 0.5) -> int:
    """The least m with P(|S| > m) <= .05, by floats."""
    mass = pmf_of_sum(e, cells)
    beyond = [1 - mass[len(mass) // 2 - m : len(mass) // 2 + m + 1].sum() for m in range(100)]
    return next(m for m, tail in enumerate(beyond) if tail <= 0.05)


def released(tmp_path: Path, run: RunDirectory, account: Charging, design: Design) -> tuple[dict, dict[str, pa.Table]]:
    reserve_budget(run, account)
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
    assert str(sum(wanted(design.domain))) not in json.dumps(manifest["histogram"])


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
        reserve_budget(directory, account_in(folder))
        noisy = np.array(wanted(design.domain), np.int64)
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
    domain = read_domain(write_domain(tmp_path, weight={"column": "WT", "most": 2, "grid": 0.5}))
    design = Design(domain, Fraction(1, 2), marginals=((),))
    save_object(run / CHOICES, design)
    tabulate(run, HERE, write_table(tmp_path, weights=["1.5"] * len(ROWS)), domain)
    manifest, tables = released(tmp_path, run, account, design)
    raw = np.load(run / "noisy/final/count.npy")[np.load(run / "noisy/final/reported.npy")]
    assert tables["histogram"]["COUNT"].to_pylist() == (raw * 0.5).tolist()
    assert (manifest["noise"]["sensitivity"], manifest["noise"]["scale"], manifest["noise"]["step"]) == (4, "8", "1/2")


def test_a_run_on_synthetic_data_needs_no_account(tmp_path, run):
    made = make_example(tmp_path / "made", 2000, states=3, counties=2)
    domain = read_domain(made.domain)
    design = Design(domain, Fraction(1), read_totals(made.totals, domain))
    save_object(run / CHOICES, design)
    tabulate(run, HERE, str(made.table), domain)
    manifest, tables = released(tmp_path, run, Charging(None, tmp_path / "none"), design)
    assert "SYNTHETIC" in manifest
    assert (np.load(run / "noisy/00000/count.npy") != exact_counts(run, 0, domain.histogram.cells)).any()
    assert tables["histogram"]["COUNT"].type == pa.int64()
    assert [*Ledger(tmp_path / "none").books().marked] == [run.id]


def test_the_example_is_repeatable_and_bound_to_its_mark(tmp_path, run):
    first, second = (make_example(tmp_path / name, 3000, states=12, counties=3) for name in ("one", "two"))
    assert first.table.read_bytes() == second.table.read_bytes()
    assert first.totals.read_text().splitlines()[4] == "05,"  # unpublished
    table = pq.read_table(second.table).slice(1)
    pq.write_table(table, second.table)
    with pytest.raises(Refused, match="changed or replaced"):
        tabulate(run, HERE, str(second.table), read_domain(second.domain))


def test_a_domain_without_states_is_charged_everywhere(tmp_path: Path, run: RunDirectory) -> None:
    """Its levels may be any codes, FIPS or not. Persons of any state may be in the table: each has spent it."""
    elsewhere = {"PROVINCE": ["ON-35", "44001", "99"], "STATE": ["Vaud", "RI"], "GQ": ["01", "02"]}
    path = tmp_path / "elsewhere.json"
    path.write_text(json.dumps({"factors": elsewhere}))
    domain = read_domain(path)
    assert domain.charged == EVERYWHERE
    assert "states" not in domain.model_fields_set
    account = account_in(tmp_path)
    design = Design(domain, Fraction(1, 2), marginals=((),))
    save_object(run / CHOICES, design)
    table = tmp_path / "persons.csv"
    table.write_text("PROVINCE,STATE,GQ\nON-35,Vaud,01\n99,RI,02\n")
    tabulate(run, HERE, str(table), domain)
    reserve_budget(run, account)
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


def test_a_declaration_is_a_domain_of_its_leaves_axes_levels_recodes_and_zeros(tmp_path: Path) -> None:
    declared = copy.deepcopy(BASE) | {"recodes": {"young": {"axis": "age", "starts": [0, 3]}}}
    declared["axes"]["age"]["values"] = "0-9"
    path = tmp_path / "small.json"
    with open(tmp_path / "zones.csv", "w", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([[*LEAVES], *zip(*LEAVES.values(), strict=True)])
    path.write_text(json.dumps(declared))
    domain = read_domain(path)
    assert domain.factors == {
        "zone": tuple(LEAVES["zone"]),
        "dwelling": ("1", "2"),
        "sex": ("1", "2"),
        "age": tuple(map(str, range(10))),
    }
    assert domain.columns == ("zone", "DW", "SEX", "AGE")
    assert domain.grouping(("region",)).levels == (("1", "2"),)
    assert domain.grouping(("district",)).levels == (("1/10", "1/9", "2/9"),)  # 9 names two districts
    assert domain.grouping(("young",)).levels == (("0 to 2", "3 to 9"),)
    assert domain.structural_zeros == ({"dwelling": "2", "age": "0"}, {"dwelling": "2", "age": "1"})
    with pytest.raises(
        ValueError, match="no factor or group 'SEX': choose from zone, dwelling, sex, age, region, district, young"
    ):
        domain.grouping(("SEX",))
    for words, change in {
        "age: 5 shares a cell": {"axes": BASE["axes"]},
        "budget: it is missing": {"budget": None},
        "leaves.file": {"leaves": {"file": "nowhere.csv", "key": "zone"}},
    }.items():
        changed = {key: value for key, value in (declared | change).items() if value is not None}
        path.write_text(json.dumps(changed))
        with pytest.raises(Refused, match=words):
            read_domain(path)


def test_a_declaration_of_dwellings_says_so_wherever_its_spend_is(
    tmp_path: Path, run: RunDirectory, account: Charging
) -> None:
    before = planned(tmp_path, run)
    path = write_domain(tmp_path, records="dwelling")
    design = replace(before, domain=read_domain(path))
    save_object(run / CHOICES, design)
    manifest, _ = released(tmp_path, run, account, design)
    sentences = ["a dwelling added or removed", "a dwelling replaced"]
    assert [each["sentence"] for each in manifest["spent"]["relations"]] == sentences
    page = (tmp_path / "staged/report.html").read_text()
    assert "a dwelling added or removed" in page
    assert "a person added" not in page
    assert [each for each in checks(tmp_path / "staged", manifest) if each.faults] == []
    declared = BASE | {"records": "dwelling", "unit": "household", "axes": {"sex": BASE["axes"]["sex"]}}
    declared |= {"recodes": {}, "zeros": [], "counts": [], "queries": {"detailed": "1/2", "total": "1/2"}}
    with open(tmp_path / "zones.csv", "w", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([[*LEAVES], *zip(*LEAVES.values(), strict=True)])
    path.write_text(json.dumps(declared))
    spend = read_domain(path).mechanism(Fraction(1)).spend
    assert (spend.unit, spend.relations[0].sentence) == ("household", sentences[0])
    assert read_domain(path).digest() != read_domain(write_domain(tmp_path)).digest()
    with pytest.raises(Refused, match='a record is a household: say unit = "household"'):
        read_domain(write_domain(tmp_path, records="household"))


def test_an_account_of_households_pays_for_households(tmp_path: Path, run: RunDirectory, account: Charging) -> None:
    own = read_domain(write_domain(tmp_path, records="dwelling", unit="household"))
    design = replace(planned(tmp_path, run), domain=own)
    save_object(run / CHOICES, design)
    with pytest.raises(Refused, match="household"):
        reserve_budget(run, account)
    Ledger(tmp_path / "ledger.sqlite").open_account(Account("homes", "puredp", Fraction(1), unit="household"))
    manifest, _ = released(tmp_path, run, replace(account, account="homes"), design)
    assert manifest["spent"]["unit_of_privacy"] == manifest["histogram"]["unit"] == "household"
    assert [each for each in checks(tmp_path / "staged", manifest) if each.faults] == []


def test_a_factor_may_have_accents_and_a_column_of_another_name(
    tmp_path: Path, run: RunDirectory, account: Charging
) -> None:
    domain = {"factors": {"región": ["norte", "sur"]}, "read_from": {"región": "REG"}}
    own = read_domain(write_domain(tmp_path, groups={}, structural_zeros=[], states=["44"], **domain))
    (tmp_path / "table.csv").write_text("REG\n" + "norte\n" * 300 + "sur\n" * 200)
    design = Design(own, Fraction(1), marginals=(("región",),))
    save_object(run / CHOICES, design)
    tabulate(run, HERE, str(tmp_path / "table.csv"), own)
    manifest, tables = released(tmp_path, run, account, design)
    counts = dict(zip(*(tables["by-región"][name].to_pylist() for name in ("región", "COUNT")), strict=True))
    assert abs(counts["norte"] - 300) + abs(counts["sur"] - 200) < 80  # the noise passes 40 once in e^40
    checked = [*check_tables(tmp_path / "staged", manifest, description(manifest))]
    assert [each for each in checked if each.faults] == []
