"""Synthetic states for the estimation of the TopDown Algorithm: blocks, persons, invariants and their measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from spine.allocations import Allocation
from spine.hierarchy import Spine
from spine.production import allocation
from spine.redistricting import PERSONS, UNITS, redistricting_bounds, redistricting_passes
from spine.top_down import (
    Estimates,
    Measure,
    NoisyAnswers,
    OwnAnswers,
    Plan,
    Product,
    Solve,
    TrueHistograms,
    descend,
    estimate_children,
    estimate_roots,
    exact_answers,
    query_group,
    solve_parent,
    summed,
)
from spine.top_down.histogram import Histograms, from_entries
from spine.top_down.own_answers import ParentProblem
from spine.top_down.queries import inverse_variance

LEVELS = ("State", "County", "Tract", "Block_Group", "Block")
STATE = 44
# Chances of the 63 races, alone and in combination: rough 2020 figures of Rhode Island.
_PAIRS = {(0, 5): 0.36, (0, 1): 0.17, (0, 3): 0.12, (0, 2): 0.10}


def race_chances(alone: list[float]) -> np.ndarray:
    """Chances of the 63 race codes from those of the six races alone; the rest is two or more."""
    subsets = [s for size in range(1, 7) for s in combinations(range(6), size)]
    chance = np.zeros(63)
    chance[:6] = alone
    more = np.array(
        [
            _PAIRS.get(s, 0.019) if len(s) == 2 else {3: 0.0012, 4: 0.0004, 5: 0.0002, 6: 0.0002}.get(len(s), 0)
            for s in subsets
        ]
    )
    return chance + (1 - sum(alone)) * more / more.sum()


HISPANIC = race_chances([0.23, 0.045, 0.015, 0.004, 0.0002, 0.43])
OTHERS = race_chances([0.845, 0.062, 0.0045, 0.043, 0.0004, 0.011])
# type: (facilities' share of blocks, most facilities, fewest and most residents of one, chance of being under 18)
QUARTERS = {1: (0.0004, 2, 200, 400, 0.0), 2: (0.002, 2, 4, 14, 0.95), 3: (0.004, 1, 40, 130, 0.0),
            4: (0.0006, 1, 20, 80, 0.1), 5: (0.003, 3, 60, 260, 0.015), 6: (0.0003, 1, 60, 200, 0.005),
            7: (0.014, 2, 4, 18, 0.1)}  # fmt: skip


@dataclass(frozen=True)
class State:
    """A synthetic state: blocks in spine order, and what is confidential and declared of each."""

    spine: Spine
    persons: TrueHistograms
    quarters: np.ndarray

    def total(self) -> int:
        return int(self.persons.count.sum())


def populate(population: np.ndarray, tract: np.ndarray, seed: int) -> tuple[np.ndarray, ...]:
    """(block, cell) of every person and the (blocks, 8) quarters, for blocks of these populations and tracts.

    Group quarters come first, in blocks that can hold them; households share ethnicity and race more often than not.
    """
    rng = np.random.default_rng(seed)
    blocks = len(population)
    quarters, left = np.zeros((blocks, 8), np.int64), population.copy()
    block, kind = [], []
    for t, (share, most, low, high, _) in QUARTERS.items():
        fitting = np.flatnonzero(left > min(1.5 * high, np.quantile(left, 0.98)))
        wanted = min(len(fitting), int(np.ceil(share * blocks)))
        for b in rng.choice(fitting, wanted, replace=False).tolist():
            facilities = int(rng.integers(1, most + 1))
            residents = min(facilities * int(rng.integers(low, high + 1)), int(0.97 * left[b]))
            if residents >= facilities:
                quarters[b, t], left[b] = facilities, left[b] - residents
                block.append(np.full(residents, b))
                kind.append(np.full(residents, t))
    occupied = np.where(left > 0, np.maximum(1, np.rint(left / rng.uniform(2.0, 2.8, blocks))), 0).astype(np.int64)
    vacant = np.where(occupied, np.rint(0.09 * occupied), (rng.random(blocks) < 0.22) * (1 + rng.poisson(0.6, blocks)))
    quarters[:, 0] = occupied + vacant.astype(np.int64)
    block.append(np.repeat(np.arange(blocks), left))
    kind.append(np.zeros(int(left.sum()), np.int64))
    block_of, living = np.concatenate(block), np.concatenate(kind)
    household = np.cumsum(rng.random(len(block_of)) < 0.42)  # a new household every 2.4 persons, and in every block
    household = household * (blocks + 1) + block_of
    head = np.unique(household, return_inverse=True)[1]
    in_tract = np.clip(rng.beta(0.166 * 6, 0.834 * 6, tract.max() + 1), 0.01, 0.99)[tract]
    by_block = rng.beta(12 * in_tract, 12 * (1 - in_tract))[block_of]
    hispanic = _shared(rng, head, 0.93, lambda n, at: rng.random(n) < by_block[at])
    mixes = [
        np.array([0.7 * rng.dirichlet(40 * base) + 0.3 * base for _ in range(tract.max() + 1)]).cumsum(axis=1)
        for base in (OTHERS, HISPANIC)
    ]

    def races(n: int, at: np.ndarray) -> np.ndarray:
        u = rng.random(n)
        bounds = np.where(hispanic[at][:, None], mixes[1][tract[block_of[at]]], mixes[0][tract[block_of[at]]])
        return np.minimum((u[:, None] > bounds).sum(axis=1), 62)

    race = _shared(rng, head, 0.80, races)
    under = np.where(hispanic, 0.28, np.where(race > 5, 0.33, 0.175))
    for t, (*_, chance) in QUARTERS.items():
        under = np.where(living == t, chance, under)
    adult = rng.random(len(block_of)) >= under
    return block_of, ((living * 2 + adult) * 2 + hispanic) * 63 + race, quarters


def _shared(rng, household, chance, draw):  # type: ignore[no-untyped-def]
    """A trait of each person: the household's with this chance, else one's own."""
    everyone = np.arange(len(household))
    chunks = [draw(len(part), part) for part in np.array_split(everyone, 1 + len(everyone) // 50_000)]
    own = np.concatenate(chunks)
    first = np.unique(household, return_index=True)[1][household]
    return np.where(rng.random(len(own)) < chance, own[first], own)


def state(spine: Spine, population: np.ndarray, tract: np.ndarray, seed: int) -> State:
    """A state on blocks in spine order, all of them with quarters (see `universe`)."""
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
    declared = redistricting_bounds(
        product, state.spine, state.quarters, {STATE: state.total()}, np.full(state.spine.blocks, STATE)
    )
    return Plan(product, state.spine, alloc, declared, redistricting_passes(product), **options)  # type: ignore[arg-type]


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
    declared = redistricting_bounds(PERSONS, spine, quarters, dict(enumerate(totals.tolist())), codes)
    return Plan(PERSONS, spine, alloc, declared, redistricting_passes(PERSONS)), people.persons


def pure(epsilon: Fraction) -> Allocation:
    """Production's allocation of this epsilon."""
    return replace(allocation("pl94-persons", "us"), definition="puredp", budget=epsilon)


def measuring(plan: Plan, truth: TrueHistograms, seed: int | None) -> Measure:
    """Noisy answers: rounded normal noise of the right variance, one stream per row; without a seed, exact answers."""
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


def estimate_below(plan: Plan, parents: Estimates, answers: OwnAnswers) -> tuple[list[Estimates], list[Solve]]:
    """Estimates of every level below a range of parents, top first."""
    estimates, solves = [parents], []
    while estimates[-1].level < len(plan.spine.levels) - 1:
        below, solved = estimate_children(plan, estimates[-1], answers)
        estimates.append(below)
        solves += solved
    return estimates[1:], solves


def everything(
    plan: Plan, measure: Measure, answers: type[OwnAnswers] = OwnAnswers
) -> tuple[list[Estimates], list[Solve]]:
    """Estimates of all levels, top first, by the program or another estimator's answers."""
    roots, first = estimate_roots(plan, answers(plan, measure))
    below, further = estimate_below(plan, roots, answers(plan, measure))
    return [roots, *below], first + further


def checked(
    plan: Plan, persons: TrueHistograms, seed: int | None, answers: type[OwnAnswers] = OwnAnswers
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
        result = solve_parent.solve(problem)
        problems.append((len(problem.parent.low) > 0 and len(problem.parent.counts) > 0, problem, *result[:2]))
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
    declared, spine = plan.bounds, plan.spine
    assert same(estimated[1:], summed(estimated[-1], spine)[1:])
    for level, estimates in enumerate(estimated):
        assert len(estimates) == len(spine.starts[level])
        assert (estimates.count > 0).all()
        by_type = np.zeros((len(estimates), len(declared.least)), np.int64)
        np.add.at(by_type, (estimates.row, plan.product.types[estimates.cell]), estimates.count)
        assert (by_type[~declared.allowed(level)] == 0).all()
        assert (by_type >= declared.lower_bound(level)).all()
        assert plan.product.possible[estimates.cell].all()
    assert estimated[0].totals().sum() == persons.count.sum()


def same(first: Sequence[Histograms], other: Sequence[Histograms]) -> bool:
    """Whether two estimations, or an estimation and the truth, agree in every cell of every geounit."""
    return all(
        np.array_equal(getattr(x, name), getattr(y, name))
        for x, y in zip(first, other, strict=True)
        for name in ("starts", "cell", "count")
    )
