"""H1: the closed form against brute force and the general projection, and the descent of units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from top_down_cases import LEVELS, everything, measuring, plan_of, same, small_state

from spine.allocations_pl94 import allocation
from spine.top_down import (
    UNITS,
    OwnAnswers,
    TrueHistograms,
    estimate_below,
    estimate_children,
    estimate_roots,
    joined,
    summed,
)
from spine.top_down.histogram import from_entries
from spine.top_down.units import divided, whole


def units_of(seed: int, parts: int = 1):  # type: ignore[no-untyped-def]
    """A plan of units and their true histograms: 91 percent of housing units occupied."""
    state, rng = small_state(seed, parts), np.random.default_rng(seed)
    alloc = allocation("pl94-units", "us")
    spine = state.spine.with_shares({level: alloc.levels[level] for level in LEVELS})
    occupied = rng.binomial(state.quarters[:, 0], 0.91)
    count = np.column_stack([state.quarters[:, 0] - occupied, occupied]).ravel()
    row, cell = np.repeat(np.arange(spine.blocks), 2), np.tile([0, 1], spine.blocks)
    truth = from_entries(TrueHistograms, 4, 0, row, cell, count, spine.blocks)
    return plan_of(replace(state, spine=spine), alloc, UNITS), truth


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=100)
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
    result = np.zeros(n, np.int64)
    whole(total, hu, nearest, result)
    assert result.sum() == total
    assert (result >= 0).all()
    assert (result <= hu).all()
    assert (np.abs(result - nearest) < 1 + 1e-8).all()


def test_ties_go_up_in_spine_order() -> None:
    result = np.zeros(4, np.int64)
    whole(2, np.full(4, 3), np.full(4, 0.5), result)
    assert result.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("parts", [1, 2])
def test_units_of_a_state(parts: int) -> None:
    plan, truth = units_of(parts, parts)
    exact, _ = everything(plan, measuring(plan, truth, None))
    np.testing.assert_array_equal(exact[-1].dense(2), truth.dense(2))
    measure = measuring(plan, truth, 3)
    found, solves = everything(plan, measure)
    assert solves == []
    for level, estimates in enumerate(found):
        np.testing.assert_array_equal(estimates.totals(), plan.invariants.housing_units(level))
        np.testing.assert_array_equal(estimates.dense(2), summed(found[-1], plan.spine)[level].dense(2))
    assert not np.array_equal(found[-1].dense(2), truth.dense(2))
    assert same(found, everything(replace(plan, rows=7), measure)[0])
    answers = OwnAnswers(plan, measure)
    counties, _ = estimate_children(plan, estimate_roots(plan, answers)[0], answers)
    parts_ = [estimate_below(plan, counties.only(c), answers)[0] for c in range(len(counties))]
    assert same(found[2:], [joined(list(levels)) for levels in zip(*parts_, strict=True)])
