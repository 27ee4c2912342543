"""What a mark of data is worth, whichever command asks."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from e2e_runs import killed, points_of

from privacy.accounting.composition import spend
from privacy.accounting.journal import MarkName
from privacy.accounting.ledger import Account, Ledger, Request
from tasks.errors import Failed, Refused
from tasks.lifecycle.authorization import AUTHORIZATION, may_draw, read_secret, read_secret_digest
from tasks.lifecycle.reservation import (
    Charging,
    Claim,
    Input,
    authorize,
    register_if_marked,
)
from tasks.lifecycle.run_directory import RunDirectory

CHARGED, AS_SYNTHETIC = "charged for as confidential before", "run as synthetic or public before"


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    book = Ledger(tmp_path / "ledger.sqlite")
    book.open_account(Account("census", "zcdp", Fraction(10)))
    return book


def charge(book: Ledger, run: str, persons: str, geography: str = "g", account: str = "census") -> None:
    inputs = {"input_digest": f"{persons} {geography}", "records_digests": tuple(persons.split())}
    request = Request(
        run, account, ("44",), spend("zcdp", [Fraction(1)]), configuration_digest="c", noise_scheme=1, **inputs
    )
    book.reserve(request, lambda: "secret")


def worth(book: Ledger, run: str, persons: str, geography: str = "g", *, marked: bool) -> bool:
    return register_if_marked(
        run, book.path, {f"{persons} {geography}", *persons.split()}, mark="SYNTHETIC" if marked else None
    )


@pytest.mark.parametrize("geography", ["g", "another"])
def test_data_that_was_charged_is_never_synthetic(book: Ledger, geography: str) -> None:
    charge(book, "a", "persons")
    with pytest.raises(Refused, match=CHARGED):
        worth(book, "b", "persons", geography, marked=True)
    assert not book.books().marked
    assert worth(book, "b", "others", geography, marked=True)


@pytest.mark.parametrize("geography", ["g", "another"])
def test_data_that_was_run_as_synthetic_is_never_confidential(book: Ledger, geography: str) -> None:
    assert worth(book, "a", "persons", marked=True)
    with pytest.raises(Refused, match=AS_SYNTHETIC):
        worth(book, "b", "persons", geography, marked=False)
    with pytest.raises(ValueError, match=AS_SYNTHETIC):
        charge(book, "b", "persons", geography)
    assert book.rows("census") == []
    assert not worth(book, "b", "others", marked=False)


@pytest.mark.parametrize(("first", "then"), [("persons units", "units"), ("units", "persons units")])
def test_data_that_shares_one_of_its_files_of_records_is_the_same(book: Ledger, first: str, then: str) -> None:
    """A TopDown run reads persons, units or both: the units of charged data are not synthetic when read alone."""
    charge(book, "a", first)
    with pytest.raises(Refused, match=CHARGED):
        worth(book, "b", then, "another", marked=True)
    book.open_account(Account("other", "zcdp", Fraction(10)))
    with pytest.raises(ValueError, match="charged to another account before, census"):
        charge(book, "c", then, "another", "other")
    assert worth(book, "d", f"{then}x", "another", marked=True), "a part of a digest is none"


@pytest.mark.parametrize(("first", "then"), [("persons units", "units"), ("units", "persons units")])
def test_what_was_shown_of_one_file_is_never_confidential_in_another_run(book: Ledger, first: str, then: str) -> None:
    assert worth(book, "a", first, marked=True)
    with pytest.raises(ValueError, match=AS_SYNTHETIC):
        charge(book, "b", then, "another")


@pytest.mark.parametrize("noted", [True, False], ids=["", "killed before it noted its authorization"])
@pytest.mark.parametrize("mark", ["SYNTHETIC", None])
@pytest.mark.parametrize("other", [("others", "c"), ("persons", "d")], ids=["input", "configuration"])
def test_a_run_that_met_another_input_or_configuration_goes_on_with_its_own(
    book: Ledger, mark: MarkName | None, other: tuple[str, str], noted: bool
) -> None:
    """After a restart of the machine stages read everything again, and keep what they make of it."""
    run = RunDirectory(book.path.parent / "state/runs/r1")
    run.create()

    def reserve(persons: str, configuration: str) -> None:
        (run / "prepared").mkdir(exist_ok=True)
        given = Input(persons, (persons,), mark)
        authorize(
            Charging("census", book.path), Claim(run, ("44",), spend("zcdp", [Fraction(1)]), configuration, given)
        )

    reserve("persons", "c")
    if mark is None and not noted:
        (run / AUTHORIZATION).unlink()
    with pytest.raises(Refused, match=r"other (input|configuration)"):
        reserve(*other)
    assert not (run / "prepared").exists(), "or each later try would find there what was made of the other"
    reserve("persons", "c")
    assert (run / "prepared").exists()


def test_a_run_is_entered_once_and_stays_with_its_data(book: Ledger) -> None:
    for _ in range(2):
        assert worth(book, "a", "persons", marked=True)
    assert [*book.books().marked] == ["a"]
    with pytest.raises(Refused, match="began with other inputs"):
        worth(book, "a", "others", marked=True)


def test_a_ledger_is_made_for_marked_data_alone(tmp_path: Path) -> None:
    book = Ledger(tmp_path / "state/ledger.sqlite")
    assert not worth(book, "a", "persons", marked=False)
    assert not book.path.exists()
    assert worth(book, "a", "persons", marked=True)
    assert book.path.stat().st_mode & 0o777 == 0o600


def test_without_its_ledger_no_mark_is_believed(tmp_path: Path) -> None:
    for marked in (True, False):
        with pytest.raises(Failed, match="cannot be used"):
            worth(Ledger(tmp_path), "a", "persons", marked=marked)


def test_public_data_is_entered_as_such_and_kept_apart_from_charged_data_alike(book: Ledger) -> None:
    assert register_if_marked("a", book.path, {"persons"}, "PUBLIC")
    assert {run: mark for run, (_, mark) in book.books().marked.items()} == {"a": "PUBLIC"}
    assert [mark for _, mark in book.examine().books.marked.values()] == ["PUBLIC"]
    with pytest.raises(ValueError, match=AS_SYNTHETIC):
        charge(book, "b", "persons")
    charge(book, "c", "others")
    with pytest.raises(Refused, match=CHARGED):
        register_if_marked("d", book.path, {"others"}, "PUBLIC")


# The parts of one run


def parts(folder: Path) -> list[RunDirectory]:
    return [RunDirectory(folder / "state/runs" / name) for name in ("a-us", "a-pr")]


def authorize_both(folder: Path, us: int = 1, pr: int = 2, mark: MarkName | None = None) -> None:
    """Authorize both parts of a run, as its reservation does."""
    charging, given = Charging("census", folder / "ledger.sqlite"), Input("i", ("persons",), mark)
    claims = []
    for run, states, amount in zip(parts(folder), (("44",), ("72",)), (us, pr), strict=True):
        run.create()
        claims.append(Claim(run, states, spend("zcdp", [Fraction(amount)]), "c", given))
    authorize(charging, *claims)


@pytest.mark.parametrize("mark", ["SYNTHETIC", None])
def test_each_part_of_a_run_is_authorized_with_a_secret_of_its_own(book: Ledger, mark: MarkName | None) -> None:
    folder = book.path.parent
    authorize_both(folder, mark=mark)
    secrets = [read_secret(run).secret.digest() for run in parts(folder)]
    assert len(set(secrets)) == 2
    assert book.spent("census") == ({} if mark else {"44": 1, "72": 2})
    authorize_both(folder, mark=mark)
    assert [read_secret(run).secret.digest() for run in parts(folder)] == secrets
    assert book.spent("census") == ({} if mark else {"44": 1, "72": 2})


@pytest.mark.parametrize(("us", "pr", "named"), [(11, 1, "a-us"), (1, 11, "a-pr")])
def test_where_one_part_is_refused_neither_is_authorized(book: Ledger, us: int, pr: int, named: str) -> None:
    with pytest.raises(Refused, match=f"run {named}: account census has too little budget left"):
        authorize_both(book.path.parent, us, pr)
    assert book.rows("census") == []
    assert not any(map(may_draw, parts(book.path.parent)))


@pytest.mark.slow
def test_killed_at_any_step_both_parts_are_charged_once_and_keep_their_secrets(book: Ledger, tmp_path: Path) -> None:
    home, kept = book.path.parent / "home", book.path.parent / "kept"
    home.mkdir()
    for path in book.path.parent.glob("ledger*"):
        shutil.move(path, home)
    shutil.copytree(home, kept)
    met = set()
    between = ("authorization.py", "ledger.py", "journal.py")  # where what is of one part and of both is written
    for point in (at for at in points_of(tmp_path, authorize_both, home) if any(name in at[0] for name in between)):
        shutil.rmtree(home)
        shutil.copytree(kept, home)
        killed(point, authorize_both, home)
        rows, secrets = Ledger(home / "ledger.sqlite").rows("census"), [*map(read_secret_digest, parts(home))]
        assert [row.secret_digest for row in rows] in ([], secrets), f"killed at {point}"
        met.add((len(rows), sum(map(bool, secrets))))
        authorize_both(home)
        again = Ledger(home / "ledger.sqlite").rows("census")
        assert [row.run for row in again] == ["a-us", "a-pr"]
        assert rows in ([], again), f"a second secret for a row: killed at {point}"
        assert [row.secret_digest for row in again] == [read_secret(run).secret.digest() for run in parts(home)]
    assert met >= {(0, 0), (0, 1), (0, 2), (2, 2)}
