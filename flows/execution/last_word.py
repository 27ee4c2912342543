"""How a run stands by its ledger and its place in OUT alone: whatever else went wrong, they have the last word."""

from __future__ import annotations

from pathlib import Path

from flows.execution.settings import RunSettings
from privacy.accounting.ledger import Ledger, LedgerError, format_amount
from privacy.noise.laws import UNITS
from tasks.lifecycle.authorization import AUTHORIZATION
from tasks.lifecycle.commit import is_released
from tasks.lifecycle.manifest import is_whole, mark_of, read_manifest, release_digest
from tasks.lifecycle.received import NotOfRelease


def charge_of(settings: RunSettings) -> str:
    """Return what a run was charged, as a clause: amount and account, nothing, or why it is not known."""
    ledger, run = Ledger(Path(settings.ledger)), str(settings.run_id)
    reserved = (settings.directory / AUTHORIZATION).exists()
    try:
        if not reserved and not ledger.path.exists():
            return "nothing was charged"
        if row := ledger.row(run):
            units = {account.name: UNITS[account.definition] for account in ledger.accounts()}
            return f"{units[row.account]} {format_amount(row.amount)} was charged to account {row.account}"
        if reserved and run not in ledger.marked_runs():
            return f"it may have drawn noise, but the ledger {ledger.path} has no row of it"
    except LedgerError as error:
        return f"what was charged is not known: {error}"
    return "nothing was charged"


def is_reserved(settings: RunSettings) -> bool:
    """Return whether a run may have drawn noise: it has its authorization, or the ledger knows it."""
    if (settings.directory / AUTHORIZATION).exists():
        return True
    ledger, run = Ledger(Path(settings.ledger)), str(settings.run_id)
    try:
        return ledger.row(run) is not None or run in ledger.marked_runs()
    except LedgerError:
        return False


def mark_entered(settings: RunSettings) -> str:
    """Return the mark under which the ledger entered a run that it charged nothing for: synthetic or public."""
    _, mark = Ledger(Path(settings.ledger)).marked_runs()[str(settings.run_id)]
    return mark.lower()


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
            agreed = mark_of(read_manifest(place)) is not None
        else:
            agreed = row.status == "released" and row.release_digest == release_digest(place)
        return place if agreed and is_whole(place) else None
    except (OSError, ValueError, NotOfRelease):  # LedgerError is a ValueError
        return None
