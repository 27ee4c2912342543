"""Reserve the spend of all levels at once, and with it make the run's secret. It gates all noise.

A repetition of an accuracy command has a run directory of its own, with links to the public files and the exact counts
of the run that it repeats. Its secret comes from the reservation, as for any run on synthetic data: data without the
mark gets none, and so no repetition. It is not private.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from privacy.accounting.composition import Spend, spend
from spine.settings import Jurisdiction
from tasks.lifecycle.authorization import mark_repetition
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.reservation import Charging, authorize
from tasks.population_groups.configuration import SafeTabConfiguration
from tasks.population_groups.parameters import configuration_digest
from tasks.population_groups.run import SafeTabRun

R = TypeVar("R", bound=SafeTabRun)


def planned_spend(configuration: SafeTabConfiguration, jurisdiction: Jurisdiction) -> Spend:
    """Return what a run over a jurisdiction spends. Raises Refused where a budget is infinite."""
    levels = configuration.levels(jurisdiction)
    try:
        budgets = [configuration.budget(level) for level in levels]
    except ValueError as error:
        raise Refused(str(error)) from None
    if not budgets:
        raise Refused(
            f"no population group level of {jurisdiction.upper()} has a budget above 0: there is nothing to release"
        )
    return spend(configuration.privacy_defn, budgets, configuration.UNIT)


def reserve_budget(
    run: SafeTabRun,
    jurisdiction: Jurisdiction,
    charging: Charging,
    options: dict[str, object],
    *,
    entered_as: str | None = None,
) -> None:
    """Reserve the run's whole spend and make its secret.

    Raises Refused, Failed as `authorize` does; Refused for a budget that is infinite.
    """
    parameters = run.parameters
    total = planned_spend(parameters.configuration, jurisdiction)
    states = parameters.configuration.states(jurisdiction)
    digest = configuration_digest(parameters.digests, options)
    authorize(run, charging, states, total, digest, run.validated, entered_as=entered_as)


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
    reserve_budget(trial, jurisdiction, Charging(None, ledger), options, entered_as=run.id)
    return trial
