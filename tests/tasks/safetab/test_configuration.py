"""config.json: every key and value rule of docs/spec/files.md#configjson."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from dhca_inputs import BUDGETS, PROPERTY, configuration
from hypothesis import given
from hypothesis import strategies as st

from tasks.safetab.configuration import NEVER, parse_configuration
from tasks.safetab.levels import ALL_LEVELS, Level
from tasks.safetab.persons.run import SafeTabPConfiguration


def parsed(**changes: Any) -> SafeTabPConfiguration:
    configuration_read, faults = parse_configuration(json.dumps(configuration(**changes)), SafeTabPConfiguration)
    assert not faults
    assert configuration_read is not None
    return configuration_read


def faults(text: str) -> list[str]:
    """The faults of a text, each as `column: rule`."""
    configuration_read, faults = parse_configuration(text, SafeTabPConfiguration)
    assert configuration_read is None
    assert faults
    assert not any(fault.warning for fault in faults)
    assert {fault.file for fault in faults} == {"config.json"}
    return [f"{fault.column}: {fault.rule}" for fault in faults]


def test_the_production_file(das_data: Path) -> None:
    text = (das_data / "params-2020-production/config.json").read_text()
    configuration_read, faults = parse_configuration(text, SafeTabPConfiguration)
    assert not faults
    assert configuration_read is not None
    assert configuration_read.budget(Level("TRACT", 2)) == Fraction(159, 1000)
    assert configuration_read.stage_1_fraction == Fraction(1, 10)
    assert sum(configuration_read.budget(level) for level in configuration_read.levels("us")) == Fraction(4944, 1000)
    assert configuration_read.thresholds["p"][Level("PR-TRACT", 1)] == (4971, 19971, 149971)
    assert Level("AIANNH", 1) not in configuration_read.levels("us")  # its budget is 0
    assert configuration_read.zero_suppression_chance == Fraction(9999, 10000)


def test_levels_stand_in_the_order_of_algorithm_4() -> None:
    configuration_read = parsed(privacy_budget_p_level_1_county=0, privacy_budget_p_level_2_pr_place=0.0)
    us = ("USA", "STATE", "COUNTY", "TRACT", "PLACE", "AIANNH")
    expected = [(name, level) for name in us for level in (1, 2) if (name, level) != ("COUNTY", 1)]
    assert [tuple(level) for level in configuration_read.levels("us")] == expected
    pr = ("PR-STATE", "PR-COUNTY", "PR-TRACT", "PR-PLACE")
    expected = [(name, level) for name in pr for level in (1, 2) if (name, level) != ("PR-PLACE", 2)]
    assert [tuple(level) for level in configuration_read.levels("pr")] == expected


@given(number=st.decimals(min_value=0, max_value=10, places=12))
@PROPERTY
def test_budgets_are_read_from_their_text_exactly(number: Decimal) -> None:
    text = json.dumps(configuration()).replace('"privacy_budget_p_level_1_usa": 1,', f'"{BUDGETS[0]}": {number},')
    configuration_read, faults = parse_configuration(text, SafeTabPConfiguration)
    assert not faults
    assert configuration_read is not None
    assert configuration_read.budgets["p"][Level("USA", 1)] == Fraction(str(number))


def test_exponents_are_numbers() -> None:
    text = json.dumps(configuration()).replace('"privacy_budget_p_level_1_usa": 1,', f'"{BUDGETS[0]}": 25E-2,')
    configuration_read, _ = parse_configuration(text, SafeTabPConfiguration)
    assert configuration_read is not None
    assert configuration_read.budgets["p"][Level("USA", 1)] == Fraction(1, 4)


@pytest.mark.parametrize("key", sorted(set(configuration()) - {"zero_suppression_chance"}))
def test_every_key_is_required(key: str) -> None:
    config = configuration()
    del config[key]
    assert faults(json.dumps(config)) == [f": Invalid config: missing required keys ['{key}']"]


@pytest.mark.parametrize("number", ["1e400", "1E-101", "1e999999999999", "0." + "1" * 200])
def test_numbers_that_only_exact_arithmetic_would_take(number: str) -> None:
    text = json.dumps(configuration()).replace('"privacy_budget_p_level_1_usa": 1,', f'"{BUDGETS[0]}": {number},')
    (fault,) = faults(text)
    assert fault == f"budgets: {BUDGETS[0]} must have at most 100 digits and an exponent to 100"


def test_missing_keys_are_listed_sorted() -> None:
    config = configuration()
    del config["run_us"], config["reader"], config["thresholds_p"]
    listed = "['reader', 'run_us', 'thresholds_p']"
    assert f": Invalid config: missing required keys {listed}" in faults(json.dumps(config))


def test_without_a_chance_nothing_is_suppressed() -> None:
    config = configuration()
    del config["zero_suppression_chance"]
    configuration_read, faults = parse_configuration(json.dumps(config), SafeTabPConfiguration)
    assert not faults
    assert configuration_read is not None
    assert configuration_read.zero_suppression_chance is None


@pytest.mark.parametrize("key", ["budgets", "stage_1_fraction", "thresholds", "zero_supression_chance", "_comment"])
def test_unknown_keys(key: str) -> None:
    assert faults(json.dumps(configuration(**{key: 1}))) == [f": unknown keys ['{key}']"]


def test_a_key_given_twice() -> None:
    text = json.dumps(configuration())
    twice = text.replace('"run_pr": false', '"run_pr": false, "run_pr": true')
    assert faults(twice) == [": is not JSON as expected: keys given twice ['run_pr']"]
    twice = text.replace('"(USA, 1)"', '"(USA, 2)"')
    assert faults(twice) == [": is not JSON as expected: keys given twice ['(USA, 2)']"]


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '"text"', "{'run_us': true}", "{} {}"])
def test_not_a_json_object(text: str) -> None:
    (fault,) = faults(text)
    assert fault.startswith(": is not JSON as expected: ")


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        *((key, -0.1, f"budgets: {key} must not be negative") for key in BUDGETS[::7]),
        (BUDGETS[0], NAN, f"budgets: {BUDGETS[0]} must not be NaN"),
        (BUDGETS[0], -INFINITY, f"budgets: {BUDGETS[0]} must not be -Infinity"),
        (BUDGETS[0], "1", f"budgets: {BUDGETS[0]} must be a number"),
        (BUDGETS[0], True, f"budgets: {BUDGETS[0]} must be a number"),
        (BUDGETS[0], None, f"budgets: {BUDGETS[0]} must be a number"),
        *(("max_race_codes", value, "greater than or equal to 1") for value in (0,)),
        *(("max_race_codes", value, "less than or equal to 8") for value in (9, 80)),
        *(
            ("max_race_codes", value, "max_race_codes: must be a whole number from 1 to 8")
            for value in (-1, 2.5, 8.0, "8", True, None, NAN, INFINITY, [8])
        ),
        *(("privacy_budget_p_stage_1_fraction", value, "greater than 0") for value in (-1, 0, 0.0)),
        *(("privacy_budget_p_stage_1_fraction", value, "less than 1") for value in (1, 1.0, 2)),
        ("privacy_budget_p_stage_1_fraction", NAN, "must not be NaN"),
        ("privacy_budget_p_stage_1_fraction", INFINITY, "must be a finite number"),
        ("privacy_budget_p_stage_1_fraction", "0.1", "must be a number"),
        ("zero_suppression_chance", -0.5, "greater than or equal to 0"),
        *(("zero_suppression_chance", value, "less than 1") for value in (1, 1.5)),
        ("zero_suppression_chance", None, "zero_suppression_chance: must be a number"),
        ("zero_suppression_chance", NAN, "must not be NaN"),
        *(
            (key, value, " should be a valid boolean")
            for key in ("allow_negative_counts", "run_us", "run_pr")
            for value in (1, 0, "true", None)
        ),
        ("reader", "parquet", "reader: 'parquet' should be 'csv' or 'cef'"),
        ("privacy_defn", "rho", "privacy_defn: 'rho' should be 'puredp' or 'zcdp'"),
        *(("state_filter_us", value, "state_filter_us: must not be empty") for value in ([], "", None)),
        ("state_filter_us", "01", "state_filter_us: must be a list of state codes"),
        ("state_filter_us", {"01": 1}, "state_filter_us: must be a list of state codes"),
        ("state_filter_us", ["01", 2], "state_filter_us: must hold state codes as text"),
        ("state_filter_us", ["01", "02", "01"], "state_filter_us: must not hold a state twice"),
        ("state_filter_us", ["72", "01", "03"], "state_filter_us: holds invalid state codes ['03', '72']"),
        *(("state_filter_us", [code], "holds invalid state codes") for code in ("07", "14", "43", "52", "57", "1")),
        ("thresholds_p", [], "thresholds_p: must map"),
    ],
)
def test_value_rules(key: str, value: Any, rule: str) -> None:
    (fault,) = faults(json.dumps(configuration(**{key: value})))
    assert rule in fault


@pytest.mark.parametrize(
    ("numbers", "rule"),
    [
        ([5], "must hold exactly three numbers"),
        ([5, 6], "must hold exactly three numbers"),
        ([5, 6, 7, 8], "must hold exactly three numbers"),
        ("5 6 7", "must hold exactly three numbers"),
        ([5, 6, 5], "must not decrease"),
        ([INFINITY, 6, 7], "must not decrease"),
        ([2.6, 2.5, 3], "must not decrease"),
        ([5, 6, "7"], "must be a number"),
        ([5, 6, NAN], "must not be NaN"),
    ],
)
@pytest.mark.parametrize("name", ["(COUNTY, 2)", "(PR-PLACE, 1)"])  # also of the side that does not run
def test_threshold_rules(numbers: Any, rule: str, name: str) -> None:
    thresholds = configuration()["thresholds_p"] | {name: numbers}
    assert faults(json.dumps(configuration(thresholds_p=thresholds))) == [f"thresholds_p: {name} {rule}"]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([5, 5, 5], (5, 5, 5)),
        ([0, 1.5, 2.0], (0, 2, 2)),
        ([-3, -2.5, 7], (-3, -2, 7)),
        ([1, 2, INFINITY], (1, 2, NEVER)),
    ],
)
def test_thresholds_a_whole_number_reaches(numbers: list[float], expected: tuple[int, ...]) -> None:
    thresholds = configuration()["thresholds_p"] | {"(COUNTY, 2)": numbers}
    assert parsed(thresholds_p=thresholds).thresholds["p"][Level("COUNTY", 2)] == expected


def test_thresholds_of_a_jurisdiction_that_runs_are_needed() -> None:
    thresholds = {name: numbers for name, numbers in configuration()["thresholds_p"].items() if "PR" not in name}
    assert parsed(thresholds_p=thresholds).jurisdictions == ("us",)
    (fault,) = faults(json.dumps(configuration(thresholds_p=thresholds, run_pr=True)))
    lacking = sorted(str(level) for level in ALL_LEVELS if level.jurisdiction == "pr")
    assert fault == f"thresholds_p: has no thresholds for {lacking}"


def test_thresholds_of_an_unknown_level() -> None:
    thresholds = configuration()["thresholds_p"] | {"(BLOCK, 1)": [1, 2, 3]}
    assert faults(json.dumps(configuration(thresholds_p=thresholds))) == [
        "thresholds_p: has unknown levels ['(BLOCK, 1)']"
    ]


def test_one_of_the_jurisdictions_must_run() -> None:
    (fault,) = faults(json.dumps(configuration(run_us=False, run_pr=False)))
    assert fault == "run_us: At least one of 'run_us', 'run_pr' must be True."


@pytest.mark.parametrize("value", [["72"], [], "x", None])
def test_the_state_filter_is_for_the_us_alone(value: Any) -> None:
    configuration_read = parsed(run_us=False, run_pr=True, state_filter_us=value)
    assert configuration_read.jurisdictions == ("pr",)
    assert configuration_read.states("pr") == ("72",)


def test_every_fault_is_told_at_once() -> None:
    config = configuration(max_race_codes=9, reader="x", unknown=1, privacy_budget_p_level_1_usa=-1)
    del config["run_pr"]
    text = "\n".join(faults(json.dumps(config)))
    for part in ("missing required keys ['run_pr']", "unknown keys", "max_race_codes", "reader", "negative"):
        assert part in text


def test_infinite_budgets_are_for_the_truth_only() -> None:
    configuration_read = parsed(privacy_budget_p_level_1_usa=INFINITY)
    assert configuration_read.noiseless
    assert Level("USA", 1) in configuration_read.levels("us")
    with pytest.raises(ValueError, match="budget of Nation, Regional is infinite"):
        configuration_read.budget(Level("USA", 1))
