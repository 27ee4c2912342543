"""Status of a run by its ledger and its place in OUT alone: whatever else went wrong, they have the last word."""

from __future__ import annotations

from pathlib import Path

from flows.execution.settings import RunSettings
from privacy.accounting.ledger import Ledger, LedgerError, format_amount
from privacy.noise.laws import UNITS
from tasks.lifecycle.authorization import AUTHORIZATION, may_draw
from tasks.lifecycle.commit import is_released
from tasks.lifecycle.manifest import is_whole, mark_of, read_any_manifest, release_digest
from tasks.lifecycle.received import NotOfRelease

NOTHING = "nothing was charged"
_charges: dict[Path, str] = {}  # of the runs that passed their gate in this process, by directory


def remember_charge(settings: RunSettings) -> None:
    """Remember what a run was charged, for when its state folder is gone; called once it has passed its gate."""
    _charges[settings.directory.path] = charge_of(settings)


def charge_of(settings: RunSettings) -> str:
    """Return what a run was charged, as a clause: amount and account, nothing, or why it is not known.

    Without a row, nothing was charged only if the run directory is there and has no secret, or the ledger is there and
    has the account: if a volume is not mounted, both may be missing. A process in which the run passed its gate
    remembers the charge.
    """
    run, ledger = settings.directory, Ledger(Path(settings.ledger))
    try:
        uncharged, why = is_there(settings) and not may_draw(run), f"there is no ledger {ledger.path}"
        if ledger.exists():
            units = {account.name: UNITS[account.definition] for account in ledger.accounts()}
            if row := ledger.row(run.id):
                return f"{units[row.account]} {format_amount(row.amount)} was charged to account {row.account}"
            if run.id in ledger.marked_runs():
                return NOTHING
            uncharged |= settings.account in units and not (run / AUTHORIZATION).exists()
            why = f"the ledger {ledger.path} has no row of it"
    except (LedgerError, OSError) as error:
        uncharged, why = False, str(error)
    if run.path in _charges:
        return f"{_charges[run.path]}, but now {why}"
    if uncharged:
        return NOTHING
    if is_there(settings):
        return f"what was charged is not known: {why}"
    look = f"das runs show {run.id} --state {settings.state} --ledger {settings.ledger}"
    return f"what was charged is not known: {why}, and {run.path} is not there; once its volume is mounted: {look}"


def is_there(settings: RunSettings) -> bool:
    """Return whether the run directory is there."""
    try:
        return settings.directory.path.is_dir()
    except OSError:  # of a volume that does not answer
        return False


def is_reserved(settings: RunSettings) -> bool:
    """Return whether a run may have drawn noise: it passed its gate in this process, has an authorization or a row."""
    if settings.directory.path in _charges or (settings.directory / AUTHORIZATION).exists():
        return True
    ledger, run = Ledger(Path(settings.ledger)), str(settings.run_id)
    try:
        return ledger.row(run) is not None or run in ledger.marked_runs()
    except LedgerError:
        return False


def released_place(settings: RunSettings) -> Path | None:
    """Return a run's release where it is in its place and whole, and the ledger calls it released.

    A release of marked data has no row. None where there is none, or where that cannot be read now.
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
