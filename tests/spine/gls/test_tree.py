"""Generalized least squares over the tree: against a dense solution, `spine.variance`, and the program's own kernel."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import cho_factor
from scipy.sparse.linalg import eigsh
from spine_cases import root_of
from top_down_cases import State, everything, measuring, plan_of, problems_of, small_state

from privacy.tables.histogram import Count
from spine.gls import tree_answers
from spine.gls.blue import STATES, Blue, blue_children, blue_roots, blue_states, sibling_sums
from spine.gls.columns import Covariances, columns
from spine.gls.entity_sums import entity_estimates, regress_block_groups, regress_parents
from spine.gls.grid import grid_of, in_cells, to_cells, total_of, total_variance
from spine.gls.information import Information, estimates, own_information
from spine.gls.tree_answers import ChildInformation, TreeAnswers, TreeMisfit, informed, inverse_row_sums, tree_gradient
from spine.gls.upward import pass_up
from spine.hierarchy import Spine
from spine.production import allocation
from spine.redistricting import PERSONS
from spine.top_down import (
    Measure,
    Plan,
    Totals,
    TrueHistograms,
    descend,
    estimate_children,
    estimate_roots,
    query_group,
    summed,
)
from spine.top_down.histogram import from_entries
from spine.top_down.own_answers import ChildAnswers, ParentProblem
from spine.top_down.queries import weights
from spine.top_down.solve_parent import solve
from spine.variance import cell_variance, downward, marginal_parts, upward


def six_blocks(seed: int) -> tuple[Plan, Measure, np.ndarray]:
    """Three levels, two parts of a state: blocks of few types, unequal shares, an only child with the share 0."""
    rng = np.random.default_rng(seed)
    levels = ("State", "Tract", "Block")
    shares = (np.array([5, 4]), np.array([3, 2, 4, 6]), np.array([2, 3, 0, 1, 2, 2]))
    starts = (np.array([0, 3]), np.array([0, 2, 3, 5]), np.arange(6))
    spine = Spine(levels, np.arange(6), starts, shares, 12)
    quarters = np.zeros((6, 8), np.int64)
    quarters[:, 0] = [4, 3, 5, 0, 2, 6]
    quarters[[0, 3], 1] = 1
    quarters[3, 5] = 2
    cells = [np.flatnonzero((quarters[b] > 0)[PERSONS.types] & PERSONS.possible) for b in range(6)]
    row = np.repeat(np.arange(6), 60)
    cell = np.concatenate([rng.choice(some, 60) for some in cells])
    persons = from_entries(TrueHistograms, 2, 0, row, cell, np.ones(360, np.int64), 6)
    plan = plan_of(State(spine, persons, quarters), allocation("pl94-persons", "us"))
    return plan, measuring(plan, persons, seed), persons.dense(2016)


COUNTS = (
    Count("total", ""),
    Count("adults of two races", "", {"votingage": frozenset({1}), "cenrace": frozenset(range(6, 63))}),
    Count("prisoners", "", {"hhgq": frozenset({1}), "hispanic": frozenset({1}), "cenrace": frozenset({0})}),
)
COLUMNS, COUNTED = columns(PERSONS, COUNTS), PERSONS.matrix(COUNTS)


SIZES = grid_of(PERSONS)


def totals(blue: Blue) -> tuple[np.ndarray, np.ndarray]:
    """Totals, and their standard errors: 0 where they are declared."""
    return total_of(blue.x, SIZES), np.sqrt(np.maximum(total_variance(blue.variance, SIZES), 0))


def passes(plan: Plan, measure: Measure) -> tuple[list[Information], list[Blue]]:
    """Information and estimates of every level, top first."""
    result = list(pass_up(plan, measure, 0, 0, len(plan.spine.starts[0])))
    last = len(plan.spine.levels) - 1
    result.append(pass_up(plan, measure, last, 0, plan.spine.blocks)[0])
    by_level = [blue_roots(plan, result[0])]
    for information in result[1:]:
        by_level.append(blue_children(plan, by_level[-1], information))
    return result, by_level


@pytest.mark.ci
def test_the_two_passes_are_the_dense_solution() -> None:
    """Estimates, and variances of totals and cells, of every geounit: the normal equations, 1,500 unknowns a part."""
    plan, measure, _ = six_blocks(1)
    result, by_level = passes(plan, measure)
    allowed = plan.bounds.allowed(2)
    unknown = np.flatnonzero(allowed[:, PERSONS.types].ravel())
    block, cell = unknown // 2016, unknown % 2016
    hessian, linear = np.zeros((len(unknown), len(unknown))), np.zeros(len(unknown))
    for level, name in enumerate(plan.spine.levels):
        geounit = plan.spine.geounit_of_block(level)[block]
        answers = measure(level, 0, len(plan.spine.starts[level])).answers
        for query in plan.allocation.queries[name]:
            weight = weights(plan.allocation, name, [query], plan.spine.shares[level], 12)[0][geounit]
            group = query_group(PERSONS, query)
            at = geounit * group.width + group.coordinate[cell]
            hessian += weight * np.equal.outer(at, at)
            linear += weight * answers[query].ravel()[at]
    inverse, ones = np.linalg.inv(hessian), np.ones(len(unknown))
    along, x = inverse @ ones, inverse @ linear
    x += along * (plan.bounds.lowest_totals.values.sum() - x.sum()) / along.sum()
    inverse -= np.outer(along, along) / along.sum()
    for level, blue in enumerate(by_level):
        geounit = plan.spine.geounit_of_block(level)[block]
        expected = np.zeros((len(plan.spine.starts[level]), 2016))
        np.add.at(expected, (geounit, cell), x)
        np.testing.assert_allclose(to_cells(blue.x, SIZES), expected, atol=1e-8)
        here = np.equal.outer(np.arange(len(expected)), geounit).astype(float)
        np.testing.assert_allclose(totals(blue)[1] ** 2, (here @ inverse * here).sum(axis=1), rtol=1e-9, atol=1e-9)
        counted = COUNTED[cell]
        np.testing.assert_allclose(COLUMNS.sums(blue.x), expected @ COUNTED, atol=1e-8)
        for u, errors in enumerate(COLUMNS.variances(blue.variance)):
            one = counted * (geounit == u)[:, None]
            np.testing.assert_allclose(errors, (one * (inverse @ one)).sum(axis=0), rtol=1e-9, atol=1e-9)
    of = np.array([0, 1, 0, -1, 2, 0])  # entities that cut tracts and parts, and one that is a block
    covariances = Covariances.empty(8, 3, between=True)
    estimates, errors = entities(plan, result, of, covariances)
    alone = Covariances.empty(8, 3, between=False)
    entities(plan, result, of, alone)
    each = np.equal.outer(np.arange(3), of[block])
    for one, two in (("total", "total"), ("total", "adults of two races"), ("adults of two races",) * 2):
        left, right = (COUNTED[cell, COLUMNS.names.index(name)] * each for name in (one, two))
        dense = left @ inverse @ right.T
        np.testing.assert_allclose(covariances.of(COLUMNS, one, two), dense, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(alone.of(COLUMNS, one, two), dense.diagonal(), rtol=1e-8, atol=1e-9)
    with pytest.raises(ValueError, match="sum over all types"):
        covariances.of(COLUMNS, "total", "prisoners")
    for e in range(3):
        one = COUNTED[cell] * (of[block] == e)[:, None]
        np.testing.assert_allclose(estimates[e], one.T @ x, atol=1e-8)
        np.testing.assert_allclose(errors[e] ** 2, (one * (inverse @ one)).sum(axis=0), rtol=1e-8, atol=1e-9)


def entities(
    plan: Plan, result: list[Information], of: np.ndarray, covariances: Covariances
) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and standard errors of entities of the blocks of `six_blocks`; their covariances are added."""
    numbers = [len(starts) for starts in plan.spine.starts]
    blocks = sibling_sums(plan, 1, 0, numbers[1], result[2])
    pairs = regress_block_groups(COLUMNS, replace(blocks, z=blocks.z[:0]), 0, of, COLUMNS.sums(blocks.z), covariances)
    parts = sibling_sums(plan, 0, 0, numbers[0], result[1])
    pairs = regress_parents(COLUMNS, parts, 0, 0, pairs, covariances)
    pairs = regress_parents(COLUMNS, sibling_sums(plan, STATES, 0, 1, result[0]), 0, 0, pairs, covariances)
    entity, estimates, errors, cut = entity_estimates(COLUMNS, blue_states(plan, result[0]), pairs, covariances)
    np.testing.assert_array_equal(entity, np.arange(3))
    np.testing.assert_array_equal(cut, [1, 1, 1])
    return estimates, errors


@pytest.mark.parametrize("seed", [1, 2])
def test_children_sum_to_their_parent_and_only_children_are_theirs(seed: int) -> None:
    plan, measure, _ = six_blocks(seed)
    _, by_level = passes(plan, measure)
    assert totals(by_level[0])[0].sum() == pytest.approx(plan.bounds.lowest_totals.values.sum(), abs=1e-9)
    for level in (1, 2):
        sums = np.zeros_like(by_level[level - 1].x)
        np.add.at(sums, plan.spine.parents[level], by_level[level].x)
        np.testing.assert_allclose(sums, by_level[level - 1].x, atol=1e-9)
    assert plan.spine.shares[2][2] == 0
    np.testing.assert_array_equal(by_level[2].x[2], by_level[1].x[1])


def test_without_zeros_variances_are_those_of_the_spine() -> None:
    """Every type everywhere and no declared total: `spine.variance`, which knows of neither, for all levels."""
    plan, measure, _ = six_blocks(3)
    spine = replace(plan.spine, shares=(np.array([5, 4]), np.array([3, 2, 4, 6]), np.array([2, 3, 1, 1, 2, 2])))
    spine = replace(spine, starts=(np.array([0]), *spine.starts[1:]), shares=(np.array([5]), *spine.shares[1:]))
    full = replace(plan.bounds, counts=tuple(np.ones((len(s), 8), np.int64) for s in spine.starts))
    plan = replace(plan, spine=spine, bounds=full)
    result = [*pass_up(plan, measure, 0, 0, 1), pass_up(plan, measure, 2, 0, 6)[0]]
    by_level = [Blue(0, 0, *estimates(plan, result[0]))]
    for information in result[1:]:
        by_level.append(blue_children(plan, by_level[-1], information))
    alloc = replace(plan.allocation, levels=dict.fromkeys(spine.levels, Fraction(1, 3)))
    total = [np.zeros(len(starts)) for starts in spine.starts]
    for part in marginal_parts("total", PERSONS, alloc):
        up = upward(spine, part, 1)
        *above, blocks = downward(spine, up, root_of(spine, up))
        for level, variance in enumerate([*above, blocks[up.row_of_block]]):
            total[level] += cell_variance(part, variance)
    for blue, expected in zip(by_level, total, strict=True):
        np.testing.assert_allclose(totals(blue)[1] ** 2, expected, rtol=1e-9)


def above_blocks(plan: Plan, measure: Measure) -> list[tuple[ParentProblem, ChildInformation, np.ndarray]]:
    """Parents that are divided by information: problem, objective and solution."""
    return [
        (problem, problem.objective, x)
        for _, problem, x, _ in problems_of(lambda: everything(plan, measure, TreeAnswers))
        if isinstance(problem.objective, ChildInformation)
    ]


@pytest.mark.long
def test_the_majorizer_is_above_the_hessian() -> None:
    """And the product with the Hessian is the dense one's."""
    case = small_state(2, parts=2)
    plan = plan_of(case)
    parents = above_blocks(plan, measuring(plan, case.persons, 2))
    assert len(parents) > 20
    for problem, information, x in parents[-12:]:
        hessian, linear = problem.objective.quadratic(problem.parent.cells)
        dense = hessian.toarray()
        kind = problem.parent.quarters_type
        sign, race = np.divmod(information.at, 63)
        a = inverse_row_sums(information.between, kind, sign, race, SIZES.patterns[0], problem.allowed_cells).ravel()
        root = np.sqrt(a)
        (largest,) = eigsh(root[:, None] * dense * root, 1, which="LA", v0=root, return_eigenvectors=False)
        assert 0.2 < largest <= 1 + 1e-9
        cho_factor(dense[np.ix_(a > 0, a > 0)])  # what kappa leaves is positive, or this raises
        x = np.random.default_rng(1).normal(size=x.shape)
        types = len(problem.parent.allowed)
        scratch = np.empty((types, 4, 63)), np.empty((types, 4, 63))
        place = kind * 252 + problem.parent.cells % 252
        objective = TreeMisfit(x, information.precision, information.linear, place, SIZES.signs, *scratch)
        gradient = np.empty(x.shape)
        tree_gradient(objective, gradient)
        np.testing.assert_allclose(gradient.ravel(), dense @ x.ravel() - linear, atol=1e-9)


def test_with_nothing_below_the_kernel_is_the_program_s() -> None:
    """The children's own answers as information, in one pass without bands: the same minimum as by query groups."""
    case = small_state(2)
    plan = plan_of(case)
    measure = measuring(plan, case.persons, 4)
    truth = summed(case.persons, plan.spine)
    for level, parent in ((1, 0), (2, 0), (3, 1)):
        first, last = plan.spine.first_child[level - 1][[parent, parent + 1]].tolist()
        cells, counts = truth[level - 1].of(parent)
        queries, hierarchy = plan.all_queries[level]
        given = measure(level, first, last)
        shares = plan.spine.shares[level][first:last]
        weight = weights(plan.allocation, plan.spine.levels[level], queries, shares, plan.spine.denominator)
        answers = np.concatenate([np.asarray(given.answers[query], float) for query in queries], axis=1)
        allowed = plan.bounds.allowed(level)[first:last]
        weight = np.ascontiguousarray(weight)
        own = own_information(SIZES, level, first, queries, hierarchy, given.answers, weight, allowed)
        general = descend._problem(plan, level, (first, last), informed(plan, own), cells, counts)
        program = replace(general, objective=ChildAnswers(hierarchy, answers, weight))
        np.testing.assert_allclose(solve(general)[0], solve(program)[0], atol=1e-4)


def test_standard_errors_hold() -> None:
    """Unbiased, of the stated variance: standardized errors of 40 independent noises, within 5 sigma of 0 and of 1."""
    plan, _, truth = six_blocks(5)
    persons = from_entries(TrueHistograms, 2, 0, *np.nonzero(truth), truth[np.nonzero(truth)], 6)
    errors: list[list[np.ndarray]] = [[] for _ in plan.spine.levels]
    for seed in range(40):
        _, by_level = passes(plan, measuring(plan, persons, 100 + seed))
        for level, blue in enumerate(by_level):
            total, spread = totals(blue)
            exact = np.add.reduceat(truth.sum(axis=1), plan.spine.starts[level])
            errors[level].append((total - exact) / spread)
    for of_level in errors:
        z = np.array(of_level)
        # Geounits of a level are correlated: as if each noise gave one number.
        assert abs(z.mean(axis=1).mean()) < 5 / np.sqrt(40)
        assert abs((z**2).mean() - 1) < 5 * np.sqrt(2 / 40)


def crowded(seed: int) -> tuple[Plan, Measure]:
    """Some 5,000 persons in every cell that may be: nothing comes near 0."""
    plan, _, _ = six_blocks(seed)
    allowed = plan.bounds.allowed(2)[:, PERSONS.types] & PERSONS.possible
    row, cell = np.nonzero(allowed)
    count = np.random.default_rng(seed).poisson(5000, len(row))
    persons = from_entries(TrueHistograms, 2, 0, row, cell, count, 6)
    totals = Totals(plan.bounds.lowest_totals.group, np.array([count.sum()]))
    plan = replace(plan, bounds=replace(plan.bounds, totals=(totals, *plan.bounds.totals[1:])))
    return plan, measuring(plan, persons, seed)


def test_with_nothing_binding_the_descent_is_the_unbiased_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the parent's integers, in one pass: the children's least squares before they are rounded."""
    monkeypatch.setattr(tree_answers, "LARGEST_PART", 0.0)  # the total stays in P
    plan, measure = crowded(7)
    plan = replace(plan, passes=replace(plan.passes, band=1e9))
    solved = [(problem, x) for problem, _, x in above_blocks(plan, measure) if len(problem.parent.counts)]
    result = [*pass_up(plan, measure, 0, 0, 2), pass_up(plan, measure, 2, 0, 6)[0]]
    assert len(solved) == 2  # the parts of the state, of two tracts each
    for part, (problem, x) in enumerate(solved):
        cells = np.zeros((1, 2016))
        cells[0, problem.parent.cells] = problem.parent.counts
        parent = Blue(0, part, in_cells(np.eye(4), SIZES.signs).T @ cells.reshape(1, 8, 4, 63), np.zeros((1, 8, 8, 8)))
        first, last = plan.spine.first_child[0][[part, part + 1]].tolist()
        children = blue_children(plan, parent, result[1].only(first, last))
        expected = to_cells(children.x, SIZES)[:, problem.parent.cells].T
        assert expected[problem.allowed_cells].min() > 50
        np.testing.assert_allclose(x, expected, atol=1e-3)


@pytest.mark.ci
def test_taking_the_total_out_of_the_last_pass_changes_what_the_band_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the band of 0.1 persons; without it the same minimum takes several times the iterations."""
    case = small_state(2, parts=2)
    plan = plan_of(case)
    measure = measuring(plan, case.persons, 2)
    known = TreeAnswers(plan, measure)
    above = estimate_children(plan, estimate_roots(plan, known)[0], known)[0]
    with_total_out = problems_of(lambda: estimate_children(plan, above, known))
    monkeypatch.setattr(tree_answers, "LARGEST_PART", 0.0)
    given = problems_of(lambda: estimate_children(plan, above, known))
    assert given
    for (*_, other, fewer), (*_, x, iterations) in zip(with_total_out, given, strict=True):
        assert abs(x.sum(axis=0) - other.sum(axis=0)).max() <= 0.2 + 1e-6
        assert abs(x - other).max() < 0.2
        assert iterations >= fewer
