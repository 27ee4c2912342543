"""(epsilon, delta) of SafeTab by privacy-loss distributions, with Google's `dp-accounting`.

A record is in at most s groups of each level and changes each of their counts by one, so the release is the (adaptive)
composition, over levels, of s times one query with the whole budget of a group (TotalOnly), or of s times the two
queries of steps 1 and 2. A replaced record is one removed and one added: twice as many.

The geometric law moved by one has the privacy loss of randomized response, which dominates every epsilon-DP mechanism
(Kairouz, Oh, Viswanath 2015), so all groups TotalOnly is the worst case of any mixture. No such theorem is known for
the discrete Gaussian, where the two readings differ in the fifth digit.

Losses are put on a grid by "connect the dots" (Doroshenko et al. 2022), pessimistically: epsilon comes out too high, by
about 1e-5 of it, never too low. The floating point of the convolutions errs by 1e-15 or so in delta; 1e-14 is set
aside for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from math import inf, sqrt
from typing import Any

from privacy.accounting.composition import LevelBudget
from privacy.noise.laws import Definition

LEAST_DELTA = 1e-12  # below it the mass that dp-accounting cuts off counts
SET_ASIDE = 1e-14
LARGEST_EPSILON = 300  # of unbounded neighbours; exp(loss) has to be a float, with room for two neighbours


def pld_epsilon(
    definition: Definition,
    levels: Iterable[LevelBudget],
    gamma: Fraction,
    delta: float,
    *,
    total_only: bool,
    bounded: bool,
    interval: float,
) -> float:
    """Return an upper bound on epsilon at `delta` >= 1e-12, every group being TotalOnly or none.

    `interval` is the width of the grid of privacy losses: 1/20 000 of the epsilon expected gives the accuracy above.
    """
    if delta < LEAST_DELTA:
        raise ValueError(
            f"privacy-loss distributions are computed in floating point: delta is at least {LEAST_DELTA:g}"
        )
    queries: Counter[float] = Counter()
    for level in levels:
        for share in (1.0,) if total_only else (float(gamma), float(1 - gamma)):
            queries[level.of_a_group * share] += level.stability * (2 if bounded else 1)
    parts = [_distribution(definition, budget, interval).self_compose(times) for budget, times in queries.items()]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    epsilon = float(whole.get_epsilon_for_delta(delta - SET_ASIDE))
    if epsilon == inf:
        raise ArithmeticError("the privacy-loss distribution has more mass beyond its grid than delta")
    return epsilon


def _distribution(definition: Definition, budget: float, interval: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld  # half a second, for those who need it

    options = {"sensitivity": 1, "value_discretization_interval": interval, "use_connect_dots": True}
    if definition == "puredp":
        return pld.from_discrete_laplace_mechanism(budget, **options)
    return pld.from_discrete_gaussian_mechanism(sqrt(1 / (2 * budget)), **options)
