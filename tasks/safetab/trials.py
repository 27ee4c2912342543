"""The repetitions of an accuracy command: a run directory each, with a secret of its own. Not private.

A repetition's directory has links to the public files and the exact counts of the run that it repeats. Its secret comes
from the reservation, as for any run on synthetic data: data without the mark gets none, and so no repetition.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from spine.settings import Jurisdiction
from tasks.lifecycle.authorization import mark_repetition
from tasks.lifecycle.reservation import Charging, authorize
from tasks.safetab.reserve_budget import claim
from tasks.safetab.run import SafeTabRun

R = TypeVar("R", bound=SafeTabRun)


def trial_directory(run: R, number: int) -> R:
    """Return the run directory of a repetition."""
    return type(run)(run.path.resolve() / f"trials/{number}")


def open_trial(run: R, number: int, jurisdiction: Jurisdiction, ledger: Path, *, coterminous: bool) -> R:
    """Make the run directory of a repetition.

    Raises Refused where the data is not marked synthetic: there is no account here to charge.
    """
    trial = trial_directory(run, number)
    trial.create()
    mark_repetition(trial)
    for name in ("prepared", "counts"):
        (trial / name).symlink_to(run.path.resolve() / name)
    options: dict[str, object] = {"region": jurisdiction, "coterminous": coterminous, "coterminous_list": None}
    authorize(Charging(None, ledger), replace(claim(trial, jurisdiction, options), entered_as=run.id))
    return trial
