"""Reserve the spend of all levels at once, and with it make the run's secret. It gates all noise."""

from __future__ import annotations

from privacy.accounting.composition import Spend, spend
from spine.settings import Jurisdiction
from tasks.errors import Refused, refusing
from tasks.lifecycle.reservation import Charging, authorize
from tasks.safetab.configuration import SafeTabConfiguration
from tasks.safetab.parameters import configuration_digest
from tasks.safetab.run import SafeTabRun


def planned_spend(configuration: SafeTabConfiguration, jurisdiction: Jurisdiction) -> Spend:
    """Return what a run over a jurisdiction spends. Raises Refused where a budget is infinite."""
    levels = configuration.levels(jurisdiction)
    with refusing():
        budgets = [configuration.budget(level) for level in levels]
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
