"""Projection and least squares: against general solvers, the conditions of optimality, and brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import piqp
import pytest

from spine.top_down.general_solvers import QPSolver, least_squares
from spine.top_down.least_squares import Parent
from spine.top_down.least_squares import polytope as polytope_of
from spine.top_down.own_answers import ChildAnswers, ParentProblem
from spine.top_down.projection import Point, Polytope, project, start
from spine.top_down.queries import coordinates_of
from spine.top_down.solve_parent import solve


@pytest.fixture(scope="module")
def problems(parents: list[tuple[bool, ParentProblem, np.ndarray]]) -> list[ParentProblem]:
    return [problem for _, problem, _ in parents]


def objective(problem: ParentProblem, x: np.ndarray) -> float:
    """sum of w |Qx - y|^2 / 2, scaled as the reference has it, y's constant included."""
    own, cells = problem.objective, problem.parent.cells
    assert isinstance(own, ChildAnswers)
    total = 0.0
    for weight, at in zip(own.weights / own.weights[0].max(), coordinates_of(own.queries, cells), strict=True):
        asked, row = np.unique(at, return_inverse=True)
        sums = np.zeros((len(asked), x.shape[1]))
        np.add.at(sums, row, x)
        total += float((weight * (sums - own.answers[:, asked].T) ** 2).sum() / 2)
    return total


@pytest.mark.parametrize("solver", ["piqp", pytest.param("clarabel", marks=pytest.mark.ci)])
def test_the_minimum_is_a_general_solver_s(problems: list[ParentProblem], solver: QPSolver) -> None:
    chosen = [d for d in problems if len(d.parent.counts) and d.allowed_cells.size < 600][::16]
    assert len(chosen) > 5
    for problem in chosen:
        x, _, by, missed = solve(problem)
        other = least_squares(problem, solver)
        assert by == "own"
        assert missed < 1e-6
        assert other is not None
        ours, theirs = objective(problem, x), objective(problem, other)
        assert ours <= theirs * (1 + 1e-8)
        assert theirs <= ours * (1 + 1e-6)  # what the reference leaves, at 1e-9 of its own measures
        assert np.abs(x - other).max() < 0.1  # the reference's cells are the less accurate: the objective is flat
        assert np.abs(x.sum(axis=1) - problem.parent.counts).max() < 1e-9


def test_conditions_of_optimality(problems: list[ParentProblem]) -> None:
    """Multipliers found by least squares on the cells above 0 leave no gradient there, and none downhill at 0."""
    for problem in [d for d in problems if not len(d.parent.low)][:20]:  # blocks: no bands
        x = solve(problem)[0]
        hessian, linear = problem.objective.quadratic(problem.parent.cells)
        gradient = (hessian @ x.ravel() - linear).reshape(x.shape)
        by_type = np.zeros(problem.parent.allowed.shape)
        np.add.at(by_type, problem.parent.quarters_type, x)
        if (by_type < problem.parent.lower_bound + 1e-6).any() and problem.parent.lower_bound.any():
            continue  # an active lower bound has a multiplier of its own
        for i in range(len(x)):
            free = x[i] > 1e-6
            allowed = problem.parent.allowed[problem.parent.quarters_type[i]]
            multiplier = gradient[i, free].mean()
            assert np.abs(gradient[i, free] - multiplier).max() < 1e-4
            assert (gradient[i, allowed & ~free] >= multiplier - 1e-4).all()


def test_every_sum_and_zero_is_met(problems: list[ParentProblem]) -> None:
    for problem in problems:
        x, _, _, missed = solve(problem)
        assert missed <= 1e-6
        assert problem.violation(x) < 1e-6
        assert (x[~problem.allowed_cells] == 0).all()
        assert not problem.violation(np.full_like(x, np.nan)) <= 1e-6  # what a solver that failed may give


def test_by_brute_force_over_active_sets(problems: list[ParentProblem]) -> None:
    """Two or three cells, two or three children: the best of all choices of which cells are 0."""
    rng, tried = np.random.default_rng(5), 0
    for problem in problems:
        parent = problem.parent
        if len(parent.low) or not len(parent.counts) or problem.children > 3 or parent.lower_bound.any():
            continue
        rows = np.sort(rng.choice(len(parent.cells), min(3, len(parent.cells)), replace=False))
        types, quarters_type = np.unique(parent.quarters_type[rows], return_inverse=True)
        small = ParentProblem(
            problem.objective,
            parent._replace(
                cells=parent.cells[rows],
                quarters_type=quarters_type,
                counts=parent.counts[rows],
                allowed=parent.allowed[types],
                lower_bound=parent.lower_bound[types],
            ),
        )
        x = solve(small)[0]
        hessian, linear = small.objective.quadratic(small.parent.cells)
        dense = hessian.toarray()
        best = min(_face(small, dense, linear, np.array(zero)) for zero in product([0, 1], repeat=x.size))
        assert x.ravel() @ dense @ x.ravel() / 2 - linear @ x.ravel() == pytest.approx(best, rel=1e-9, abs=1e-9)
        tried += 1
    assert tried >= 5


def _face(problem: ParentProblem, hessian: np.ndarray, linear: np.ndarray, zero: np.ndarray) -> float:
    """The objective at the minimum with these cells 0, if that is feasible."""
    n, children = len(problem.parent.cells), problem.children
    free = (zero == 0) & problem.allowed_cells.ravel()
    sums = np.kron(np.eye(n), np.ones((1, children)))[:, free]
    if (sums.sum(axis=1) == 0).any():
        return np.inf
    block = np.block([[hessian[np.ix_(free, free)], sums.T], [sums, np.zeros((n, n))]])
    solution = np.linalg.solve(block, np.concatenate([linear[free], problem.parent.counts]))[: free.sum()]
    if (solution < -1e-9).any():
        return np.inf
    return float(solution @ hessian[np.ix_(free, free)] @ solution / 2 - linear[free] @ solution)


def polytope(rng: np.random.Generator, slack: float) -> tuple[Polytope, np.ndarray]:
    """Random cells of two types, children with bands around the totals of a point that meets everything."""
    n, children = int(rng.integers(2, 8)), int(rng.integers(2, 7))
    kind = np.sort(rng.integers(0, 2, n))
    kind -= kind[0]
    inside = rng.integers(0, 6, (n, children)).astype(float)
    a = rng.uniform(0.2, 2, (n, children))
    totals = inside.sum(axis=0)
    allowed, counts = np.ones((int(kind[-1]) + 1, children), bool), inside.sum(axis=1).astype(np.int64)
    free, nested = np.zeros(allowed.shape, np.int64), np.zeros((0, n), np.int64)
    parent = Parent(np.arange(n), kind, counts, allowed, free, nested, totals - slack, totals + slack)
    onto = polytope_of(a, parent)
    return onto, rng.normal(2, 4, (n, children))


def projected(onto: Polytope, v: np.ndarray, repeat: int) -> Point:
    """The plain projection of v: with the groups' own variables following it, repeated until they do not move it."""
    point = start(*v.shape, len(onto.active))
    anchor = np.zeros(point.levels.shape)
    for _ in range(repeat):
        project(onto, v, anchor, 1e-11, point)
        anchor = point.levels.copy()
    return point


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("slack", [0.0, 0.1, 50.0])
def test_projection_meets_every_constraint_and_is_the_nearest_point(seed: int, slack: float) -> None:
    """Against PIQP, with the groups' variables among the unknowns; slack 0: all bands active, the null direction."""
    onto, v = polytope(np.random.default_rng(seed), slack)
    n, children = v.shape
    anchor = np.zeros((len(onto.types), children))
    anchor[-1] = np.random.default_rng(seed + 1).normal(8, 3, children)
    point = start(n, children, len(onto.active))
    assert project(onto, v, anchor, 1e-10, point) < 1e-9
    size = v.size + children
    metric = np.concatenate([1 / onto.a.ravel(), onto.mu[-1]])
    wanted = np.concatenate([v.ravel(), anchor[-1]])
    counts = np.hstack([np.kron(np.eye(n), np.ones((1, children))), np.zeros((n, children))])
    sums = np.hstack([np.kron(np.ones((1, n)), np.eye(children)), -np.eye(children)])
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-11
    low, high = np.zeros(size), np.full(size, 1e6)
    low[v.size :], high[v.size :] = onto.lo[-1] - 1e-9, onto.hi[-1] + 1e-9
    right = np.concatenate([onto.counts, np.zeros(children)])
    solver.setup(np.diag(metric), -metric * wanted, np.vstack([counts, sums]), right, None, None, None, low, high)
    solver.solve()
    np.testing.assert_allclose(point.x.ravel(), np.array(solver.result.x)[: v.size], atol=2e-4)
    np.testing.assert_allclose(point.x.sum(axis=1), onto.counts, atol=1e-9)
    assert (point.x.sum(axis=0) <= onto.hi[-1] + 1e-8).all()
    assert (point.x.sum(axis=0) >= onto.lo[-1] - 1e-8).all()


@pytest.mark.parametrize("seed", range(10))
def test_projection_is_idempotent(seed: int) -> None:
    onto, v = polytope(np.random.default_rng(seed), 0.1)
    first = projected(onto, v, 1)
    again = projected(onto, first.x.copy(), 60)
    np.testing.assert_allclose(again.x, first.x, atol=1e-6)
