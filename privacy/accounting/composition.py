"""Stability and composition: what a run of SafeTab-P spends (SafeTab-P paper, section 4).

Every number is an exact integer or Fraction; no float touches a budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from privacy.noise.laws import Definition


@dataclass(frozen=True)
class IterationCounts:
    """What the public parameter files say of one population group level, for the stability of its map g_i.

    Attributes
    ----------
    alone, combination, ethnicity : int
        The most iterations of that kind that one code maps to.
    alone_reach : int
        The most in-combination iterations that the codes of one alone iteration map to together.
    all_combination : int
        The number of in-combination iterations that some code maps to.
    """

    alone: int
    combination: int
    ethnicity: int
    alone_reach: int
    all_combination: int


def stability(counts: IterationCounts, max_race_codes: int) -> int:
    """Return s, an upper bound on the population groups of a level that one record can be in.

    Proof: docs/privacy.md#proof, 4.

    Two codes of one alone iteration or `max_race_codes` codes of different ones reach the most; an ethnicity adds its
    own. It comes from public files alone, never from what the observed records map to.

    Raises
    ------
    ValueError
        where a possible record reaches more groups than the formula allows for, or none reaches any.
    """
    most = max(counts.alone, counts.combination) * max(2, max_race_codes) + counts.ethnicity
    if most == 0:
        raise ValueError("no code maps to an iteration of this level: its budget must be 0")
    if (reach := record_reach(counts, max_race_codes)) > most:
        raise ValueError(f"a possible record is in {reach} population groups, the stability formula allows for {most}")
    return most


def record_reach(counts: IterationCounts, max_race_codes: int) -> int:
    """Return the most population groups of a level that a possible record can be in.

    A record whose codes share an alone iteration A is in A and in the in-combination iterations of its codes; one
    whose codes share none is in the in-combination iterations only.
    """
    within = counts.alone + min(max_race_codes * counts.combination, counts.alone_reach) if counts.alone else 0
    across = min(max_race_codes * counts.combination, counts.all_combination)
    return max(within, across) + counts.ethnicity


@dataclass(frozen=True)
class QueryBudgets:
    """How the budget of a population group level is split over the queries of one group (Algorithm 2)."""

    total_only: Fraction
    stage_1: Fraction
    stage_2: Fraction


def query_budgets(budget: Fraction, gamma: Fraction) -> QueryBudgets:
    """Split a level's budget: all of it for a TotalOnly group, else gamma in step 1 and the rest in step 2."""
    return QueryBudgets(budget, gamma * budget, (1 - gamma) * budget)


@dataclass(frozen=True)
class Spend:
    """What a run spends, as rho or epsilon: by Theorem 1 for unbounded, by Theorem 2 for bounded neighbours."""

    definition: Definition
    unbounded: Fraction
    bounded: Fraction


def spend(definition: Definition, level_budgets: Iterable[Fraction]) -> Spend:
    """Compose the population group levels of one region: their sum, and twice that for a replaced record."""
    total = sum(level_budgets, Fraction(0))
    return Spend(definition, total, 2 * total)


def disjoint(spends: Iterable[Spend]) -> Spend:
    """Compose runs over disjoint regions (US and Puerto Rico; a person is in one of them).

    Adding or removing a person touches one region: the largest. Replacing one can move it from one region to another,
    which costs the unbounded spends of the two, at most twice the largest.
    """
    spends = list(spends)
    largest = max(spends, key=lambda one: one.unbounded)
    return Spend(largest.definition, largest.unbounded, 2 * largest.unbounded)
