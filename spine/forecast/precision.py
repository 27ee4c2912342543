"""The precision that a budget buys, 1 / variance, of the three kinds of answers that shape a level's errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from spine.allocations import Allocation
from spine.geography import FloatArray
from spine.settings import Definition
from spine.top_down.queries import DETAILED, TOTAL

Weights: TypeAlias = Mapping[str, Mapping[str, float]]  # by level, then query, the part of the budget: rho or epsilon

KINDS: dict[str, dict[str, float]] = {  # by kind: the queries that answer it, and how much an answer counts
    "total": {TOTAL: 1.0},
    "group": {"hispanic*cenrace": 1.0, "cenrace": 0.5},
    "cell": {DETAILED: 1.0, "votingage*hispanic*cenrace": 1.0, "votingage*cenrace": 0.5},
}


def weights_of(allocation: Allocation) -> Weights:
    """Return the part of the budget that each query of each level has."""
    budget = float(allocation.budget)
    return {
        level: {query: budget * float(share * alpha) for query, alpha in allocation.queries[level].items()}
        for level, share in allocation.levels.items()
    }


class Precision(NamedTuple):
    """(geounits,) precisions of the answers about totals, sums by Hispanic origin and race, and cells."""

    total: FloatArray
    group: FloatArray
    cell: FloatArray


def precision(asked: Mapping[str, float], budgets: FloatArray, definition: Definition) -> Precision:
    """Return the precision of the answers of geounits with these budgets, (geounits,).

    asked: the part of the level's budget that each query has. The precision of an answer is its rho under zCDP (the
    variance 1 / rho of `spine.noise.parameter`), and epsilon^2 / 8 under pure DP (2 b^2 of the scale b = 2 / epsilon).
    """
    whole = sum(asked.values())

    def answer(query: str) -> FloatArray:
        bought = budgets * (asked.get(query, 0.0) / whole)
        return bought if definition == "zcdp" else bought**2 / 8

    return Precision(
        *(np.sum([part * answer(query) for query, part in kind.items()], axis=0) for kind in KINDS.values())
    )
