"""What a run spends and what has been charged: stability, composition, conversions, the ledger.

The function `stability` is imported from its module, privacy.accounting.stability, or from `privacy`: here the name is
the module's.
"""

from privacy.accounting.composition import LevelBudget, Spend, disjoint, query_budgets, spend
from privacy.accounting.conversions import epsilon, pure_to_rho, rho
from privacy.accounting.ledger import Account, Ledger, LedgerError, Request, Row
from privacy.accounting.stability import IterationCounts

__all__ = [
    "Account",
    "IterationCounts",
    "Ledger",
    "LedgerError",
    "LevelBudget",
    "Request",
    "Row",
    "Spend",
    "disjoint",
    "epsilon",
    "pure_to_rho",
    "query_budgets",
    "rho",
    "spend",
]
