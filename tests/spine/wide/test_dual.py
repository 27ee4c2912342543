"""The least squares of wide tables against Clarabel and against plain accelerated steps, on parents of every level."""

from __future__ import annotations

import numpy as np
import pytest
from wide import Tree, tree

from spine.top_down.rounding import on_grid
from spine.wide import least_squares
from spine.wide.dual import STEP, Objective, Solution, accelerated, metric, minimize
from spine.wide.transport import DENSE, Problems, start
from tests.spine.wide.test_transport import problem

Case = tuple[Problems, Objective, Solution]


def solved(made: Tree, sd: float) -> list[Case]:
    """The problems of the first pass of all parents of a tree, the root's first, and their solutions."""
    found: list[Case] = []

    def recording(problems: Problems, objective: Objective, stop: float) -> Solution:
        solution = minimize(problems, objective, stop)
        if len(objective.y):
            found.append((problems, objective, solution))
        return solution

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(least_squares, "minimize", recording)
        made.estimate(made.noisy(sd))
    return found


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return solved(tree(persons=2_000, blocks=24), 4.0)


def test_the_minimum_is_that_of_a_general_solver(cases: list[Case]) -> None:
    assert len(cases) == 1 + 1 + 2 + 4  # of the state, of its counties, of their tracts, of the tracts' blocks
    for problems, objective, solution in cases:
        assert (solution.step, solution.missed) < (1e-6, 1e-12)
        reference = least_squares.least_squares(problems, objective)
        assert reference is not None
        ours, theirs = (least_squares.value(problems, objective, x) for x in (solution.x, reference))
        assert ours <= theirs * (1 + 1e-8)
        np.testing.assert_allclose(solution.x, reference, atol=1e-3)


def test_the_fractions_are_those_of_plain_steps_and_of_a_finer_stop(cases: list[Case]) -> None:
    for problems, objective, solution in cases:
        point = start(problems)
        _, step, _ = accelerated(problems, objective, np.zeros(objective.y.shape), 20_000, 1e-9, point)
        assert step < 1e-9
        finer = minimize(problems, objective, 1e-9)
        assert finer.projections < 2 * solution.projections
        for other in (point.x, finer.x):
            np.testing.assert_array_equal(on_grid(solution.x), on_grid(other))


def test_many_children_are_solved_by_conjugate_gradients() -> None:
    *_, (problems, objective, solution) = solved(tree(persons=12_000, blocks=280), 2.0)
    assert np.diff(problems.first_column).max() > DENSE
    assert solution.step < 1e-6
    reference = least_squares.least_squares(problems, objective)
    np.testing.assert_allclose(solution.x, reference, atol=1e-3)


def test_noise_much_larger_than_the_counts_leaves_no_vertex_too_early() -> None:
    """There a step may change no entry, and its answers be missed all the same."""
    random = np.random.default_rng(8)
    for _ in range(300):
        own, target = problem(random, int(random.integers(2, 6)), int(random.integers(2, 5)), 10.0, 3.0)
        rows, children = len(own.rows), len(own.columns)
        if own.a.size == 0:
            continue
        up, weight = random.integers(-1, 2, (rows, 1)), random.uniform(0.1, 10.0, 2)
        scale, y = np.ones(children), np.rint(random.normal(0.0, 5.0, (2, children)))
        own = own._replace(a=np.where(own.a > 0, 1.0, 0.0))
        objective = Objective(up, weight, y, scale, target, *metric(up, weight, np.ones(rows), 2))
        solution, reference = minimize(own, objective, STEP), least_squares.least_squares(own, objective)
        assert reference is not None
        assert (solution.step, solution.missed) < (STEP, 1e-9)
        ours, theirs = (least_squares.value(own, objective, x) for x in (solution.x, reference))
        assert ours <= theirs * (1 + 1e-8)
    assert len(minimize.signatures) == 1  # type: ignore[attr-defined]  # arrays of a run have the layout of these
