"""The mathematics of privacy: the noise of a release, what it spends, and the ledger of what has been spent.

The names below are those that a program outside this repository needs; docs/api.md shows each at work. Budgets are
exact (`Fraction`), counts and margins are whole persons.
"""

from privacy.accounting.composition import Spend, disjoint, query_budgets, spend
from privacy.accounting.conversions import epsilon, pure_to_rho, rho
from privacy.accounting.ledger import Account, Ledger, LedgerError, Request, Row
from privacy.accounting.stability import IterationCounts, stability
from privacy.noise.laws import Definition, DiscreteGaussian, Law, TwoSidedGeometric, law
from privacy.noise.margins import coverage, margin_of_error, suppression_threshold
from privacy.noise.measure import Measured, measure
from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import RunSecret
from privacy.noise.sampler import Sampler

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
