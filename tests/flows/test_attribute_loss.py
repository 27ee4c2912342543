"""`das attribute-loss` as a person types it: figures, forms, refusals."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from s_dhc_households import TAU, configuration, write_configuration
from spine_cases import SMALL, random_allocation, random_spine

from flows.reports.losses import TopDownQueries
from spine.bypass import bypass
from spine.hierarchy import Spine
from spine.production import allocation
from spine.settings import settings_for
from tasks.releases.manifest import write_manifest
from tasks.s_dhc.configuration import read_configuration
from tasks.s_dhc.release import queries_in_manifest
from tasks.s_dhc.run import SDhcPlan


@pytest.fixture
def das(das):
    """Run `das attribute-loss ARGUMENTS`; returns (exit code, stdout, stderr)."""
    return partial(das, "attribute-loss")


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def phsafe_config(path: Path, **changes: object) -> Path:
    return write_configuration(path, configuration(["44"], budget="0.01", **changes))


def test_the_slides_budgets_and_the_productions(das):
    for options, elise in (("--slides",), "2.819"), ((), "2.511"):
        code, out, _ = das("s-dhc", *options, "--budget", "--format", "csv")
        assert (code, rows(out)[4]["person"], rows(out)[4]["Multi-racial Family"]) == (0, "Elise", elise)


def test_forms_agree_and_json_is_exact(das):
    _, text, _ = das("s-dhc", "--slides", "--attributes", "Relation", "--by-query", "--budget", "--format", "csv")
    bob = rows(text)[2]
    assert list(bob.values()) == [
        "Bob, Relation",
        "0.000",
        "0.006",
        "0.444",
        "0.049",
        "0.002",
        "0.010",
        "0.000",
        "0.000",
        "0.508",
    ]
    _, document, _ = das("s-dhc", "--slides", "--attributes", "Relation", "--json")
    (entry,) = [loss for loss in json.loads(document)["losses"] if (loss["person"], loss["set"]) == ("Bob", "Relation")]
    assert entry["exact"] == "215023/423500"
    ph3 = {"loss": pytest.approx(0.443428571), "exact": "388/875", "attacker": pytest.approx(30.9, abs=0.1)}
    assert entry["tables"]["PH3"] == ph3
    assert json.loads(document)["unit"] == "bounded rho (zCDP)"


def test_persons_of_the_command_line(das):
    texts = (
        "name=A, age=20, relation=stepchild, size=3",
        "name=B, age=16, relation=Biological child, size=3, family=yes, own_children=yes",
        "name=C, age=20, relation=householder, size=1, family=no",
    )
    code, out, _ = das(
        "s-dhc", *(word for text in texts for word in ("--person", text)), "--slides", "--budget", "--format", "csv"
    )
    assert code == 0
    assert [(row["person"], row["Age"], row["Exact Household"]) for row in rows(out)] == [
        ("A", "0.558", "1.433"), ("B", "0.558", "2.819"), ("C", "0.127", "1.067"),
    ]  # fmt: skip


def test_budgets_of_a_phsafe_config(das, tmp_path):
    config = phsafe_config(tmp_path / "config.json")
    person = ("--person", "name=A,age=30,relation=householder,size=10,family=yes")
    _, out, _ = das("s-dhc", config, *person, "--attributes", "Tenure", "--by-query", "--budget", "--format", "csv")
    assert (rows(out)[0]["PH7"], rows(out)[0]["PH8"]) == ("0.120", "0.060")  # bounded: doubled for persons only
    _, sharper, _ = das(
        "s-dhc", config, *person, "--attributes", "Tenure", "--method", "tight", "--budget", "--format", "csv"
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
    refused(message, "s-dhc", config)


def test_budgets_of_a_release_are_those_of_its_configuration(das, tmp_path):
    """Noise by unit counts as the budgets that give the same noise with the program's stability."""
    person = ("--person", "name=A,age=30,relation=householder,size=10,family=yes", "--budget", "--format", "csv")
    found = []
    for stability in ("program", "unit"):
        path = phsafe_config(tmp_path / f"{stability}.json", stability=stability)
        plan = SDhcPlan(read_configuration(path))
        release = tmp_path / stability
        release.mkdir()
        spent = plan.configuration.spend().as_json()
        manifest = {"spent": spent, "stability": stability, "truncation": plan.configuration.tau}
        write_manifest(
            release, {"release": "a test", "run": "x", **manifest, "queries": dict(queries_in_manifest(plan))}
        )
        _, of_file, _ = das("s-dhc", path, *person, "--by-query")
        _, of_run, _ = das("s-dhc", release, *person, "--by-query")
        assert of_file == of_run
        found.append(float(rows(of_run)[0]["PH7"]))
    assert found[1] == pytest.approx(found[0] * 22**2 / 200, rel=0.01)


def test_other_releases_have_no_such_budgets(refused, tmp_path):
    write_manifest(tmp_path, {"release": "a test", "run": "x", "spent": {}})
    refused("is not a release of the Supplemental DHC with noise", "s-dhc", tmp_path)
    refused("give SOURCE or --slides, not both", "s-dhc", tmp_path, "--slides")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--attributes", "Income"), "no attribute 'Income'"),
        (("/nowhere",), "cannot be read"),
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


def dhca_config(**changes) -> dict:
    from dhca_inputs import BUDGETS

    from tasks.safetab.levels import ALL_LEVELS

    config = {key: 0.9 if "us" in key or "state" in key else 0 for key in BUDGETS}
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
    """Of 100, with 5 false alarms in 100, by default; what is not touched stays at 5. --json has both units."""
    _, text, _ = das("s-dhc", "--slides", "--format", "csv")
    alice = rows(text)[0]
    assert (alice["Race-Ethnicity"], alice["Age"], alice["Exact Household"]) == ("5.0", "36.2", "68.2")
    answers = [das("s-dhc", "--slides", *option, "--json")[1] for option in ((), ("--budget",))]
    assert answers[0].partition('"notes"')[0] == answers[1].partition('"notes"')[0]
    for loss in json.loads(answers[0])["losses"]:
        if loss["person"] == "Alice" and loss["set"] in alice:
            assert 0 <= float(alice[loss["set"]]) - loss["attacker"] < 0.1
    _, text, _ = das("s-dhc", "--slides")
    most = max(loss["attacker"] for loss in json.loads(answers[0])["losses"])
    (said,) = re.findall("^Suppose .* rightly at most (.*) times in 100; without the release, 5.", text)
    assert 0 <= float(said) - most < 0.1  # the conclusion comes first


@pytest.mark.parametrize("product", ["dhc-a", "dhc-b"])
def test_production_by_query(das, product):
    """Without a configuration the production's; the queries of a level add up to it, and all levels to the total."""
    code, out, _ = das(product, "--by-query", "--json")
    levels = json.loads(out)["losses"][0]["levels"]
    assert code == 0
    whole = {"dhc-a": 9.888, "dhc-b": 2 * 8.895302}[product]
    assert levels["total"]["all"]["loss"] == pytest.approx(whole)
    county = {key.partition(": ")[2]: row for key, row in levels.items() if key.startswith("(COUNTY, 2)")}
    for attributes, loss in county.pop("").items():
        assert sum(row[attributes]["loss"] for row in county.values()) == pytest.approx(loss["loss"])
    assert list(county) == {"dhc-a": ["total", "sex by age"], "dhc-b": ["t3", "t4"]}[product]


def test_the_topdown_algorithm_by_query(das):
    """An attribute costs the queries that ask its axis, in every geounit; a move all but those of the top."""
    code, out, _ = das("tda", "--attributes", "hispanic", "--attributes", "block", "--by-query", "--json")
    persons, units = json.loads(out)["losses"]
    found = allocation("pl94-persons", "us")
    assert code == 0
    unasked = found.levels["US"] * found.queries["US"].get("total", 0)  # the nation's total does not change
    assert persons["levels"]["total"]["all"]["exact"] == str(found.budget * (1 - unasked))
    assert "hispanic" not in units["levels"]["total"]
    assert units["levels"]["US"]["Block"]["loss"] == 0
    assert "Block: where the record is." in das("tda", "--attributes", "block")[1]
    for level, share in found.levels.items():
        for query, alpha in found.queries[level].items():
            touched = query == "detailed" or "hispanic" in query
            loss = persons["levels"][f"{level}: {query}"]["hispanic"]["exact"]
            assert Fraction(loss) == (found.budget * share * alpha if touched else 0)
    assert f"{persons['levels']['total']['hispanic']['loss']:.4f}" == "1.0231"  # tracts of one block group each
    assert persons["levels"]["total"]["Block"]["loss"] < float(found.budget)


def test_a_declaration_has_the_losses_of_its_own_axes(das):
    code, out, _ = das("tda", "example-districts", "--format", "csv")
    assert code == 0
    assert list(rows(out)[0])[1:] == ["dwelling", "sex", "age", "education", "zone", "all"]


def loss_of_path(spine: Spine, read: TopDownQueries, attributes: frozenset[str], block: int) -> Fraction:
    """What the queries that ask an attribute cost on a block's path, by the shares of its own geounits."""
    found, total = read.allocation, Fraction(0)
    for level, name in enumerate(spine.levels):
        share = Fraction(int(spine.shares[level][spine.geounit_of_block(level)[block]]), spine.denominator)
        asked = (alpha for query, alpha in found.queries[name].items() if attributes & read.product.asked(query).keys())
        total += found.budget * share * sum(asked, Fraction(0))
    return total


@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
def test_no_path_of_a_bypassed_spine_costs_more_than_the_bound(definition):
    """60 random spines; and a chain of only children attains it."""
    rng = np.random.default_rng(7)
    attained = 0
    for _ in range(60):
        spine = random_spine(rng, int(rng.integers(1, 9)))
        found = random_allocation(rng, spine.levels, definition)
        split = replace(
            settings_for("pl94-persons", definition=definition), levels=spine.levels, split=spine.levels[1:-1]
        )
        made = bypass(spine.with_shares(dict(found.levels)), replace(split, bypass_cutoff=None))
        read = TopDownQueries("", "", SMALL, found, bypassed=True, root=False)
        for axis in SMALL.axes:
            own = frozenset({axis.name})
            most = max(loss_of_path(made, read, own, block) for block in range(spine.blocks))
            assert most <= read.most(own)
            attained += most == read.most(own)
    assert attained
