"""`das census`: a plan is refused with its key before anything is charged; what it shows is exact composition."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import dhca_inputs
import dhcb_inputs
import pytest

from flows.execution.approval import charge_words, check_agreed
from flows.execution.census_plan import CensusSettings, read_census
from privacy.accounting.composition import changes, spend
from privacy.accounting.ledger import Account, Ledger, Request
from privacy.accounting.together import together
from tasks.errors import Refused
from tests.systems import cases

pytestmark = pytest.mark.usefixtures("stages_here")
PLAN = """
name = "census"
out = "releases"

[accounts]
person = "persons"
household = "households"

[[products]]
system = "detailed-dhcb"
params = "b/params"
data = "b/data"
totals = "releases/detailed-dhca"

[[products]]
system = "detailed-dhca"
params = "a/params"
data = "a/data"
spine = false

[[products]]
name = "supplement"
system = "s-dhc"
config = "s/config.json"
data = "s/data"
"""
OF_A, OF_B = Fraction(3), Fraction(23)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inputs of three products, not marked. Copy before you change it."""
    home = tmp_path_factory.mktemp("census")
    persons = dhca_inputs.Inputs(persons=dhca_inputs.people(60))
    persons.config |= dict.fromkeys(dhca_inputs.BUDGETS[3:], 0)
    persons.write(home / "a")
    dhcb_inputs.HouseholdInputs().write(home / "b")
    (home / "s").mkdir()
    cases.s_dhc(home / "s")
    return home


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.open_account(Account("persons", "zcdp", Fraction(1000)))
    ledger.open_account(Account("households", "zcdp", Fraction(1000), "household"))
    ledger.open_account(Account("poor", "zcdp", Fraction(12)))
    return ledger


@pytest.fixture
def written(inputs: Path, tmp_path: Path) -> Any:
    """Write a plan that is next to the inputs; returns it with the options of where."""

    def write(text: str = PLAN) -> list[object]:
        for name in ("a", "b", "s"):
            if not (tmp_path / name).exists():
                (tmp_path / name).symlink_to(inputs / name)
        (tmp_path / "plan.toml").write_text(text)
        return [tmp_path / "plan.toml", "--ledger", tmp_path / "ledger.sqlite", "--runs-folder", tmp_path / "state"]

    return write


def test_a_plan_composes_the_losses_of_its_products_exactly(das: Any, book: Ledger, written: Any) -> None:
    code, out, _ = das("census", "plan", *written(), "--json")
    assert code == 0
    found = json.loads(out)
    runs = {each["run"]: each for each in found["products"]}
    assert {run: (each["account"], each["waits_for"]) for run, each in runs.items()} == {
        "census-detailed-dhca-us": ("persons", []),
        "census-supplement": ("persons", []),
        "census-detailed-dhcb-us": ("households", ["detailed-dhca"]),
    }
    assert list(runs).index("census-detailed-dhcb-us") > list(runs).index("census-detailed-dhca-us")
    charged = {run: Fraction(each["spend"]["charged"]["exact"]) for run, each in runs.items()}
    settings = CensusSettings(plan=str(written()[0]), ledger=str(book.path), runs_folder="state")
    charges = read_census(settings).charges(book.books())
    spends = [each.claim.spend for own in charges.values() for each in own]
    assert [each.charged for each in spends] == list(charged.values())
    by_states = {tuple(table["states"]): table["changes"] for table in found["together"]}
    all_three = [spends[list(runs).index(run)] for run in runs if set(runs[run]["states"]) >= {"01"}]
    assert len(all_three) == 3
    (of_01,) = [rows for states, rows in by_states.items() if "01" in states]
    for change, row in zip(changes(4), of_01, strict=True):
        exact = together(all_three, change)
        assert row["spent"] == (exact and [exact[0], str(exact[1])]), change.key
    assert of_01[0]["spent"] is None, "a household's record alone is not covered by an S-DHC run"
    shown = das("census", "plan", *written())[1]
    assert "not covered" in shown
    assert not book.rows("persons")


def edited(old: str, new: str) -> Any:
    assert old in PLAN
    return PLAN.replace(old, new)


FAULTS = {
    "not TOML": (PLAN + "=", "plan.toml: Invalid"),
    "no name": (edited('name = "census"\n', ""), "name: it is missing"),
    "a name that is a path": (edited('name = "census"', 'name = "../x"'), "name: '../x' should match"),
    "no out": (edited('out = "releases"\n', ""), "out: it is missing"),
    "out is a URL": (edited('out = "releases"', 'out = "s3://x"'), "out: s3://x is a URL"),
    "out is another for each run": (edited('"releases"', '"releases/{run}"'), "out: {run} stands for something of a"),
    "no products": (PLAN.partition("[[products]]")[0], "products: it is missing"),
    "an unknown key": ("budget = 1\n" + PLAN, "budget: there is no such key"),
    "a unit that is none": (edited('household = "h', 'families = "h'), "accounts.families"),
    "no account for a unit": (edited('household = "households"\n', ""), "accounts.household: it is missing"),
    "an account that is not open": (edited('"persons"', '"people"'), "there is no account people"),
    "an account of the other unit": (edited('"persons"', '"households"'), "account households is for households"),
    "no system": (edited('system = "s-dhc"\n', ""), "products.2.system: give one of detailed-dhca, "),
    "an unknown system": (edited('"s-dhc"', '"sdhc"'), "products.2.system: give one of detailed-dhca, "),
    "two products of a name": (
        edited('"supplement"', '"detailed-dhca"'),
        "products.2.name: products.1 is detailed-dhca too",
    ),
    "a product whose run is another's": (
        edited('"supplement"', '"detailed-dhca-us"'),
        "products.1 has run census-detailed-dhca-us too",
    ),
    "a name that is the page's": (
        edited('"supplement"', '"index.html"'),
        "products.2.name: 'index.html' is not a name",
    ),
    "a missing setting": (edited('config = "s/config.json"\n', ""), "products.2.config: it is missing"),
    "an unknown setting": (edited("spine = false", "spines = false"), "products.1.spines: there is no such key"),
    "a setting of the census": (edited("spine = false", 'account = "persons"'), "products.1.account: there is no such"),
    "a value of another type": (edited("spine = false", 'spine = "maybe"'), "products.1.spine: 'maybe' should be a"),
    "a configuration that is not there": (edited("s/config", "s/confg"), "products.2 (supplement): "),
    "parameters that are not there": (edited("a/params", "a/parms"), "products.1 (detailed-dhca): the parameters in"),
    "data that is not there": (edited("s/data", "s/dta"), "products.2 (supplement): there is no file or folder"),
    "data of another system": (edited("b/data", "a/data"), "products.0 (detailed-dhcb): the data in"),
    "a release that no product makes": (edited("releases/d", "releases/x"), "which no product of the plan makes"),
    "a release of another system": (edited("releases/detailed-dhca", "releases/supplement"), "is not a release of det"),
    "a release that a product does not make": (
        edited('detailed-dhca"\n\n', 'detailed-dhca/pr"\n\n'),
        "detailed-dhca/pr",
    ),
    "a product that waits for itself": (edited("releases/detailed-dhca", "releases/detailed-dhcb"), "is not a release"),
    "more than an account has, together": (edited('"persons"', '"poor"'), "after the runs that are charged before it"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_plan_is_refused_with_its_key_and_nothing_is_charged(
    das: Any, book: Ledger, written: Any, tmp_path: Path, fault: str
) -> None:
    text, why = FAULTS[fault]
    words = written(text)
    for command in ("plan", "run"):
        code, _, err = das("census", command, *words)
        assert (code, why in err.splitlines()[-1]) == (1, True), err
        assert err.splitlines()[-1].startswith("refused: ")
    assert not [row for account in ("persons", "households", "poor") for row in book.rows(account)]
    assert not (tmp_path / "releases").exists()
    assert not list((tmp_path / "state").glob("runs/*"))


@pytest.mark.parametrize(
    ("account", "ends", "why"),
    [
        ("persons", True, "it was abandoned"),
        ("persons", False, "its secret is not in "),
        ("poor", False, "was charged to account poor, but the plan names persons"),
    ],
)
def test_a_product_that_was_charged_and_cannot_go_on_is_named_before_another_is_charged(
    das: Any, book: Ledger, written: Any, account: str, ends: bool, why: str
) -> None:
    run, spent = "census-supplement", spend("zcdp", [Fraction(1)])
    book.reserve(Request(run, account, ("01",), spent, "i", "c", 1, ("r",)), lambda: "lost")
    if ends:
        book.abandon(run)
    code, _, err = das("census", "run", *written())
    assert (code, why in err.splitlines()[-1]) == (1, True), err
    assert [*book.books().runs] == [run]


def test_out_may_hold_nothing_that_the_page_would_not_name(
    das: Any, book: Ledger, written: Any, tmp_path: Path
) -> None:
    (tmp_path / "releases/earlier").mkdir(parents=True)
    code, _, err = das("census", "run", *written())
    assert (code, "holds earlier, which is not a product of the plan" in err) == (1, True), err
    assert not book.rows("persons")


def test_only_what_was_agreed_to_is_charged(written: Any, book: Ledger) -> None:
    settings = CensusSettings(plan=str(written()[0]), ledger=str(book.path), runs_folder="state")
    (charge,) = read_census(settings).charges(book.books())["supplement"]
    part, claim, run = charge.part, charge.claim, str(charge.part.run_id)
    words = charge_words(part, claim)
    assert words == "rho 46 of account persons in 01 44"
    check_agreed(part, claim)  # a run by itself
    check_agreed(part.model_copy(update={"agreed": {run: words}}), claim)
    others = {"nothing": {}, "less": {run: words.replace("46", "45")}, "another part": {"census-x": words}}
    others |= {"another state": {run: words.replace("44", "45")}, "another account": {run: words.replace("pers", "p")}}
    for agreed in others.values():
        with pytest.raises(Refused, match="would charge rho 46 of account persons in 01 44, but what was agreed to is"):
            check_agreed(part.model_copy(update={"agreed": agreed}), claim)
