"""Households, configuration and totals: every fault is one finding, none depends on households, nothing is charged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dhca_inputs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dhca_inputs import HERE, Inputs, people, validate
from dhcb_inputs import (
    BLOCKS,
    BUDGETS,
    NATION_AND_COUNTIES,
    REFUSALS,
    HouseholdInputs,
    configuration,
    household,
    households,
    new_run,
    released,
    settings_here,
    truth_here,
    validate_here,
)

from tasks.errors import Refused
from tasks.records import tables
from tasks.records.files import digest_file
from tasks.records.findings import Finding, load_findings
from tasks.releases.manifest import MARKS
from tasks.safetab.configuration import parse_configuration
from tasks.safetab.households.run import SafeTabHConfiguration
from tasks.safetab.households.totals import NO_BUDGET, NOT_TABULATED, OTHER_JURISDICTION, OTHER_STATE
from tasks.safetab.levels import Level

pytestmark = pytest.mark.usefixtures("untidy")
GROUP = ("01", "STATE", "1001", "4")
FEW = configuration(**NATION_AND_COUNTIES)


def errors(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if not finding.warning]


NOT_THERE = "regions that GRF-C.txt does not have"
UNKNOWN = "iterations that are unknown or of level 0"
FAULTS: dict[str, tuple[tuple[str, str, str, str], str, str]] = {
    "a group twice": (("01", "STATE", "1001", "9"), "groups that appear twice", "ITERATION_CODE"),
    "a region that is not there": (("01009", "COUNTY", "1001", "4"), NOT_THERE, "REGION_ID"),
    "no area": (("9999", "AIANNH", "1001", "4"), NOT_THERE, "REGION_ID"),
    "an area that is nowhere": (("0123", "AIANNH", "1001", "4"), NOT_THERE, "REGION_ID"),
    "no place": (("1199999", "PLACE", "1001", "4"), NOT_THERE, "REGION_ID"),
    "an id of another width": (("1", "STATE", "1001", "4"), NOT_THERE, "REGION_ID"),
    "a state that there is not": (("99", "STATE", "1001", "4"), NOT_THERE, "REGION_ID"),
    "an unknown iteration": (("01", "STATE", "9876", "4"), UNKNOWN, "ITERATION_CODE"),
    "an iteration of level 0": (("01", "STATE", "0001", "4"), UNKNOWN, "ITERATION_CODE"),
    "a region type": (("01", "DIVISION", "1001", "4"), "Invalid values found in REGION_TYPE", "REGION_TYPE"),
    "a count with a point": (("02", "STATE", "1001", "4.0"), "Invalid values found in COUNT", "COUNT"),
    "no count": (("02", "STATE", "1001", "Null"), "Invalid values found in COUNT", "COUNT"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_of_the_totals_is_one_finding(tmp_path: Path, fault: str) -> None:
    row, rule, column = FAULTS[fault]
    run, validated, findings = validate_here(tmp_path, HouseholdInputs(totals=[GROUP, row]))
    assert validated is None
    (error,) = errors(findings)
    assert error.rule.startswith(rule)
    assert (error.file, error.column, error.rows, error.first) == ("pop-group-totals.txt", column, 1, 3)
    assert error.rule in REFUSALS[0]  # totals are public, so everybody may see what is wrong with them
    assert not (run / "records/00000").exists()


@pytest.mark.parametrize("totals", [[], [("72", "PR-STATE", "1001", "4")], [("11", "STATE", "1001", "4")]])
def test_totals_without_a_group_of_the_run_are_refused(tmp_path: Path, totals: list[tuple[str, str, str, str]]) -> None:
    _, validated, findings = validate_here(tmp_path, HouseholdInputs(totals=totals))
    assert validated is None
    (error,) = errors(findings)
    assert error.rule in (
        "no group is left for this run",
        tables.empty("pop-group-totals.txt").rule,
    )


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    totals = [
        GROUP,
        ("72", "PR-STATE", "1001", "4"),
        ("11", "STATE", "1001", "4"),
        ("1150000", "PLACE", "1001", "4"),
        ("01001", "COUNTY", "2007", "4"),
        ("01001", "COUNTY", "1001", "4"),
    ]
    off = {name: 0 for name in BUDGETS if name.endswith("level_1_county")}
    run, validated, findings = validate_here(tmp_path, HouseholdInputs(totals=totals, config=configuration(**off)))
    assert validated is not None
    assert not errors(findings)
    counted = {OTHER_JURISDICTION: 1, OTHER_STATE: 2, NOT_TABULATED: 1, NO_BUDGET: 1}
    assert run.totals_read.left_out == counted
    assert {each.rule: each.rows for each in findings if each.file == "pop-group-totals.txt"} == counted
    group, count = run.totals(Level("STATE", 1), 0, 2)
    assert (len(group), count.tolist()) == (1, [4])


def test_an_area_of_another_states_blocks_is_left_out(tmp_path: Path) -> None:
    blocks = [*BLOCKS, ("11", "001", "000100", "1001", "50000", "0123")]
    run, _, findings = validate_here(
        tmp_path, HouseholdInputs(blocks=blocks, totals=[GROUP, ("0123", "AIANNH", "1001", "4")])
    )
    assert not errors(findings)
    assert run.totals_read.left_out == {OTHER_STATE: 1}


def test_no_totals_are_a_finding(tmp_path: Path) -> None:
    params, data = HouseholdInputs().write(tmp_path)
    (data / "pop-group-totals.txt").unlink()
    others = settings_here(tmp_path, params, data).public_inputs
    with pytest.raises(Refused, match="the file does not exist; add it, or name a release by --totals"):
        validate(new_run(tmp_path), HERE, str(params), str(data), "us", others=others)


HOUSEHOLDS: dict[str, tuple[dict[str, str], str, str]] = {
    "a race": ({"HHRACE": "64"}, "valid are 01 to 63", "HHRACE"),
    "no race": ({"HHRACE": "00"}, "valid are 01 to 63", "HHRACE"),
    "a type": ({"HOUSEHOLD_TYPE": "6"}, "valid are 1 to 5", "HOUSEHOLD_TYPE"),
    "a word": ({"HOUSEHOLD_TYPE": "x"}, "valid are 1 to 5", "HOUSEHOLD_TYPE"),
    "a tenure": ({"TEN": "0"}, "valid are 1 to 4", "TEN"),
    "vacant": ({"TEN": "Null"}, "valid are 1 to 4", "TEN"),
    "a code": ({"QRACE1": "9999"}, "codes that are not in the code list", "QRACE1"),
    "a block": ({"TABBLK": "7777"}, "", "TABBLK"),
    "a gap": ({"QRACE3": "1100"}, "", ""),
}


@pytest.mark.parametrize("fault", HOUSEHOLDS)
def test_every_fault_of_a_household_is_one_finding(tmp_path: Path, fault: str) -> None:
    changes, rule, column = HOUSEHOLDS[fault]
    inputs = HouseholdInputs(households=[household(), household(**changes), household()])
    _, validated, findings = validate_here(tmp_path, inputs)
    assert validated is None
    (error,) = errors(findings)
    assert rule in error.rule
    assert (error.file, error.rows, error.first) == ("household-records.txt", 1, 3)
    assert column in ("", error.column)


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    """The program reads columns by their order, whatever the header says."""
    config = configuration(**{name: 0 for name in BUDGETS if not name.endswith("level_2_county")})
    inputs = HouseholdInputs(households=households(30, 9), config=config)
    place = truth_here(tmp_path / "one", *inputs.write(tmp_path / "one"))
    params, data = inputs.write(tmp_path / "two")
    path = data / "household-records.txt"
    path.write_text("".join("|".join(line.split("|")[::-1]) + "\n" for line in path.read_text().splitlines()))
    assert released(truth_here(tmp_path / "two", params, data)) == released(place)


CONFIGURATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "true for a budget": ({BUDGETS[0]: True}, "must be a number"),
    "NaN": ({BUDGETS[0]: float("nan")}, "must not be NaN"),
    "negative": ({BUDGETS[0]: -1}, "must not be negative"),
    "a key of SafeTab-P": ({"privacy_budget_p_stage_1_fraction": 0.1}, "unknown keys"),
    "four thresholds": ({"thresholds_h_t3": {"(USA, 1)": [1, 2, 3, 4]}}, "must hold exactly three numbers"),
    "two thresholds of tenure": ({"thresholds_h_t4": {"(USA, 1)": [1, 2]}}, "must hold exactly one number"),
    "falling thresholds": ({"thresholds_h_t3": {"(USA, 1)": [3, 2, 4]}}, "must not decrease"),
    "no thresholds": ({"thresholds_h_t4": {}}, "has no thresholds for"),
}


@pytest.mark.parametrize("fault", CONFIGURATIONS)
def test_faults_of_the_configuration(fault: str) -> None:
    changes, rule = CONFIGURATIONS[fault]
    parsed, findings = parse_configuration(json.dumps(configuration(**changes)), SafeTabHConfiguration)
    assert parsed is None
    assert any(rule in finding.rule for finding in findings)


def test_thresholds_are_needed_where_a_table_is_made(tmp_path: Path) -> None:
    changes = configuration(**{"privacy_budget_h_t4_level_1_aiannh": 0})
    del changes["thresholds_h_t4"]["(AIANNH, 1)"]
    parsed, findings = parse_configuration(json.dumps(changes), SafeTabHConfiguration)
    assert parsed is not None, findings
    assert [table.name for table in parsed.tables(Level("AIANNH", 1))] == ["t3"]


def test_two_households_files_that_differ_in_one_record_are_judged_alike(tmp_path: Path) -> None:
    found = []
    for name, more in (("one", []), ("two", [household()])):
        _, validated, findings = validate_here(tmp_path / name, HouseholdInputs(households=[household(), *more]))
        assert validated is not None
        found.append(findings)
    assert found[0] == found[1]


# Totals of a release


@pytest.fixture(scope="module")
def made_dhca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made-dhca")
    folder.chmod(0o700)
    return dhca_inputs.truth_here(folder, *Inputs(persons=people(300)).write(folder))


@pytest.fixture
def dhca(made_dhca: Path, tmp_path: Path) -> Path:
    """A release of the Detailed DHC-A over the same blocks: of exact counts, for its manifest says so."""
    return Path(shutil.copytree(made_dhca, tmp_path / "dhca" / made_dhca.name))


def edit_manifest(release: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    manifest = json.loads((release / "manifest.json").read_text())
    change(manifest)
    (release / "manifest.json").write_text(json.dumps(manifest))


def as_private(release: Path) -> Path:
    edit_manifest(release, lambda manifest: manifest.pop("NOT_PRIVATE"))
    return release


@pytest.mark.ci
def test_totals_of_a_release_are_those_of_its_text(tmp_path: Path, dhca: Path) -> None:
    as_private(dhca)
    totals = [
        tuple(line.split("|")) for path in sorted(dhca.glob("t1/*.csv")) for line in path.read_text().splitlines()[1:]
    ]
    of_text = truth_here(tmp_path / "text", *HouseholdInputs(config=FEW, totals=totals).write(tmp_path / "text"))  # type: ignore[arg-type]
    inputs = HouseholdInputs(config=FEW, totals=[("01", "STATE", "9876", "4")]).write(tmp_path / "release")
    of_release = truth_here(tmp_path / "release", *inputs, totals=str(dhca))
    assert released(of_text) == released(of_release)
    assert released(of_text)
    below = truth_here(
        tmp_path / "below", *HouseholdInputs(config=FEW).write(tmp_path / "below"), totals=str(dhca.parent)
    )
    assert released(below) == released(of_release)
    manifests = [json.loads((place / "manifest.json").read_text())["totals"] for place in (of_text, of_release)]
    assert [each["from"] for each in manifests] == ["declared by the curator", "truth-us"]


@pytest.mark.ci
def test_totals_in_parquet_are_those_of_their_text(tmp_path: Path) -> None:
    params, data = HouseholdInputs(config=FEW).write(tmp_path / "a")
    of_text = released(truth_here(tmp_path / "a", params, data))
    text = data / "pop-group-totals.txt"
    lines = [line.split("|") for line in text.read_text().splitlines()]
    for name, number, coded in (("text", str, False), ("numbers", int, False), ("coded", int, True)):
        params, data = HouseholdInputs(config=FEW).write(tmp_path / name)
        (data / "pop-group-totals.txt").unlink()
        columns = dict(zip(lines[0], zip(*lines[1:], strict=True), strict=True))
        table = pa.table({**columns, "COUNT": [number(each) for each in columns["COUNT"]]})
        if coded:  # as pandas writes a categorical
            table = pa.table({column: table[column].dictionary_encode() for column in table.column_names})
        pq.write_table(table, data / "pop-group-totals.parquet")
        assert released(truth_here(tmp_path / name, params, data)) == of_text


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ({"COUNT": [1.5]}, "must hold text in every row; COUNT may be whole numbers"),
        ({"REGION_ID": pa.array([None], pa.string())}, "must hold text in every row; COUNT may be whole numbers"),
        ({"REGION_TYPE": ["NOWHERE"]}, "Invalid values found in REGION_TYPE"),
        (
            {"COUNT": pa.array([], pa.int64())},
            tables.empty("pop-group-totals.txt").rule,
        ),
    ],
)
def test_totals_in_parquet_with_a_fault_are_a_finding(tmp_path: Path, fault: dict[str, Any], rule: str) -> None:
    params, data = HouseholdInputs().write(tmp_path)
    (data / "pop-group-totals.txt").unlink()
    row = {"REGION_ID": ["01"], "REGION_TYPE": ["STATE"], "ITERATION_CODE": ["1001"], "COUNT": [4], **fault}
    if not len(fault.get("COUNT", [1])):
        row = {name: pa.array([], pa.string()) for name in row}
    pq.write_table(pa.table(row), data / "pop-group-totals.parquet")
    run = new_run(tmp_path)
    settings = settings_here(tmp_path, params, data)
    with pytest.raises(Refused):
        validate(run, HERE, str(params), str(data), "us", others=settings.public_inputs)
    (found,) = errors(load_findings(run))
    assert found.rule.startswith(rule)


def test_totals_that_are_exact_are_of_marked_persons_for_synthetic_households(tmp_path: Path, dhca: Path) -> None:
    """A release of synthetic households is not charged, and its groups and details would show exact totals."""
    with pytest.raises(Refused, match="exact counts of confidential records"):
        validate_here(tmp_path / "persons", HouseholdInputs(), marked=True, totals=str(dhca))
    edit_manifest(dhca, lambda manifest: manifest.update(SYNTHETIC=MARKS["SYNTHETIC"]))
    with pytest.raises(Refused, match="a release of exact counts, which is for households marked synthetic alone"):
        validate_here(tmp_path, HouseholdInputs(), totals=str(dhca))
    _, validated, findings = validate_here(tmp_path / "marked", HouseholdInputs(), marked=True, totals=str(dhca))
    assert validated is not None, findings


def test_a_group_twice_in_two_files_of_a_release_is_refused(tmp_path: Path, dhca: Path) -> None:
    as_private(dhca)
    name = "parquet/t1/county-2.parquet"
    source, target = pq.read_table(dhca / "parquet/t1/state-1.parquet"), pq.read_table(dhca / name)
    pq.write_table(pa.concat_tables([target, source[:1]]), dhca / name)
    edit_manifest(dhca, lambda manifest: manifest["files"].update({name: digest_file(str(dhca / name))}))
    _, validated, findings = validate_here(tmp_path, HouseholdInputs(), totals=str(dhca))
    assert validated is None
    assert [each.rule for each in errors(findings)] == ["groups that appear twice"]


OTHERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "region": lambda manifest: manifest.update(region="PR"),
    "states": lambda manifest: manifest["geography"].update(states=["01"]),
    "GRF-C": lambda manifest: manifest["geography"].update({"GRF-C": "0" * 64}),
    "max race codes": lambda manifest: manifest["configuration"].update(max_race_codes=5),
    "race-and-ethnicity-codes.txt": lambda manifest: manifest["parameter_files"].update(
        {"race-and-ethnicity-codes.txt": ""}
    ),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_release_of_other_public_files_is_a_finding(tmp_path: Path, dhca: Path, other: str) -> None:
    edit_manifest(as_private(dhca), OTHERS[other])
    _, validated, findings = validate_here(tmp_path, HouseholdInputs(), totals=str(dhca))
    assert validated is None
    said = {
        "region": "is of PR, and not of US: name the folder that holds us/ and pr/",
        "states": "was made with other states",
    }.get(other, f"was made with another {other}")
    assert [each.rule for each in errors(findings)] == [f"the release of the totals {said}"]


def test_a_release_that_was_changed_or_is_of_another_system_is_refused(tmp_path: Path, dhca: Path) -> None:
    as_private(dhca)
    path = dhca / "parquet/t1/county-2.parquet"
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(Refused, match=r"parquet/t1/county-2.parquet is not the file that its manifest names"):
        validate_here(tmp_path, HouseholdInputs(), totals=str(dhca))
    edit_manifest(dhca, lambda manifest: manifest.update(release="Bottom-up", files={}))
    with pytest.raises(Refused, match="not of the Detailed DHC-A"):
        validate_here(tmp_path / "again", HouseholdInputs(), totals=str(dhca))
    with pytest.raises(Refused, match=f"{tmp_path}/nothing holds no manifest.json: it is not a release"):
        validate_here(tmp_path / "none", HouseholdInputs(), totals=str(tmp_path / "nothing"))


@pytest.mark.parametrize("released", [False, True])
def test_a_run_goes_on_without_its_totals(tmp_path: Path, dhca: Path, released: bool) -> None:
    as_private(dhca)
    options = {"totals": str(dhca)} if released else {}
    run, validated, _ = validate_here(tmp_path, HouseholdInputs(), **options)
    shutil.rmtree(dhca)
    (tmp_path / "data/pop-group-totals.txt").unlink(missing_ok=True)
    files = (str(tmp_path / "params"), str(tmp_path / "data"))
    others = settings_here(tmp_path, *map(Path, files), **options).public_inputs
    assert validate(run, HERE, *files, "us", others=others) == validated


def test_totals_that_change_after_validation_are_refused(tmp_path: Path) -> None:
    run, validated, _ = validate_here(tmp_path, HouseholdInputs())
    assert validated is not None
    path = tmp_path / "data/pop-group-totals.txt"
    path.write_text(path.read_text() + "01|STATE|1002|4\n" if "01|STATE|1002" not in path.read_text() else "")
    others = settings_here(tmp_path, tmp_path / "params", tmp_path / "data").public_inputs
    with pytest.raises(Refused, match="changed"):
        validate(run, HERE, str(tmp_path / "params"), str(tmp_path / "data"), "us", others=others)
    assert isinstance(run.totals(Level("STATE", 1), 0, 1)[0], np.ndarray)
