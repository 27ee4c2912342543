"""For whom a run spends: no surface of any system names another neighbour relation than its Spend has."""

from __future__ import annotations

import html
import json
import re
import subprocess
from fractions import Fraction
from io import StringIO
from pathlib import Path

import pytest
from ledgers import new_signer, rewrite
from rich.console import Console
from toy_system import ToySettings

from flows.commands.show import open_release
from flows.execution.approval import question
from flows.execution.states import page
from flows.reports.curator import spend_table
from flows.reports.show.application import _answer
from privacy.accounting.composition import Spend, spend
from privacy.accounting.ledger import Account, Ledger, LedgerError, Request
from tasks.lifecycle.reservation import Claim, Input
from tasks.releases.manifest import MANIFEST, read_manifest, release_digest, spend_of
from tests.flows.conftest import Das, Refuse
from tests.flows.test_check import rewrite as rewrite_release

RECORDS = {"added_or_removed": "X", "replaced": "2X"}
RELATIONS = {  # by release: which relations it may name, X being what is charged
    "few_levels": RECORDS,
    "bottom_up_released": RECORDS,
    "top_down_released": {
        "both_replaced": "X",
        "persons_replaced": "less than X",
        "units_replaced": "less than X",
        "added_or_removed": "not covered",
        "moved": "not covered",
    },
}
OF_RELATIONS = re.compile("unbounded|bounded neighbours|added or removed|add or remove|replaced|replace one", re.I)
EVERY = pytest.mark.parametrize("name", RELATIONS)


@pytest.fixture
def release(name: str, request: pytest.FixtureRequest) -> Path:
    """The release of a system."""
    place: Path = request.getfixturevalue(name)
    return place


def spend_of_release(release: Path) -> Spend:
    found = spend_of(read_manifest(release))
    assert found is not None
    return found


def words(text: str) -> str:
    """A text as a reader sees it: without tags, lines of tables and breaks."""
    text = re.sub(r"<(style|script).*?</\1>", "", text, flags=re.S)
    return " ".join(re.sub(r"[┃│|]", " ", html.unescape(re.sub(r"<[^>]*>", " ", text))).split())


def assert_tells(text: str, known: Spend, *, whole: bool = True) -> None:
    """The text names every relation with its figure, and no other; without `whole`, maybe not every one."""
    read = words(text)
    for row in known.rows():
        assert not whole or row.sentence in read
        assert not whole or row.cells[0] in read
    for row in sorted(known.rows(), key=lambda row: -len(row.sentence)):
        read = read.replace(row.sentence, "").replace(f'"{row.relation}"', "")
    assert OF_RELATIONS.findall(read) == []


@EVERY
def test_a_run_states_the_relations_that_its_mechanism_has(name: str, release: Path) -> None:
    known = spend_of_release(release)
    claimed = {each.key: each.figure for each in known.relations}
    assert known.unit == "person"
    assert list(claimed) == list(RELATIONS[name])
    for key, says in RELATIONS[name].items():
        figure = claimed[key]
        match says:
            case "X" | "2X":
                assert figure == known.charged * (2 if says == "2X" else 1)
            case "less than X":
                assert figure is not None
                assert 0 < figure < known.charged
            case _:
                assert figure is None


@EVERY
def test_terminal_page_report_and_check_name_no_other(name: str, release: Path, das: Das) -> None:
    known = spend_of_release(release)
    printed = StringIO()
    Console(file=printed, width=400).print(spend_table({"US": known}))
    assert_tells(printed.getvalue(), known)
    manifest = read_manifest(release)
    assert_tells(page(manifest, release, release_digest(release), []), known)
    if (report := release / "report.html").exists():
        assert_tells(report.read_text(), known)
    shown = open_release(release)
    overview = _answer(shown, {}).body
    assert_tells(bytes(overview).decode(), known)
    found, csv = das("check", release, "--all", "--json")[1], das("show", release, "--format", "csv")[1]
    for out in (found, csv):
        assert_tells(out, known, whole=False)
    checks = [each["check"] for each in json.loads(found)["checks"]]
    assert {f"spent, {row.sentence}" for row in known.rows()} <= set(checks)


@EVERY
def test_the_form_of_an_approval_and_the_ledger_name_no_other(
    name: str, release: Path, tmp_path: Path, das: Das
) -> None:
    known = spend_of_release(release)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.open_account(Account("census", known.definition, 10 * known.charged))
    places = {"lines": str(tmp_path), "out": str(tmp_path / "out"), "runs_folder": str(tmp_path)}
    settings = ToySettings(**places, ledger=str(ledger.path), account="census", run_id="run")
    asked = question(settings, Claim(settings.directory, ("44",), known, given=Input("1" * 64, ("1" * 64,), None)))
    assert_tells(asked, known)
    assert "unit of privacy: a person" in asked
    for row in known.rows():
        assert f"* {row.sentence}: {row.words}" in asked
    ledger.reserve(Request("run", "census", ("44",), known, "1" * 64, "2" * 64, 1, ()), lambda: "3" * 64)
    _, shown, _ = das("ledger", "show", "--ledger", ledger.path, "--json")
    assert json.loads(shown)[0]["runs"][0]["spend"] == known.as_json()
    user, host = (act := ledger.acts()[-1])["user"], act["host"]
    printed = das("ledger", "show", "--ledger", ledger.path)[1]
    assert f" {user}@{host} " in printed
    assert "charged at (UTC)" in printed
    ledger.note_approval("run", by="A. Curator", why="as the board decided")
    assert f" A. Curator, as {user}@{host} " in das("ledger", "show", "--ledger", ledger.path)[1]
    assert [row.cells[0] in printed for row in known.rows()] == [True] * len(known.relations)


def test_a_release_of_the_first_format_is_refused_with_the_way_out(
    few_levels: Path, tmp_path: Path, refused: Refuse
) -> None:
    old = {name: value for name, value in read_manifest(few_levels).items() if name != "format"}
    (tmp_path / MANIFEST).write_text(json.dumps(old))
    says = "manifest.json was made by an earlier version of das-flows: read the release with that version"
    for command in ("check", "show"):
        refused(says, command, tmp_path)


# The ledger's accounts


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, Path]:
    """A publisher's private and public key."""
    private, public = tmp_path / "key.pem", tmp_path / "public.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return {"private": private, "public": public}


def test_an_account_is_opened_for_a_unit_and_shown_with_it(das: Das, tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    opened = ("--definition", "zcdp", "--total", "9", "--ledger", file)
    assert "account a is open for persons, with rho 9" in das("ledger", "open", "a", *opened)[1]
    assert "account b is open for households" in das("ledger", "open", "b", *opened, "--unit", "household")[1]
    assert das("ledger", "open", "c", *opened, "--unit", "town")[0] == 2
    shown = das("ledger", "show", "--ledger", file)[1]
    assert "Account a: zcdp, rho 9 for every state, persons\n" in shown
    assert "Account b: zcdp, rho 9 for every state, households\n" in shown
    with pytest.raises(LedgerError, match="account b is for households"):
        Ledger(file).precheck(Request("r", "b", ("44",), spend("zcdp", [Fraction(1)]), "", "", 1, ()))


def test_an_account_is_opened_in_a_runs_folder_of_one_s_own(das: Das, refused: Refuse, tmp_path: Path) -> None:
    """As a run demands it; --runs-folder alone finds the ledger again."""
    state = tmp_path / "state"
    words = ("ledger", "open", "a", "--definition", "zcdp", "--total", "9", "--runs-folder", state)
    state.mkdir(mode=0o755)
    refused(f"{state} is open to other users (mode 0755)", *words)
    assert list(state.iterdir()) == []
    state.chmod(0o700)
    assert das(*words)[0] == 0
    assert "Account a: " in das("ledger", "show", "--runs-folder", state)[1]


def test_signatures_that_were_taken_off_are_found(
    das: Das, refused: Refuse, tmp_path: Path, keys: dict[str, Path]
) -> None:
    """An account that demands none: chain and journal agree with less than was charged."""
    from tasks.releases.signature import signer

    book = Ledger(tmp_path / "ledger.sqlite", signer=signer(keys["private"]))
    book.open_account(Account("census", "zcdp", Fraction(5)))
    asked = Request("a", "census", ("44",), spend("zcdp", [Fraction(4)]), "1" * 64, "2" * 64, 1, ())
    book.reserve(asked, lambda: "3" * 64)
    check = ("ledger", "check", "--ledger", book.path, "--publisher", keys["public"])
    code, out, _ = das(*check)
    assert (code, "2 of 2 acts are signed" in out) == (0, True)

    def forge(act: dict[str, object]) -> None:
        act.pop("signature")
        if act["act"] == "reserved":
            act |= {"amount": "1", "spend": spend("zcdp", [Fraction(1)]).as_json()}

    rewrite(book, forge)
    assert das("ledger", "check", "--ledger", book.path)[0] == 0, "nothing else gives it away"
    code, out, err = das(*check)
    assert code == 1
    assert "act 2 charges census and is not signed" in out
    assert "1 of" in err


def test_an_account_that_demands_signatures_needs_no_publisher_to_be_checked(
    das: Das, tmp_path: Path, keys: dict[str, Path]
) -> None:
    file = tmp_path / "ledger.sqlite"
    opened = ("--definition", "zcdp", "--total", "5", "--ledger", file, "--sign", keys["private"])
    code, out, _ = das("ledger", "open", "census", *opened)
    assert (code, "takes no run without its publisher's signature" in out) == (0, True)
    assert "for every state, persons, signed runs alone" in das("ledger", "show", "--ledger", file)[1]
    assert das("ledger", "check", "--ledger", file, "--publisher", keys["public"])[0] == 0
    rewrite(Ledger(file), lambda act: act.pop("signature"))
    code, out, _ = das("ledger", "check", "--ledger", file)
    assert (code, "lacks the publisher's signature, which account census demands" in out) == (1, True)
    assert das("ledger", "show", "--ledger", file)[0] != 0


def test_a_stranger_s_signatures_are_not_the_publisher_s(das: Das, tmp_path: Path, keys: dict[str, Path]) -> None:
    """Somebody who opens the account anew, with a key of their own, is found by the publisher's."""
    stranger = new_signer()
    book = Ledger(tmp_path / "ledger.sqlite", signer=stranger)
    book.open_account(Account("census", "zcdp", Fraction(5), publisher=stranger.publisher))
    assert das("ledger", "check", "--ledger", book.path)[0] == 0
    code, out, _ = das("ledger", "check", "--ledger", book.path, "--publisher", keys["public"])
    assert (code, "the signature of act 1 is not this publisher's" in out) == (1, True)


@pytest.mark.parametrize("change", ["spend", "charge"])
def test_a_release_that_claims_another_relation_than_was_reserved_is_found(
    few_levels: Path, tmp_path: Path, das: Das, change: str
) -> None:
    """The release and its manifest are whole; only the ledger knows what was approved."""
    import shutil

    place = shutil.copytree(few_levels, tmp_path / "us")
    rewrite_release(place, lambda manifest: manifest.pop("SYNTHETIC", None))
    manifest = read_manifest(place)
    known = spend_of_release(place)
    reserved = known if change == "charge" else spend(known.definition, [known.charged], "household")
    states = tuple(manifest["geography"]["states"])
    book = Ledger(tmp_path / "ledger.sqlite")
    book.open_account(Account("census", known.definition, 10 * known.charged, unit=reserved.unit))
    row = book.reserve(
        Request(manifest["run"], "census", states, reserved, "1" * 64, "2" * 64, 1, ()), lambda: "3" * 64
    )
    rewrite_release(place, lambda manifest: manifest.update(journal=row.journal))
    digest = release_digest(place)
    book.seal(manifest["run"], digest)
    book.release(manifest["run"], digest)
    code, out, _ = das("ledger", "check", place, "--ledger", book.path)
    assert (code, "its neighbour relations differ from the reserved ones" in out) == (
        (0, False) if change == "charge" else (1, True)
    )
