"""The transportation projection against its optimality conditions, at vertices as elsewhere, and its derivative."""

from __future__ import annotations

import numpy as np
import pytest

from spine.geography import FloatArray
from spine.wide.transport import DENSE, Point, Problems, face_of, onto_face, project, start

SHAPES = {"small": (2_000, 8, 6), "large": (60, 60, 30), "many columns": (4, 40, DENSE + 30)}


def problem(
    random: np.random.Generator, rows: int, columns: int, sd: float, large: float
) -> tuple[Problems, FloatArray]:
    """A feasible problem of counts around `large` or of 1, with some entries closed, and a point to project."""
    open_ = random.random((rows, columns)) < 0.9
    whole = random.poisson(large * random.random((rows, columns)) ** 4) * open_
    whole, open_ = whole[:, whole.any(axis=0)], open_[:, whole.any(axis=0)]
    whole, open_ = whole[whole.any(axis=1)], open_[whole.any(axis=1)]
    a = open_ / np.outer(random.uniform(1, 10, len(whole)), random.uniform(0.2, 1, whole.shape[1]))
    v = np.where(open_, random.normal(whole, sd), 0.0)
    sums = whole.sum(axis=1).astype(float), whole.sum(axis=0).astype(float)
    first = (np.array([0, each]) for each in (*whole.shape, whole.size))
    return Problems(*first, np.arange(whole.shape[1]), *sums, a.ravel()), v.ravel()  # type: ignore[call-arg]


def solved(own: Problems, v: FloatArray) -> Point:
    """The projection; both sums met, and every entry what its multipliers make it, which only the nearest point has."""
    point = start(own)
    assert project(own, v, 1e-9, point) == 0.0
    shape = len(own.rows), len(own.columns)
    x, a = point.x.reshape(shape), own.a.reshape(shape)
    made = np.maximum(0.0, v.reshape(shape) + (point.rows[:, None] - point.columns) * a)
    assert np.abs(x.sum(axis=0) - own.columns).max() < 2e-9 + 1e-12 * own.columns.max()
    assert np.abs(x.sum(axis=1) - own.rows).max() < 2e-9 + 1e-12 * own.rows.max()
    assert np.abs(x - made).max() < 1e-7
    return point


@pytest.mark.parametrize("kind", SHAPES)
def test_a_projection_meets_both_sums_at_vertices_too(kind: str) -> None:
    random = np.random.default_rng(7)
    number, rows, columns = SHAPES[kind]
    for at in range(number):
        n, m = int(random.integers(2, rows + 1)), int(random.integers(2, columns + 1)) if columns <= DENSE else columns
        own, v = problem(random, n, m, *[(30.0, 1.5), (5.0, 3.0), (2.0, 400.0)][at % 3])
        if own.a.size:
            solved(own, v)


def test_a_step_that_lowers_the_dual_is_shortened() -> None:
    """Here steps along a direction in which M is 0 halve the miss, and would lead ever farther away, to 10^11."""
    v = np.array([[28.0, -14.0], [12.0, -28.0], [10.5, 7.0], [-190 / 11, -254 / 11]])
    a = np.array([[0.5, 0.5]] * 3 + [[5 / 11, 5 / 11]])
    first = (np.array([0, each]) for each in (4, 2, 8))
    own = Problems(*first, np.arange(2), np.array([3.0, 3.0, 4.0, 3.0]), np.array([1.0, 12.0]), a.ravel())  # type: ignore[call-arg]
    assert np.abs(solved(own, v.ravel()).columns).max() < 1e3


@pytest.mark.parametrize("columns", [5, DENSE + 5])
def test_the_change_on_a_face_is_the_derivative_of_the_projection(columns: int) -> None:
    random = np.random.default_rng(3)
    own, v = problem(random, 30, columns, 2.0, 20.0)
    x = solved(own, v).x
    change = 1e-6 * random.normal(size=len(v)) * (own.a > 0)
    moved = solved(own, v + change).x
    face, by_row = face_of(own, x), x.reshape(len(own.rows), -1) > 0
    free = np.flatnonzero(by_row & (by_row.sum(axis=1, keepdims=True) > 1))
    q = change[free] / own.a[free]
    onto_face(own, x, face, q)
    assert np.array_equal(x > 0, moved > 0)  # the same face
    moved -= x
    np.testing.assert_allclose(moved[free], q, atol=3e-8)
    np.testing.assert_allclose(np.delete(moved, free), 0, atol=3e-8)


def test_without_row_sums_a_problem_is_a_simplex() -> None:
    random = np.random.default_rng(4)
    v, a = random.normal(0, 5, 40), random.uniform(0.5, 2, 40)
    rows, column = np.array([0, 40]), np.array([0, 1])
    own = Problems(rows, column, rows, np.zeros(1, np.int64), np.zeros(0), np.array([30.0]), a)
    point = start(own)
    assert project(own, v, 1e-9, point) == 0.0
    assert point.x.sum() == pytest.approx(30.0, abs=1e-9)
    np.testing.assert_allclose(point.x, np.maximum(0.0, v - point.columns[0] * a), atol=1e-9)
