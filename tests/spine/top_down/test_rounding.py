"""Rounding as a flow: against linear programming, brute force, and random networks."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import OptimizeResult, linprog

from spine.redistricting import PERSONS, redistricting_passes
from spine.top_down import general_solvers
from spine.top_down.flow import Network, cheapest_flow
from spine.top_down.least_squares import Parent
from spine.top_down.own_answers import ParentProblem
from spine.top_down.rounding import floors, on_grid, rounded
from spine.top_down.solve_parent import broken_rule, to_integers

CELL_WEIGHT = redistricting_passes(PERSONS).cell_weight
Parents = list[tuple[bool, ParentProblem, np.ndarray]]


def cost(problem: ParentProblem, x: np.ndarray, whole: np.ndarray, total_first: bool) -> float:
    """The program's objective at the integers `whole`."""
    f, fraction = floors(x, problem.parent.allowed, problem.parent.quarters_type)
    b = whole - f
    counts = problem.parent.counts - f.sum(axis=1) if len(problem.parent.counts) else np.full(len(f), 1)
    amount = int(problem.parent.total[0] - f.sum()) if len(problem.parent.total) else int(counts.sum())
    weight = 1 + 2 * (len(problem.parent.nested) + CELL_WEIGHT) * amount if total_first else 1
    total = float(weight * np.abs(b.sum(axis=0) - np.rint(fraction.sum(axis=0))).sum())
    for coordinate in problem.parent.nested:
        rows = np.unique(coordinate, return_inverse=True)[1]
        sums = np.zeros((2, rows.max() + 1, b.shape[1]))
        np.add.at(sums[0], rows, b)
        np.add.at(sums[1], rows, fraction)
        total += np.abs(sums[0] - np.rint(sums[1])).sum()
    return total + CELL_WEIGHT * float(np.abs(b - (fraction > 0.5)).sum())


def best_cost(problem: ParentProblem, x: np.ndarray, total_first: bool) -> tuple[float, float]:
    """The linear program's optimum by HiGHS, and how far from integers its cells are."""
    c, together, bounds, _ = general_solvers.rounding_program(problem, x, total_first)
    a, low, high = together.A.tocsr(), np.asarray(together.lb), np.asarray(together.ub)
    equal = low == high
    upper, lower = ~equal & np.isfinite(high), ~equal & np.isfinite(low)
    import scipy.sparse as sp

    optimum = linprog(
        c,
        A_ub=sp.vstack([a[upper], -a[lower]]),
        b_ub=np.concatenate([high[upper], -low[lower]]),
        A_eq=a[equal] if equal.any() else None,
        b_eq=low[equal] if equal.any() else None,
        bounds=np.column_stack([bounds.lb, bounds.ub]),
        method="highs-ds",
    )
    assert optimum.status == 0, optimum.message
    cells = optimum.x[: x.size]
    _, fraction = floors(x, problem.parent.allowed, problem.parent.quarters_type)
    return optimum.fun + CELL_WEIGHT * int((fraction > 0.5).sum()), float(np.abs(cells - np.rint(cells)).max())


def test_the_flow_is_as_cheap_as_the_linear_program(parents: Parents) -> None:
    chosen = [p for p in parents if len(p[1].parent.counts) and p[2].size < 3000][::2]
    assert len(chosen) > 30
    for total_first, problem, x in chosen:
        whole, by = to_integers(problem, x, total_first)
        best, off = best_cost(problem, x, total_first)
        assert by == "flow"
        assert off < 1e-9
        assert cost(problem, x, whole, total_first) == pytest.approx(best, abs=1e-5)
        assert (np.abs(whole - x) < 1 + 1e-5).all()


def test_roots_too(parents: Parents) -> None:
    roots = [(d, x) for _, d, x in parents if not len(d.parent.counts)]
    assert len(roots) == 3
    for problem, x in roots:
        whole, _ = to_integers(problem, x, False)
        assert whole.sum() == problem.parent.total
        assert cost(problem, x, whole, False) == pytest.approx(best_cost(problem, x, False)[0], abs=1e-5)


@given(st.integers(0, 2**32), st.booleans())
@settings(deadline=None, max_examples=25)
def test_random_laminar_trees_with_lower_bounds(seed: int, total_first: bool) -> None:
    """Fractions whose column sums are integers, lower bounds that the fractions meet: an optimum always exists."""
    rng = np.random.default_rng(seed)
    children, n = int(rng.integers(2, 6)), int(rng.integers(2, 12))
    cells = np.sort(rng.choice(2016, n, replace=False))
    kind = np.unique(cells // 252, return_inverse=True)[1]
    counts = rng.integers(1, 6, n)
    x = rng.dirichlet(np.full(children, 0.7), n) * counts[:, None]
    by_type = np.zeros((kind.max() + 1, children))
    np.add.at(by_type, kind, x)
    least = np.where(rng.random(by_type.shape) < 0.5, np.floor(by_type), 0).astype(np.int64)
    nested = np.array(
        [cells // 252, cells // 252 * 2 + cells // 63 % 2, (cells // 252 * 2 + cells // 63 % 2) * 63 + cells % 63]
    )
    allowed = np.ones((kind.max() + 1, children), bool)
    parent = Parent(cells, kind, counts, allowed, least, nested, cell_weight=CELL_WEIGHT)
    problem = ParentProblem(None, parent)  # type: ignore[arg-type]
    whole, by = to_integers(problem, x, total_first)
    assert by == "flow"
    best, _ = best_cost(problem, x, total_first)
    assert cost(problem, x, whole, total_first) == pytest.approx(best, abs=1e-5)


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=25)
def test_the_cheapest_flow_of_any_network(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, arcs = int(rng.integers(3, 9)), int(rng.integers(4, 25))
    ends = np.sort(np.array([rng.choice(nodes, 2, replace=False) for _ in range(arcs)]), axis=1)
    capacity, price = rng.integers(0, 5, arcs), rng.integers(-6, 7, arcs)
    amount = int(rng.integers(1, 12))
    network = Network(
        ends[:, 0].astype(np.int32),
        ends[:, 1].astype(np.int32),
        capacity.astype(np.int32),
        price.astype(np.int64),
        nodes,
    )
    flow, shipped = cheapest_flow(network, amount)
    balance = np.zeros((nodes, arcs))
    balance[ends[:, 0], np.arange(arcs)] += 1
    balance[ends[:, 1], np.arange(arcs)] -= 1
    limits = np.column_stack([np.zeros(arcs), capacity])
    most = linprog(-balance[0], A_eq=balance[1:-1], b_eq=np.zeros(nodes - 2), bounds=limits)
    assert shipped == min(amount, round(-most.fun))
    assert (flow >= 0).all()
    assert (flow <= capacity).all()
    right = np.zeros(nodes)
    right[0], right[-1] = shipped, -shipped
    np.testing.assert_array_equal(balance @ flow, right)
    best = linprog(price, A_eq=balance, b_eq=right, bounds=limits)
    assert price @ flow == pytest.approx(best.fun, abs=1e-6)


def test_what_the_flow_cannot_do_highs_does(parents: Parents, monkeypatch: pytest.MonkeyPatch) -> None:
    from spine.top_down import solve_parent

    _, problem, x = next(p for p in parents if len(p[1].parent.counts) and 50 < p[2].size < 500)
    whole, _ = to_integers(problem, x, False)
    monkeypatch.setattr(solve_parent, "rounded", lambda x, *_: (np.floor(x).astype(np.int64), 1))
    other, by = to_integers(problem, x, False)
    assert by == "highs"
    assert cost(problem, x, other, False) == pytest.approx(cost(problem, x, whole, False))
    monkeypatch.setattr(general_solvers, "rounding", lambda *_: (None, False))
    with pytest.raises(solve_parent.EstimationError, match="neither the flow nor HiGHS"):
        to_integers(problem, x, False)


@given(st.integers(0, 2**32), st.booleans())
@settings(deadline=None, max_examples=25)
def test_the_flow_and_highs_are_as_near_as_all_integers(seed: int, total_first: bool) -> None:
    """Three cells of two types and two children, against every way to round each cell up or down."""
    rng = np.random.default_rng(seed)
    cells, kind = np.array([0, 1, 300]), np.array([0, 0, 1])
    counts = rng.integers(0, 5, 3)
    x = rng.dirichlet(np.full(2, 0.7), 3) * counts[:, None]
    by_type = np.stack([x[:2].sum(axis=0), x[2]])
    least = np.where(rng.random((2, 2)) < 0.5, np.floor(by_type), 0).astype(np.int64)
    nested = np.array([kind, np.arange(3)])
    parent = Parent(cells, kind, counts, np.ones((2, 2), bool), least, nested, cell_weight=CELL_WEIGHT)
    problem = ParentProblem(None, parent)  # type: ignore[arg-type]
    whole, _ = floors(x, parent.allowed, kind)
    every = (whole + np.array(bits).reshape(3, 2) for bits in product((0, 1), repeat=6))
    costs = [cost(problem, x, each, total_first) for each in every if not broken_rule(problem, each)]
    found, by = to_integers(problem, x, total_first)
    highs, nearest = general_solvers.rounding(problem, x, total_first)
    assert (by, nearest) == ("flow", True)
    assert highs is not None
    assert broken_rule(problem, highs) == ""
    assert cost(problem, x, found, total_first) == cost(problem, x, highs, total_first) == min(costs)


def test_integers_that_highs_does_not_prove_nearest_meet_every_sum_and_are_named(
    parents: Parents, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spine.top_down import solve_parent

    _, problem, x = next(p for p in parents if len(p[1].parent.counts) and 50 < p[2].size < 500)
    solved, asked = general_solvers.milp, []

    def too_hard(cost: np.ndarray, *, options: dict[str, Any], **program: Any) -> Any:
        asked.append(options)
        return OptimizeResult(x=None, status=1) if cost.any() else solved(cost, **program, options=options)

    monkeypatch.setattr(general_solvers, "milp", too_hard)
    monkeypatch.setattr(solve_parent, "rounded", lambda x, *_: (np.floor(x).astype(np.int64), 1))
    whole, by = to_integers(problem, x, False)
    assert by == "any"
    assert broken_rule(problem, whole) == ""
    assert asked == [{"mip_rel_gap": 0.0, "node_limit": general_solvers.NODES}, {"mip_rel_gap": 0.0}]  # no time limit


def test_a_broken_rule_is_named(parents: Parents) -> None:
    total_first, problem, x = next(p for p in parents if len(p[1].parent.counts))
    whole, _ = to_integers(problem, x, total_first)
    assert broken_rule(problem, whole) == ""
    assert "negative" in broken_rule(problem, whole - whole.max() - 1)
    assert "sum to their parent" in broken_rule(problem, whole + problem.allowed_cells)
    inhabited = problem.parent._replace(lower_bound=whole.sum() + np.ones_like(problem.parent.lower_bound))
    assert "facility" in broken_rule(ParentProblem(problem.objective, inhabited), whole)


def test_on_the_grid_a_solvers_last_digits_decide_no_tie() -> None:
    cells, none = np.arange(2), np.zeros((1, 2), np.int64)
    parent = Parent(cells, cells * 0, cells * 0 + 1, none == 0, none, none[:0])
    digits = 1e-9 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    plain, snapped = (
        [rounded(of(0.5 + sign * digits), parent, False)[0].tolist() for sign in (1, -1)]
        for of in (np.asarray, on_grid)
    )
    assert plain[0] != plain[1]
    assert snapped[0] == snapped[1]
