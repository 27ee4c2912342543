"""Synthetic states for the estimation of the TopDown Algorithm: blocks, persons, invariants and their measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from spine.allocations import Allocation
from spine.hierarchy import Spine
from spine.production import allocation
from spine.top_down import (
    PERSONS,
    UNITS,
    Answers,
    Estimates,
    Measure,
    NoisyAnswers,
    Plan,
    Product,
    Solve,
    TrueHistograms,
    descend,
    estimate_children,
    estimate_roots,
    exact_answers,
    invariants,
    parent_problem,
    query_group,
    summed,
)
from spine.top_down.histogram import Histograms, from_entries
from spine.top_down.measurements import inverse_variance
from spine.top_down.parent_problem import ParentProblem
from tasks.top_down.synth import draw_persons, living_quarters

LEVELS = ("State", "County", "Tract", "Block_Group", "Block")
STATE = 44


@dataclass(frozen=True)
class State:
    """A synthetic state: blocks in spine order, and what is confidential and declared of each."""

    spine: Spine
    persons: TrueHistograms
    quarters: np.ndarray

    def total(self) -> int:
        return int(self.persons.count.sum())


def populate(population: np.ndarray, tract: np.ndarray, seed: int) -> tuple[np.ndarray, ...]:
    """(block, cell) of every person and the (blocks, 8) quarters, for blocks of these populations and tracts."""
    native = np.zeros(len(population), bool)
    quarters = living_quarters(population, native, np.random.default_rng(seed))
    return *draw_persons(tract, quarters, native, (seed, 0)), quarters.facilities


def state(spine: Spine, population: np.ndarray, tract: np.ndarray, seed: int) -> State:
    """A state on blocks that are in spine order; blocks without quarters must not be there (see `universe`)."""
    block_of, cell, quarters = populate(population, tract, seed)
    ones = np.ones(len(block_of), np.int64)
    persons = from_entries(TrueHistograms, len(spine.levels) - 1, 0, block_of, cell, ones, spine.blocks)
    quarters[quarters.sum(axis=1) == 0, 0] = 1
    return State(spine, persons, quarters)


def small_spine(rng: np.random.Generator, fanouts: tuple[int, ...] = (1, 3, 4, 3, 8), parts: int = 1) -> Spine:
    """A forest of `parts` of one state; each geounit has one to twice the fanout's children."""
    sizes = [np.ones(parts, np.int64)]
    for fanout in fanouts[1:]:
        sizes.append(rng.integers(1, 2 * fanout, size=int(sizes[-1].sum())))
    starts = [np.arange(int(sizes[-1].sum()))]
    for level in range(len(sizes) - 1, 0, -1):
        starts.insert(0, starts[0][np.append(0, np.cumsum(sizes[level])[:-1])])
    return with_shares(Spine(LEVELS, np.arange(len(starts[-1])), tuple(starts), starts[:1] * 5, 1))


def with_shares(spine: Spine, alloc: Allocation | None = None) -> Spine:
    """Production's shares of the levels below the nation, or those of another allocation."""
    alloc = alloc or allocation("pl94-persons", "us")
    return spine.with_shares({level: alloc.levels[level] for level in spine.levels})


def small_state(seed: int, parts: int = 1) -> State:
    """Some 300 blocks, 15,000 persons."""
    rng = np.random.default_rng(seed)
    spine = small_spine(rng, parts=parts)
    population = np.where(rng.random(spine.blocks) < 0.7, np.ceil(rng.lognormal(3.3, 1.1, spine.blocks)), 0)
    return state(spine, population.astype(np.int64), spine.geounit_of_block(spine.levels.index("Tract")), seed)


def plan_of(state: State, alloc: Allocation | None = None, product: Product = PERSONS, **options: object) -> Plan:
    """The plan of estimating a state."""
    alloc = alloc or allocation("pl94-persons", "us")
    declared = invariants(state.spine, state.quarters, {STATE: state.total()}, np.full(state.spine.blocks, STATE))
    return Plan(product, state.spine, alloc, declared, **options)  # type: ignore[arg-type]


def nation(seed: int) -> tuple[Plan, TrueHistograms]:
    """A nation of three states, two of two parts, one part uninhabited: its spine ends at the states' parts."""
    spine = Spine(("US", "State"), np.arange(5), (np.array([0]), np.arange(5)), (np.zeros(1, int), np.zeros(5, int)), 1)
    alloc = allocation("pl94-persons", "us")
    spine = with_shares(spine)
    people = state(spine, np.array([4000, 900, 2500, 0, 3000]), np.arange(5), seed)
    quarters = people.quarters
    quarters[3] = 0
    quarters[3, 0] = 2
    codes = np.array([1, 1, 2, 2, 4])
    totals = np.bincount(codes, people.persons.totals(), minlength=5)
    declared = invariants(spine, quarters, dict(enumerate(totals.tolist())), codes)
    return Plan(PERSONS, spine, alloc, declared), people.persons


def pure(epsilon: Fraction) -> Allocation:
    """Production's allocation of this epsilon."""
    return replace(allocation("pl94-persons", "us"), definition="puredp", budget=epsilon)


def measuring(plan: Plan, truth: TrueHistograms, seed: int | None) -> Measure:
    """Noisy answers: rounded normal noise of the right variance, a stream a row; without a seed the exact answers."""
    by_level = summed(truth, plan.spine)

    def measure(level: int, first: int, last: int) -> NoisyAnswers:
        name, answers = plan.spine.levels[level], {}
        for number, (query, alpha) in enumerate(plan.allocation.queries[name].items()):
            group = query_group(plan.product, query)
            exact = exact_answers(by_level[level], group, first, last)
            if seed is not None:
                sigma = {
                    n: inverse_variance(plan.allocation, Fraction(n, plan.spine.denominator), alpha) ** -0.5 if n else 0
                    for n in np.unique(plan.spine.shares[level][first:last]).tolist()
                }
                for row in range(first, last):
                    rng = np.random.default_rng([seed, level, number, row])
                    scale = sigma[int(plan.spine.shares[level][row])]
                    exact[row - first] += np.rint(rng.normal(0, scale, group.width)).astype(np.int64)
            answers[query] = exact
        return NoisyAnswers(first, last, answers)

    return measure


def estimate_below(plan: Plan, parents: Estimates, answers: Answers) -> tuple[list[Estimates], list[Solve]]:
    """Estimates of every level below a range of parents, top first."""
    estimates, solves = [parents], []
    while estimates[-1].level < len(plan.spine.levels) - 1:
        below, solved = estimate_children(plan, estimates[-1], answers)
        estimates.append(below)
        solves += solved
    return estimates[1:], solves


def everything(plan: Plan, measure: Measure, answers: type[Answers] = Answers) -> tuple[list[Estimates], list[Solve]]:
    """Estimates of all levels, top first, by the program or another estimator's answers."""
    roots, first = estimate_roots(plan, answers(plan, measure))
    below, further = estimate_below(plan, roots, answers(plan, measure))
    return [roots, *below], first + further


def checked(
    plan: Plan, persons: TrueHistograms, seed: int | None, answers: type[Answers] = Answers
) -> tuple[list[Estimates], list[Solve]]:
    """Estimates of noisy answers: every invariant holds, and every first attempt was good enough."""
    estimates, solves = everything(plan, measuring(plan, persons, seed), answers)
    check(plan, estimates, persons)
    assert not any(solve.failed for solve in solves)
    return estimates, solves


def problems_of(estimate: Callable[[], object]) -> list[tuple[bool, ParentProblem, np.ndarray, int]]:
    """Every parent solved: whether totals come first in its rounding, its problem, solution and iterations."""
    problems = []

    def keep(problem: ParentProblem) -> tuple[np.ndarray, int, str, float]:
        result = parent_problem.solve(problem)
        problems.append((problem.low is not None and problem.counts is not None, problem, *result[:2]))
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(descend, "solve", keep)
        estimate()
    return problems


def units_of(case: State) -> tuple[Plan, TrueHistograms]:
    """A plan of a state's units and their true histograms: 91 percent of housing units occupied."""
    alloc, hu = allocation("pl94-units", "us"), case.quarters[:, 0]
    occupied = np.random.default_rng(1).binomial(hu, 0.91)
    row, cell = np.repeat(np.arange(len(hu)), 2), np.tile([0, 1], len(hu))
    truth = from_entries(TrueHistograms, 4, 0, row, cell, np.column_stack([hu - occupied, occupied]).ravel(), len(hu))
    return plan_of(replace(case, spine=with_shares(case.spine, alloc)), alloc, UNITS), truth


def check(plan: Plan, estimated: list[Estimates], persons: TrueHistograms) -> None:
    """Every invariant on every level, and every parent the sum of its children."""
    declared, spine = plan.invariants, plan.spine
    assert same(estimated[1:], summed(estimated[-1], spine)[1:])
    for level, estimates in enumerate(estimated):
        assert len(estimates) == len(spine.starts[level])
        assert (estimates.count > 0).all()
        by_type = np.zeros((len(estimates), 8), np.int64)
        np.add.at(by_type, (estimates.row, plan.product.types[estimates.cell]), estimates.count)
        assert (by_type[~declared.allowed(level)] == 0).all()
        assert (by_type >= declared.lower_bound(level)).all()
        assert plan.product.possible[estimates.cell].all()
    assert estimated[0].totals().sum() == persons.count.sum()


def same(first: Sequence[Histograms], other: Sequence[Histograms]) -> bool:
    """Whether two estimations, or one and the truth, agree in every cell of every geounit."""
    return all(
        np.array_equal(getattr(x, name), getattr(y, name))
        for x, y in zip(first, other, strict=True)
        for name in ("starts", "cell", "count")
    )
