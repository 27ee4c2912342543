"""The whole descent on small synthetic states: recovery, invariants, independence of partition, solvers that fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar, get_type_hints

import numpy as np
import pytest
from top_down_cases import (
    LEVELS,
    STATE,
    State,
    check,
    checked,
    estimate_below,
    everything,
    measuring,
    nation,
    plan_of,
    pure,
    same,
    small_state,
    state,
    units_of,
    with_shares,
)

from spine.allocations import Allocation
from spine.gls.information import Information, information_joined
from spine.gls.tree_answers import TreeAnswers
from spine.gls.upward import pass_up, pass_up_above
from spine.hierarchy import Spine
from spine.production import allocation
from spine.redistricting import PERSONS, redistricting_bounds
from spine.top_down import (
    Estimates,
    EstimationError,
    Measure,
    NoisyAnswers,
    OwnAnswers,
    Plan,
    TrueHistograms,
    estimate_children,
    estimate_roots,
    general_solvers,
    joined,
    least_squares,
    own_answers,
    solve_parent,
    summed,
)
from spine.top_down.histogram import from_entries
from spine.top_down.least_squares import Solution
from spine.top_down.queries import inverse_variance

both = pytest.mark.parametrize("estimator", [OwnAnswers, TreeAnswers])


@both
@pytest.mark.parametrize("parts", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_without_noise_the_truth_comes_back(parts: int, estimator: type[OwnAnswers]) -> None:
    case = small_state(parts, parts)
    plan = plan_of(case)
    assert same(checked(plan, case.persons, None, estimator)[0], summed(case.persons, plan.spine))


@pytest.mark.parametrize("known", [2, *(pytest.param(known, marks=pytest.mark.slow) for known in (1, 3))])
def test_levels_of_a_huge_budget_are_exact(known: int) -> None:
    """All levels down to one without noise: these come back; the levels below do not."""
    case = small_state(7)
    plan = plan_of(case)
    exact, noisy = measuring(plan, case.persons, None), measuring(plan, case.persons, 3)
    estimates, _ = everything(plan, lambda level, *run: (exact if level <= known else noisy)(level, *run))
    truth = summed(case.persons, plan.spine)
    assert same(estimates[: known + 1], truth[: known + 1])
    assert not same(estimates[-1:], truth[-1:])


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_invariants_and_sums(seed: int) -> None:
    case = small_state(seed, 1 + seed % 2)
    _, solves = checked(plan_of(case), case.persons, seed)
    assert max(solve.violation for solve in solves) < 1e-6


class Watched(np.ndarray):
    """An array that notes the length of every array of its kind that is computed with."""

    lengths: ClassVar[list[int]] = []

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> object:
        self.lengths.append(len(self))
        return getattr(ufunc, method)(*(np.asarray(each) for each in inputs), **options)


def test_the_work_of_a_parent_does_not_grow_with_its_level() -> None:
    """Of a level's declared counts, a parent's constraints read those of its children."""
    case = small_state(5)
    plan = plan_of(case)
    measure = measuring(plan, case.persons, 1)
    groups = everything(plan, measure)[0][-2]
    declared = replace(plan.bounds, counts=tuple(each.view(Watched) for each in plan.bounds.counts))
    estimate_children(replace(plan, bounds=declared), groups, OwnAnswers(plan, measure))
    assert 0 < max(Watched.lengths) <= plan.spine.children(groups.level).max() < plan.spine.blocks


@both
@pytest.mark.parametrize("units", [pytest.param(False, marks=pytest.mark.ci), True])
def test_the_estimate_does_not_depend_on_the_partition_of_the_work(units: bool, estimator: type[OwnAnswers]) -> None:
    """Ranges of other sizes; counties apart, then the state from theirs, then below each county: bit by bit."""
    case = small_state(12, parts=2)
    assert len(case.spine.starts[1]) == 6
    plan, truth = units_of(case) if units else (plan_of(case), case.persons)
    measure = measuring(plan, truth, 1)
    whole, solves = everything(plan, measure, estimator)
    assert not any(solve.failed for solve in solves)
    if not units:
        check(plan, whole, truth)
    plan = replace(plan, rows=1)
    assert same(whole, everything(plan, measure, estimator)[0])
    own = known = estimator(plan, measure)
    if estimator is TreeAnswers:
        parts = [pass_up(plan, measure, 1, c, c + 1)[0] for c in range(len(plan.spine.starts[1]))]
        known = TreeAnswers(plan, measure, pass_up_above(plan, measure, information_joined(parts)))
    roots, _ = estimate_roots(plan, known)
    counties, _ = estimate_children(plan, roots, known)
    below = [estimate_below(plan, counties.only(c), own)[0] for c in reversed(range(len(counties)))]
    assert same(whole, [roots, counties, *(joined(list(level)) for level in zip(*reversed(below), strict=True))])


def test_measure_is_asked_once_for_each_geounit_that_has_people_and_siblings() -> None:
    case = small_state(12)
    plan = plan_of(case, rows=20)
    answer, asked = measuring(plan, case.persons, 2), []

    def measure(level: int, first: int, last: int) -> NoisyAnswers:
        asked.append((level, first, last))
        return answer(level, first, last)

    everything(plan, measure)
    rows = [(level, row) for level, first, last in asked for row in range(first, last)]
    assert len(rows) == len(set(rows))
    assert asked == sorted(asked)


@both
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.ci) for seed in (2, 3))])
def test_under_a_nation_every_state_has_its_declared_total(seed: int, estimator: type[OwnAnswers]) -> None:
    plan, persons = nation(seed)
    exact, _ = everything(plan, measuring(plan, persons, None), estimator)
    np.testing.assert_array_equal(exact[1].dense(2016), persons.dense(2016))
    estimates, _ = checked(plan, persons, seed, estimator)
    totals = np.bincount(plan.bounds.lowest_totals.group, estimates[1].totals())
    np.testing.assert_array_equal(totals, plan.bounds.lowest_totals.values)


@pytest.mark.parametrize(
    ("alloc", "estimator"),
    [
        pytest.param(alloc, estimator, id=f"{name}-{estimator.__name__}", marks=[pytest.mark.ci] * further)
        for name, alloc in (("pure", pure(Fraction(20))), ("pr", allocation("pl94-persons", "pr")))
        for estimator, further in ((OwnAnswers, name == "pr"), (TreeAnswers, name == "pure"))
    ],
)
def test_pure_differential_privacy_and_puerto_rico_without_a_total_at_the_root(
    alloc: Allocation, estimator: type[OwnAnswers]
) -> None:
    assert ("total" in alloc.queries["State"]) == (alloc.definition == "puredp")
    case = small_state(8)
    checked(plan_of(replace(case, spine=with_shares(case.spine, alloc)), alloc), case.persons, 8, estimator)


def test_weights_under_pure_differential_privacy() -> None:
    """They are 1 / variance of Laplace_Z: against the definition."""
    share, alpha, epsilon = Fraction(1, 3), Fraction(1, 7), Fraction(5)
    b = float(2 / (epsilon * share * alpha))
    k = np.arange(-3000, 3001)
    pmf = np.tanh(1 / (2 * b)) * np.exp(-np.abs(k) / b)
    assert inverse_variance(pure(epsilon), share, alpha) == pytest.approx(1 / (pmf * k * k).sum(), rel=1e-9)


def line(sizes: list[int], population: list[int], seed: int = 1) -> State:
    """A state that is a chain of only children down to `sizes[-1]` blocks (sizes: geounits a level)."""
    blocks = sizes[-1]
    starts = tuple(np.arange(size) if size == blocks else np.array([0]) for size in sizes)
    spine = with_shares(Spine(LEVELS, np.arange(blocks), starts, starts, 1))
    return state(spine, np.array(population), np.zeros(blocks, np.int64), seed)


@pytest.mark.parametrize(
    "case",
    [
        line([1, 1, 1, 1, 1], [37]),
        line([1, 1, 1, 1, 1], [1]),
        line([1, 1, 1, 1, 7], [1, 0, 0, 0, 0, 0, 0]),
        line([1, 1, 1, 1, 300], [5] * 300),
        line([1, 1, 1, 1, 4], [0, 0, 0, 0]),
    ],
    ids=["one block", "one person", "one person among seven blocks", "hundreds of children", "nobody"],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_degenerate_states(case: State, seed: int) -> None:
    plan = plan_of(case)
    estimates, _ = everything(plan, measuring(plan, case.persons, seed))
    check(plan, estimates, case.persons)
    if case.spine.blocks == 1:  # the root has no other constraint than the total, so only that is known
        assert estimates[-1].totals().tolist() == [case.total()]


def test_lower_bounds_bind_and_hold() -> None:
    """Facilities with one person each, in blocks that hold nothing else: only the bounds keep them inhabited."""
    case = line([1, 1, 1, 1, 12], [40] * 12)
    quarters, cell = np.zeros((12, 8), np.int64), PERSONS.types.searchsorted(7) + 200
    quarters[:, 0] = 20
    quarters[4:, 7], quarters[6:, 0] = 3, 0
    row = np.repeat(np.arange(12), np.where(np.arange(12) < 4, 40, 3))
    cells = np.where(row < 4, 130, cell)
    persons = from_entries(TrueHistograms, 4, 0, row, cells, np.ones(len(row), np.int64), 12)
    bounded = State(case.spine, persons, quarters)
    for seed in range(6):
        checked(plan_of(bounded), persons, seed)


def test_a_share_of_0_with_siblings_is_refused() -> None:
    case = small_state(1)
    shares = list(case.spine.shares)
    shares[1] = np.where(np.arange(len(shares[1])) == 1, 0, shares[1])
    plan = plan_of(replace(case, spine=replace(case.spine, shares=tuple(shares))))
    with pytest.raises(ValueError, match="has siblings and the share 0"):
        everything(plan, measuring(plan, case.persons, 1))


def test_a_level_without_the_detailed_query_is_refused() -> None:
    alloc = allocation("pl94-persons", "us")
    queries = {**alloc.queries, "Tract": {"total": Fraction(1)}}
    with pytest.raises(ValueError, match="Tract lacks the detailed query"):
        plan_of(small_state(1), replace(alloc, queries=queries))


@pytest.mark.parametrize("solvers", [("piqp",), pytest.param(("clarabel",), marks=pytest.mark.ci), ()])
def test_a_failed_solve_is_continued_and_counted(solvers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Our solver fails in every parent of 10 to 100 unknowns: a general one or its best iterate is used, and told."""
    case = small_state(9)
    plan = plan_of(case)
    measure = measuring(plan, case.persons, 9)
    real = own_answers.least_squares

    def stopping(*given: object) -> Solution:
        solution: Solution = real(*given)  # type: ignore[arg-type]
        return solution._replace(step=1.0) if 10 <= solution.x.size <= 100 else solution

    monkeypatch.setattr(own_answers, "least_squares", stopping)
    monkeypatch.setattr(general_solvers, "SOLVERS", solvers)
    estimates, solves = everything(plan, measure)
    check(plan, estimates, case.persons)
    failed = [solve for solve in solves if solve.failed]
    assert len(failed) == sum(10 <= solve.children * solve.cells <= 100 for solve in solves) > 10
    assert {solve.solver for solve in failed} == set(solvers or ["best iterate"])


def test_a_careful_second_attempt_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    case = small_state(9)
    plan = plan_of(case)
    real = own_answers.least_squares
    monkeypatch.setattr(own_answers, "least_squares", lambda *a: real(*a)._replace(step=0.0 if a[-2] else 1.0))
    estimates, solves = everything(plan, measuring(plan, case.persons, 9))
    check(plan, estimates, case.persons)
    assert {solve.solver for solve in solves} == {"own, careful"}


def test_an_iterate_that_misses_its_bands_by_half_a_person_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    case = small_state(9)
    plan = plan_of(case)
    real = own_answers.least_squares
    monkeypatch.setattr(own_answers, "least_squares", lambda *a: (s := real(*a))._replace(step=1.0, x=s.x * 1.5))
    monkeypatch.setattr(general_solvers, "SOLVERS", ())
    with pytest.raises(EstimationError, match="least squares: no solver met") as error:
        everything(plan, measuring(plan, case.persons, 9))
    assert not any(character.isdigit() for character in str(error.value))


def test_estimation_takes_nothing_confidential() -> None:
    """The arguments are a plan, estimates, information, a callable. And mypy knows the types apart."""
    public = {Plan, Estimates, OwnAnswers, Measure, int, Information, tuple[Information, ...]}
    public |= {Callable[[int, int, int, Information], None] | None}  # what keeps the information of the tree
    for step in (estimate_roots, estimate_children, OwnAnswers, TreeAnswers, pass_up, pass_up_above):
        assert {kind for name, kind in get_type_hints(step).items() if name != "return"} <= public
    assert not issubclass(Estimates, TrueHistograms)
    assert not issubclass(TrueHistograms, Estimates)


def test_estimation_imports_nothing_that_draws_or_reads() -> None:
    code = "import sys, spine.top_down; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {m.split(".")[0] for m in modules} & {"tasks", "flows", "prefect", "dask", "distributed"}
    known = {"privacy", "privacy.noise", "privacy.noise.exact", "privacy.tables", "privacy.tables.histogram"}
    assert {m for m in modules if m.split(".")[0] == "privacy"} <= known


def test_state_code_must_be_declared() -> None:
    case = small_state(1)
    with pytest.raises(ValueError, match="no total population is declared for state 44"):
        redistricting_bounds(PERSONS, case.spine, case.quarters, {45: 1}, np.full(case.spine.blocks, STATE))


def test_parents_read_from_a_file_are_the_same_problem() -> None:
    """Read-only arrays, as Arrow gives them, are another type to numba: no kernel is compiled again for them."""
    case = small_state(6)
    plan = plan_of(case)
    measure = measuring(plan, case.persons, 6)
    expected, _ = everything(plan, measure)
    own = OwnAnswers(plan, measure)
    roots, _ = estimate_roots(plan, own)
    kernels = least_squares.least_squares, solve_parent.rounded
    compiled = [len(kernel.signatures) for kernel in kernels]  # type: ignore[attr-defined]
    for array in (roots.starts, roots.cell, roots.count):
        array.flags.writeable = False
    assert same(expected[1:], estimate_below(plan, roots, own)[0])
    assert [len(kernel.signatures) for kernel in kernels] == compiled  # type: ignore[attr-defined]
