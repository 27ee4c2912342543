"""The budget ledger: nothing is spent twice, nothing is refunded, whatever is asked in whatever order."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import sqlite3
import stat
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import rewrite

from privacy.accounting.composition import UnitOfPrivacy, read_spend, spend
from privacy.accounting.ledger import SCHEMA, Account, Ledger, LedgerError, LedgerUnusable, Request
from privacy.noise.laws import Definition

TWO = ("01", "02")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    book = Ledger(tmp_path / "state" / "ledger.sqlite")
    book.open_account(Account("census", "zcdp", Fraction("4.944")))
    return book


def request(
    run: str = "run-1",
    amount: str | Fraction = "1",
    states: tuple[str, ...] = TWO,
    definition: Definition = "zcdp",
    unit: UnitOfPrivacy = "person",
    **changes: Any,
) -> Request:
    fields = {
        "run": run,
        "account": "census",
        "states": states,
        "spend": spend(definition, [Fraction(amount)], unit),
        "input_digest": "1" * 64,
        "configuration_digest": "2" * 64,
        "noise_scheme": 1,
        "records_digests": ("4" * 64,),
    }
    return Request(**(fields | changes))


def secret() -> str:
    return "3" * 64


def never() -> str:
    raise AssertionError("a secret was made")


# A file that somebody changed


@pytest.mark.parametrize("table", ["journal", "run", "data_digest"])
def test_a_table_that_is_gone_is_not_made_anew(ledger: Ledger, table: str) -> None:
    ledger.reserve(request(), secret)
    with closing(sqlite3.connect(ledger.path)) as database:
        database.execute(f"DROP TABLE {table}")
        database.commit()
    with suppress(LedgerUnusable):
        ledger.open_account(Account("other", "zcdp", Fraction(1)))
    with pytest.raises(LedgerUnusable, match="no such table"):
        ledger.reserve(request("run-2"), secret)


@pytest.mark.parametrize("table", ["journal", "run", "data_digest"])
def test_a_ledger_that_forgets_what_is_entered_authorizes_nothing(ledger: Ledger, table: str) -> None:
    with closing(sqlite3.connect(ledger.path)) as database:
        database.execute(f"CREATE TRIGGER forget BEFORE INSERT ON {table} BEGIN SELECT RAISE (IGNORE); END")
        database.commit()
    with pytest.raises(LedgerError, match="does not return what was just written"):
        ledger.reserve(request(), secret)
    assert ledger.rows("census") == []


# Accounts


@pytest.mark.parametrize("name", ["", " ", " census", "two\nlines", "\x1b[31mred", "\udcff", "x" * 101])
def test_an_account_has_a_name_that_can_be_shown(ledger: Ledger, name: str) -> None:
    with pytest.raises(LedgerError, match="is not an account's name"):
        ledger.open_account(Account(name, "zcdp", Fraction(1)))
    assert [account.name for account in ledger.accounts()] == ["census"]


def test_the_file_is_its_owners_alone(ledger: Ledger) -> None:
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(ledger.path.parent.stat().st_mode) == 0o700


def test_where_locks_fail_nothing_is_charged(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a network file system without a lock manager: SQLite takes it for a lock of another, and waits."""

    def fails(_file: object, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as broken:
        broken.setattr("fcntl.lockf", fails)
        with pytest.raises(LedgerUnusable, match=r"cannot be locked: No locks available; keep it on a local disk"):
            ledger.reserve(request(), secret)
        with pytest.raises(LedgerUnusable, match="cannot be locked"):
            Ledger(ledger.path.with_name("new.sqlite")).open_account(Account("a", "zcdp", Fraction(1)))
    assert ledger.rows("census") == []


def test_accounts(ledger: Ledger) -> None:
    ledger.open_account(Account("acs", "puredp", Fraction(1, 3)))
    assert ledger.accounts() == [
        Account("acs", "puredp", Fraction(1, 3)),
        Account("census", "zcdp", Fraction("4.944")),
    ]
    assert ledger.spent("census") == {}


def test_a_name_is_taken_for_good(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="open already"):
        ledger.open_account(Account("census", "zcdp", Fraction(100)))
    assert ledger.accounts() == [Account("census", "zcdp", Fraction("4.944"))]


@pytest.mark.parametrize("total", [0, -1])
def test_a_total_is_positive(ledger: Ledger, total: int) -> None:
    with pytest.raises(LedgerError, match="positive"):
        ledger.open_account(Account("other", "zcdp", Fraction(total)))


def test_a_name_that_is_mistyped_is_refused_with_the_one_that_is_open(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match=r"there is no account censuss: .*; did you mean census\?$"):
        ledger.reserve(request(account="censuss", input_digest="9" * 64, records_digests=("9" * 64,)), never)


def test_without_an_account_or_a_ledger_nothing_is_reserved(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="there is no account acs: open it first"):
        ledger.reserve(request(account="acs", input_digest="9" * 64, records_digests=("9" * 64,)), never)
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger(tmp_path / "other.sqlite").reserve(request(), never)
    assert not (tmp_path / "other.sqlite").exists()


@pytest.mark.parametrize("contents", [b"", b"not a database, not by any means"])
def test_a_file_that_is_no_ledger_is_unusable(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(contents)
    with pytest.raises(LedgerUnusable):
        Ledger(path).reserve(request(), never)
    assert path.read_bytes() == contents


# Reservations


def test_a_run_is_charged_to_each_of_its_states(ledger: Ledger) -> None:
    row = ledger.reserve(request("a", "1.5"), secret)
    assert (row.status, row.states, row.amount, row.secret_digest) == ("reserved", TWO, Fraction(3, 2), secret())
    assert (row.release_digest, row.input_digest, row.noise_scheme) == (None, "1" * 64, 1)
    ledger.reserve(request("b", "0.1", ("02", "04")), secret)
    assert ledger.spent("census") == {"01": Fraction(3, 2), "02": Fraction(8, 5), "04": Fraction(1, 10)}
    assert [row.run for row in ledger.rows("census")] == ["a", "b"]
    assert ledger.row("b") == ledger.rows("census")[1]
    assert ledger.row("c") is None


def test_the_total_may_be_spent_to_the_last(ledger: Ledger) -> None:
    """In exact numbers: ten times 0.4944 is 4.944."""
    for number in range(10):
        ledger.reserve(request(f"run-{number}", "0.4944"), secret)
    with pytest.raises(LedgerError, match="account census has too little budget left"):
        ledger.reserve(request("one more", Fraction(1, 10**30)), never)
    assert ledger.row("one more") is None
    assert ledger.spent("census") == dict.fromkeys(TWO, Fraction("4.944"))


def test_the_fullest_state_bounds_a_run(ledger: Ledger) -> None:
    ledger.reserve(request("a", "4", ("02",)), secret)
    with pytest.raises(LedgerError, match=r"needs rho 1; state 02 has 0.944 of 4.944"):
        ledger.reserve(request("b", "1", ("01", "02", "04")), never)
    ledger.reserve(request("c", "1", ("01", "04")), secret)
    assert ledger.spent("census") == {"01": 1, "02": 4, "04": 1}


def test_the_us_and_puerto_rico_share_an_account(ledger: Ledger) -> None:
    """A person is in one of them, so each may spend the whole."""
    ledger.reserve(request("run-us", "4.944"), secret)
    ledger.reserve(request("run-pr", "4.944", ("72",)), secret)
    with pytest.raises(LedgerError, match=r"state 72 has 0 of 4\.944"):
        ledger.reserve(request("again-pr", "0.001", ("72",)), never)


def both(us: str = "1", pr: str = "1", **changes: Any) -> list[Request]:
    return [request("a-us", us, **changes), request("a-pr", pr, ("72",), **changes)]


def test_runs_are_reserved_together(ledger: Ledger) -> None:
    secrets = iter(["5" * 64, "6" * 64])
    rows = ledger.reserve_together(*((asked, lambda: next(secrets)) for asked in both("2", "3")))
    assert [(row.run, row.amount, row.secret_digest) for row in rows] == [("a-us", 2, "5" * 64), ("a-pr", 3, "6" * 64)]
    assert rows == ledger.rows("census")
    assert [act.get("together") for act in ledger.acts()] == [None, None, "a-us"]


@pytest.mark.parametrize(("us", "pr", "named"), [("5", "1", "a-us"), ("1", "5", "a-pr")])
def test_of_runs_that_are_reserved_together_none_is_charged_where_one_is_refused(
    ledger: Ledger, us: str, pr: str, named: str
) -> None:
    with pytest.raises(LedgerError, match=f"run {named}: account census has too little budget left"):
        ledger.reserve_together(*((asked, never) for asked in both(us, pr)))
    assert ledger.rows("census") == []
    assert [(act["act"], act.get("run")) for act in ledger.acts()] == [("opened", None), ("refused", named)]


def test_where_the_second_secret_cannot_be_made_neither_run_is_charged(ledger: Ledger) -> None:
    def full() -> str:
        raise OSError(28, "No space left on device")

    us, pr = both()
    with pytest.raises(OSError, match="No space left"):
        ledger.reserve_together((us, secret), (pr, full))
    assert ledger.rows("census") == []
    assert len(ledger.reserve_together((us, secret), (pr, secret))) == 2


def test_runs_that_are_reserved_together_charge_no_state_twice(ledger: Ledger) -> None:
    """Else two that an account can pay one by one, but not both, would be admitted."""
    asked = request("a", "4"), request("b", "4", (TWO[1], "72"))
    with pytest.raises(LedgerError, match="may not charge the same state"):
        ledger.reserve_together(*((each, never) for each in asked))


def test_a_run_that_has_a_row_is_not_reserved_together_with_another(ledger: Ledger) -> None:
    us, pr = both()
    ledger.reserve(pr, secret)
    with pytest.raises(LedgerError, match="a-pr is reserved already"):
        ledger.reserve_together((us, never), (pr, never))
    assert [row.run for row in ledger.rows("census")] == ["a-pr"]


def test_a_row_never_gets_a_second_secret(ledger: Ledger) -> None:
    ledger.reserve(request("a"), secret)
    with pytest.raises(LedgerError, match="is reserved already"):
        ledger.reserve(request("a"), never)
    ledger.abandon("a")
    with pytest.raises(LedgerError, match="is reserved already"):
        ledger.reserve(request("a"), never)
    assert ledger.spent("census") == dict.fromkeys(TWO, Fraction(1))


def test_where_no_secret_can_be_made_nothing_is_charged(ledger: Ledger) -> None:
    def full() -> str:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        ledger.reserve(request("a"), full)
    assert ledger.row("a") is None
    assert ledger.spent("census") == {}
    ledger.reserve(request("a"), secret)


def test_changed_data_under_the_same_name_is_charged(ledger: Ledger) -> None:
    ledger.reserve(request("a"), secret)
    ledger.reserve(request("b", input_digest="4" * 64), secret)
    assert ledger.spent("census") == dict.fromkeys(TWO, Fraction(2))


def test_changed_data_under_the_same_name_is_said(ledger: Ledger) -> None:
    ledger.open_account(Account("acs", "zcdp", Fraction(1)))
    ledger.reserve(
        request("elsewhere", amount="1/2", account="acs", input_digest="9" * 64, records_digests=("9" * 64,)), secret
    )
    ledger.reserve(request("a", amount="1/2"), secret)
    ledger.reserve(request("a again", amount="1/2"), secret)
    ledger.reserve(request("pr", amount="1/2", states=("72",), input_digest="5" * 64), secret)
    ledger.reserve(request("b", amount="1/2", states=("02",), input_digest="4" * 64), secret)
    ledger.reserve(request("a at last", amount="1/2"), secret)
    result = {row.run: ledger.runs_on_other_data(row.run) for row in ledger.rows("census")}
    assert result == {"a": [], "a again": [], "pr": [], "b": ["a", "a again"], "a at last": ["b"]}
    assert ledger.runs_on_other_data("nobody") == []


@pytest.mark.parametrize("changes", [{"amount": Fraction(0)}, {"amount": Fraction(-1)}, {"states": ()}])
def test_a_run_charges_something(ledger: Ledger, changes: dict[str, Any]) -> None:
    with pytest.raises(LedgerError, match="positive amount to at least one state"):
        ledger.reserve(request(**changes), never)


@pytest.mark.parametrize("state", ["RI", "rhode island", " 44", "44 ", "4", "044", "03", "60", "٤٤"])
def test_a_state_has_one_name(state: str) -> None:
    with pytest.raises(LedgerError, match="two-digit FIPS code"):
        request(states=("01", state))


def test_a_state_is_charged_once_a_run() -> None:
    with pytest.raises(LedgerError, match="twice: 44"):
        request(states=("44", "01", "44"))


def test_check_charges_nothing(ledger: Ledger) -> None:
    assert ledger.precheck(request(amount="2")) == [2]
    with pytest.raises(LedgerError, match="has too little budget left"):
        ledger.precheck(request(amount="5"))
    assert ledger.rows("census") == []


def test_charges_are_checked_one_after_the_other(ledger: Ledger) -> None:
    """Each in what the earlier leave to its own states; and data of one account is not that of another."""
    ledger.open_account(Account("other", "zcdp", Fraction(9)))
    first, second = request("a", "3", ("01",)), request("b", "3", ("02",))
    assert ledger.precheck(first, second, request("c", "1.9")) == [3, 3, Fraction("1.9")]
    with pytest.raises(LedgerError, match=r"run c: .*; state 01 has 1.944 of 4.944 after the runs"):
        ledger.precheck(first, second, request("c", "2"))
    with pytest.raises(LedgerError, match="run d: this data was charged to another account before, census"):
        ledger.precheck(first, request("d", "1", ("01",), account="other"))
    unread = request("d", "1", ("01",), account="other", input_digest="", records_digests=())
    assert ledger.precheck(first, unread, request("e", "1", ("02",), account="other")) == [3, 1, 1]
    assert ledger.rows("census") == []


# Currencies


def test_pure_epsilon_is_charged_to_rho_as_half_its_square(ledger: Ledger) -> None:
    row = ledger.reserve(request("a", "1.2", definition="puredp"), secret)
    assert row.amount == Fraction("0.72")
    assert ledger.spent("census") == dict.fromkeys(TWO, Fraction("0.72"))


def test_rho_is_never_charged_to_epsilon(ledger: Ledger) -> None:
    ledger.open_account(Account("pure", "puredp", Fraction(1000)))
    with pytest.raises(LedgerError, match="kept in pure epsilon"):
        ledger.reserve(request("a", "0.001", account="pure"), never)
    ledger.reserve(request("b", "1.2", account="pure", definition="puredp"), secret)
    assert ledger.spent("pure") == dict.fromkeys(TWO, Fraction("1.2"))


# The states of a run


def test_a_run_is_reserved_sealed_released(ledger: Ledger) -> None:
    ledger.reserve(request("a"), secret)
    ledger.seal("a", "digest")
    assert (ledger.row("a").status, ledger.row("a").release_digest) == ("sealed", "digest")  # type: ignore[union-attr]
    ledger.seal("a", "digest")  # again, after a crash
    ledger.release("a", "digest")
    ledger.release("a", "digest")
    assert ledger.row("a").status == "released"  # type: ignore[union-attr]
    ledger.abandon("a")
    assert ledger.row("a").status == "released"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([("release", "x")], "is reserved: it cannot be released"),
        ([("seal", "x"), ("seal", "y")], "sealed with another release"),
        ([("seal", "x"), ("release", "y")], "sealed with another release"),
        ([("seal", "x"), ("release", "x"), ("seal", "x")], "is released: it cannot be sealed"),
        ([("abandon",), ("seal", "x")], "is abandoned: it cannot be sealed"),
        ([("seal", "x"), ("abandon",), ("release", "x")], "is abandoned: it cannot be released"),
    ],
)
def test_no_other_way(ledger: Ledger, steps: list[tuple[str, ...]], message: str) -> None:
    ledger.reserve(request("a"), secret)
    for name, *arguments in steps[:-1]:
        getattr(ledger, name)("a", *arguments)
    before = ledger.row("a")
    name, *arguments = steps[-1]
    with pytest.raises(LedgerError, match=message):
        getattr(ledger, name)("a", *arguments)
    assert ledger.row("a") == before


@pytest.mark.parametrize("name", ["seal", "release"])
def test_a_run_that_was_never_reserved(ledger: Ledger, name: str) -> None:
    with pytest.raises(LedgerError, match="not in the ledger"):
        getattr(ledger, name)("a", "x")


def test_an_abandoned_run_stays_charged(ledger: Ledger) -> None:
    ledger.reserve(request("a", "4"), secret)
    ledger.abandon("a")
    assert ledger.row("a").status == "abandoned"  # type: ignore[union-attr]
    assert ledger.spent("census") == dict.fromkeys(TWO, Fraction(4))
    with pytest.raises(LedgerError, match="has too little budget left"):
        ledger.reserve(request("b", "1"), never)


ATTACKS = [
    "INSERT OR REPLACE INTO run VALUES ('a','x','y',1,'z')",
    "INSERT OR REPLACE INTO run(rowid,run,input_digest,configuration_digest,noise_scheme,secret_digest) "
    "VALUES (1,'z','x','y',1,'z')",
    "INSERT INTO run VALUES ('a','x','y',1,'z') ON CONFLICT DO UPDATE SET secret_digest='x'",
    "UPDATE OR REPLACE run SET rowid=2 WHERE rowid=1",
    "UPDATE run SET secret_digest = 'x'",
    "UPDATE run SET run = 'x'",
    "DELETE FROM run",
    "DELETE FROM data_digest",
    "UPDATE data_digest SET digest='x'",
    "REPLACE INTO data_digest(rowid, run, digest) VALUES (1,'z','x')",
    "DELETE FROM journal",
    "UPDATE journal SET line='x'",
    "UPDATE OR REPLACE journal SET number=2 WHERE number=1",
    "REPLACE INTO journal VALUES (1, 'x')",
    "INSERT INTO journal VALUES (99, 'x')",
]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """A ledger with runs a, b, c and d that are reserved, sealed, abandoned and released."""
    book = Ledger(tmp_path_factory.mktemp("attacked") / "ledger.sqlite")
    for name in ("census", "other"):
        book.open_account(Account(name, "zcdp", Fraction(5)))
    for run in "abcd":
        book.reserve(request(run), secret)
    book.seal("b", "of b")
    book.abandon("c")
    book.seal("d", "of d")
    book.release("d", "of d")
    return book


@pytest.mark.parametrize("statement", ATTACKS)
def test_the_file_itself_gives_nothing_back(attacked: Ledger, statement: str) -> None:
    """Raw SQL by the file's owner: every act stays, and a run keeps its secret and its data."""
    tables = "run", "data_digest", "journal"
    with closing(sqlite3.connect(attacked.path, isolation_level=None)) as database:
        before = [database.execute(f"SELECT rowid, * FROM {table}").fetchall() for table in tables]
        with pytest.raises(sqlite3.IntegrityError):
            database.execute(statement)
        assert [database.execute(f"SELECT rowid, * FROM {table}").fetchall() for table in tables] == before


@pytest.mark.parametrize("changes", [{}, {"input_digest": "8" * 64}, {"records_digests": ("8" * 64,)}], ids=str)
def test_the_same_persons_under_a_second_account_are_meant_or_refused(ledger: Ledger, changes: dict[str, Any]) -> None:
    ledger.open_account(Account("long-form", "puredp", Fraction(4)))
    ledger.reserve(request("a", "1"), secret)
    second = {"account": "long-form", "definition": "puredp"} | changes
    with pytest.raises(LedgerError, match="charged to another account before, census"):
        ledger.reserve(request("b", "2", **second), never)
    assert ledger.spent("long-form") == {}
    ledger.reserve(request("b", "2", second_account=True, **second), secret)
    ledger.reserve(request("c", "1", states=("44",), **second), secret)  # other states are other persons
    ledger.reserve(request("d", "1", input_digest="d", records_digests=("e",), **{"account": "census"}), secret)


# Units of privacy


def test_an_account_takes_runs_of_its_own_unit_of_privacy_alone(ledger: Ledger) -> None:
    ledger.open_account(Account("households", "zcdp", Fraction(9), unit="household"))
    own = {"account": "households", "input_digest": "9" * 64, "records_digests": ("9" * 64,)}
    for asked, says in (
        (request("b", unit="household"), "census is for persons: a run whose unit of privacy is a household cannot"),
        (request("b", **own), "households is for households: a run whose unit of privacy is a person cannot"),
    ):
        for charge in (ledger.precheck, lambda asked: ledger.reserve(asked, never)):
            with pytest.raises(LedgerError, match=rf"account {says} be charged to it; name an account for"):
                charge(asked)
    assert ledger.reserve(request("b", unit="household", **own), secret).amount == 1
    assert [account.unit for account in ledger.accounts()] == ["person", "household"]
    assert ledger.acts()[1]["unit"] == "household"


def test_the_journal_has_what_each_run_spends_and_for_whom(ledger: Ledger) -> None:
    ledger.reserve(request("a", "1/2"), secret)
    assert read_spend(ledger.acts()[-1]["spend"]) == spend("zcdp", [Fraction(1, 2)])
    assert ledger.examine().books.spends == {"a": spend("zcdp", [Fraction(1, 2)])}


def test_a_restored_account_has_its_unit(ledger: Ledger) -> None:
    ledger.open_account(Account("households", "zcdp", Fraction(9), unit="household"))
    ledger.path.unlink()
    ledger.restore()
    assert [(account.name, account.unit) for account in ledger.accounts()] == [
        ("census", "person"),
        ("households", "household"),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(
            (f"PRAGMA user_version = {schema}", rf"its schema is {schema}, not {SCHEMA}\)")
            for schema in range(1, SCHEMA)
        ),
        (f"PRAGMA user_version = {SCHEMA + 1}", "of a later version of das-flows"),
        ("PRAGMA user_version = 0", "not a ledger of this version of das-flows"),  # tables without a version
    ],
)
def test_a_ledger_of_another_version_is_refused(ledger: Ledger, change: str, message: str) -> None:
    with closing(sqlite3.connect(ledger.path)) as database:
        database.execute(change)
    before = ledger.path.read_bytes()
    with pytest.raises(LedgerUnusable, match=message):
        ledger.reserve(request(), never)
    with pytest.raises(LedgerUnusable, match=message):
        ledger.open_account(Account("other", "zcdp", Fraction(1)))
    assert ledger.path.read_bytes() == before


@pytest.mark.parametrize(("act", "fact"), [("opened", "unit"), ("reserved", "spend")])
def test_an_act_without_its_unit_or_spend_is_refused(ledger: Ledger, act: str, fact: str) -> None:
    """The unit of a loss is never guessed."""
    ledger.reserve(request("a"), secret)
    rewrite(ledger, lambda entry: entry.pop(fact) if entry["act"] == act else None)
    with pytest.raises(LedgerUnusable, match="of its journal does not follow"):
        ledger.accounts()


def test_an_empty_file_is_called_no_ledger_yet(tmp_path: Path) -> None:
    empty = Ledger(tmp_path / "ledger.sqlite")
    empty.path.touch()  # as an account that was being opened leaves it
    with pytest.raises(LedgerUnusable, match="is empty: open an account with das ledger open"):
        empty.reserve(request(), never)
    empty.open_account(Account("census", "zcdp", Fraction(1)))
    assert [account.name for account in empty.accounts()] == ["census"]


# Any sequence of requests

STEP = st.tuples(
    st.sampled_from(["reserve", "reserve", "reserve", "seal", "release", "abandon"]),
    st.sampled_from("abcde"),
    st.sampled_from(["0.3", "1", "1.7", "2.472"]),
    st.sets(st.sampled_from(["01", "02", "72"]), min_size=1),
    st.sampled_from(["zcdp", "puredp"]),
)


@given(steps=st.lists(STEP, max_size=14))
@settings(derandomize=True, database=None, deadline=None, max_examples=25)
def test_no_state_ever_passes_the_total(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    book = Ledger(tmp_path_factory.mktemp("ledger") / "ledger.sqlite")
    total = Fraction("4.944")
    book.open_account(Account("census", "zcdp", total))
    charged: dict[str, tuple[Fraction, set[str]]] = {}
    for action, run, amount, states, definition in steps:
        cost = Fraction(amount) if definition == "zcdp" else Fraction(amount) ** 2 / 2
        spent = Counter({state: sum(a for a, states_ in charged.values() if state in states_) for state in states})
        fits = run not in charged and all(spent[state] + cost <= total for state in states)
        try:
            if action == "reserve":
                book.reserve(request(run, amount, tuple(sorted(states)), definition=definition), secret)
                assert fits
                charged[run] = (cost, states)
            elif action == "abandon":
                book.abandon(run)
            else:
                getattr(book, action)(run, "digest")
        except LedgerError:
            assert action != "reserve" or not fits
    expected = {state: sum(a for a, states_ in charged.values() if state in states_) for state in ("01", "02", "72")}
    assert book.spent("census") == {state: amount for state, amount in expected.items() if amount}
    assert max(expected.values()) <= total


# Processes at once


def _reserve_many(path: Path, name: str, start: Any, outcomes: Any) -> None:
    start.wait()
    book, won = Ledger(path), 0
    for number in range(8):
        try:
            book.reserve(request(f"{name}-{number}", "0.5"), secret)
            won += 1
        except LedgerError:
            pass
    outcomes.put(won)


def _reserve_same(path: Path, name: str, start: Any, outcomes: Any) -> None:
    """All ask for the same runs: each run is charged once and gets one secret, that of the process that was told so."""
    start.wait()
    book, won = Ledger(path), 0
    for number in range(5):
        try:
            row = book.reserve(request(f"run-{number}", "0.5"), lambda: name)
            assert row.secret_digest == name
            won += 1
        except LedgerError:
            pass
    outcomes.put(won)


@pytest.mark.parametrize(
    ("work", "expected"), [(_reserve_many, 9), pytest.param(_reserve_same, 5, marks=pytest.mark.slow)]
)
def test_processes_at_once_never_pass_the_total(ledger: Ledger, work: Callable[..., None], expected: int) -> None:
    """9 runs of 0.5 fit into 4.944, whoever asks first."""
    context = multiprocessing.get_context("fork")
    start, outcomes = context.Event(), context.Queue()
    processes = [context.Process(target=work, args=(ledger.path, str(number), start, outcomes)) for number in range(3)]
    for process in processes:
        process.start()
    start.set()
    won = sum(outcomes.get(timeout=60) for _ in processes)
    for process in processes:
        process.join(timeout=60)
    assert won == expected
    assert len(ledger.rows("census")) == expected
    assert ledger.spent("census") == dict.fromkeys(TWO, Fraction(expected, 2))
    acts = [entry["act"] for entry in ledger.acts()]
    assert acts[0] == "opened"
    assert acts.count("reserved") == expected
    assert [json.loads(line) for line in ledger.journal.read_text().splitlines()] == ledger.acts()


def test_an_act_that_could_not_be_read_again_is_not_entered(ledger: Ledger) -> None:
    asked = request()
    object.__setattr__(asked.spend.relations[0], "sentence", "two\nlines")  # past what a Relation refuses
    with pytest.raises(LedgerUnusable, match="cannot be entered"):
        ledger.reserve(asked, secret)
    assert ledger.rows("census") == []
    assert ledger.reserve(request("run-2"), secret).amount == 1
