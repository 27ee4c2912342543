"""The counts whose errors are predicted: sums over race, Hispanic origin and voting age.

All of them are sums of strata: seven races (six alone, and two or more) x Hispanic origin x voting age. A count by kind
of living quarters is not predicted, nor is a single cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from privacy.tables.histogram import mask, matrix
from spine.geography import BoolArray, IntArray
from spine.redistricting import PERSONS, TARGET_GROUPS
from spine.top_down.histogram import Histograms

QUANTITIES = ("total", "race", "voting age by race")
RACES = tuple(count for count in PERSONS.counts if count.quantity == "race")
STRATA = 2 * len(RACES)  # Hispanic origin x race; each has two ages
AGE: IntArray = PERSONS.coordinates["votingage"]
GROUP: IntArray = PERSONS.partition("hispanic*cenrace")[0]  # (cells,) the query's coordinate of each cell
GROUPS = PERSONS.width("hispanic*cenrace")


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
