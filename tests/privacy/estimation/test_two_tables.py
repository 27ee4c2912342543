"""Two tables that count the same records: deviations and margins of the pooled totals, simulated and exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from privacy.estimation.densities import moment, values
from privacy.estimation.two_tables import PooledTable, changes, law_of_row, margin_of_row, pull, spread
from privacy.noise.laws import Law, law

LAWS = [law("zcdp", Fraction(text), 9) for text in ("1.9208", "0.142869", "0.006915")]
DETAILS = [(1, 1), (2, 3), (4, 3), (5, 3)]
WHOLE = {  # deviation of the total as a whole number: nation and state Detailed, below, Regional
    (1, 1): (1.139, 3.984, 18.04),
    (2, 3): (1.700, 6.154, 27.95),
    (4, 3): (2.024, 7.354, 33.40),
    (5, 3): (2.116, 7.690, 34.93),
}
MARGINS = {(1, 1): (2, 8, 35), (2, 3): (3, 12, 55), (4, 3): (4, 14, 65), (5, 3): (4, 15, 68)}
POOLED = {(1, 1): 0.707, (2, 3): 1.095, (4, 3): 1.309, (5, 3): 1.369}  # of sigma, before rounding


def deviation_of_row(own: PooledTable, other: PooledTable, places: tuple[int, ...], *, follows: bool) -> float:
    return float(moment(law_of_row(own, other, places, follows=follows)) ** 0.5)


def pair(noise: Law, cells: tuple[int, int]) -> tuple[PooledTable, PooledTable]:
    return PooledTable(noise, cells[0]), PooledTable(noise, cells[1])


@pytest.mark.parametrize("cells", DETAILS)
def test_the_deviations_and_margins_of_pooled_totals(cells: tuple[int, int]) -> None:
    for noise, deviation, margin in zip(LAWS, WHOLE[cells], MARGINS[cells], strict=True):
        own, other = pair(noise, cells)
        for one, two, follows in ((own, other, False), (other, own, True)):
            whole = tuple(range(one.cells))
            assert deviation_of_row(one, two, whole, follows=follows) == pytest.approx(deviation, abs=6e-3 * deviation)
            assert margin_of_row(one, two, whole, follows=follows) == margin
    assert deviation_of_row(*pair(LAWS[2], cells), tuple(range(cells[0])), follows=False) / LAWS[
        2
    ].variance() ** 0.5 == pytest.approx(POOLED[cells], abs=1e-3)


def test_a_cell_gains_what_the_formula_says() -> None:
    for cells, gain in zip(DETAILS, (0.293, 0.106, 0.074, 0.065), strict=True):
        own, other = pair(LAWS[2], cells)
        measured = LAWS[2].variance() ** 0.5
        for one, two, follows in ((own, other, False), (other, own, True)):
            if cells != (1, 1) or not follows:
                found = 1 - deviation_of_row(one, two, (0,), follows=follows) / measured
                expected = 1 - (1 - (1 - cells[1] / sum(cells)) / one.cells) ** 0.5 if not follows else None
                assert found == pytest.approx(gain if expected is None or one is own else expected, abs=0.06)


@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
@pytest.mark.parametrize("cells", DETAILS)
def test_simulated_errors_have_the_exact_laws(definition: str, cells: tuple[int, int]) -> None:
    budget = Fraction("0.6") if definition == "zcdp" else Fraction(4)
    noise = law(definition, budget, 9)  # type: ignore[arg-type]
    own, other = pair(noise, cells)
    rng, groups = np.random.default_rng(7), 20_000
    density = own.density(1)
    drawn = [rng.choice(values(density), (groups, table.cells), p=density / density.sum()) for table in (own, other)]
    true = rng.integers(0, 50, groups)
    difference = drawn[0].sum(axis=1) - drawn[1].sum(axis=1)  # the true count is in both
    change = changes(own, other, difference)
    estimated = [
        noisy + spread(moved, rng.integers(0, table.cells, groups), table.cells)
        for noisy, moved, table in zip(drawn, (change, difference + change), (own, other), strict=True)
    ]
    totals = [one.sum(axis=1) + true for one in estimated]
    assert (totals[0] == totals[1]).all()
    for one, table, two, follows in ((estimated[0], own, other, False), (estimated[1], other, own, True)):
        for places in {(0,), (0, table.cells - 1), tuple(range(table.cells))}:
            error = one[:, sorted(set(places))].sum(axis=1)
            exact = law_of_row(table, two, tuple(sorted(set(places))), follows=follows)
            deviation = moment(exact) ** 0.5
            assert abs(error.mean()) <= 4 * deviation / groups**0.5
            assert error.std() / deviation == pytest.approx(1, abs=4 / (2 * groups) ** 0.5 + 0.01)
            margin = margin_of_row(table, two, tuple(sorted(set(places))), follows=follows)
            assert (np.abs(error) <= margin).mean() >= 0.95 - 4 * (0.05 * 0.95 / groups) ** 0.5


def test_under_pure_dp_tables_of_one_cell_take_the_middle() -> None:
    table = PooledTable(law("puredp", Fraction(3), 9), 1)
    taken = pull(table, table)
    d = np.arange(len(taken)) - len(taken) // 2
    assert (np.abs(2 * taken - d) <= 1).all()
    assert (taken == -taken[::-1]).all()


def test_spread_gives_every_cell_its_share() -> None:
    change, cells = np.array([7, -7, 0, 5, -1]), 5
    parts = np.stack([spread(change, np.full(len(change), turn), cells) for turn in range(cells)])
    assert (parts.sum(axis=2) == change).all()
    assert (parts.sum(axis=0) == change[:, None]).all()
    assert (np.ptp(parts, axis=2) <= 1).all()
