"""The mathematics of privacy: the noise of a release, what it spends, and the ledger of what has been spent.

The names below are the interface for programs outside this repository; docs/api.md shows each in use. Budgets are
exact (`Fraction`), counts and margins are whole persons. Names are imported on first access, because the estimation
imports `privacy.tables` and must load nothing that draws noise.
"""

from importlib import import_module
from typing import Any

PLACES = {
    "privacy.accounting.composition": ("Spend", "disjoint", "query_budgets", "spend"),
    "privacy.accounting.conversions": ("epsilon", "pure_to_rho", "rho"),
    "privacy.accounting.ledger": ("Account", "Ledger", "LedgerError", "Request", "Row"),
    "privacy.accounting.stability": ("IterationCounts", "stability"),
    "privacy.noise.laws": ("Definition", "DiscreteGaussian", "Law", "TwoSidedGeometric", "law"),
    "privacy.noise.margins": ("coverage", "margin_of_error", "suppression_threshold"),
    "privacy.noise.measure": ("Measured", "measure"),
    "privacy.noise.query_noise": ("QueryNoise",),
    "privacy.noise.randomness": ("RunSecret",),
    "privacy.noise.sampler": ("Sampler",),
}
__all__ = sorted(name for names in PLACES.values() for name in names)


def __getattr__(name: str) -> Any:
    for place, names in PLACES.items():
        if name in names:
            return getattr(import_module(place), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
