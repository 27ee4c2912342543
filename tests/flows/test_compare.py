"""`das compare` as a person types it: the papers' pages, own targets, configurations, releases, refusals."""

from __future__ import annotations

import csv
import io
import json
import re
from functools import partial

import pytest
from dhca_inputs import BUDGETS, Inputs, configuration, truth_here, write_config

from privacy.accounting.composition import query_budgets
from tasks.safetab.levels import ALL_LEVELS, named_level
from tasks.safetab.manifest import noise_facts
from tasks.safetab.noise import LevelQueries
from tasks.safetab.parameters import planned_spend, read_parameters
from tasks.safetab.persons.level_budgets import MANIFEST
from tasks.safetab.persons.run import PERSONS, SafeTabPConfiguration


@pytest.fixture
def das(das):
    """Run `das compare ARGUMENTS`; returns (exit code, stdout, stderr)."""
    return partial(das, "compare")


def sections(text: str) -> list[list[dict[str, str]]]:
    """The tables of a CSV output, separated by empty lines."""
    return [[*csv.DictReader(io.StringIO(table))] for table in text.split("\n\n")]


@pytest.mark.long
def test_the_comparison_paper_s_tables_stand_beside_recipe_and_exact_values(das):
    code, out, _ = das("--format", "csv")
    assert code == 0
    geometric, gaussian, losses = sections(out)
    nation = geometric[0]
    assert (nation["level"], nation["target"], nation["recipe attains"]) == ("Nation, Detailed", "6", "7")
    assert [nation[f"total, {which}"] for which in ("printed", "recipe", "least")] == ["4.27", "4.2796", "4.56903"]
    assert [gaussian[2][f"step 2, {which}"] for which in ("printed", "recipe", "least")] == [
        "0.143", "0.14287", "0.130396",
    ]  # fmt: skip
    printed = {row["analysis"]: row["printed"] for row in losses if row["printed"]}
    assert list(printed.values()) == ["15.3", "13.2", "12.8", "12.2"]
    assert [row["recipe, unbounded"] for row in losses if row["printed"]] == ["15.315", "13.575", "12.795", "12.166"]
    _, page, _ = das()
    for words in ("printed 13.2 follows from no reading", "no bound: Lemma 8", "rounds down a margin", "16.9% below"):
        assert words in page


@pytest.mark.ci
def test_table_7(das):
    _, out, _ = das("--paper", "production", "--format", "csv")
    geometric, gaussian, losses = sections(out)
    assert "total, printed" not in geometric[0]
    assert "printed" not in losses[0]
    nation, *_, total = gaussian
    assert [nation[f"{kind}, printed"] for kind in ("step 2", "total")] == ["1.921", "2.134"]
    assert (total["total, printed"], total["total, recipe"]) == ("4.944", "4.9418")


@pytest.mark.ci
def test_own_targets_gamma_and_stability(das):
    asked = ("--target", "nation , detailed=3", "--target", "COUNTY, 2=11", "--gamma", ".2", "--stability", 4, "--json")
    code, out, _ = das(*asked)
    data = json.loads(out)
    assert code == 0
    nation, county = data["budgets"]["zcdp"]
    assert (nation["level"], county["level"]) == ("Nation, Detailed", "County, Detailed")
    assert nation["budgets"]["total"]["recipe"] == pytest.approx(4 * 1.9208 / 9 / 0.8)
    assert "printed" not in nation["budgets"]["total"]
    standing = {(row["mechanism"], row["analysis"]): row["standing"] for row in data["analyses"]}
    assert standing["puredp", "pld_total_only"] == standing["puredp", "rdp_exact"] == "bound"
    for unproved in (("puredp", "pld_two_stage"), ("zcdp", "pld_two_stage"), ("zcdp", "pld_total_only")):
        assert standing[unproved] == "reading"
    verdicts = [note for note in data["notes"] if note.startswith("With the ")]
    assert all("by PLD, which is proved for the geometric one alone" in note for note in verdicts)
    pure = next(row for row in data["analyses"] if row["analysis"] == "puredp")
    assert pure["figures"]["least"]["unbounded"] == pytest.approx(
        sum(row["budgets"]["total"]["least"] for row in data["budgets"]["puredp"])
    )


@pytest.mark.parametrize(
    ("targets", "better", "worse"),
    [
        ((("usa-2", 3),), "puredp", "zcdp"),
        pytest.param(
            (("usa-2", 3), ("state-2", 3), ("county-2", 3), ("place-2", 3), ("tract-2", 3)),
            "zcdp", "puredp", marks=pytest.mark.ci,
        ),
    ],
)  # fmt: skip
def test_the_conclusion_comes_first_and_rests_on_proved_bounds(das, targets, better, worse):
    """Either mechanism may need less; the saving is rounded down, and no reading by PLD enters."""
    options = [word for level, margin in targets for word in ("--target", f"{level}={margin}")]
    data = json.loads(das(*options, "--json")[1])
    proved = {
        definition: min(
            row["figures"]["least"]["unbounded"]
            for row in data["analyses"]
            if row["mechanism"] == definition and (row["standing"] == "bound" or row["analysis"] == "puredp")
        )
        for definition in (better, worse)
    }
    conclusion = data["conclusion"]
    names = {"puredp": "geometric", "zcdp": "discrete Gaussian"}
    assert conclusion.startswith(
        f"At the same margins of error ({len(targets)} level{'s' * (len(targets) > 1)}) the {names[better]} mechanism "
    )
    epsilon, saved, other = re.findall(
        r"epsilon: ([\d.]+) at delta 1e-10, at least ([\d.]+)% below ([\d.]+)", conclusion
    )[0]
    assert [float(epsilon), float(other)] == [pytest.approx(proved[each], abs=1e-3) for each in (better, worse)]
    exact = 100 * (1 - proved[better] / proved[worse])
    assert 0 < exact - 0.1 < float(saved) <= exact
    assert " ".join(das(*options)[1].split()).startswith(conclusion)


@pytest.mark.ci
def test_a_configuration_with_both_jurisdictions(das, tmp_path):
    changes = dict.fromkeys(BUDGETS, 0) | {
        "privacy_budget_p_level_2_usa": 2.134,
        "privacy_budget_p_level_1_pr_state": 1,
    }
    path = write_config(tmp_path, run_pr=True, privacy_budget_p_stage_1_fraction=0.1, **changes)
    code, out, _ = das(path, "--json")
    us, pr = json.loads(out)["regions"]
    assert code == 0
    (nation,), (other,) = us["budgets"]["zcdp"], us["budgets"]["puredp"]
    assert (nation["level"], nation["stability"], nation["target"]) == ("Nation, Detailed", 9, 3)
    assert nation["budgets"]["total"]["configured"] == "2.134"
    assert other["budgets"]["total"]["least"] == pytest.approx(8.3189, abs=1e-4)
    both = [us["spent"], json.loads(out)["both_regions"]]
    assert [[each["exact"] for each in spent["relations"]] for spent in both] == [["1067/500", "1067/250"]] * 2
    assert pr["spent"]["charged"]["exact"] == "1"
    figures = {row["analysis"]: row["figures"]["configured"] for row in us["analyses"] if row["mechanism"] == "zcdp"}
    assert figures["rho"]["bounded"] == pytest.approx(4.268)
    _, text, _ = das(path)
    assert " ".join(text.split()).startswith(f"US: {us['conclusion']} PR: {pr['conclusion']}")
    assert (
        "US and Puerto Rico together, since a person is in one of them: a person added or removed, rho 2.134, epsilon"
        in text
    )


@pytest.mark.ci
def test_a_configuration_of_pure_dp_has_the_gaussian_beside_it(das, tmp_path):
    _, out, _ = das(write_config(tmp_path, privacy_defn="puredp"), "--json")
    (us,) = json.loads(out)["regions"]
    assert us["unit"] == "epsilon"
    assert {row["mechanism"] for row in us["analyses"]} == {"puredp", "zcdp"}
    assert len(us["budgets"]["puredp"]) == 12
    assert "configured" in us["budgets"]["puredp"][0]["budgets"]["total"]


@pytest.mark.ci
def test_a_finished_release(das, tmp_path):
    """Those parts of a manifest that are read, made by the functions that make it."""
    params, _ = Inputs(config=configuration(privacy_budget_p_level_2_usa=0.1)).write(tmp_path)
    parameters, _ = read_parameters(str(params), SafeTabPConfiguration)
    config = parameters.configuration
    levels = {
        str(level): noise_facts(
            LevelQueries(
                config.privacy_defn,
                parameters.iterations.stability(level, config.max_race_codes),
                query_budgets(config.budget(level), config.stage_1_fraction),
            )
        )
        | {"thresholds": config.thresholds[PERSONS][level]}
        for level in config.levels("us")
    }
    release = {"spent": planned_spend(parameters.configuration, "us").as_json(), "levels": levels}
    release |= {"configuration": config.model_dump(mode="json", exclude={"budgets", "thresholds"})}
    (tmp_path / MANIFEST).write_text(json.dumps(release))
    _, out, _ = das(params, "--json")
    (of_config,) = json.loads(out)["regions"]
    for source in (tmp_path, tmp_path / MANIFEST):
        code, out, _ = das(source, "--json")
        (of_release,) = json.loads(out)["regions"]
        assert code == 0
        assert of_release["budgets"] == of_config["budgets"]
        assert of_release["analyses"] == of_config["analyses"]


def test_a_release_of_exact_counts_is_refused(refused, tmp_path):
    place = truth_here(tmp_path, *Inputs().write(tmp_path))
    refused("a release of exact counts", place)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "Nation, Detailed"), "a target is LEVEL=NUMBER"),
        (("--target", "Village, Detailed=3"), "unknown population group level 'Village, Detailed'"),
        (("--target", "Nation, Detailed=0"), "a whole number of counts, 1 to 10000"),
        (("--target", "Nation, Detailed=2.5"), "a whole number of counts, 1 to 10000"),
        (("--target", "Nation, Detailed=3", "--target", "PR-State, Detailed=3"), "separate runs"),
        (("--target", "Nation, Detailed=3", "--paper", "production"), "either --paper or --target"),
        (("--gamma", "1"), "gamma is a number strictly between 0 and 1"),
        (("--gamma", "most"), "gamma is a number strictly between 0 and 1"),
        (("--stability", "0"), "stability is a whole number, 1 or more"),
        (("--delta", "0"), "delta is a number strictly between 0 and 1"),
        (("--delta", "1"), "delta is a number strictly between 0 and 1"),
        (("nowhere.json",), "nowhere.json cannot be read"),
        (("nowhere.json", "--gamma", ".1"), "give either it or targets"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_options_are_refused_in_one_line(refused, arguments, message):
    refused(message, *arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ({"privacy_budget_p_level_2_usa": -1}, "must not be negative"),
        ({"max_race_codes": None}, "missing required keys ['max_race_codes']"),
        ({"privacy_budget_p_level_2_usa": "much"}, "must be a number"),
        ({"privacy_budget_p_level_2_usa": 1e-9}, "counts, and what is compared has at most 10,000"),
        (dict.fromkeys(BUDGETS, 0), "no population group level of US has a budget"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_configurations_are_refused_in_one_line(refused, tmp_path, text, message):
    refused(message, write_config(tmp_path, **text))


NO_STEP_1 = {
    "spent": {"definition": "zcdp"},
    "levels": {},
    "configuration": {"zero_suppression_chance": None, "stage_1_fraction": "0"},
}


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ({"spent": {}}, "the key 'configuration' is missing"),
        ({"spent": {}, "release": "Detailed DHC-B by SafeTab-H"}, "of a release of 'Detailed DHC-B by SafeTab-H', not"),
        ([], "is not the manifest of a release"),
        ({"spent": None}, "a release of exact counts"),
        (NO_STEP_1, "is not the manifest of a release"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_manifests_are_refused_in_one_line(refused, tmp_path, manifest, message):
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    refused(message, tmp_path)


def test_every_level_has_three_names():
    for level in ALL_LEVELS:
        assert named_level(level.name) == named_level(str(level)) == named_level(level.slug) == level
