"""A thousand runs with the production laws: how often intervals of ratios and of least squares cover.

False alarms: every assertion allows 4.5 standard errors, 3.4 in a million on one side.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from privacy.estimation.densities import lattice
from privacy.estimation.linked_tables import estimate
from privacy.estimation.ratio_sets import NoisyRatio
from privacy.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric
from privacy.noise.margins import Z95
from tests.privacy.estimation.test_linked_tables import PERSONS, RACES, measured, truths

pytestmark = pytest.mark.long
RUNS = 1000
ALLOWED = 4.5
RNG = np.random.default_rng(1000)
LAWS = (DiscreteGaussian(Fraction("1708.774")), TwoSidedGeometric(Fraction(29)))  # of a race in a state; as wide


@pytest.mark.parametrize("law", LAWS, ids=["zcdp", "puredp"])
@pytest.mark.parametrize("units", [0, 5, 40, 10_000])
def test_sets_of_ratios(law: Law, units: int) -> None:
    """Two cells over one, at 95%; without units every ratio counts as true, and 2.5 stands for them."""
    above, below = lattice(law, 2), lattice(law)
    numerators = RNG.choice(above.values, RUNS, p=above.chances / above.chances.sum()) + int(2.5 * units)
    denominators = RNG.choice(below.values, RUNS, p=below.chances / below.chances.sum()) + units
    true, held = Fraction(int(2.5 * units), units) if units else Fraction(5, 2), 0
    for n, d in zip(numerators.tolist(), denominators.tolist(), strict=True):
        found = NoisyRatio(n, d, above, below, 0, 10).interval(Fraction(1, 20))
        held += found.low <= true <= found.high
    print(f"{law.name}, {units} units: {held / RUNS:.3f}")
    assert held / RUNS >= 0.95 - ALLOWED * sqrt(0.95 * 0.05 / RUNS)


def test_intervals_of_least_squares() -> None:
    """1.96 standard deviations of linked tables, by type of region and level; runs are independent, cells are not."""
    truth = truths()
    held: dict[str, list[float]] = {}
    for _ in range(RUNS):
        found = estimate({name: measured(each, PERSONS, by_code=name != "PH2") for name, each in truth.items()}, RACES)
        for name in ("PH1", "PH7"):
            for region, codes in ((0, 0), (0, 1), (1, 0), (1, 1)):
                key = f"{('state', 'nation')[region]} {('codes', 'all')[codes]}"
                summed = tuple(axis for axis, by in ((0, region), (1, codes)) if by)
                error = found[name].counts.sum(axis=summed) - truth[name].sum(axis=summed)
                cells = range(error.shape[-1])
                rounding = (51 if region else 1) * (RACES if codes else 1) / 12
                margins = [Z95 * sqrt(found[name].covariances[key][cell, cell] + rounding) for cell in cells]
                held.setdefault(f"{name} {key}", []).append(float((np.abs(error) <= margins).mean()))
    for key, shares in held.items():
        mean, error = float(np.mean(shares)), float(np.std(shares)) / sqrt(RUNS)
        print(f"{key}: {mean:.4f}")
        assert abs(mean - 0.95) <= ALLOWED * error + 0.002, key
