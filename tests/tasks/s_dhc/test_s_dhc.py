"""The S-DHC stages on made-up households: noise off equals a naive program; truncation, checks, noise by address."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from dhca_inputs import HERE
from s_dhc_households import (
    CELLS,
    TAU,
    Country,
    Person,
    Unit,
    configuration,
    country,
    hash_of,
    naive,
    random_units,
    write_configuration,
)

from flows.execution.runner import InProcess, release_truth
from flows.execution.s_dhc_settings import SDhcSettings
from flows.execution.settings import RESERVATION
from privacy.accounting.ledger import Account, Ledger
from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import RunSecret
from tasks.errors import Refused
from tasks.lifecycle.authorization import Authorization, NoiseSource
from tasks.lifecycle.files import open_array, remove
from tasks.lifecycle.run_directory import STAGES
from tasks.records import fast_records
from tasks.records.findings import load_findings
from tasks.releases.datapackage import read_package
from tasks.releases.errors import figures
from tasks.releases.manifest import read_manifest
from tasks.releases.statements import check_statements
from tasks.s_dhc.accuracy import measure_errors
from tasks.s_dhc.check import checks, statements
from tasks.s_dhc.configuration import read_configuration
from tasks.s_dhc.measure import noisy_answers
from tasks.s_dhc.run import EXACT, SDhcPlan, answers_of
from tasks.s_dhc.tables import ALL_CELLS, AVERAGES, MEASURED, PERSON_TABLES
from tasks.s_dhc.truncation import content_of_row, hash_of_row, order_by_hash

pytestmark = pytest.mark.usefixtures("untidy")
STATES = ["01", "44", "56"]
RATIO_OF_PH5 = ("PH4", "PH5_denom")
Key = tuple[str, str, str, str, str]  # table, region type, region, iteration, cell


def settings_of(folder: Path, made: Country | None, run_id: str = "run", **changes: object) -> SDhcSettings:
    """Settings of a run in a folder, with its data and configuration there."""
    states = changes.pop("states", STATES)
    if made is not None:
        made.write(folder / "data", **changes.pop("written", {}))
    config = write_configuration(folder / "config.json", configuration(states, **changes.pop("config", {})))
    return SDhcSettings.new(
        config=str(config),
        data=str(folder / "data"),
        out=str(folder / "out"),
        jurisdiction="pr" if states == ["72"] else "us",
        account="census",
        ledger=str(folder / "ledger.sqlite"),
        runs_folder=str(folder / "state"),
        run_id=run_id,
        **changes,
    )


def truth_of(settings: SDhcSettings) -> dict[Key, int]:
    settings.directory.create()
    release = release_truth(settings, HERE, curator=True)
    assert release is not None
    found = {}
    for name in CELLS:
        if (path := release / f"{name}/{name}.csv").exists():
            rows = pd.read_csv(path, sep="|", dtype=str)
            rows["ITERATION_CODE"] = rows.get("ITERATION_CODE", "*")
            for row in rows.to_dict("records"):
                key = (row["REGION_TYPE"], row["REGION_ID"], row["ITERATION_CODE"], row[f"{name.upper()}_DATA_CELL"])
                found[(name, *key)] = int(row["COUNT"])
    return found


@pytest.fixture(scope="module")
def made() -> Country:
    """As many units as have every cell of every table; each table that is truncated loses rows."""
    return country(random_units(500, [*STATES, "02"], seed=38))


@pytest.fixture(scope="module")
def exact(made: Country) -> dict[bool, Counter[Key]]:
    """The naive program's counts, truncated or not."""
    counts = {truncated: naive(made, STATES, truncated=truncated) for truncated in (True, False)}
    lost = counts[False] - counts[True]
    assert {key[0] for key in lost} == {*TAU, "PH5_num", "PH8_num"}
    return counts


@pytest.mark.parametrize(
    ("written", "truncated"),
    [
        ({}, True),
        ({}, False),
        pytest.param({"delimiter": "|"}, True, marks=pytest.mark.slow),
        pytest.param({"form": "parquet"}, True, marks=pytest.mark.ci),
        pytest.param({"form": "parquet", "integers": True}, True, marks=pytest.mark.slow),
    ],
)
def test_noise_off_is_the_naive_program(
    tmp_path: Path, made: Country, exact: dict[bool, Counter[Key]], truncated: bool, written: dict
) -> None:
    settings = settings_of(tmp_path, made, truncated=truncated, written=written)
    found = truth_of(settings)
    expected = exact[truncated]
    assert {key: count for key, count in found.items() if count} == dict(expected)
    assert len({key[0] for key in expected}) == 11
    regions = 1 + len(STATES)
    rows = {name: len(cells) * regions * (1 if name in ("PH2", "PH6") else 10) for name, cells in CELLS.items()}
    assert len(found) == sum(rows.values())  # every cell, empty ones too


def test_puerto_rico_and_pure_dp(tmp_path: Path) -> None:
    made = country(random_units(400, ["72"], seed=1))
    settings = settings_of(tmp_path, made, states=["72"], config={"privacy_defn": "puredp"})
    found = truth_of(settings)
    assert {key: count for key, count in found.items() if count} == {
        key: count for key, count in naive(made, ["72"]).items() if key[1] == "STATE"
    }
    assert {key[1:3] for key in found} == {("STATE", "72")}


@pytest.mark.ci
def test_order_chunks_and_readers_change_nothing(
    tmp_path: Path, made: Country, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = truth_of(settings_of(tmp_path / "a", made))
    shuffled = Country(made.persons[::-1], made.units[::-1], made.geo[::-1])
    monkeypatch.setattr(fast_records, "MIN_BYTES", 0)  # the compiled reader
    assert truth_of(settings_of(tmp_path / "b", shuffled)) == first
    monkeypatch.setattr(fast_records, "MIN_ROWS", 0)
    for integers in (False, True):
        folder = tmp_path / f"c{integers}"
        assert truth_of(settings_of(folder, shuffled, written={"form": "parquet", "integers": integers})) == first


def test_hashes_of_the_program() -> None:
    golden = {
        ("3", 100000007, 34, 1, "04", "20", 1): "11833b42359b5bd1c719784d8dd9b30cfb7f17536abb20b8940db8a30d2765b2",
        ("3", 100000007, 0, 2, "11", "25", 2): "0ba2e7e7f2ad1bff01c6e8c54b9671db89aec1752cf231f1b8132cfa2a52335c",
    }
    for (*content, copy), digest in golden.items():
        assert hash_of_row(tuple(content), copy) == digest
        row = dict(zip(("RTYPE", "MAFID", "QAGE", "CENHISP", "CENRACE", "RELSHIP"), map(str, content), strict=True))
        assert hash_of(row, copy) == digest
    row = (6 << 20) | 34 | (0 << 7) | (4 << 12)
    assert content_of_row(row) == ("3", 100000007, 34, 1, "04", "20")


def test_identical_persons_and_equal_totals(tmp_path: Path) -> None:
    """Units of tau and tau + 1 alike: truncation keeps tau. PH1, PH2 and PH7 keep the same persons where tau is one."""
    head = Person(20, 40)
    units = [Unit(100_000_001 + at, "44", [head, *[Person(25, 5)] * at], tenure=1) for at in range(14)]
    made = country(units)
    for place, tau in enumerate((TAU, TAU | {"PH7": 3})):
        folder = tmp_path / str(place)
        found = truth_of(settings_of(folder, made, states=["44"], config={"tau": tau}))
        totals = {
            name: sum(found[name, "STATE", "44", "*", cell] for cell in CELLS[name])
            for name in ("PH1_num", "PH2", "PH7")
        }
        assert totals["PH1_num"] == totals["PH2"] == sum(min(10, at + 1) for at in range(14))
        assert totals["PH7"] == sum(min(tau["PH7"], at + 1) for at in range(14))
        children = sum(found["PH6", "STATE", "44", "*", cell] for cell in CELLS["PH6"])
        assert children == sum(min(6, at) for at in range(14))


RULES = {
    "other states": ("persons", "no persons in the states of the run"),
    "a unit twice": ("units", "occur more than once"),
    "geo twice": ("geo", "occur more than once"),
    "unit without geo": ("units", "not in geo"),
    "geo without unit": ("geo", "not in units"),
    "person without unit": ("persons", "not in units"),
    "type of unit": ("units", "RTYPE is not that of geo"),
    "type of person": ("persons", "RTYPE is not that of the unit"),
    "relation of quarters": ("persons", "RELSHIP 37 or 38"),
    "two householders": ("units", "exactly one householder"),
    "two partners": ("units", "more than one spouse or partner"),
    "recode of a vacant unit": ("units", "must be 0 without a household"),
    "race": ("units", "HHRACE is not the householder's"),
    "ethnicity": ("units", "HHSPAN is not the householder's"),
    "child without a cell": ("persons", "no cell of a table"),
    "tenure": ("units", "no cell of a table takes the household"),
}
WARNINGS = {"HHT": "HHT is not", "HHT2": "HHT2 is not", "CPLT": "CPLT is not", "FINAL_POP": "FINAL_POP", "NPF": "NPF"}


def broken(rule: str) -> Country:
    """A married couple with a child, a person alone, a vacant unit and quarters, with one fault."""
    family = [Person(20, 40, sex="f"), Person(21, 41), Person(25, 5)]
    made = country(
        [
            Unit(100_000_001, "44", family, tenure=1),
            Unit(100_000_002, "44", [Person(20, 70)], tenure=3),
            Unit(100_000_003, "44"),
            Unit(100_000_004, "44", [Person(37, 20)], quarters=True),
        ]
    )
    persons, units, geo = made.persons, made.units, made.geo
    edits = {
        "other states": lambda: [row.update(TABBLKST="31") for row in geo],
        "a unit twice": lambda: units.append(units[0]),
        "geo twice": lambda: geo.append(geo[0]),
        "unit without geo": lambda: geo.pop(2),
        "geo without unit": lambda: units.pop(2),
        "person without unit": lambda: persons[0].update(MAFID="100000999"),
        "type of unit": lambda: units[3].update(RTYPE="2"),
        "type of person": lambda: persons[4].update(RTYPE="3"),
        "relation of quarters": lambda: persons[4].update(RELSHIP="36"),
        "two householders": lambda: persons[2].update(RELSHIP="20"),
        "two partners": lambda: persons[2].update(RELSHIP="24"),
        "recode of a vacant unit": lambda: units[2].update(TEN="1"),
        "race": lambda: units[0].update(HHRACE="02"),
        "ethnicity": lambda: units[0].update(HHSPAN="2"),
        "child without a cell": lambda: units[0].update(HHT2="02"),
        "tenure": lambda: units[0].update(TEN="0"),
        "HHT": lambda: units[0].update(HHT="2"),
        "HHT2": lambda: units[1].update(HHT2="10"),
        "CPLT": lambda: units[1].update(CPLT="1"),
        "FINAL_POP": lambda: units[0].update(FINAL_POP="9"),
        "NPF": lambda: units[0].update(NPF="2"),
    }
    edits[rule]()
    return made


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_across_files_and_of_households(tmp_path: Path, rule: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = settings_of(tmp_path, broken(rule), states=["44"])
    settings.directory.create()
    with pytest.raises(Refused, match="does not pass validation") as refused:
        InProcess(settings, HERE, before=RESERVATION).run()
    found = load_findings(settings.directory)
    file, words = RULES[rule]
    assert any(each.file.startswith(file) and words in each.rule and not each.warning for each in found)
    assert "10000" not in str(refused.value) + caplog.text
    assert not any(each.values or each.lines for each in found)  # not even the curator's report says which unit


@pytest.mark.parametrize("rule", [*list(RULES)[8:], *WARNINGS])
def test_household_rules_may_be_warnings(tmp_path: Path, rule: str) -> None:
    rules = {"household_rules": "warn"} if rule in RULES else {}
    settings = settings_of(tmp_path, broken(rule), states=["44"], config=rules)
    settings.directory.create()
    InProcess(settings, HERE, before=RESERVATION).run()
    found = load_findings(settings.directory)
    words = RULES[rule][1] if rule in RULES else WARNINGS[rule]
    assert any(words in each.rule and each.warning for each in found)
    counts = np.asarray(open_array(settings.directory / EXACT, "counts"))
    assert counts.shape == (51, 14, 42)
    assert counts.min() >= 0


@pytest.mark.parametrize(
    ("file", "column", "value"),
    [
        ("persons", "RTYPE", "2"),
        ("persons", "MAFID", "99999999"),
        ("persons", "MAFID", "900000000"),
        ("persons", "QAGE", "116"),
        ("persons", "CENHISP", "3"),
        ("persons", "CENRACE", "64"),
        ("persons", "RELSHIP", "39"),
        ("units", "FINAL_POP", "100000"),
        ("units", "NPF", "1"),
        ("units", "HHT2", "13"),
        ("units", "CPLT", "x"),
        ("geo", "REGIONCE", "5"),
        ("geo", "TABBLKST", "7"),
    ],
)
def test_each_value_is_checked(tmp_path: Path, file: str, column: str, value: str) -> None:
    made = country(random_units(20, ["44"]))
    getattr(made, file)[3] |= {column: value}
    settings = settings_of(tmp_path, made, states=["44"])
    settings.directory.create()
    with pytest.raises(Refused, match="does not pass validation"):
        InProcess(settings, HERE, before=RESERVATION).run()
    (found,) = [each for each in load_findings(settings.directory) if not each.warning]
    assert (found.file, found.rows, found.lines) == (f"{file}.csv", 1, (5,))
    assert found.values == (() if column == "MAFID" else (value,))


def test_columns_are_matched_by_name_and_missing_files_are_named(tmp_path: Path) -> None:
    made = country(random_units(200, ["44"]))
    expected = truth_of(settings_of(tmp_path / "a", made, states=["44"]))
    settings = settings_of(tmp_path / "b", made, states=["44"])
    for name in ("persons", "units", "geo"):
        path = tmp_path / f"b/data/{name}.csv"
        rows = pd.read_csv(path, dtype=str)
        rows[rows.columns[::-1]].to_csv(path, index=False)
    assert truth_of(settings) == expected
    settings = settings_of(tmp_path / "c", made, states=["44"])
    (tmp_path / "c/data/geo.csv").unlink()
    settings.directory.create()
    with pytest.raises(Refused, match=r"geo.csv: the file does not exist"):
        InProcess(settings, HERE, before=RESERVATION).run()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"privacy_defn": "rdp"}, "privacy_defn must be"),
        ({"state_filter": ["72", "44"]}, "Puerto Rico"),
        ({"state_filter": ["03"]}, r"invalid state codes \['03'\]"),
        ({"state_filter": []}, "must be a list"),
        ({"tau": TAU | {"PH9": 1}}, r"unknown keys \['PH9'\]"),
        ({"tau": {}}, "lacks"),
        ({"tau": TAU | {"PH2": True}}, "whole number from 1"),
        ({"stabilty": "unit"}, "unknown keys"),
        ({"budget": "-1"}, "must be a number from 0"),
        ({"budget": "NaN"}, "NaN is not a budget"),
        ({"budget": "0"}, "nothing to release"),
    ],
)
def test_configurations_that_are_refused(tmp_path: Path, change: dict, message: str) -> None:
    path = write_configuration(tmp_path / "config.json", configuration(["44"], **change))
    with pytest.raises(Refused, match=message):
        read_configuration(path)


def test_averages_of_a_large_tau_and_noise_beyond_the_sampler_are_refused_before_reserving(tmp_path: Path) -> None:
    large = read_configuration(
        write_configuration(tmp_path / "config.json", configuration(["44"], tau=TAU | {"PH7": 101}))
    )
    SDhcPlan(large).check()
    with pytest.raises(Refused, match="--estimates needs a tau of at most 100, PH7 has 101"):
        SDhcPlan(large, estimates=True).check()
    weak = read_configuration(write_configuration(tmp_path / "weak.json", configuration(["44"], budget="1e-12")))
    with pytest.raises(Refused, match="too wide"):
        SDhcPlan(weak).check()


def test_puerto_rico_has_no_nation_and_a_run_no_infinite_budget(tmp_path: Path) -> None:
    values = configuration(["44"]) | {"state_filter": ["72"]}
    with pytest.raises(Refused, match="usa_ budgets must be 0 for Puerto Rico"):
        read_configuration(write_configuration(tmp_path / "config.json", values))
    endless = read_configuration(
        write_configuration(tmp_path / "config.json", configuration(["44"], budget="Infinity"))
    )
    with pytest.raises(Refused, match="only das sdhc truth"):
        endless.spend()


def test_the_production_queries(tmp_path: Path) -> None:
    states = [f"{code:02d}" for code in range(1, 57) if code not in (3, 7, 14, 43, 52)]
    us = read_configuration(write_configuration(tmp_path / "us.json", configuration(states)))
    pr = read_configuration(write_configuration(tmp_path / "pr.json", configuration(["72"])))
    assert (len(us.queries()), len(pr.queries())) == (46, 23)
    cells = {each.region_type: 0 for each in us.queries()}
    for each in us.queries():
        cells[each.region_type] += len(each.codes) * len(each.table.cells)
    assert cells == {"USA": 204, "STATE": 204}
    assert ALL_CELLS == 42 == sum(len(table.cells) for table in MEASURED)
    assert us.spend().charged == Fraction("1.257281")


def test_zero_budgets_leave_rows_and_tables_out(tmp_path: Path, made: Country) -> None:
    values = configuration(STATES)
    values["privacy_budget"]["PH3"] = dict.fromkeys(values["privacy_budget"]["PH3"], "0")
    values["privacy_budget"]["PH4"]["usa_H,I"] = "0"
    settings = settings_of(tmp_path, made)
    write_configuration(Path(settings.config), values)
    found = truth_of(settings)
    assert not any(key[0] == "PH3" for key in found)
    for name in ("PH4", "PH5_num"):
        assert ("USA", "1", "H") not in {key[1:4] for key in found if key[0] == name}
        assert ("STATE", "44", "H") in {key[1:4] for key in found if key[0] == name}


def measured(folder: Path, made: Country | None, run_id: str, states: list[str]) -> dict[str, np.ndarray]:
    """The noisy answers of a run over an account, less the exact ones of the run."""
    settings = settings_of(folder, made, run_id, states=states)
    settings.directory.create()
    ledger = Ledger(folder / "ledger.sqlite")
    if not ledger.exists():
        ledger.open_account(Account("census", "zcdp", Fraction(100)))
    InProcess(settings, HERE, before="release").run()
    return answers_of(settings.directory)


def test_noise_is_of_the_stated_law_and_no_two_cells_share_it(tmp_path: Path, made: Country) -> None:
    states = [f"{code:02d}" for code in range(1, 57) if code not in (3, 7, 14, 43, 52)]
    found = measured(tmp_path, made, "run", states)
    exact = naive(made, states)
    plan = read_configuration(tmp_path / "config.json")
    standard, streams = [], {}
    for each in plan.queries():
        answer = found[each.query.name]
        regions = ["1"] if each.region_type == "USA" else states
        codes = [cell.code for cell in each.table.cells]
        noise = np.array(
            [
                count - exact[each.table.name, each.region_type, regions[region], each.codes[code], codes[cell]]
                for (region, code, cell), count in np.ndenumerate(answer)
            ]
        )
        standard.append(noise / each.query.law("zcdp", "program").variance() ** 0.5)
        assert streams.setdefault(noise.tobytes(), each.query.name) == each.query.name
    draws = np.concatenate(standard)
    assert len(draws) == 10_608
    assert abs(draws.mean()) < 4.5 / 10_608**0.5
    assert abs((draws**2).mean() - 1) < 4.5 * (2 / 10_608) ** 0.5
    assert np.abs(draws).max() < 6


def test_noise_has_an_address(tmp_path: Path, made: Country) -> None:
    """The same secret over fewer states, or drawn again in any order, gives the same noise to a state."""
    states = [f"{code:02d}" for code in range(1, 57) if code not in (3, 7, 14, 43, 52)]
    drawing = NoiseSource(RunSecret(bytes(32)), Authorization("input", "configuration", ""))
    plans = [
        SDhcPlan(read_configuration(write_configuration(tmp_path / "config.json", configuration(chosen))))
        for chosen in (states, ["44"])
    ]
    zeros = {
        each.query.name: np.zeros((1 if each.region_type == "USA" else 51, len(each.codes), len(each.table.cells)), int)
        for each in plans[0].configuration.queries()
    }
    every, few = (noisy_answers(plan, zeros, drawing) for plan in plans)
    for name, noise in every.items():
        assert (noise == few[name]).all()
    each = plans[0].configuration.queries()[-1]
    noise = QueryNoise(
        plans[0].law(each),
        drawing.secret,
        input_digest="input",
        configuration_digest="configuration",
        query=each.query.name,
    )
    assert (noise.draw(np.array([40]), len(each.table.cells))[0] == every[each.query.name][40, 0]).all()


def released(folder: Path, made: Country, **options: Any) -> Path:
    """Run and release over an account of FOLDER/ledger.sqlite."""
    settings = settings_of(folder, made, **options)
    settings.directory.create()
    Ledger(folder / "ledger.sqlite").open_account(Account("census", "zcdp", Fraction(100)))
    release = InProcess(settings, HERE).run()
    assert release is not None
    return release


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, made: Country) -> Path:
    """A folder with a release in out/us, and its ledger. Copy before you change it."""
    folder = tmp_path_factory.mktemp("released")
    released(folder, made)
    return folder


def test_a_release_is_charged_once_and_its_files_are_the_programs(home: Path) -> None:
    release = home / "out/us"
    (row,) = Ledger(home / "ledger.sqlite").rows("census")
    assert (row.amount, row.status, row.states) == (Fraction("1.257281"), "released", tuple(STATES))
    manifest = json.loads((release / "manifest.json").read_text())
    figures = {each["relation"]: each["decimal"] for each in manifest["spent"]["relations"]}
    assert figures["one_unit"] == pytest.approx(0.488408, abs=1e-6)
    assert set(figures) == {"household", "one_unit", "two_units", "coded_valid", "coded"}
    assert "USA means the states of this run" in manifest["statements"]["states"]
    lines = (release / "PH3/PH3.csv").read_text().splitlines()
    assert lines[0] == "REGION_ID|REGION_TYPE|ITERATION_CODE|PH3_DATA_CELL|COUNT|NOISE_DISTRIBUTION|VARIANCE"
    assert lines[1].startswith("1|USA|A|2|")
    assert lines[1].endswith("|Discrete Gaussian|92365.692742695566")
    assert "ITERATION_CODE" not in (release / "PH2/PH2.csv").read_text()
    tables = {
        name: pd.read_parquet(release / f"{name}/{name}.parquet") for name in ("PH4", "PH5_num", "PH7", "PH8_num")
    }
    assert (tables["PH4"]["COUNT"] == tables["PH5_num"]["COUNT"]).all()
    of_ph7 = tables["PH7"]["COUNT"].to_numpy().reshape(-1, 3)
    assert (
        tables["PH8_num"]["COUNT"].to_numpy().reshape(-1, 2) == np.stack([of_ph7[:, :2].sum(axis=1), of_ph7[:, 2]], 1)
    ).all()
    assert tables["PH8_num"]["VARIANCE"][0] == pytest.approx(2 * tables["PH7"]["VARIANCE"][0])
    usa = tables["PH4"].query("REGION_TYPE == 'USA'").iloc[0]
    assert (usa["MOE"], usa["MOE90"]) == (596, 500)


@pytest.mark.ci
def test_averages_of_production_noise(tmp_path: Path, made: Country) -> None:
    """They take as long as there are counts that noisy ones may be of: `make test` has those of little noise."""
    settings = settings_of(tmp_path, made, states=["44"], estimates=True)
    settings.directory.create()
    Ledger(tmp_path / "ledger.sqlite").open_account(Account("census", "zcdp", Fraction(2)))
    release = InProcess(settings, HERE).run()
    assert release is not None
    check_averages(release)


def check_averages(release: Path) -> None:
    """The averages and estimates of the nation and state 44: one number for each average, and its confidence sets."""
    averages = pd.read_parquet(release / "averages/PH1.parquet")
    assert len(averages) == 3 * 10 * 2
    sets = [f"{end}{level}" for level in ("", "90") for end in ("LOW", "HIGH", "SAID")]
    assert averages.columns[4:].tolist() == ["NUMERATOR", "DENOMINATOR", "RATIO", *sets]
    assert not [path for path in (release / "estimates").iterdir() if path.is_dir()]
    assert set(averages["SAID"]) <= {"set", "all", "none"}
    estimates = {name: pd.read_parquet(release / f"estimates/{name}.parquet") for name in ("PH1_num", "PH7", "PH2")}
    totals = [
        each[(each["REGION_ID"] == "44") & (each.get("ITERATION_CODE", "*") == "*")]["COUNT"].sum()
        for each in estimates.values()
    ]
    assert len(set(totals)) == 1


def test_accuracy_judges_by_the_margins_of_a_release(tmp_path: Path) -> None:
    made = country(random_units(40, ["44"]))
    settings = settings_of(tmp_path, made, states=["44"], estimates=True, config={"budget": "1"})
    settings.directory.create()
    Ledger(tmp_path / "ledger.sqlite").open_account(Account("census", "zcdp", Fraction(100)))
    assert InProcess(settings, HERE, before=RESERVATION).run() is None
    errors = figures(measure_errors(settings.directory, 1, averages=False))
    release = InProcess(settings, HERE).run()
    assert release is not None
    tables = {table.name: table for table in read_package(release, read_manifest(release)["files"])}
    expected = [each.name for each in tables.values() if each.with_role("margin") and not (each.twin or each.is_tidy)]
    assert list(dict.fromkeys(errors["TABLE"])) == expected != []
    read = {name: pd.read_parquet(release / tables[name].paths[0]) for name in expected}

    @cache
    def by(table: str, *names: str) -> dict[tuple[str, ...], dict[str, float]]:
        rows = read[table].groupby([*names])["MOE"].agg(["size", "mean"]).to_dict("index")
        return {key if isinstance(key, tuple) else (key,): row for key, row in rows.items()}

    for found in errors.to_dict("records"):
        codes = dict(part.split(" ") for part in found["ROW"].split(", "))
        row = by(found["TABLE"], *codes)[(*codes.values(),)]
        assert (found["COUNTS"], found["MARGIN"]) == (row["size"], pytest.approx(row["mean"]))
    assert set(errors["OF"]) == {"COUNT", "ESTIMATE"}


def counts_before_the_reservation(settings: SDhcSettings) -> np.ndarray:
    settings.directory.create()
    InProcess(settings, HERE, before=RESERVATION).run()
    return np.array(open_array(settings.directory / EXACT, "counts"))


KILLED = ("prepared",), ("prepared", "records"), ("prepared", "records", "counts"), STAGES  # as drop_stages removes


@pytest.mark.parametrize("removed", KILLED)
def test_a_run_whose_stages_were_dropped_counts_the_data_that_is_there(
    tmp_path: Path, made: Country, removed: tuple[str, ...]
) -> None:
    """Also where the process was killed between two of the removals."""
    before = counts_before_the_reservation(settings_of(tmp_path / "a", made))
    for name in removed:
        remove(settings_of(tmp_path / "a", None).directory / name)
    other = country(random_units(300, STATES, seed=2))
    found = counts_before_the_reservation(settings_of(tmp_path / "a", other))
    assert (found == counts_before_the_reservation(settings_of(tmp_path / "b", other))).all()
    assert (found != before).any()


def test_a_run_stopped_before_its_reservation_follows_its_edited_configuration(tmp_path: Path, made: Country) -> None:
    before = counts_before_the_reservation(settings_of(tmp_path / "a", made))
    edited = {"config": {"tau": TAU | {"PH7": 2}}}
    found = counts_before_the_reservation(settings_of(tmp_path / "a", None, **edited))
    assert (found == counts_before_the_reservation(settings_of(tmp_path / "b", made, **edited))).all()
    assert (found != before).any()


def test_a_charged_run_refuses_an_edited_configuration(tmp_path: Path, made: Country) -> None:
    measured(tmp_path, made, "run", STATES)
    edited = settings_of(tmp_path, None, config={"tau": TAU | {"PH7": 2}})
    with pytest.raises(Refused, match="began with another configuration; put back what it began with"):
        InProcess(edited, HERE).run()
    assert len(Ledger(tmp_path / "ledger.sqlite").rows("census")) == 1


def test_data_that_changed_after_it_was_encoded_is_refused_before_the_charge(tmp_path: Path, made: Country) -> None:
    settings = settings_of(tmp_path, made)
    settings.directory.create()
    Ledger(tmp_path / "ledger.sqlite").open_account(Account("census", "zcdp", Fraction(2)))
    assert InProcess(settings, HERE, before=RESERVATION).run() is None
    path = tmp_path / "data/persons.csv"
    path.write_text(path.read_text().replace(",20\n", ",20\n", 1).rpartition("\n3,")[0] + "\n")
    with pytest.raises(Refused, match="began with other files"):
        InProcess(settings, HERE).run()
    assert Ledger(tmp_path / "ledger.sqlite").rows("census") == []


@pytest.mark.parametrize("narrow", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_changed_variance_is_found_and_those_of_a_release_are_right(
    tmp_path: Path, made: Country, home: Path, narrow: bool
) -> None:
    """Also of narrow noise, whose variance is less than sigma squared."""
    options = {"config": {"budget": "1"}}
    release = released(tmp_path, made, **options) if narrow else Path(shutil.copytree(home / "out/us", tmp_path / "us"))
    manifest = read_manifest(release)
    assert [each for each in checks(release, manifest) if each.faults] == []
    path = release / "PH3/PH3.parquet"
    for changed in (1e-9, -1e-7):
        rows = pd.read_parquet(path)
        rows.assign(VARIANCE=rows["VARIANCE"] * np.where(rows.index == 3, 1 + changed, 1)).to_parquet(path)
        (fault,) = [each for each in checks(release, manifest) if each.faults]
        assert fault.what == "PH3"
        rows.to_parquet(path)


def test_each_fact_about_the_noise_of_a_release_is_recomputed(tmp_path: Path, home: Path) -> None:
    release = Path(shutil.copytree(home / "out/us", tmp_path / "us"))
    manifest = read_manifest(release)
    rows = pd.read_parquet(path := release / "PH3/PH3.parquet")
    for column in ("MOE", "MOE90", "NOISE_DISTRIBUTION"):
        other = 7 if column != "NOISE_DISTRIBUTION" else "Two-Sided Geometric"
        rows.assign(**{column: [other, *rows[column][1:]]}).to_parquet(path)
        (found,) = [each for each in checks(release, manifest) if each.faults]
        assert [fault.partition(" ")[0] for fault in found.faults] == [column]
    rows.to_parquet(path)
    name, facts = next(iter(manifest["queries"].items()))
    expected = {"queries": statements(release, manifest)["queries"]}
    for key in ("tau", "distance", "norm", "margin_90", "loss"):
        stated = {"queries": manifest["queries"] | {name: facts | {key: None}}}
        (found,) = [fault for each in check_statements(expected, stated) for fault in each.faults]
        assert found.startswith(f"queries.{name}.{key}: it is ") == (facts[key] is not None)


def test_encoding_again_leaves_nothing_of_an_earlier_try(tmp_path: Path, made: Country) -> None:
    settings = settings_of(tmp_path, made)
    counts_before_the_reservation(settings)
    stale = [settings.directory / name for name in ("rows/persons/99999", "counts/99999", "noisy/answers")]
    for path in stale:
        path.mkdir(parents=True)
    remove(settings.directory / "prepared")
    counts_before_the_reservation(settings)
    assert not any(path.exists() for path in stale)


def test_a_family_of_one_by_its_recode_is_in_the_range_of_its_average(tmp_path: Path) -> None:
    """HHT that is not that of the persons is a warning alone: a family may be one person."""
    made = country([Unit(100_000_001, "44", [Person(20, 70)], tenure=1)])
    made.units[0].update(HHT="3")
    found = truth_of(settings_of(tmp_path, made, states=["44"]))
    persons, families = (sum(found[name, "STATE", "44", "*", cell] for cell in CELLS[name]) for name in RATIO_OF_PH5)
    average = next(each for each in AVERAGES if each.name == "PH5")
    assert persons / families == average.lowest("1") == 1


@pytest.mark.parametrize("rules", ["warn", pytest.param("error", marks=pytest.mark.slow)])
@pytest.mark.long
def test_the_averages_of_households_that_may_contradict_their_rules_say_so(
    tmp_path: Path, made: Country, rules: str
) -> None:
    settings = settings_of(tmp_path, made, estimates=True, config={"household_rules": rules})
    settings.directory.create()
    Ledger(tmp_path / "ledger.sqlite").open_account(Account("census", "zcdp", Fraction(2)))
    release = InProcess(settings, HERE).run()
    assert release is not None
    said = json.loads((release / "manifest.json").read_text())["statements"]["averages"]
    assert ("an average above tau is not covered" in said) == (rules == "warn")


def test_rows_that_are_not_truncated_are_never_measured(tmp_path: Path, made: Country) -> None:
    settings = settings_of(tmp_path, made, truncated=False)
    settings.directory.create()
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.open_account(Account("census", "zcdp", Fraction(2)))
    with pytest.raises(Refused, match="not truncated"):
        InProcess(settings, HERE).run()
    assert ledger.rows("census") == []


def test_units_whose_rows_all_count_need_no_hash_and_others_keep_what_the_program_keeps() -> None:
    """Of large units alone those are hashed of which some table drops a row; each table keeps the smallest hashes."""
    rng = np.random.default_rng(36)
    tau = [3, 4, 2, 3, 2, 5]
    sizes = rng.integers(1, 9, 400)
    units = np.repeat(np.arange(400), sizes).astype(np.uint64)
    ages, relations = (
        rng.choice([4, 17, 40], len(units)),
        rng.choice([5, 10, 14], len(units)),
    )  # child, grandchild, other
    rows = np.sort(units << np.uint64(20) | (ages | relations << 7 | 1 << 12).astype(np.uint64))
    ordered = rows.copy()
    order_by_hash(ordered, tau)
    moved = 0
    for unit in range(400):
        own, found = (each[each >> np.uint64(20) == unit].tolist() for each in (rows, ordered))
        moved += own != found
        copies = [own[:at].count(row) + 1 for at, row in enumerate(own)]
        hashes = sorted((hash_of_row(content_of_row(row), copy), row) for row, copy in zip(own, copies, strict=True))
        for table, most in zip(PERSON_TABLES, tau, strict=True):
            of_table = [
                [row for row in order if all(_column(row, name) in of for name, of in table.rows.items())]
                for order in (found, [row for _, row in hashes])
            ]
            assert sorted(of_table[0][:most]) == sorted(of_table[1][:most])
    assert 100 < moved < 300


def _column(row: int, name: str) -> int:
    return {"QAGE": sum((row & 127) >= age for age in (4, 6, 12, 18)), "RELSHIP": row >> 7 & 31}[name]
