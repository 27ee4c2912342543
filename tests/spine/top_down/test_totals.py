"""Pass 0: the children's totals against a general quadratic program, for any types that children allow."""

from __future__ import annotations

import numpy as np
import piqp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spine.top_down.bounds import NO_LIMIT
from spine.top_down.totals import totals, totals_in_groups
from spine.top_down.units import whole


def problem(seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    kinds, children = rng.integers(1, 6), rng.integers(2, 8)
    allowed = rng.random((kinds, children)) < 0.6
    allowed[np.arange(kinds), rng.integers(0, children, kinds)] = True
    least = np.where(allowed & (rng.random((kinds, children)) < 0.3), rng.integers(0, 3, (kinds, children)), 0)
    counts = 1 + least.sum(axis=1) + rng.integers(0, 12, kinds) * (rng.random(kinds) < 0.8)
    y = rng.normal(counts.sum() / children, 6, children)
    return y, rng.uniform(0.5, 3, children), allowed, least.astype(float), counts.astype(float)


def general(y, s, allowed, least, counts, group=None, group_totals=None):  # type: ignore[no-untyped-def]
    """The same by PIQP, on children x types."""
    kinds, children = allowed.shape
    to_child = np.kron(np.ones((1, kinds)), np.eye(children))
    equal, right = np.kron(np.eye(kinds), np.ones((1, children))), counts
    if group is not None:
        rows = np.arange(len(group_totals))[:, None] == group
        equal, right = np.vstack([equal, rows @ to_child]), np.concatenate([right, group_totals])
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-10
    high = np.where(allowed, 1e5, 0.0).ravel()
    solver.setup(to_child.T * s @ to_child, -to_child.T @ (s * y), equal, right, None, None, None, least.ravel(), high)
    assert solver.solve() == piqp.PIQP_SOLVED
    return to_child @ np.array(solver.result.x)


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=40)
def test_totals_are_the_quadratic_program_s(seed: int) -> None:
    given_ = problem(seed)
    solved = totals(*given_)
    assert solved.sum() == pytest.approx(given_[4].sum(), abs=1e-9)
    other = general(*given_)
    np.testing.assert_allclose(solved, other, atol=1e-2)  # the general solver's cells are good to 1e-3
    y, s = given_[:2]
    assert (s * (solved - y) ** 2).sum() <= (s * (other - y) ** 2).sum() + 1e-5


def test_a_child_with_prisons_alone_has_the_prisoners() -> None:
    allowed = np.array([[True, True, False], [False, False, True]])
    solved = totals(np.array([5.0, 5.0, 90.0]), np.ones(3), allowed, np.zeros((2, 3)), np.array([20.0, 7.0]))
    np.testing.assert_allclose(solved, [10, 10, 7])


def test_rounding_errors_split_no_set() -> None:
    """Large totals of equal children: what 64 bits leave of their sum is no violated set (this once never ended)."""
    rng = np.random.default_rng(0)
    counts = np.array([1_034_567.0, 12_345.0])
    y = rng.normal(counts.sum() / 7, 1e4, 7)
    solved = totals(y, rng.uniform(0.1, 1, 7), np.ones((2, 7), bool), np.zeros((2, 7)), counts)
    assert solved.sum() == pytest.approx(counts.sum(), rel=1e-14)


@pytest.mark.parametrize("seed", range(20))
def test_totals_of_states_are_declared(seed: int) -> None:
    """Parts of states under the nation: declared sums, one part of some states without people."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(5), rng.integers(1, 3, 5))
    allowed = np.vstack([rng.random(len(group)) < 0.8, rng.random((2, len(group))) < 0.5])
    allowed[0, np.unique(group, return_index=True)[1]] = True
    truth = np.where(allowed, rng.integers(0, 50, allowed.shape), 0)
    counts, declared = truth.sum(axis=1).astype(float), np.bincount(group, truth.sum(axis=0)).astype(np.int64)
    y, s = truth.sum(axis=0) + rng.normal(0, 8, len(group)), rng.uniform(0.5, 2, len(group))
    solved = totals_in_groups(y, s, allowed, np.zeros(allowed.shape), counts, group, declared)
    np.testing.assert_allclose(np.bincount(group, solved), declared, atol=1e-8)
    reference = general(y, s, allowed, np.zeros(allowed.shape), counts, group, declared.astype(float))
    np.testing.assert_allclose(solved, reference, atol=1e-2)


@given(st.lists(st.floats(0, 50), min_size=1, max_size=6))
def test_integers_sum_to_the_total(values: list[float]) -> None:
    target = np.array(values)
    total = round(target.sum())
    target *= total / target.sum() if target.sum() else 0.0
    integers = whole(total, np.full(len(target), NO_LIMIT), target)
    assert integers.sum() == total
    assert (np.abs(integers - target) < 1 + 1e-6).all()
