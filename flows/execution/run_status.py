"""The status of runs: for every run of a runs folder its kind, last stage, charge, and how to continue it.

Whatever went wrong with a run, only its ledger decides what it was charged, and only its ledger and its place in OUT
decide whether it is released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from flows.execution.settings import RunSettings, load_settings
from flows.reports.curator import run_directories
from privacy.accounting.journal import Books
from privacy.accounting.ledger import Ledger, LedgerError, Row
from tasks.lifecycle.authorization import AUTHORIZATION, is_truth, may_draw
from tasks.lifecycle.commit import is_released
from tasks.lifecycle.files import load_object
from tasks.lifecycle.run_directory import SETTINGS, VALIDATED, RunDirectory
from tasks.lifecycle.staging import staging
from tasks.records.findings import Finding, has_errors, load_findings
from tasks.releases.manifest import is_whole, mark_of, read_any_manifest, release_digest
from tasks.releases.received import NotOfRelease

LOCKS = Path("/proc/locks")
NOTHING = "nothing was charged"
ANSWER_IT = "Resume or Retry its flow run in Prefect's UI"
ANSWER = "answer"  # a run directory's file: a person's answer to whether the run may charge its account, or ASKED
ASKED, REFUSED = "asked", "refuse"
_charges: dict[Path, str] = {}  # charges of the runs that were reserved in this process, by directory


@dataclass(frozen=True)
class RunStatus:
    """A run, by its confidential directory, by its row in the ledger, or by both."""

    run: str
    directory: RunDirectory | None
    settings: RunSettings | None
    row: Row | None
    charge: str  # the run's charge in its account's currency, or why it is not known
    marked: bool  # whether the ledger lists it as a run on marked data

    @property
    def kind(self) -> str:
        """The system, or the kind of command that left the directory; empty if only the ledger has the run."""
        if self.settings:
            return self.settings.SYSTEM
        if self.directory is None:
            return ""
        return "truth" if is_truth(self.directory) else "validation"

    @property
    def began(self) -> str:
        """The time when the run began, to the second, UTC; from its row if its directory is gone."""
        if self.directory is None:
            return self.row.reserved if self.row else ""
        file = self.directory / SETTINGS if self.settings else self.directory.path
        return datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")

    @property
    def findings(self) -> list[Finding]:
        """The findings of validation, with values; confidential."""
        return load_findings(self.directory) if self.directory else []

    @property
    def reserved(self) -> bool:
        """Whether the run has its secret and may have drawn noise."""
        return self.row is not None or (self.directory is not None and (self.directory / AUTHORIZATION).exists())

    @property
    def state(self) -> str:
        """At work, stopped, refused or awaiting approval; for a run that has ended, its status in the ledger."""
        if self.directory is None or (self.row and self.row.status in ("released", "abandoned")):
            return self.row.status if self.row else ""
        if _in_use(self.directory):
            return "at work"
        if not self.reserved and (has_errors(self.findings) or self._answer == REFUSED):
            return "refused"
        return "awaits approval" if not self.reserved and self._answer == ASKED else "stopped"

    @property
    def _answer(self) -> str:
        """A person's answer to whether the run may charge its account, or ASKED; empty before the question."""
        answer = self.directory / ANSWER if self.directory else None
        return load_object(answer, str) if answer and answer.exists() else ""

    @property
    def stage(self) -> str:
        """The last stage that a run with a directory reached."""
        if self.directory is None:
            return ""
        if self.settings and is_whole(staging(self.directory, Path(self.settings.out), self.settings.folder)):
            return "release staged"
        if (self.directory / "noisy").exists():
            return "noise"
        if self.reserved:
            return "reserved"
        return "validated" if (self.directory / VALIDATED).exists() else "begun"

    @property
    def next_step(self) -> str:
        """The commands that continue or end the run; empty for one that has ended or is at work."""
        discard = f"das runs discard {self.run}"
        if self.state == "refused" and not has_errors(self.findings):
            return f"Retry its flow run in Prefect's UI, which asks again, or {discard}"
        if self.state == "refused":
            return f"correct the input and start a new run; {discard} removes this one"
        if self.state not in ("awaits approval", "stopped"):
            return ""
        if self.settings is None:
            return discard
        return f"{ANSWER_IT if self.settings.approval and not self.reserved else self.settings.resume}, or {discard}"

    def as_json(self) -> dict[str, Any]:
        """Return the fields of --json, without the findings."""
        names = ("run", "kind", "began", "state", "stage", "charge", "next_step")
        place = {"out": self.settings.out if self.settings else None}
        path = {"path": self.directory.path if self.directory else None}
        return {name: getattr(self, name) or None for name in names} | place | path


def run_status(directory: RunDirectory, ledger: Path) -> RunStatus:
    """Return the status of a run, which may have a directory, a row in its ledger, or neither."""
    return _status(directory, ledger, _read_books)


def _read_books(ledger: Path) -> tuple[Books, str]:
    """Return the books of a ledger, and why a run's charge is not known if it has no row there."""
    try:
        return Ledger(ledger).books(), f"the ledger {ledger} has no row of it"
    except LedgerError as error:
        return Books(), str(error)


def _status(directory: RunDirectory, ledger: Path, read: Callable[[Path], tuple[Books, str]]) -> RunStatus:
    there = directory if directory.path.is_dir() else None
    settings = load_settings(directory) if there else None
    books, unknown = read(Path(settings.ledger) if settings else ledger)
    row, marked, charge = books.runs.get(directory.id), directory.id in books.marked, "nothing"
    if row:
        charge = f"{books.accounts[row.account].amount(row.amount)} of {row.account}"
    elif there and not marked and may_draw(there):
        charge = f"not known: {unknown}"
    return RunStatus(directory.id, there, settings, row, charge, marked)


def run_statuses(state: Path, ledger: Path) -> Iterator[RunStatus]:
    """Yield the status of every run with a directory or a charge in the ledger, the oldest first."""
    read = cache(_read_books)  # each ledger once, however many runs it has
    by_id = {directory.id: _status(directory, ledger, read) for directory in run_directories(state)}
    for run in read(ledger)[0].runs:
        if run not in by_id:
            by_id[run] = _status(RunDirectory(state / "runs" / run), ledger, read)
    yield from sorted(by_id.values(), key=lambda each: each.began)


def _in_use(run: RunDirectory) -> bool:
    """Return whether a process holds the run's lock, without taking it: a starting run could then be refused."""
    if not (run / "lock").exists() or not LOCKS.exists():
        return False
    inode = str((run / "lock").stat().st_ino)
    locks = (line.split() for line in LOCKS.read_text("utf-8").splitlines() if " FLOCK " in line)
    return any(inode == place.rpartition(":")[2] for fields in locks for place in fields[5:6])


def remember_charge(settings: RunSettings) -> None:
    """Remember the charge of a run in case its runs folder disappears; called once it is reserved."""
    _charges[settings.directory.path] = charge_of(settings)


def charge_of(settings: RunSettings) -> str:
    """Return the charge of a run, as a clause: amount and account, nothing, or why it is not known.

    Without a row, it is certain that nothing was charged only if the run directory exists and has no secret, or the
    ledger exists and has the account: if a volume is not mounted, both may be missing. A process in which the run
    was reserved remembers the charge.
    """
    run, ledger = settings.directory, Ledger(Path(settings.ledger))
    try:
        uncharged, why = is_there(settings) and not may_draw(run), f"there is no ledger {ledger.path}"
        if ledger.exists():
            books = ledger.books()
            if row := books.runs.get(run.id):
                return f"{books.accounts[row.account].amount(row.amount)} was charged to account {row.account}"
            if run.id in books.marked:
                return NOTHING
            uncharged |= settings.account in books.accounts and not (run / AUTHORIZATION).exists()
            why = f"the ledger {ledger.path} has no row of it"
    except (LedgerError, OSError) as error:
        uncharged, why = False, str(error)
    if run.path in _charges:
        return f"{_charges[run.path]}, but now {why}"
    if uncharged:
        return NOTHING
    if is_there(settings):
        return f"what was charged is not known: {why}"
    look = f"das runs show {run.id} --runs-folder {settings.runs_folder} --ledger {settings.ledger}"
    return f"what was charged is not known: {why}, and {run.path} is not there; once its volume is mounted: {look}"


def charges_of(parts: Sequence[RunSettings]) -> str:
    """Return the charge of each part of a run, as `charge_of` does; only once if they are equal."""
    charges = {part.folder.upper(): charge_of(part) for part in parts}
    if len(set(charges.values())) == 1:
        return next(iter(charges.values()))
    return "; ".join(f"{name}: {charge}" for name, charge in charges.items())


def is_there(settings: RunSettings) -> bool:
    """Return whether the run directory exists."""
    try:
        return settings.directory.path.is_dir()
    except OSError:  # a volume may not answer
        return False


def released_place(settings: RunSettings) -> Path | None:
    """Return a run's release if it is in its place and whole, and the ledger calls it released; else None.

    A release of marked data has no row. Also returns None if the release or the ledger cannot be read now.
    """
    run, out, folder = settings.directory, Path(settings.out), settings.folder
    place = out / folder
    try:
        if not is_released(run, out, folder):
            return None
        row = Ledger(Path(settings.ledger)).row(run.id)
        if row is None:
            agreed = mark_of(read_any_manifest(place)) is not None
        else:
            agreed = row.status == "released" and row.release_digest == release_digest(place)
        return place if agreed and is_whole(place) else None
    except (OSError, ValueError, NotOfRelease):  # LedgerError is a ValueError
        return None
