"""Accounts of both units together: the factors of each change, the production figures, and what is not covered."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from privacy.accounting.composition import DELTA, Relation, Spend, changes, spend
from privacy.accounting.conversions import epsilon
from privacy.accounting.ledger import Account, Ledger, LedgerError, Request
from privacy.accounting.together import charged_together, together
from privacy.s_dhc.stability import Query
from privacy.s_dhc.stability import spend as s_dhc_spend
from tasks.top_down.spend import compose

RHO_A, RHO_B = Fraction("4.944"), Fraction("8.895302")
PRODUCTION = (spend("zcdp", [RHO_A]), spend("zcdp", [RHO_B], "household"))


def losses(charged: tuple[Spend | None, ...], size: int = 4) -> dict[str, Any]:
    return {change.key: together(charged, change) for change in changes(size)}


def test_the_production_figures() -> None:
    found = losses(PRODUCTION)
    assert found["household_alone"] == ("zcdp", RHO_B)
    assert found["household_whole"] == ("zcdp", Fraction("87.999302"))
    assert found["person_added_or_removed"] == ("zcdp", Fraction("22.734604"))
    assert found["person_replaced"] == ("zcdp", 2 * (RHO_A + RHO_B))
    assert found["person_moved"] == ("zcdp", 2 * RHO_A + 8 * RHO_B)
    assert losses(PRODUCTION, 1)["household_whole"] == ("zcdp", Fraction("13.839302"))
    assert round(epsilon(Fraction("22.734604"), DELTA), 1) == 67.1
    assert 2 * RHO_B > RHO_A, "the larger part for one person"


def test_the_factors_under_pure_dp() -> None:
    pure = (spend("puredp", [Fraction(1)]), spend("puredp", [Fraction(10)], "household"))
    found = losses(pure, 3)
    amounts = {"household_alone": 10, "household_whole": 13, "person_added_or_removed": 21, "person_replaced": 22}
    amounts["replaced_declared_unchanged"] = 22
    assert found == {key: ("puredp", amount) for key, amount in (amounts | {"person_moved": 42}).items()}


def test_a_pure_run_in_an_account_of_rho_costs_half_the_square_of_its_own_epsilon() -> None:
    mixed = (spend("zcdp", [Fraction(1)]), spend("puredp", [Fraction(1, 2)], "household"))
    assert losses(mixed)["person_moved"] == ("zcdp", 2 + (4 * Fraction(1, 2)) ** 2 / 2)


@pytest.mark.parametrize("unit", ["person", "household"])
def test_a_run_whose_relations_are_unknown_or_bound_nothing_leaves_no_change_covered(unit: Any) -> None:
    nothing = Spend(
        "zcdp", unit, RHO_A, (Relation("added_or_removed", "added", None), Relation("moved", "moved", None))
    )
    assert set(losses((None, *PRODUCTION)).values()) == {None}
    assert set(losses((*PRODUCTION, nothing)).values()) == {None}


@pytest.mark.parametrize("stability", ["program", "unit"])
def test_an_s_dhc_run_loses_what_its_own_relations_say(stability: Any) -> None:
    own = s_dhc_spend("zcdp", stability, [Query("PH1_num", 2, Fraction(1)), Query("PH5_num", None, Fraction(1, 8))])
    a_b = {key: found[1] for key, found in losses(PRODUCTION).items()}
    assert losses((*PRODUCTION, own)) == {
        "household_alone": None,  # persons are counted by what their unit's row says
        "household_whole": ("zcdp", a_b["household_whole"] + own.figure("household")),
        "person_added_or_removed": ("zcdp", a_b["person_added_or_removed"] + own.figure("one_unit")),
        "person_replaced": ("zcdp", a_b["person_replaced"] + own.figure("one_unit")),
        "replaced_declared_unchanged": ("zcdp", a_b["person_replaced"] + own.figure("one_unit")),
        "person_moved": ("zcdp", a_b["person_moved"] + own.figure("two_units")),
    }


@pytest.mark.parametrize(
    ("run", "loss"),
    [
        (compose("zcdp", {"persons": Fraction(3), "units": Fraction(1)}), 4),
        (compose("zcdp", {"persons": Fraction(3)}), 3),
        (compose("zcdp", {"units": Fraction(1)}), 1),
        (Spend("zcdp", "person", Fraction(2), (Relation("replaced_within", "of its block", Fraction(2)),)), 2),
    ],
    ids=["both tables", "persons", "units", "a declaration"],
)
def test_a_run_with_declared_figures_covers_only_who_is_replaced_and_leaves_them_unchanged(run: Any, loss: int) -> None:
    found = losses((*PRODUCTION, run))
    assert found.pop("replaced_declared_unchanged") == ("zcdp", 2 * (RHO_A + RHO_B) + loss)
    assert set(found.values()) == {None}


def test_a_household_spend_says_what_persons_lose() -> None:
    for definition, moved in (("zcdp", 8), ("puredp", 4)):
        made = spend(definition, [Fraction(3)], "household")  # type: ignore[arg-type]
        figures = {relation.key: relation.figure for relation in made.relations}
        assert figures == {
            "added_or_removed": 3,
            "replaced": 6,
            "person_added_or_removed": 6,
            "person_moved": 3 * moved,
        }


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "ledger.sqlite", {})
    ledger.open_account(Account("people", "zcdp", Fraction(20)))
    ledger.open_account(Account("homes", "zcdp", Fraction(20), "household"))
    return ledger


def charge(ledger: Ledger, run: str, account: str, spent: Spend, *states: str) -> None:
    ledger.reserve(
        Request(run, account, states, spent, run, run, 1, (f"records of {run}",)), lambda: f"secret of {run}"
    )


def test_a_ledger_is_added_up_by_state(book: Ledger) -> None:
    charge(book, "a", "people", spend("zcdp", [RHO_A]), "01", "02")
    charge(book, "b", "homes", spend("zcdp", [RHO_B], "household"), "02")
    found = charged_together(book, ["people", "homes"])
    assert found == {"01": PRODUCTION[:1], "02": PRODUCTION}
    only_replaced = Spend("zcdp", "person", RHO_A, (Relation("replaced", "a person replaced", RHO_A),))
    charge(book, "c", "people", only_replaced, "02")
    assert charged_together(book, ["people"])["02"] == (PRODUCTION[0], only_replaced)
    with pytest.raises(LedgerError, match="there is no account flats"):
        charged_together(book, ["flats"])


def test_a_household_run_is_refused_by_an_account_of_persons_and_the_reverse(book: Ledger) -> None:
    with pytest.raises(LedgerError, match="household"):
        charge(book, "b", "people", spend("zcdp", [RHO_B], "household"), "02")
    with pytest.raises(LedgerError, match="person"):
        charge(book, "a", "homes", spend("zcdp", [RHO_A]), "02")


def test_the_command_prints_the_table(book: Ledger, das: Any) -> None:
    charge(book, "a", "people", spend("zcdp", [RHO_A]), "02")
    charge(book, "b", "homes", spend("zcdp", [RHO_B], "household"), "02")
    asked = ("ledger", "show", "--ledger", book.path, "--together", "people", "--together", "homes")
    code, out, _ = das(*asked, "--household-size", "1", "--json")
    assert code == 0
    (table,) = json.loads(out)
    assert table["states"] == ["02"]
    assert [change["change"] for change in table["changes"]] == [change.key for change in changes(1)]
    assert "not covered" not in das(*asked)[1]
    charge(book, "c", "people", Spend("zcdp", "person", RHO_A, ()), "02")
    assert "not covered" in das(*asked)[1]
