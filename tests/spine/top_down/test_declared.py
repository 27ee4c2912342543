"""Tables with other axes, bounds and totals: the truth without noise, every declared figure with it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from top_down_cases import check, everything, measuring, same

from privacy.tables.histogram import Axis, Count, Recode
from spine.allocations import Allocation
from spine.hierarchy import Spine
from spine.top_down import Passes, Plan, Product, Totals, TrueHistograms, sum_bounds, summed
from spine.top_down.histogram import from_entries

QUERIES = {"total": Fraction(1, 4), "use": Fraction(1, 4), "walls2*size": Fraction(1, 4), "detailed": Fraction(1, 4)}
STARTS = (np.array([0]), np.array([0, 5]), np.array([0, 2, 5, 6, 9]), np.arange(10))
LEVELS = ("country", "region", "district", "zone")
TOTALS = {None: (), "country": (0,), "region": (1,), "district": (2,), "zone": (3,)}


def axis(name: str, size: int) -> Axis:
    codes = tuple(map(str, range(size)))
    return Axis(name, name, codes, name.upper(), codes)


PRODUCT = Product(
    (axis("walls", 4), axis("use", 3), axis("size", 2)),
    name="dwellings",
    counts=(Count("total", "dwellings"),),
    recodes=(Recode("walls2", "walls", (0, 0, 1, 1), ("stone", "other")),),
    bounded="use",  # not the first axis: its parts are no runs of cells
    zeros=({"walls": frozenset({3}), "use": frozenset({2})},),
)


def declared_case(totals_of: str | None, seed: int = 1) -> tuple[Plan, TrueHistograms]:
    """Ten zones of some dwellings; each use has a declared count, of which use 1 needs two dwellings each."""
    rng = np.random.default_rng(seed)
    spine = Spine(LEVELS, np.arange(10), STARTS, STARTS, 1).with_shares(dict.fromkeys(LEVELS, Fraction(1, 4)))
    allocation = Allocation(
        "puredp", Fraction(4), dict.fromkeys(LEVELS, Fraction(1, 4)), dict.fromkeys(LEVELS, QUERIES), ""
    )
    counts = rng.integers(0, 3, (10, 3))
    dense = rng.integers(0, 9, (10, 24)) * PRODUCT.possible * (counts[:, PRODUCT.types] > 0)
    dense[:, 2] += 6 * (counts[:, 1] > 0)  # walls 0, use 1, size 0
    row, cell = np.nonzero(dense)
    truth = from_entries(TrueHistograms, 3, 0, row, cell, dense[row, cell], 10)
    totals = []
    for level in TOTALS[totals_of]:
        geounits = np.arange(len(STARTS[level]))
        totals.append((level, Totals(geounits, np.add.reduceat(dense.sum(axis=1), STARTS[level]))))
    bounds = sum_bounds(spine, counts, np.array([0, 2, 0]), *totals)
    known = 0 if totals_of is None else LEVELS.index(totals_of) + 1
    passes = Passes(frozenset(LEVELS[max(known, 1) : 3]), ("use", "walls2*use"), cell_weight=3)
    return Plan(PRODUCT, spine, allocation, bounds, passes), truth


@pytest.mark.parametrize("totals_of", TOTALS)
def test_without_noise_the_estimate_is_the_truth(totals_of: str | None) -> None:
    plan, truth = declared_case(totals_of)
    estimates, _ = everything(plan, measuring(plan, truth, None))
    assert same(estimates, summed(truth, plan.spine))


@pytest.mark.parametrize("totals_of", TOTALS)
def test_with_noise_all_that_is_declared_holds(totals_of: str | None) -> None:
    plan, truth = declared_case(totals_of)
    for seed in range(6):
        estimates, solves = everything(plan, measuring(plan, truth, seed))
        check(plan, estimates, truth if totals_of else summed(estimates[-1], plan.spine)[-1])
        assert not any(solve.failed for solve in solves)
        for found, declared in zip(estimates, plan.bounds.totals, strict=True):
            assert declared is None or np.array_equal(found.totals(), declared.values)


def test_bounds_without_a_first_rounded_sum_of_theirs_are_refused() -> None:
    plan, _ = declared_case("country")
    with pytest.raises(ValueError, match="must be the first of the rounded queries"):
        Plan(PRODUCT, plan.spine, plan.allocation, plan.bounds, Passes(rounded=("walls2",)))


def test_a_total_of_geounits_of_two_parents_is_refused() -> None:
    plan, _ = declared_case(None)
    with pytest.raises(ValueError, match="of two parents"):
        sum_bounds(
            plan.spine, np.ones((10, 1), int), np.zeros(1, int), (2, Totals(np.array([0, 0, 0, 1, 1]), np.ones(2)))
        )


def test_closed_form_is_recognized() -> None:
    plan, _ = declared_case(None)
    occupancy = Product((axis("h1", 2),), name="units", counts=(Count("total", "units"),))
    allocation = Allocation(
        "zcdp", Fraction(1), plan.allocation.levels, {key: {"detailed": Fraction(1)} for key in LEVELS}, ""
    )
    units = np.arange(10)[:, None] + 3
    fixed = Plan(
        occupancy, plan.spine, allocation, sum_bounds(plan.spine, units, np.ones(1, int), fixed=True), Passes()
    )
    truth = from_entries(
        TrueHistograms,
        3,
        0,
        np.repeat(np.arange(10), 2),
        np.tile([0, 1], 10),
        np.stack([units[:, 0] - 1, units[:, 0] * 0 + 1], 1).ravel(),
        10,
    )
    estimates, _ = everything(fixed, measuring(fixed, truth, 2))
    assert fixed.closed_form
    assert np.array_equal(estimates[-1].totals(), units[:, 0])


def test_two_cells_of_which_one_is_a_zero_have_no_closed_form() -> None:
    """All dwellings are in the other cell, whatever the noise."""
    case, _ = declared_case(None)
    product = Product(
        (axis("h1", 2),), name="units", counts=(Count("total", "units"),), zeros=({"h1": frozenset({1})},)
    )
    allocation = Allocation(
        "zcdp", Fraction(1), case.allocation.levels, {key: {"detailed": Fraction(1)} for key in LEVELS}, ""
    )
    units = np.arange(10)[:, None] + 3
    bounds = sum_bounds(case.spine, units, np.zeros(1, int), (3, Totals(np.arange(10), units[:, 0])), fixed=True)
    plan = Plan(product, case.spine, allocation, bounds, Passes())
    truth = from_entries(TrueHistograms, 3, 0, np.arange(10), np.zeros(10, int), units[:, 0], 10)
    estimates, _ = everything(plan, measuring(plan, truth, 2))
    assert not plan.closed_form
    assert same(estimates, summed(truth, plan.spine))
