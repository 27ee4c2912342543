"""The counts whose errors are predicted, and the precision that a budget buys of the answers that shape the errors.

The counts are sums over race, Hispanic origin and voting age: of strata, seven races (six alone, and two or more) x
Hispanic origin x voting age. A count by kind of living quarters is not predicted, nor is a single cell. The precision,
1 / variance, is that of three kinds of answers of a level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np

from privacy.tables.histogram import mask, matrix
from spine.allocations import Allocation
from spine.geography import BoolArray, FloatArray, IntArray
from spine.redistricting import PERSONS, TARGET_GROUPS
from spine.settings import Definition
from spine.top_down.histogram import Histograms
from spine.top_down.queries import DETAILED, TOTAL

QUANTITIES = ("total", "race", "voting age by race")
RACES = tuple(count for count in PERSONS.counts if count.quantity == "race")
STRATA = 2 * len(RACES)  # Hispanic origin x race; each has two ages

AGE: IntArray = PERSONS.coordinates["votingage"]
GROUP: IntArray = PERSONS.partition("hispanic*cenrace")[0]  # (cells,) the query's coordinate of each cell
GROUPS = PERSONS.width("hispanic*cenrace")

Weights: TypeAlias = Mapping[str, Mapping[str, float]]  # by level, then query, the part of the budget: rho or epsilon

KINDS: dict[str, dict[str, float]] = {  # by kind: the queries that answer it, and how much an answer counts
    "total": {TOTAL: 1.0},
    "group": {"hispanic*cenrace": 1.0, "cenrace": 0.5},
    "cell": {DETAILED: 1.0, "votingage*hispanic*cenrace": 1.0, "votingage*cenrace": 0.5},
}


@cache
def strata_of_groups() -> IntArray:
    """Return the (groups,) stratum, of Hispanic origin and race, of each coordinate of hispanic*cenrace."""
    race = np.zeros(len(PERSONS.axis("cenrace")), np.int64)
    for number, count in enumerate(RACES):
        race[sorted(count.where["cenrace"])] = number
    return (np.arange(2)[:, None] * len(RACES) + race).ravel()


@dataclass(frozen=True)
class Predicted:
    """The predicted counts.

    quantities: each count's, as in `PERSONS.counts`. member: (counts, strata, ages) whether it sums a stratum.
    largest: the columns of the groups among which the redistricting target takes the largest: Hispanic, and the others
        by race. Only the deviation of these from their part of the total is predicted.
    """

    quantities: tuple[str, ...]
    member: BoolArray
    largest: IntArray


@cache
def predicted() -> Predicted:
    """Return the counts of the redistricting data that are predicted, and the groups of its target."""
    chosen = [count for count in PERSONS.counts if count.quantity in QUANTITIES]
    conditions = [count.where for count in chosen]
    stratum, member = strata_of_groups()[GROUP], []
    for where in (*conditions, *TARGET_GROUPS):
        rows = np.zeros((STRATA, 2), bool)
        counted = mask(PERSONS.axes, where)
        rows[stratum[counted], AGE[counted]] = True
        member.append(rows)
    quantities = (*(count.quantity for count in chosen), *("target" for _ in TARGET_GROUPS))
    return Predicted(quantities, np.array(member), np.arange(len(conditions), len(member)))


def group_counts(histograms: Histograms) -> IntArray:
    """Return the (geounits, groups) persons of each group of the redistricting target."""
    return histograms.sums(matrix(PERSONS.axes, TARGET_GROUPS))


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
