"""Accounts that demand signatures: no charge without the publisher's, and none that was taken off unseen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from ledgers import Act, new_signer, rewrite

from privacy.accounting.composition import spend
from privacy.accounting.ledger import Account, Ledger, LedgerError, LedgerUnusable, Request
from privacy.accounting.signatures import Signer, is_signed

PUBLISHER, STRANGER = new_signer(), new_signer()


def request(run: str, amount: str = "1") -> Request:
    return Request(run, "census", ("01",), spend("zcdp", [Fraction(amount)]), "1" * 64, "2" * 64, 1, ("4" * 64,))


def secret() -> str:
    return "3" * 64


def never() -> str:
    raise AssertionError("a secret was made")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger whose account demands signatures, with a run that was released."""
    book = Ledger(tmp_path / "ledger.sqlite", signer=PUBLISHER)
    book.open_account(Account("census", "zcdp", Fraction(5), publisher=PUBLISHER.publisher))
    book.reserve(request("a"), secret)
    book.seal("a", "5" * 64)
    book.release("a", "5" * 64)
    return book


@pytest.mark.parametrize("signer", [None, STRANGER], ids=["no key", "another key"])
def test_an_account_that_demands_signatures_takes_no_other_charge(ledger: Ledger, signer: Signer | None) -> None:
    book = Ledger(ledger.path, signer=signer)
    for charge in (book.precheck, lambda asked: book.reserve(asked, never)):
        with pytest.raises(LedgerError, match="takes no charge without its publisher's signature: give --sign KEY"):
            charge(request("b"))
    with pytest.raises(LedgerError, match="takes no charge without"):
        book.open_account(Account("other", "zcdp", Fraction(5), publisher=PUBLISHER.publisher))
    book.abandon("a")  # charges nothing
    assert ledger.reserve(request("b"), secret).status == "reserved"
    assert [account.publisher for account in Ledger(ledger.path).accounts()] == [PUBLISHER.publisher]


def strip(act: Act) -> None:
    act.pop("signature", None)


def strip_charges(act: Act) -> None:
    if act["act"] == "reserved":
        strip(act)


def less(act: Act) -> None:
    """Say that less was charged; the signature stays."""
    if act["act"] == "reserved":
        act |= {"amount": "1/2", "spend": spend("zcdp", [Fraction(1, 2)]).as_json()}


EDITS: dict[str, Callable[[Act], object]] = {
    "all signatures": strip,
    "the signatures of charges": strip_charges,
    "all signatures, and half the charge": lambda act: (strip(act), less(act)),
    "half the charge": less,
}


@pytest.mark.parametrize("what", EDITS)
def test_a_journal_without_its_signatures_is_no_journal_of_the_account(ledger: Ledger, what: str) -> None:
    """Chain and file agree with it: without the demand of the account nothing would be wrong."""
    rewrite(ledger, EDITS[what])
    says = "act [12] of its journal lacks the publisher's signature, which account census demands"
    with pytest.raises(LedgerUnusable, match=says):
        ledger.spent("census")
    assert any(
        "lacks the publisher's signature" in fault for _, _, faults in ledger.examine().found for fault in faults
    )


def test_without_the_demand_the_same_journal_adds_up(tmp_path: Path) -> None:
    """Which is why `das ledger check --publisher` takes an unsigned charge for a fault."""
    book = Ledger(tmp_path / "ledger.sqlite", signer=PUBLISHER)
    book.open_account(Account("census", "zcdp", Fraction(5)))
    book.reserve(request("a"), secret)
    rewrite(book, lambda act: (strip(act), less(act)))
    assert book.spent("census") == {"01": Fraction(1, 2)}
    assert not any(faults for _, _, faults in book.examine().found)


def test_a_charge_of_another_unit_or_amount_than_its_spend_does_not_follow(ledger: Ledger) -> None:
    """Also where it is signed: the publisher signs what the ledger enters, which has checked it."""
    for change in ({"unit_of_privacy": "household"}, {"charged": {"exact": "2", "decimal": 2.0}}):

        def forge(act: Act, change: Act = change) -> None:
            if act["act"] == "reserved":
                act["spend"] |= change

        copy = Ledger(ledger.path.with_name(f"{len(change)}-{next(iter(change))}.sqlite"), signer=PUBLISHER)
        ledger.backup(copy.path)
        rewrite(copy, forge)
        with pytest.raises(LedgerUnusable, match="act 2 of its journal does not follow"):
            copy.spent("census")


def test_what_is_no_key_or_no_signature_signs_nothing() -> None:
    content = b"an act"
    right = PUBLISHER.sign(content)
    assert is_signed(PUBLISHER.publisher, content, right)
    for publisher, signature in (
        (STRANGER.publisher, right),
        (PUBLISHER.publisher, STRANGER.sign(content)),
        (PUBLISHER.publisher, ""),
        (PUBLISHER.publisher, "zz"),
        ("", right),
        ("00", right),
    ):
        assert not is_signed(publisher, content, signature)
    assert not is_signed(PUBLISHER.publisher, content + b".", right)
    assert replace(PUBLISHER, publisher=STRANGER.publisher) != PUBLISHER
