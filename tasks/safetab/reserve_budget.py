"""The claim of a SafeTab run: the spend of all its levels, reserved at once."""

from __future__ import annotations

from privacy.accounting.composition import Spend, spend
from spine.settings import Jurisdiction
from tasks.errors import Refused, refusing
from tasks.lifecycle.reservation import Claim
from tasks.safetab.configuration import SafeTabConfiguration
from tasks.safetab.parameters import configuration_digest
from tasks.safetab.run import SafeTabRun


def planned_spend(configuration: SafeTabConfiguration, jurisdiction: Jurisdiction) -> Spend:
    """Return the spend of a run over a jurisdiction. Raises Refused for an infinite budget."""
    levels = configuration.levels(jurisdiction)
    with refusing():
        budgets = [configuration.budget(level) for level in levels]
    if not budgets:
        raise Refused(
            f"no population group level of {jurisdiction.upper()} has a budget above 0: there is nothing to release"
        )
    return spend(configuration.privacy_defn, budgets, configuration.UNIT)


def claim(run: SafeTabRun, jurisdiction: Jurisdiction, options: dict[str, object]) -> Claim:
    """Return the claim of a validated run. Raises Refused for an infinite budget."""
    parameters = run.parameters
    configuration, digest = parameters.configuration, configuration_digest(parameters.digests, options)
    spent = planned_spend(configuration, jurisdiction)
    return Claim(run, configuration.states(jurisdiction), spent, digest, run.validated)
