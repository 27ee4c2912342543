"""The rounding of wide tables: distances to the fractions themselves are least, and carried sums lose less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numba import typeof
from scipy.optimize import Bounds, LinearConstraint, milp
from wide import tree

from spine.geography import FloatArray, IntArray
from spine.top_down.rounding import compile_rounding, rounded
from spine.wide import least_squares, rounding
from spine.wide.rounding import in_two_steps, round_all
from spine.wide.transport import Problems
from spine.wide.undecided import open_entries

Case = tuple[Problems, FloatArray, IntArray, IntArray, bool, FloatArray]  # as `round_all` is called


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """The rounding of the root's first pass, then of its second, and so on down a tree."""
    found: list[Any] = []

    def recording(*given: Any) -> tuple[IntArray, IntArray]:
        found.append((*given[:-1], given[-1].copy()))
        return round_all(*given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(least_squares.rounding, "round_all", recording)
        made = tree(persons=1_500)
        made.estimate(made.noisy(8.0))
    return found


def sums(of: IntArray, x: FloatArray | IntArray) -> FloatArray:
    return np.bincount(of, x)


def test_carried_sums_lose_less(cases: list[Case]) -> None:
    problems, x, nested, up, _, lost = cases[0]
    off = {}
    for carried in (False, True):
        whole, missing = round_all(problems, x, nested, up, carried, lost.copy())
        assert not missing.any()
        off[carried] = sum(np.abs(sums(up[:, k] + 1, whole - x)[1:]).mean() for k in range(3))  # the dense queries
    assert off[True] < 0.6 * off[False]


def test_a_problem_has_the_type_of_a_parent_of_blocks(cases: list[Case]) -> None:
    """The kernels of the rounding are compiled once, for both."""
    problems, _, nested, *_ = cases[0]
    compile_rounding()
    assert typeof(rounding.problem(problems, 0, nested)) in {of[1] for of in rounded.signatures}  # type: ignore[attr-defined]


def test_in_two_steps_the_finest_sums_are_next_to_their_fractions() -> None:
    found: list[tuple[Any, IntArray | None]] = []

    def recording(*given: Any) -> IntArray | None:
        found.append((given, in_two_steps(*given)))
        return found[-1][1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(least_squares, "in_two_steps", recording)
        made = tree(persons=1_500)
        made.estimate(made.noisy(8.0), "stepwise")
    off = []
    for (left, x, objective, nested), whole in found:
        if whole is not None:
            assert least_squares.meets(left.problems, whole)
            entry, row, child = open_entries(left.problems, 0, len(objective.scale))
            group = np.searchsorted(left.problems.first_row, row, side="right") - 1
            of = np.unique(np.stack([group, nested[-1][row], child]), axis=1, return_inverse=True)[1].ravel()
            off.append(np.abs(np.bincount(of, (whole - x)[entry])).max())
    assert len(off) > 0.8 * len(found) > 2
    assert max(off) < 1, "of each sum, up or down to the next whole number"


def test_the_distance_to_the_fractions_is_the_least(cases: list[Case]) -> None:
    for problems, x, nested, up, _, lost in [each for each in cases[2:] if len(each[2])][:2]:
        whole, _ = round_all(problems, x, nested, np.zeros((len(up), 0), np.int64), True, lost)
        for g in range(len(problems.first) - 1):
            parent, at = rounding.problem(problems, g, nested), slice(problems.first[g], problems.first[g + 1])
            own, found = x[at].reshape(parent.allowed.shape), whole[at].reshape(parent.allowed.shape)
            below = np.floor(own) * parent.allowed
            n, children = own.shape
            each, cells = sp.eye_array(children), sp.csr_array(np.ones((1, n)))
            chain = sp.vstack([sp.csr_array((np.ones(n), (k, np.arange(n)))) for k in parent.nested])
            q = sp.csr_array(sp.kron(chain, each))
            fraction = (own - below).ravel()
            known = sp.vstack([sp.kron(sp.eye_array(n), np.ones((1, children))), sp.kron(cells, each)])
            right = np.append(parent.counts, parent.state_totals) - known @ below.ravel()
            m = q.shape[0]
            rows = [
                LinearConstraint(sp.hstack([known, sp.csr_array((known.shape[0], m))]), right, right),
                LinearConstraint(sp.hstack([q, -sp.eye_array(m)]), -np.inf, q @ fraction),
                LinearConstraint(sp.hstack([q, sp.eye_array(m)]), q @ fraction, np.inf),
            ]
            cost = np.append(1 - 2 * fraction, np.ones(m))
            most = np.append(parent.allowed.ravel(), [np.inf] * m)
            best = milp(cost, integrality=np.isfinite(most), bounds=Bounds(0, most), constraints=rows)
            b = (found - below).ravel()
            ours = (1 - 2 * fraction) @ b + np.abs(q @ (b - fraction)).sum()
            assert ours == pytest.approx(best.fun, abs=0.02)
