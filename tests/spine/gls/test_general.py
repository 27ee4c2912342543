"""Least squares over the tree of any product and hierarchy: the dense solution of its normal equations."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from top_down_cases import check, everything, measuring, problems_of, same

from privacy.tables.histogram import Axis, Count, Recode
from spine.allocations import Allocation
from spine.gls.blue import Blue, blue_level
from spine.gls.columns import query_errors
from spine.gls.grid import grid, grid_of, hindrance, to_cells
from spine.gls.information import Information
from spine.gls.tree_answers import ChildInformation, TreeAnswers, TreeMisfit, inverse_row_sums, tree_gradient
from spine.gls.upward import pass_up
from spine.hierarchy import Spine
from spine.top_down import Measure, Passes, Plan, Product, Totals, TrueHistograms, query_group, sum_bounds, summed
from spine.top_down.histogram import from_entries
from spine.top_down.queries import weights

LEVELS = ("country", "region", "district", "zone")
STARTS = (np.array([0]), np.array([0, 4]), np.array([0, 2, 4, 5]), np.arange(7))
# An only child of the share 0 above leaves that have totals, and one that is a leaf.
SHARES = (np.array([2]), np.array([2, 3]), np.array([3, 4, 1, 2]), np.array([1, 2, 2, 1, 0, 3, 1]))


def axis(name: str, size: int) -> Axis:
    codes = tuple(map(str, range(size)))
    return Axis(name, name, codes, name.upper(), codes)


@st.composite
def products(draw: st.DrawFn) -> tuple[Product, list[str]]:
    """One to three axes, some with nested recodes of equal or unequal parts, one perhaps closed; and query groups."""
    axes, recodes, names = [], [], []
    for name in "abc"[: draw(st.integers(1, 3))]:
        size = draw(st.integers(2, 4))
        axes.append(axis(name, size))
        part, names_ = np.arange(size), [name]
        for number in range(draw(st.integers(0, 2))):
            merge = draw(st.lists(st.integers(0, 2), min_size=4, max_size=4))
            part = np.unique(np.array(merge)[part], return_inverse=True)[1]  # not sorted: parts need not be intervals
            names_.append(f"{name}{number}")
            recodes.append(Recode(names_[-1], name, tuple(part.tolist())))
        names.append(names_)
    bounded = draw(st.sampled_from(["total", *(own for each in names for own in each)]))
    queries = {"total", "detailed", *(each[-1] for each in names)}
    for _ in range(draw(st.integers(1, 3))):
        asked = [draw(st.sampled_from(each)) for each in names if draw(st.booleans())]
        queries |= {"*".join(asked)} if asked else set()
    product = Product(tuple(axes), name="made", counts=(Count("total", ""),), recodes=tuple(recodes), bounded=bounded)
    return product, sorted(queries)


def case(product: Product, queries: list[str], totals_of: int | None, seed: int) -> tuple[Plan, TrueHistograms]:
    """Seven zones; some lack records of some parts. Draws too large for the kernel are left out."""
    rng = np.random.default_rng(seed)
    spine = Spine(LEVELS, np.arange(7), STARTS, SHARES, 12)
    alphas = {query: Fraction(2 * (at + 1), len(queries) * (len(queries) + 1)) for at, query in enumerate(queries)}
    allocation = Allocation(
        "zcdp", Fraction(2), dict.fromkeys(LEVELS, Fraction(1, 4)), dict.fromkeys(LEVELS, alphas), ""
    )
    counts = rng.integers(0, 3, (7, product.types.max() + 1))
    counts[:, 0] += 1
    dense = rng.integers(20, 90, (7, product.cells)) * (counts[:, product.types] > 0)
    row, cell = np.nonzero(dense)
    truth = from_entries(TrueHistograms, 3, 0, row, cell, dense[row, cell], 7)
    totals = []
    if totals_of is not None:
        sums = np.add.reduceat(dense.sum(axis=1), STARTS[totals_of])
        totals.append((totals_of, Totals(np.arange(len(sums)), sums)))
    bounds = sum_bounds(spine, counts, np.zeros(counts.shape[1], np.int64), *totals)
    first = frozenset(LEVELS[: 1 if totals_of is None else 0])
    plan = Plan(product, spine, allocation, bounds, Passes(first))
    assume(not hindrance(plan))
    return plan, truth


def passes(plan: Plan, measure: Measure) -> tuple[list[Information], list[Blue]]:
    """Information and estimates of every level, top first."""
    found = [*pass_up(plan, measure, 0, 0, 1), *pass_up(plan, measure, 3, 0, 7)]
    by_level = [blue_level(plan, found[0])]
    for information in found[1:]:
        by_level.append(blue_level(plan, information, by_level[-1]))
    return found, by_level


def dense_solution(plan: Plan, measure: Measure) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Leaf and cell of every unknown, their estimates and covariances, totals declared."""
    allowed = plan.bounds.allowed(3)[:, plan.product.types]
    leaf, cell = np.nonzero(allowed)
    hessian, linear = np.zeros((len(leaf), len(leaf))), np.zeros(len(leaf))
    rows, known = [], []
    for level, name in enumerate(plan.spine.levels):
        geounit = plan.spine.geounit_of_block(level)[leaf]
        answers = measure(level, 0, len(plan.spine.starts[level])).answers
        for query in plan.allocation.queries[name]:
            weight = weights(plan.allocation, name, [query], plan.spine.shares[level], 12)[0][geounit]
            group = query_group(plan.product, query)
            at = geounit * group.width + group.coordinate[cell]
            hessian += weight * np.equal.outer(at, at)
            linear += weight * answers[query].ravel()[at]
        if (declared := plan.bounds.totals[level]) is not None:
            rows += list(np.equal.outer(np.arange(len(declared.values)), declared.group[geounit]).astype(float))
            known += declared.values.tolist()
    if not rows:
        inverse = np.linalg.inv(hessian)
        return leaf, cell, inverse @ linear, inverse
    basis = np.linalg.svd(np.array(rows))[2][np.linalg.matrix_rank(np.array(rows)) :].T
    start = np.linalg.lstsq(np.array(rows), np.array(known, float), rcond=None)[0]
    inverse = basis @ np.linalg.inv(basis.T @ hessian @ basis) @ basis.T
    return leaf, cell, start + inverse @ (linear - hessian @ start), inverse


@settings(max_examples=10)
@given(products(), st.sampled_from([None, 0, 1, 2, 3]), st.integers(0, 99))
def test_the_two_passes_are_the_dense_solution(
    made: tuple[Product, list[str]], totals_of: int | None, seed: int
) -> None:
    """Of every cell and every asked sum, of all levels: estimates and variances."""
    plan, truth = case(*made, totals_of, seed)
    measure = measuring(plan, truth, seed)
    leaf, cell, x, covariance = dense_solution(plan, measure)
    for level, blue in enumerate(passes(plan, measure)[1]):
        geounit = plan.spine.geounit_of_block(level)[leaf]
        expected = np.zeros((len(plan.spine.starts[level]), plan.product.cells))
        np.add.at(expected, (geounit, cell), x)
        np.testing.assert_allclose(to_cells(blue.x, grid(plan)), expected, atol=1e-8)
        for query in plan.allocation.queries[LEVELS[level]]:
            group = query_group(plan.product, query)
            at = geounit * group.width + group.coordinate[cell]
            each = np.equal.outer(np.arange(len(expected) * group.width), at).astype(float)
            variance = (each @ covariance * each).sum(axis=1)
            errors = query_errors(grid(plan), query, blue.variance).ravel()
            np.testing.assert_allclose(errors**2, variance, rtol=1e-8, atol=1e-8)


@settings(max_examples=8)
@given(products(), st.sampled_from([None, 0, 1, 2, 3]), st.integers(0, 99))
def test_without_noise_the_estimate_is_the_truth_and_with_it_declared_figures_hold(
    made: tuple[Product, list[str]], totals_of: int | None, seed: int
) -> None:
    plan, truth = case(*made, totals_of, seed)
    estimates, _ = everything(plan, measuring(plan, truth, None), TreeAnswers)
    assert same(estimates, summed(truth, plan.spine))
    estimates, _ = everything(plan, measuring(plan, truth, seed), TreeAnswers)
    check(plan, estimates, truth if totals_of is not None else summed(estimates[-1], plan.spine)[-1])
    for found, declared in zip(estimates, plan.bounds.totals, strict=True):
        assert declared is None or np.array_equal(found.totals(), declared.values)


@pytest.mark.long
@settings(max_examples=8)
@given(products(), st.integers(0, 99))
def test_the_hessian_of_a_parent_is_its_gradient_s_and_below_the_majorizer(
    made: tuple[Product, list[str]], seed: int
) -> None:
    plan, truth = case(*made, 0, seed)
    for _, problem, x, _ in problems_of(lambda: everything(plan, measuring(plan, truth, seed), TreeAnswers)):
        if isinstance(problem.objective, ChildInformation):
            found, sizes = problem.objective, problem.objective.grid
            hessian, linear = found.quadratic(problem.parent.cells)
            dense = hessian.toarray()
            assert np.linalg.eigvalsh(dense).min() > -1e-9
            sign, race = np.divmod(found.at, sizes.shape[2])
            allowed = problem.parent.allowed[problem.parent.quarters_type]
            between = np.ascontiguousarray(found.between)
            root = np.sqrt(inverse_row_sums(between, found.kind, sign, race, sizes.patterns[0], allowed)).ravel()
            assert np.linalg.eigvalsh(root[:, None] * dense * root).max() <= 1 + 1e-9
            x = np.random.default_rng(seed).normal(size=x.shape)
            scratch = (np.empty((between.shape[2], *sizes.shape[1:])) for _ in range(2))
            place = found.kind * sizes.by_type + found.at
            precision = np.ascontiguousarray(found.precision)
            objective = TreeMisfit(x, precision, found.linear, place, sizes.signs, *scratch)
            gradient = np.empty(x.shape)
            tree_gradient(objective, gradient)
            np.testing.assert_allclose(gradient.ravel(), dense @ x.ravel() - linear, atol=1e-9)


def test_recodes_that_cross_are_named() -> None:
    made = Product(
        (axis("age", 6), axis("sex", 2)),
        name="made",
        counts=(Count("total", ""),),
        recodes=(Recode("halves", "age", (0, 0, 0, 1, 1, 1)), Recode("thirds", "age", (0, 0, 1, 1, 2, 2))),
    )
    with pytest.raises(ValueError, match="the recodes thirds and halves of age cross"):
        grid_of(made)
    assert grid_of(made, frozenset({"halves"})).slots == 1  # thirds is not asked


def test_many_declared_parts_are_refused() -> None:
    made = Product((axis("age", 80), axis("sex", 2)), name="made", counts=(Count("total", ""),), bounded="age")
    with pytest.raises(ValueError, match="matrices of 80 rows"):
        grid_of(made)
