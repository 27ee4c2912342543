"""Reserve the spend of all levels at once, and with it make the run's secret. It gates all noise."""

from __future__ import annotations

from collections.abc import Sequence

from privacy.accounting.composition import Spend, spend
from spine.settings import Jurisdiction
from tasks.errors import Refused, refusing
from tasks.lifecycle.reservation import Charging, authorize_together, claim
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
    others: Sequence[tuple[SafeTabRun, Jurisdiction, dict[str, object]]] = (),
    *,
    entered_as: str | None = None,
) -> None:
    """Reserve the run's whole spend and make its secret.

    others: the runs over the other jurisdiction that are charged in the same transaction, with their options.

    Raises Refused, Failed as `authorize_together` does; Refused for a budget that is infinite.
    """
    claims = []
    for each, name, shaping in ((run, jurisdiction, options), *others):
        parameters = each.parameters
        total = planned_spend(parameters.configuration, name)
        states = parameters.configuration.states(name)
        digest = configuration_digest(parameters.digests, shaping)
        claims.append(claim(each, charging, states, total, digest, each.validated, entered_as=entered_as))
    authorize_together(charging, claims)
