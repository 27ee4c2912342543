"""What an auditor asks of a ledger: every release has its row, no charge is lost with a disk, and who signed."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from dhca_inputs import BUDGETS, HERE, Inputs, configuration, mark_synthetic, people
from e2e_runs import ACCOUNT, das, directory, go, open_account, settings_for
from ledgers import rewrite

from flows.execution.safetab_settings import DetailedDhcaSettings
from privacy.accounting.ledger import Account, Ledger
from tasks.errors import Failed, Refused
from tasks.lifecycle.process import code_digest
from tasks.releases.check import check_signature
from tasks.releases.manifest import MANIFEST, SIGNATURE, read_manifest

pytestmark = pytest.mark.e2e
TWO_LEVELS = dict.fromkeys(BUDGETS, 0) | {BUDGETS[0]: 1, BUDGETS[5]: 1}
TOTAL = 5  # of the account; a run costs 2


class Office:
    """A ledger, its releases in out/NAME/us, and the words of `das ledger`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ledger = folder, Ledger(folder / "ledger.sqlite")
        if not folder.exists():
            Inputs(config=configuration(**TWO_LEVELS)).write(folder)
            open_account(folder, TOTAL)

    def settings(self, name: str, **changes: object) -> DetailedDhcaSettings:
        return settings_for(self.folder, f"{name}-us", out=self.folder / "out" / name, **changes)

    def release(self, name: str, **changes: object) -> Path:
        place = go(self.settings(name, **changes), HERE)
        assert place is not None
        return place

    def das(self, command: str, *words: object) -> int:
        return das("ledger", command, *words, "--ledger", self.ledger.path)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path / "office")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an office that has a release, `one`. Copy before you change it."""
    folder = tmp_path_factory.mktemp("released") / "office"
    Office(folder).release("one")
    return folder


def test_a_release_names_its_code_and_its_reservation(office: Office, capfd: pytest.CaptureFixture[str]) -> None:
    settings = office.settings("one")
    go(settings, HERE, before="totals")
    office.ledger.open_account(Account("other", "zcdp", Fraction(1)))  # the journal goes on before the run is resumed
    place = office.release("one")
    manifest, row = read_manifest(place), office.ledger.row("one-us")
    assert row is not None
    assert manifest["journal"] == row.journal
    assert (manifest["code"]["digest"], manifest["code"]["version"]) == (
        code_digest(),
        manifest["versions"]["das-flows"],
    )
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent)
    assert manifest["code"]["commit"].removesuffix("-dirty") == head.stdout.strip()
    reserved = next(act for act in office.ledger.acts() if act["act"] == "reserved")
    assert (reserved["run"], reserved["code"]) == ("one-us", manifest["code"])
    Inputs(config=configuration(**TWO_LEVELS), persons=people(60, seed=2)).write(office.folder)
    mark_synthetic(office.folder / "data")
    synthetic = office.release("synthetic", account=None)
    assert "journal" not in read_manifest(synthetic)
    for release in (place, synthetic):
        assert das("check", release) == 0
    assert office.das("check", place, synthetic) == 0
    assert "run one-us, account census, rho 2, states 01 02" in capfd.readouterr().out


def forged(office: Office, change: Callable[[dict], object]) -> None:
    path = office.folder / "out/one/us" / MANIFEST
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def less(office: Office) -> None:
    """Somebody who may write the ledger changes what a run was charged."""
    with closing(sqlite3.connect(office.ledger.path)) as database:
        database.execute("DROP TRIGGER journal_is_fixed")
        database.execute("""UPDATE journal SET line = replace(line, '"amount":"2"', '"amount":"1/10"')""")
        database.commit()


def smaller_total(office: Office) -> None:
    """Somebody who may write the ledger and its journal changes a total, in a chain that holds."""
    rewrite(office.ledger, lambda act: act.update(total="1") if act["act"] == "opened" else None)


def another_ledger(office: Office) -> None:
    for path in (office.ledger.path, office.ledger.journal):
        path.unlink()
    open_account(office.folder, TOTAL)


FORGED: dict[str, tuple[Callable[[Office], object], str]] = {
    "the amount": (
        lambda it: forged(it, lambda manifest: manifest["spent"]["charged"].update(exact="1")),
        "its release digest is not the row's; its amount is not the row's",
    ),
    "the states": (
        lambda it: forged(it, lambda manifest: manifest["geography"].update(states=["01"])),
        "its release digest is not the row's; its states are not the row's",
    ),
    "the head": (lambda it: forged(it, lambda manifest: manifest.update(journal="0" * 64)), "its journal is not"),
    "no head": (lambda it: forged(it, lambda manifest: manifest.pop("journal")), "its journal is not the row's"),
    "the run": (lambda it: forged(it, lambda manifest: manifest.update(run="two-us")), "run two-us has no row"),
    "no manifest": (lambda it: forged(it, lambda manifest: manifest.update(spent=3)), "the release cannot be compared"),
    "another ledger": (another_ledger, "has no row: the ledger is older than the release, or another"),
    "an amount of the ledger": (less, "act 2 of its journal does not follow"),
    "a total": (smaller_total, "01 has spent more"),
    "the journal": (lambda it: it.ledger.journal.unlink(), "is missing: put it back"),
}


@pytest.mark.parametrize("what", FORGED)
def test_das_ledger_check_finds_what_was_changed(
    released: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], what: str
) -> None:
    office = Office(Path(shutil.copytree(released, tmp_path / "office")))
    place = office.folder / "out/one/us"
    assert office.das("check", place) == 0
    change, says = FORGED[what]
    change(office)
    capfd.readouterr()
    assert office.das("check", place) == 1
    result = capfd.readouterr()
    assert says in " ".join(result.out.split())
    assert "found a fault" in result.err


def spent(office: Office) -> set[Fraction]:
    return set(office.ledger.spent(ACCOUNT).values())


def test_backup_loss_and_restore(office: Office, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The procedure of docs/operations.md: the disk with the ledger is lost after its last backup."""
    copy = tmp_path / "backup.sqlite"
    one = office.release("one")
    go(office.settings("open"), HERE, before="totals")
    assert office.das("backup", copy) == 0
    assert [stat.S_IMODE(path.stat().st_mode) for path in sorted(tmp_path.glob("backup*"))] == [0o600, 0o600]
    assert office.das("backup", copy) == 1
    assert "already: name another file" in capfd.readouterr().err
    assert das("ledger", "check", one, "--ledger", copy) == 0
    opened = go(office.settings("open"), HERE)
    before = spent(office)
    assert das("ledger", "check", opened, "--ledger", copy) == 1
    # The ledger is lost, its journal is not.
    shutil.copy(copy, office.ledger.path)
    with pytest.raises(Failed, match="is older than its journal: it lacks 2 of the acts"):
        office.release("more")
    capfd.readouterr()
    assert office.das("restore") == 0
    assert "2 acts of" in capfd.readouterr().out
    assert office.das("check", one, opened) == 0
    assert office.das("restore") == 1
    assert "there is nothing to restore" in capfd.readouterr().err
    # Nothing is left but the journal: what was spent is known, the digests are not.
    office.ledger.path.unlink()
    with pytest.raises(Failed, match="Put back the newest ledger"):
        office.release("more")
    assert office.das("restore") == 0
    assert "without their digests, which are lost: one-us, open-us" in " ".join(capfd.readouterr().out.split())
    assert office.das("check", one, opened) == 0
    assert spent(office) == before == {Fraction(4)}
    with pytest.raises(Refused, match="has too little budget left"):
        office.release("more")
    # The journal is lost: it is written anew, and says so.
    office.ledger.journal.unlink()
    with pytest.raises(Failed, match="is missing: put it back"):
        office.release("more")
    assert office.das("restore") == 0
    assert office.das("check", one, opened) == 0
    assert [act["act"] for act in office.ledger.acts()].count("restored") == 3
    # Both are lost: the releases say what the backup does not know.
    for path in (office.ledger.path, office.ledger.journal):
        shutil.copy(tmp_path / f"backup{path.name.removeprefix('ledger')}", path)
    capfd.readouterr()
    assert office.das("check", one, opened) == 1
    assert "its status is not the row's" in capfd.readouterr().out


def test_a_backup_that_cannot_be_written_leaves_nothing(office: Office, tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere/backup.sqlite", Path("/proc/backup.sqlite")):
        assert office.das("backup", place) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["office"]


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    """The publisher's key, and what everybody may have of it."""
    private, public = tmp_path / "key.pem", tmp_path / "public.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return private, public


def test_a_release_is_signed_by_its_publisher(
    office: Office, keys: tuple[Path, Path], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    private, public = keys
    place = office.release("one", sign=private)
    text = (place / SIGNATURE).read_text()
    assert das("check", place, "--publisher", public) == 0
    assert das("check", place) == 0, "a signature is no foreign file"
    assert "not checked: manifest.sig (give the publisher's key by --publisher)" in capfd.readouterr().out
    assert office.das("check", place, "--publisher", public) == 0
    assert "3 of 4 acts are signed" in capfd.readouterr().out
    assert SIGNATURE not in read_manifest(place)["files"]
    secret = private.read_text().splitlines()[1]
    kept = [path.read_text(errors="replace") for path in office.folder.rglob("*") if path.is_file()]
    assert not any(secret in content for content in kept)
    other = tmp_path / "other"
    other.mkdir()
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", other / "key.pem"], check=True)
    subprocess.run(["openssl", "pkey", "-in", other / "key.pem", "-pubout", "-out", other / "public.pem"], check=True)
    assert das("check", place, "--publisher", other / "public.pem") == 1
    assert office.das("check", "--publisher", other / "public.pem") == 1
    for content in ("", "00" * 64, text[:-9], "x" * 5000):
        (place / SIGNATURE).write_text(content)
        assert check_signature(place, public).faults
    (place / SIGNATURE).unlink()
    assert das("check", place, "--publisher", public) == 1
    assert "the release is not signed" in capfd.readouterr().out
    for file in (private, place / MANIFEST, tmp_path, tmp_path / "nowhere"):
        with pytest.raises(Refused, match=re.escape(f"--publisher {file}: ")):
            check_signature(place, file)


def test_without_its_key_a_run_charges_nothing(office: Office, keys: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "no-key.pem").write_text("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n")
    for file in (keys[1], tmp_path / "no-key.pem", tmp_path, tmp_path / "nowhere"):
        with pytest.raises(Refused, match=f"--sign {file}: ") as refusal:
            office.release("one", sign=file)
        assert "c2VjcmV0" not in str(refusal.value)
    assert spent(office) == set()
    assert (
        not directory(office.settings("one")).path.exists()
        or not (directory(office.settings("one")) / "secret").exists()
    )
    assert [act["act"] for act in Ledger(office.ledger.path).acts()] == ["opened"]
