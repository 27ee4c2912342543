"""H1: the closed form against brute force and the general projection, and the descent of units."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from top_down_cases import everything, measuring, same, small_state, units_of

from spine.top_down import summed
from spine.top_down.units import divided, whole


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=30)
def test_one_parent_is_the_nearest_point(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    hu = rng.integers(0, 20, n)
    total = int(rng.integers(0, hu.sum() + 1))
    target, weight = rng.normal(8, 8, n), rng.uniform(0.3, 2, n)
    nearest = divided(total, hu, target, weight)
    assert nearest.sum() == pytest.approx(total, abs=1e-9)
    assert (nearest >= 0).all()
    assert (nearest <= hu).all()
    other = minimize(
        lambda o: (weight * (o - target) ** 2).sum(), nearest, jac=lambda o: 2 * weight * (o - target),
        bounds=list(zip(np.zeros(n), hu, strict=True)), method="SLSQP",
        constraints={"type": "eq", "fun": lambda o: o.sum() - total},
    )  # fmt: skip
    assert (weight * (nearest - target) ** 2).sum() <= other.fun + 1e-7
    result = whole(total, hu, nearest)
    assert result.sum() == total
    assert (result >= 0).all()
    assert (result <= hu).all()
    assert (np.abs(result - nearest) < 1 + 1e-8).all()


def test_ties_go_up_in_spine_order() -> None:
    assert whole(2, np.full(4, 3), np.full(4, 0.5)).tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("parts", [1, 2])
def test_units_of_a_state(parts: int) -> None:
    plan, truth = units_of(small_state(parts, parts))
    exact, _ = everything(plan, measuring(plan, truth, None))
    assert same(exact[-1:], [truth])
    found, solves = everything(plan, measuring(plan, truth, 3))
    assert solves == []
    for level, estimates in enumerate(found):
        np.testing.assert_array_equal(estimates.totals(), plan.bounds.number(level))
        np.testing.assert_array_equal(estimates.dense(2), summed(found[-1], plan.spine)[level].dense(2))
    assert not np.array_equal(found[-1].dense(2), truth.dense(2))
