"""The repetitions of an accuracy command: a run directory each, with its own secret. Not private.

A repetition's directory links to the public files and exact counts of the run that it repeats. Its secret comes from
the reservation, as for any run on synthetic data; unmarked data gets no secret and so no repetition.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from spine.settings import Jurisdiction
from tasks.lifecycle.authorization import TRUTH, mark_repetition
from tasks.lifecycle.reservation import Charging, authorize
from tasks.safetab.reserve_budget import claim
from tasks.safetab.run import SafeTabRun

R = TypeVar("R", bound=SafeTabRun)


def trial_directory(run: R, name: int | str) -> R:
    """Return the run directory of a repetition, by number, or of the truth."""
    return type(run)(run.path.resolve() / f"trials/{name}")


def truth_trial(run: R) -> R:
    """Make the run directory of the truth, which has no secret, for the repetitions to be compared with."""
    trial = _linked(run, TRUTH)
    (trial / TRUTH).touch()
    return trial


def open_trial(run: R, number: int, jurisdiction: Jurisdiction, ledger: Path, *, coterminous: bool) -> R:
    """Make the run directory of a repetition.

    Raises Refused for data that is not marked synthetic or public: no account can be charged here.
    """
    trial = _linked(run, number)
    mark_repetition(trial)
    options: dict[str, object] = {"region": jurisdiction, "coterminous": coterminous, "coterminous_list": None}
    authorize(Charging(None, ledger), replace(claim(trial, jurisdiction, options), entered_as=run.id))
    return trial


def _linked(run: R, name: int | str) -> R:
    trial = trial_directory(run, name)
    trial.create()
    for folder in ("prepared", "counts"):
        (trial / folder).symlink_to(run.path.resolve() / folder)
    return trial
