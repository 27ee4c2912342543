"""Least squares over several measurements: against the spec's deviations, a dense solution, and simulated errors."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.estimation.densities import density_of_sum, values
from privacy.estimation.weighted_tables import TableInformation, least_variance, margins, pool, whole
from privacy.noise.laws import Law, law
from tasks.safetab.households.tables import T3, T4

NATION, BELOW, REGIONAL = (law("zcdp", Fraction(text), 9) for text in ("1.9208", "0.142869", "0.006915"))
Source = tuple[Law, int, int, int]  # noise, details of T3 and T4, and of how many groups it is the sum


def covariances(sources: list[Source], details: tuple[int, int]) -> list[np.ndarray]:
    """Of the estimated cells of T3 and T4, from counts that are all 0."""
    solved = []
    for column, table in enumerate((T3, T4)):
        information = TableInformation.none(1, int(table.widths[details[column]]))
        for noise, *own, members in sources:
            common = min(own[column], details[column])
            draws = members * table.onto(own[column], common).sum(axis=0)[None, :].astype(float)
            sums = table.onto(details[column], common)
            information.add(np.array([0]), sums, np.zeros_like(draws), noise.variance() * draws)
        solved.append(information.solve())
    return [covariance[0] for _, covariance in pool(*solved)]


@pytest.mark.parametrize(
    ("sources", "details", "deviation"),
    [
        ([(REGIONAL, 3, 1, 1)], (3, 1), 34.9),  # 4016 alone, and with its 7 parts
        ([(REGIONAL, 3, 1, 1), (NATION, 3, 1, 7)], (3, 1), 5.5),
        ([(REGIONAL, 0, 0, 1)], (0, 0), 18.0),
        ([(REGIONAL, 0, 0, 1), (NATION, 0, 0, 7)], (0, 0), 2.8),
    ],
)
def test_a_regional_ethnicity_gains_by_its_parts(
    sources: list[Source], details: tuple[int, int], deviation: float
) -> None:
    for covariance in covariances(sources, details):
        assert covariance.sum() ** 0.5 == pytest.approx(deviation, abs=0.05)


def test_coterminous_regions_gain_by_each_other() -> None:
    district = covariances([(NATION, 0, 0, 1)] + [(BELOW, 0, 0, 1)] * 2, (0, 0))[0].sum() ** 0.5
    alone = covariances([(NATION, 0, 0, 1)], (0, 0))[0].sum() ** 0.5
    assert district / alone == pytest.approx(1 - 0.067, abs=1e-3)
    two = [covariances([(BELOW, 3, 1, 1)] * number, (3, 1))[0] for number in (1, 2)]
    assert two[1] == pytest.approx(two[0] / 2)
    assert 1 - (two[1].sum() / two[0].sum()) ** 0.5 == pytest.approx(0.293, abs=1e-3)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.floats(-6, 300), st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=4))
def test_budgets_of_any_size_leave_estimates_between_the_measurements(measured: list[tuple[float, int, int]]) -> None:
    """Also where variances are 0 in floats: whole numbers, with margins that hold the counts measured without noise."""
    truth = [np.full(int(table.widths[-1]), 10**6) for table in (T3, T4)]
    truth[1][0] += truth[0].sum() - truth[1].sum()
    measured = [(measured[0][0], 3, 1), *measured[1:]]
    variances = [10.0**-digits if digits < 300 else 0.0 for digits, *_ in measured]
    least = least_variance(variances)
    solved = []
    for column, table in enumerate((T3, T4)):
        information = TableInformation.none(1, len(truth[column]))
        for variance, (_, *own) in zip(variances, measured, strict=True):
            sums = table.onto(len(table.widths) - 1, own[column])
            counts = (truth[column] @ sums)[None, :].astype(float)
            information.add(np.array([0]), sums, counts, np.full_like(counts, max(variance, least)))
        solved.append(information.solve())
    for (cells, covariance), exact in zip(pool(*solved), truth, strict=True):
        assert np.abs(whole(cells, np.full(1, 0.5)) - exact).max() <= 1
        assert (margins(covariance, np.eye(len(exact), dtype=np.int64), "zcdp") >= 0).all()


def test_tables_of_other_details_are_those_of_a_dense_solution() -> None:
    """All cells of both tables at once, under equal totals, by the normal equations with a Lagrange multiplier."""
    rng = np.random.default_rng(3)
    sources = [(BELOW, 3, 1), (NATION, 1, 0), (REGIONAL, 2, 1)]
    design, weight, answers, solved = [], [], [], []
    for column, table in enumerate((T3, T4)):
        width = int(table.widths[-1])
        information = TableInformation.none(1, width)
        for noise, *own in sources:
            sums = table.onto(len(table.details) - 1, own[column])
            counts = rng.integers(-50, 50, (1, sums.shape[1])).astype(float)
            information.add(np.array([0]), sums, counts, np.full(counts.shape, noise.variance()))
            design.append(
                np.hstack([np.zeros((sums.shape[1], 5 * column)), sums.T, np.zeros((sums.shape[1], 3 - 3 * column))])
            )
            weight += [1 / noise.variance()] * sums.shape[1]
            answers += counts[0].tolist()
        solved.append(information.solve())
    a, w = np.vstack(design), np.array(weight)
    equal = np.array([1.0] * 5 + [-1.0] * 3)
    system = np.block([[a.T @ (w[:, None] * a), equal[:, None]], [equal[None, :], np.zeros((1, 1))]])
    dense = np.linalg.solve(system, np.append(a.T @ (w * np.array(answers)), 0))[:8]
    inverse = np.linalg.inv(system)[:8, :8]
    pooled = pool(*solved)
    total = pooled[0][0][0].sum()
    assert abs(total - dense[:5].sum()) <= 0.5 + 1e-9, "the total is rounded"
    assert total == pytest.approx(np.rint(total))
    for (cells, covariance), place in zip(pooled, (slice(5), slice(5, 8)), strict=True):
        assert covariance[0] == pytest.approx(inverse[place, place])
        along = inverse[place, place].sum(axis=1) / inverse[place, place].sum()
        assert cells[0] == pytest.approx(dense[place] + along * (total - dense[place].sum()))


def test_whole_numbers_add_up_and_are_unbiased() -> None:
    cells = np.array([[0.25, 1.5, -0.75, 2.0], [-3.1, 0.4, 0.3, 0.4]])
    made = np.stack([whole(cells, np.full(2, (step + 0.5) / 4096)) for step in range(4096)])
    assert (made.sum(axis=2) == cells.sum(axis=1).round()).all()
    assert made.mean(axis=0) == pytest.approx(cells, abs=1e-3)
    for first in range(4):
        for last in range(first + 1, 5):
            of_run = made[..., first:last].sum(axis=2) - cells[:, first:last].sum(axis=1)
            assert (np.abs(of_run) < 1).all()
            assert (of_run.var(axis=0) <= 1 / 4 + 1e-3).all()


@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
@pytest.mark.parametrize("details", [(0, 0), (1, 1), (3, 1)])
def test_margins_cover_simulated_errors(definition: str, details: tuple[int, int]) -> None:
    """A table of a state, of noise so narrow that it is far from normal, with two counties of coarser tables."""
    state, county = (law(definition, Fraction(text), 9) for text in ("1.9208", "0.142869"))  # type: ignore[arg-type]
    rng, groups, rows, solved = np.random.default_rng(5), 20_000, np.arange(20_000), []
    for column, table in enumerate((T3, T4)):
        information = TableInformation.none(groups, int(table.widths[details[column]]))
        for noise, detail in ((state, details[column]), (county, 0), (county, details[column])):
            density = density_of_sum(noise, 1)
            sums = table.onto(details[column], detail)
            drawn = rng.choice(values(density), (groups, sums.shape[1]), p=density / density.sum())
            information.add(rows, sums, drawn, np.full(drawn.shape, noise.variance()))
        solved.append(information.solve())
    for column, (cells, covariance) in enumerate(pool(*solved)):
        sums = (T3, T4)[column].published[details[column]].counts(np.eye(cells.shape[1], dtype=int))
        error = whole(cells, rng.random(groups)) @ sums
        covered = (np.abs(error) <= margins(covariance, sums, definition)).mean(axis=0)  # type: ignore[arg-type]
        assert (covered >= 0.95 - 4 * (0.95 * 0.05 / groups) ** 0.5).all(), covered
        assert (np.abs(error.mean(axis=0)) <= 4 * error.std(axis=0) / groups**0.5).all()
        assert ((covariance[0] @ sums * sums).sum(axis=0) <= error.var(axis=0) * 1.05).all()
