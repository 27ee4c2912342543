"""SafeTEx: margins of error, population sizes, suppression and privacy loss by the parameters of SafeTab-P.

Source: SafeTab-P, sections 6.1 to 6.3; 5.3.2: a total n + X is published iff it exceeds the threshold T (eq. 12,
`privacy.noise.margins`). Everything follows from public parameters; no count of persons enters.
In arguments, `cells` is {name of a table (`total`, `age9`): number of its cells, each of which is measured}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, expm1, sqrt

import numpy as np

from privacy.accounting.composition import LevelBudget, query_budgets, spend
from privacy.accounting.conversions import epsilon
from privacy.accounting.stability import IterationCounts, stability
from privacy.estimation.estimator import make_estimator
from privacy.estimation.pooling import AnswerLaws
from privacy.noise.laws import Definition, DiscreteGaussian, Law, law
from privacy.noise.margins import margin_of_error

LARGEST_MULTIPLICITY = 8


def multiplicity_stability(race_codes: int) -> int:
    """Return the stability of every level if each code maps to one iteration of a kind: max(2, r) + 1.

    With one race code a person is in its alone and its in-combination iteration, so the least is 3 (the paper's r + 1
    holds from r = 2 on).
    """
    if not 1 <= race_codes <= LARGEST_MULTIPLICITY:
        raise ValueError(
            f"the race multiplicity must be a whole number from 1 to {LARGEST_MULTIPLICITY}, not {race_codes}"
        )
    one_each = IterationCounts(alone=1, combination=1, ethnicity=1, alone_reach=1, all_combination=LARGEST_MULTIPLICITY)
    return stability(one_each, race_codes)


def level_laws(definition: Definition, level: LevelBudget, gamma: Fraction) -> dict[str, Law]:
    """Return the noise of a level's queries by name (Algorithm 2): `total_only`, `stage_1` and `stage_2`."""
    queries = query_budgets(level.budget, gamma)
    return {query: law(definition, budget, level.stability) for query, budget in queries.items()}


@dataclass(frozen=True)
class LevelMargins:
    """Exact margins of error at 95%, in counts.

    total_only: for a TotalOnly group's total. stage_1: for the total of step 1, which decides the detail and is not
        published. cell: for one count of step 2, which is a total published alone or a sex-by-age cell at any detail.
        totals: for the published total (T1) of each table, the sum of its cells.
    """

    total_only: int
    stage_1: int
    cell: int
    totals: Mapping[str, int]


def margins(laws: Mapping[str, Law], cells: Mapping[str, int]) -> LevelMargins:
    """Return the margins of error of a level."""
    total_only, stage_1, cell = (margin_of_error(laws[query]) for query in ("total_only", "stage_1", "stage_2"))
    totals = {name: margin_of_error(laws["stage_2"], number) for name, number in cells.items()}
    return LevelMargins(total_only, stage_1, cell, totals)


def estimate_margins(laws: Mapping[str, Law], cells: Mapping[str, int]) -> dict[str, int]:
    """Return the margins of estimated totals (T1) by table, far from any threshold, pooled with full weight."""
    answers = {name: AnswerLaws(laws["stage_1"], laws["stage_2"], number) for name, number in cells.items()}
    return {name: make_estimator(answered, None, None).margin for name, answered in answers.items()}


def sizes_for_relative_error(margin: int, target: Fraction, cells: Mapping[str, int]) -> dict[str, int]:
    """Return the population from which each table has a margin of at most `target` of its counts.

    A table of c cells is judged at its average cell, n / c persons: n >= c margin / target. The group's total is then
    within the target too, since its margin grows as sqrt(c).
    """
    return {name: ceil(number * margin / target) for name, number in cells.items()}


def sizes_for_margin(margin: int, target: int, cells: Mapping[str, int]) -> dict[str, int | None]:
    """Return the population from which each table's counts have a margin of at most `target` counts.

    It is 0 if any population will do and None if none will: all counts of step 2 have the same noise, whatever the
    detail and size.
    """
    return dict.fromkeys(cells, 0 if margin <= target else None)


def loss(definition: Definition, budgets: Sequence[Fraction], delta: Fraction) -> tuple[Fraction, float]:
    """Return the sum of budgets, and its epsilon at delta (under pure DP the sum itself, at delta 0)."""
    total = spend(definition, budgets).charged
    return total, epsilon(total, delta) if definition == "zcdp" else float(total)


def suppression_probability(noise: Law, threshold: int, size: int) -> float:
    """Return P(n + X <= T) for a group of true size n (Figure 1); exact, to the digits of a float."""
    return float(noise.cdf(threshold - size))


def published_bias(noise: Law, threshold: int, size: int) -> float:
    """Return E[X | n + X > T] in counts (Figure 2) by the exact discrete law, with a relative error of 1e-12.

    Terms of X beyond T - n that cancel in pairs are omitted, so only positive numbers are added.
    """
    beyond = threshold - size
    from_here = max(beyond, -beyond - 1)
    mean = _mean_beyond(noise, from_here)
    if beyond >= 0:
        return mean
    return mean * float(noise.cdf(-from_here - 1)) / float(noise.cdf(-beyond - 1))


def _mean_beyond(noise: Law, k: int) -> float:
    """Return E[X | X > k], k >= 0."""
    if isinstance(noise, DiscreteGaussian):
        variance = float(noise.sigma_squared)
        steps = np.arange(int(9 * sqrt(variance)) + 2)  # terms below exp(-81/2) of the first are omitted
        weights = np.exp(-steps * (steps + 2 * (k + 1)) / (2 * variance))
        return float(k + 1 + (steps * weights).sum() / weights.sum())
    rate = 1 / float(noise.scale)
    return k + 1 - exp(-rate) / expm1(-rate)
