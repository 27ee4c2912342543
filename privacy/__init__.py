"""The mathematics of privacy: the noise of a release, what it spends, and the ledger of what has been spent.

The names below are those that a program outside this repository needs; docs/api.md shows each at work. Budgets are
exact (`Fraction`), counts and margins are whole persons.
"""

from privacy.accounting import (
    Account,
    IterationCounts,
    Ledger,
    LedgerError,
    Request,
    Row,
    Spend,
    disjoint,
    epsilon,
    pure_to_rho,
    query_budgets,
    rho,
    spend,
)
from privacy.accounting.stability import stability
from privacy.noise import (
    Definition,
    DiscreteGaussian,
    Law,
    Measured,
    QueryNoise,
    RunSecret,
    Sampler,
    TwoSidedGeometric,
    coverage,
    law,
    margin_of_error,
    measure,
    suppression_threshold,
)

__all__ = [
    "Account",
    "Definition",
    "DiscreteGaussian",
    "IterationCounts",
    "Law",
    "Ledger",
    "LedgerError",
    "Measured",
    "QueryNoise",
    "Request",
    "Row",
    "RunSecret",
    "Sampler",
    "Spend",
    "TwoSidedGeometric",
    "coverage",
    "disjoint",
    "epsilon",
    "law",
    "margin_of_error",
    "measure",
    "pure_to_rho",
    "query_budgets",
    "rho",
    "spend",
    "stability",
    "suppression_threshold",
]
