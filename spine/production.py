"""The allocations of the 2020 production runs, looked up by product."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from spine import allocations_dhc, allocations_pl94
from spine.allocations import Allocation
from spine.settings import SpineSettings


def allocation_for(settings: SpineSettings, budget: Fraction | None = None) -> Allocation:
    """Return the allocation of the settings' 2020 production run, with tract groups where they are asked for.

    budget: another rho; under pure DP, which no production run used, the epsilon (ValueError without one).
    """
    tables = allocations_pl94 if settings.product.startswith("pl94") else allocations_dhc
    allocation: Allocation = tables.allocation(settings.product, settings.jurisdiction)
    if "Tract_Group" in settings.levels:
        allocation = allocation.with_tract_groups(settings.tract_group_share)
    if settings.definition == "puredp" and budget is None:
        raise ValueError("pure DP needs a budget, for no production run used it: give one")
    return replace(allocation, definition=settings.definition, budget=budget or allocation.budget)
