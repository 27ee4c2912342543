"""What is said of a charge when the ledger or the run directory is out of reach."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from e2e_runs import ACCOUNT, settings_for

from flows.commands.runner import _how_to_continue
from flows.execution.run_status import charge_of, remember_charge, run_status
from flows.execution.settings import RunSettings
from privacy.accounting.composition import spend
from privacy.accounting.journal import MarkName
from privacy.accounting.ledger import Account, Ledger
from tasks.lifecycle.authorization import SECRET
from tasks.lifecycle.reservation import Claim, authorize

CHARGED = f"rho 2 was charged to account {ACCOUNT}"
NOTHING, NOT_KNOWN = "nothing was charged", "what was charged is not known: "


class Digests:
    """What a validation returns."""

    def __init__(self, mark: MarkName | None) -> None:
        self.mark = mark
        self.input_digest, self.records_digests = "i", ("r",)


@pytest.fixture
def settings(tmp_path: Path) -> RunSettings:
    """Settings of a run whose ledger is in its runs folder, with an open account; its directory is there."""
    settings = settings_for(tmp_path, ledger=tmp_path / "state/ledger.sqlite")
    settings.directory.create()
    Ledger(Path(settings.ledger)).open_account(Account(ACCOUNT, "zcdp", Fraction(9)))
    return settings


def reserve(settings: RunSettings, mark: MarkName | None = None) -> None:
    authorize(settings.charging, Claim(settings.directory, ("72",), spend("zcdp", [Fraction(2)]), "c", Digests(mark)))


def unmount(settings: RunSettings) -> Path:
    """Take the runs folder away, as when its volume is not mounted; return where it is."""
    return Path(shutil.move(settings.runs_folder, settings.runs_folder + "-away"))


def mount_empty(settings: RunSettings) -> None:
    """Take the runs folder away, and begin another in its place."""
    unmount(settings)
    settings.directory.create()
    Ledger(Path(settings.ledger)).open_account(Account("other", "zcdp", Fraction(9)))


def lose_ledger(settings: RunSettings) -> None:
    for file in Path(settings.runs_folder).glob("ledger*"):
        file.unlink()


LOSSES: dict[str, Callable[[RunSettings], Any]] = {"gone": unmount, "new": mount_empty, "ledger": lose_ledger}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_process_that_reserved_the_run_knows_its_charge(settings: RunSettings, loss: str) -> None:
    reserve(settings)
    remember_charge(settings)
    assert charge_of(settings) == CHARGED
    LOSSES[loss](settings)
    assert charge_of(settings).startswith(f"{CHARGED}, but now ")


@pytest.mark.parametrize("charged", [True, False])
def test_another_process_does_not_say_that_nothing_was_charged(settings: RunSettings, charged: bool) -> None:
    if charged:
        reserve(settings)
    away = unmount(settings)
    said = charge_of(settings)
    assert said.startswith(NOT_KNOWN)
    assert f"once its volume is mounted: das runs show {settings.run_id} --runs-folder {settings.runs_folder}" in said
    assert "nothing is lost" not in _how_to_continue([settings])
    away.rename(settings.runs_folder)
    assert charge_of(settings) == (CHARGED if charged else NOTHING)
    assert "; nothing is lost; " in _how_to_continue([settings])


@pytest.mark.parametrize("secret_alone", [True, False])
def test_a_run_with_a_secret_and_no_ledger_may_have_been_charged(settings: RunSettings, secret_alone: bool) -> None:
    """Killed between its row and its authorization, a run has its secret alone."""
    reserve(settings)
    if secret_alone:
        for path in settings.directory.path.iterdir():
            if path.name != SECRET:
                path.unlink()
    lose_ledger(settings)
    assert charge_of(settings) == f"{NOT_KNOWN}there is no ledger {settings.ledger}"
    shown = run_status(settings.directory, Path(settings.ledger)).charge
    assert shown.startswith(f"not known: there is no ledger {settings.ledger}")


def test_of_a_run_that_had_no_charge_nothing_is_said_to_be_charged(settings: RunSettings) -> None:
    assert charge_of(settings) == NOTHING  # before its reservation
    shutil.rmtree(settings.directory.path)
    assert charge_of(settings) == NOTHING  # ended before it made its directory: its account has no row of it
    settings.directory.create()
    lose_ledger(settings)
    assert charge_of(settings) == NOTHING  # its directory never had a secret
    reserve(settings, "SYNTHETIC")
    remember_charge(settings)
    assert charge_of(settings) == NOTHING
    assert run_status(settings.directory, Path(settings.ledger)).charge == "nothing"
