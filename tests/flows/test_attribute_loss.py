"""`das attribute-loss` as a person types it: figures, forms, refusals."""

from __future__ import annotations

import csv
import io
import json
import math
from functools import partial
from pathlib import Path

import pytest
from s_dhc_households import TAU, configuration, write_configuration

from tasks.lifecycle.manifest import write_manifest
from tasks.s_dhc.configuration import read_configuration
from tasks.s_dhc.release import queries_in_manifest
from tasks.s_dhc.run import Plan


@pytest.fixture
def das(das):
    """Run `das attribute-loss ARGUMENTS`; returns (exit code, stdout, stderr)."""
    return partial(das, "attribute-loss")


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def phsafe_config(path: Path, **changes: object) -> Path:
    return write_configuration(path, configuration(["44"], budget="0.01", **changes))


def test_the_slides_table_stands_with_its_differing_figures_marked(das):
    code, out, _ = das("s-dhc")
    assert code == 0
    for figure in ("0.558", "2.819", "1.067", "1.790*", "0.001*", "printed 0.404", "Printed and not monotone"):
        assert figure in out


def test_forms_agree_and_json_is_exact(das):
    _, text, _ = das("s-dhc", "--attributes", "Relation", "--by-table", "--format", "csv")
    bob = rows(text)[1]
    assert list(bob.values()) == [
        "Bob, Relation",
        "0.000",
        "0.005",
        "0.443",
        "0.048",
        "0.002",
        "0.009",
        "0.000",
        "0.000",
        "0.508",
    ]
    _, marked, _ = das("s-dhc", "--attributes", "Relation", "--by-table", "--format", "markdown")
    assert "| " + " | ".join(bob.values()) + " |" in marked
    _, document, _ = das("s-dhc", "--attributes", "Relation", "--json")
    (entry,) = [loss for loss in json.loads(document)["losses"] if loss["person"] == "Bob"]
    assert entry["exact"] == "215023/423500"
    assert entry["tables"]["PH3"] == {"loss": pytest.approx(0.443428571), "exact": "388/875"}


def test_persons_of_the_command_line_and_of_a_file(das, tmp_path):
    people = tmp_path / "people.csv"
    people.write_text(
        "name,age,relation,size,family,own_children\nB,16,Biological child,3,yes,yes\nC,20,householder,1,no,\n"
    )
    code, out, _ = das(
        "s-dhc", "--person", "name=A, age=20, relation=stepchild, size=3", "--people", people, "--format", "csv"
    )
    assert code == 0
    assert [(row["person"], row["Age"], row["Exact Household"]) for row in rows(out)] == [
        ("A", "0.558", "1.433"), ("B", "0.558", "2.819"), ("C", "0.126", "1.067"),
    ]  # fmt: skip


def test_budgets_of_a_phsafe_config(das, tmp_path):
    config = phsafe_config(tmp_path / "config.json")
    person = ("--person", "name=A,age=30,relation=householder,size=10,family=yes")
    _, out, _ = das("s-dhc", *person, "--attributes", "Tenure", "--budgets", config, "--by-table", "--format", "csv")
    assert (rows(out)[0]["PH7"], rows(out)[0]["PH8"]) == ("0.120", "0.060")  # bounded: doubled for persons only
    _, sharper, _ = das(
        "s-dhc", *person, "--attributes", "Tenure", "--budgets", config, "--method", "tight", "--format", "csv"
    )
    assert float(rows(sharper)[0]["Tenure"]) < 0.06


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"privacy_budget": {"PH2": {"usa_*": 1}}}, "privacy_budget lacks ['PH1_num',"),
        ({"tau": {}}, "tau lacks ['PH1_num',"),
        ({"tau": dict.fromkeys(TAU, 1.5)}, "must be a whole number from 1, not 3/2"),
        ({"privacy_defn": "puredp"}, "privacy_defn zcdp"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_budgets_are_refused_in_one_line(refused, tmp_path, changes, message):
    config = phsafe_config(tmp_path / "config.json", **changes)
    refused(message, "s-dhc", "--budgets", config)


def test_budgets_of_a_release_are_those_of_its_configuration(das, tmp_path):
    """Noise by unit counts as the budgets that give the same noise with the program's stability."""
    person = ("--person", "name=A,age=30,relation=householder,size=10,family=yes", "--format", "csv")
    found = []
    for stability in ("program", "unit"):
        path = phsafe_config(tmp_path / f"{stability}.json", stability=stability)
        plan = Plan(read_configuration(path))
        release = tmp_path / stability
        release.mkdir()
        spent = plan.configuration.spend().as_json()
        manifest = {"spent": spent, "stability": stability, "truncation": plan.configuration.tau}
        write_manifest(
            release, {"release": "a test", "run": "x", **manifest, "queries": dict(queries_in_manifest(plan))}
        )
        _, of_file, _ = das("s-dhc", *person, "--budgets", path, "--by-table")
        _, of_run, _ = das("s-dhc", *person, "--run", release, "--by-table")
        assert of_file == of_run
        found.append(float(rows(of_run)[0]["PH7"]))
    assert found[1] == pytest.approx(found[0] * 22**2 / 200, rel=0.01)


def test_other_releases_have_no_such_budgets(refused, tmp_path):
    write_manifest(tmp_path, {"release": "a test", "run": "x", "spent": {}})
    refused("is not a release of the Supplemental DHC with noise", "s-dhc", "--run", tmp_path)
    refused("give --budgets or --run, not both", "s-dhc", "--run", tmp_path, "--budgets", "nmfv8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--attributes", "Income"), "no attribute 'Income'"),
        (("--delta", "1"), "strictly between 0 and 1"),
        (("--delta", "small"), "strictly between 0 and 1"),
        (("--method", "loose"), "unknown method"),
        (("--budgets", "/nowhere"), "cannot be read"),
        (("--people", "/nowhere"), "cannot be read"),
        (("--person", "Ana"), "key=value"),
        (("--person", "name=A,age=x,relation=parent,size=2"), "age is a whole number"),
        (("--person", "name=A,age=3"), "relation, size is missing"),
        (("--person", "name=A,age=30,relation=cousin,size=3"), "no relation"),
        (("--person", "name=A,age=30,relation=parent,size=3,pet=yes"), "unknown pet"),
        (("--person", "name=A,age=30,relation=parent,size=3,family=maybe"), "is yes or no"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_refused_in_one_line(refused, arguments, message):
    refused(message, "s-dhc", *arguments)


def test_epsilon_at_a_delta(das):
    _, out, _ = das("s-dhc", "--delta", "1e-10", "--json")
    (bob,) = [row for row in json.loads(out)["losses"] if (row["person"], row["set"]) == ("Bob", "Exact Household")]
    alphas = [1 + i / 1000 for i in range(1, 20_000)]
    by_grid = min(a * 2.819 + math.log(1 - 1 / a) + math.log(1 / (a * 1e-10)) / (a - 1) for a in alphas)
    assert bob["loss"] == pytest.approx(by_grid, abs=1e-5)


def dhca_config(**changes) -> dict:
    from tasks.detailed_dhca.configuration import BUDGET_KEYS
    from tasks.population_groups.levels import ALL_LEVELS

    config = {key: 0.9 if "us" in key or "state" in key else 0 for key in BUDGET_KEYS}
    config |= {"thresholds_p": {str(level): [10, 20, 30] for level in ALL_LEVELS}}
    config |= {"max_race_codes": 8, "privacy_budget_p_stage_1_fraction": 0.1, "allow_negative_counts": True}
    config |= {"run_us": True, "run_pr": False, "reader": "csv", "state_filter_us": ["44"], "privacy_defn": "zcdp"}
    return {key: value for key, value in (config | changes).items() if value is not None}


def test_any_configuration_of_the_detailed_dhca(das, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(dhca_config()))
    code, out, _ = das("dhc-a", config, "--person", "name=Ana,races=1", "--json")
    assert code == 0
    worst, ana = json.loads(out)["losses"]
    assert (worst["region"], ana["person"]) == ("us", "Ana")
    assert worst["levels"]["(USA, 2)"]["Age"]["exact"] == "81/50"  # 2 (1 - .1) .9
    assert ana["levels"]["(USA, 2)"]["Age"]["exact"] == "27/50"  # of it 3/9
    assert worst["levels"]["total"]["all"]["loss"] == 2 * 4 * 0.9


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"max_race_codes": None}, (), "missing required keys ['max_race_codes']"),
        ({"privacy_budget_p_level_1_usa": -1}, (), "must not be negative"),
        ({}, ("--attributes", "Income"), "no attribute 'Income'"),
        ({}, ("--crossed", "street"), "unknown move 'street'"),
        ({}, ("--delta", "0"), "strictly between 0 and 1"),
        ({"privacy_defn": "puredp"}, ("--delta", "1e-10"), "pure DP has no delta"),
        ({}, ("--person", "name=A"), "either races"),
        ({}, ("--person", "name=A,races=9"), "from 1 to max_race_codes"),
        ({}, ("--person", "name=A,codes=1010,ethnicity=2010"), "iteration files"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_configurations_and_options_are_refused_in_one_line(refused, tmp_path, changes, arguments, message):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(dhca_config(**changes)))
    refused(message, "dhc-a", config, *arguments)


def test_production_parameters_and_a_person_by_codes(das, das_data):
    params = das_data / "params-2020-production"
    persons = ("--person", "name=one,codes=1090,ethnicity=1000", "--person", "name=two,codes=1090 1100,ethnicity=1000")
    code, out, _ = das("dhc-a", params, *persons, "--json")
    assert code == 0
    worst, second, third, *_ = json.loads(out)["losses"]
    total = {label: round(cell["loss"], 4) for label, cell in worst["levels"]["total"].items()}
    assert total == {
        "Age": 8.8992, "Sex": 8.8992, "Race": 8.7893, "Ethnicity": 1.0987, "Block": 5.6040, "Race, Ethnicity": 9.8880,
        "Age, Race": 9.7781, "all": 9.8880,
    }  # fmt: skip
    loss = {
        who["person"]: {at: row["Age"]["loss"] for at, row in who["levels"].items()} for who in (worst, second, third)
    }
    each = {at: value / 9 for at, value in loss["worst case over all persons"].items()}  # a group's
    assert loss["one"]["(COUNTY, 2)"] == pytest.approx(2 * each["(COUNTY, 2)"])  # Croatian alone, and in combination
    assert loss["two"]["(COUNTY, 2)"] == pytest.approx(2 * each["(COUNTY, 2)"])  # Croatian and Czech in combination
    assert loss["two"]["(COUNTY, 1)"] == pytest.approx(2 * each["(COUNTY, 1)"])  # European alone, and in combination
    code, _, err = das("dhc-a", params, "--person", "name=A,codes=1090 77,ethnicity=1000")
    assert (code, "unknown race or ethnicity codes 77" in err) == (1, True)


def test_losses_as_what_an_attacker_gets_right(das):
    """Of 100, with 5 false alarms in 100; what is not touched stays at 5."""
    _, text, _ = das("s-dhc", "--attacker", "--format", "csv")
    alice = rows(text)[0]
    assert (alice["Race-Ethnicity"], alice["Age"], alice["Exact Household"]) == ("5.0", "36.2", "68.2")
    code, _, said = das("s-dhc", "--attacker", "--delta", "1e-10")
    assert code == 1
    assert "--delta or --attacker" in said
