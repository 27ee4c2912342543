"""Predicted errors: their moments by quadrature, the tree against dense matrices, sums that are met, monotony."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats
from top_down_cases import small_state, units_of

from spine.entities import Areas
from spine.forecast.division import MET, BlockErrors, Local, positive_part
from spine.forecast.forecast import PersonsForecast, StandIn, UnitsForecast
from spine.forecast.precision import precision, weights_of
from spine.forecast.search import Aims, best_shares, least_factor, scaled
from spine.forecast.tree import ErrorTree
from spine.forecast.units import clipped_part
from spine.hierarchy import Spine
from spine.osed import overlap
from spine.production import allocation

SHARES = allocation("pl94-persons", "us")


@pytest.mark.parametrize(("mean", "deviation"), [(-4.0, 1.5), (0.0, 1.0), (0.3, 2.0), (25.0, 3.0)])
def test_moments_of_a_positive_part_and_of_a_clipped_one_are_those_of_quadrature(mean: float, deviation: float) -> None:
    most = 5.0
    density = stats.norm(mean, deviation).pdf
    for found, clip in (
        (positive_part(np.array([mean]), np.array([deviation])), lambda x: max(x, 0.0)),
        (clipped_part(np.array([mean]), np.array([most]), np.array([deviation])), lambda x: min(max(x, 0.0), most)),
    ):
        around = [0.0, most, mean]
        first, second = (
            integrate.quad(
                lambda x, power=power, clip=clip: clip(x) ** power * density(x),
                mean - 12 * deviation,
                mean + 12 * deviation,
                points=around,
                limit=200,
            )[0]
            for power in (1, 2)
        )
        assert found[0][0] == pytest.approx(first, abs=1e-7)
        assert found[1][0] == pytest.approx(second - first**2, abs=1e-7)


def _dense(variances: list[np.ndarray], parents: list[np.ndarray], total: bool) -> np.ndarray:
    """Covariance of the lowest level's errors: each level's own errors, tied to the parent's by least squares."""
    (top,) = (np.diag(variances[0]),)
    if total:  # their sum is known
        top = top - np.outer(variances[0], variances[0]) / variances[0].sum()
    above = top
    for own, parent in zip(variances[1:], parents, strict=True):
        sums = np.bincount(parent, own)[parent]
        part = own / sums
        tied = np.diag(own) - np.where(parent[:, None] == parent, np.outer(own, own) / sums, 0)
        above = tied + np.outer(part, part) * above[np.ix_(parent, parent)]
    return above


def test_a_tree_and_areas_are_those_of_dense_matrices() -> None:
    rng = np.random.default_rng(0)
    starts = (np.array([0, 6]), np.array([0, 3, 6]), np.array([0, 1, 3, 4, 6, 7]), np.arange(9))
    spine = Spine(("State", "County", "Block_Group", "Block"), np.arange(9), starts, starts, 1)
    variances = [rng.uniform(1, 4, (len(own), 1)) for own in starts[:-1]]
    local = [Local(own, np.zeros_like(own)) for own in variances]
    none = np.zeros((9, 1))
    sizes = [
        np.bincount(np.repeat(np.arange(len(s)), np.diff([*s, 9])), minlength=len(s)).astype(float) for s in starts
    ]
    tree = ErrorTree(
        spine,
        local,
        BlockErrors(none, none, none),
        sizes,
        np.zeros(2, int),
        with_below=False,
        total_is_declared=True,
    )
    dense = _dense([own[:, 0] for own in variances], [spine.parents[1], spine.parents[2]], True)
    assert tree.errors[2].variance[:, 0] == pytest.approx(np.diag(dense), abs=1e-12)
    of_group = np.array([0, 1, 0, 1, 1, 0])  # areas of whole block groups
    of_block = of_group[np.repeat(np.arange(6), np.diff([*starts[2], 9]))]
    found = tree.areas(overlap(spine, of_block, 2), 2).variance[:, 0]
    member = np.array([of_group == 0, of_group == 1], float)
    assert found == pytest.approx(np.diag(member @ dense @ member.T), abs=1e-12)


def test_a_cut_block_group_gives_an_area_its_part_of_the_error_and_of_the_blocks() -> None:
    starts = (np.array([0]), np.array([0]), np.arange(3))
    spine = Spine(("State", "Block_Group", "Block"), np.arange(3), starts, starts, 1)
    own = np.array([[4.0]])
    blocks = BlockErrors(np.ones((3, 1)), np.array([[1.0], [-3.0], [2.0]]), np.array([[1.0], [2.0], [5.0]]))
    sizes = [np.array([10.0]), np.array([10.0]), np.array([1.0, 3.0, 6.0])]
    local = [Local(own, np.zeros((1, 1))), Local(np.zeros((1, 1)), np.zeros((1, 1)))]
    tree = ErrorTree(spine, local, blocks, sizes, np.zeros(1, int), with_below=False, total_is_declared=False)
    found = tree.areas(overlap(spine, np.array([0, 0, 1]), 2), 2)
    assert found.variance[0, 0] == pytest.approx(3 * (1 - 3 / 8) + 0.4**2 * 4)
    assert found.bias[0, 0] == pytest.approx(-2)


def _stand_in(seed: int = 0, parts: int = 1) -> StandIn:
    case = small_state(seed, parts)
    spine = case.spine
    pattern = [np.tile(np.eye(5)[at], (len(starts), 1)) for at, starts in enumerate(spine.starts)]
    half = np.arange(spine.blocks) % 2
    tracts = Areas("tracts", np.arange(len(spine.starts[2])), spine.geounit_of_block(2))
    families = (Areas("half", np.arange(2), half), tracts)
    return StandIn(spine, pattern, "zcdp", case.persons, case.quarters, np.zeros(parts, int), families)


@pytest.mark.parametrize("factor", [1 / 40, 1.0, 100.0])
def test_expected_counts_add_up_to_the_parents_and_to_the_totals(factor: float) -> None:
    stand_in = _stand_in()
    forecast = PersonsForecast(stand_in)
    weights = scaled(weights_of(SHARES), factor)
    for level in range(1, 4):
        budgets = stand_in.budgets(weights)[level]
        own = precision(weights[stand_in.spine.levels[level]], budgets, "zcdp")
        bias = forecast.divide(level, own).bias[:, 0]
        assert np.abs(bias).max() < 3 * MET  # of the totals
    blocks = forecast.divide_blocks(precision(weights["Block"], stand_in.budgets(weights)[4], "zcdp"))
    sums = np.bincount(stand_in.spine.parents[4], blocks.bias[:, 0])
    assert np.abs(sums).max() < 20 * MET  # a few hundred cells each


@pytest.mark.parametrize("with_below", [False, True])
def test_more_budget_is_never_worse_and_a_family_of_geounits_has_the_errors_of_the_level(with_below: bool) -> None:
    forecast = PersonsForecast(_stand_in(1))
    weights = weights_of(SHARES)
    before = None
    for factor in (0.05, 0.3, 1, 5):
        errors = forecast.errors(scaled(weights, factor), with_below=with_below)
        assert errors["tracts"].variance == pytest.approx(errors["Tract"].variance, rel=1e-9, abs=1e-9)
        assert errors["tracts"].bias == pytest.approx(errors["Tract"].bias, rel=1e-9, abs=1e-9)
        mean = {level: own.mean_absolute.mean() for level, own in errors.items()}
        if before is not None:
            assert all(mean[level] <= before[level] + 1e-9 for level in mean)
        before = mean
    total = [forecast.errors(scaled(weights, factor))["Tract"].variance[:, 0] for factor in (1, 4)]
    assert total[0] == pytest.approx(4 * total[1])


def test_generalized_least_squares_is_never_worse_for_totals() -> None:
    forecast, weights = PersonsForecast(_stand_in(2)), weights_of(SHARES)
    own, both = (forecast.errors(weights, with_below=below) for below in (False, True))
    for level in ("County", "Tract", "Block_Group"):
        assert (both[level].variance[:, 0] <= own[level].variance[:, 0] + 1e-9).all()


def test_a_bypassed_level_without_budget_copies_its_parent() -> None:
    stand_in = _stand_in()
    pattern = [own.copy() for own in stand_in.pattern]
    pattern[2] += pattern[1][stand_in.spine.parents[2]]
    pattern[1][:] = 0
    spine = stand_in.spine
    only = np.flatnonzero(spine.children(0)[spine.parents[1]] == 1)
    forecast = PersonsForecast(replace(stand_in, pattern=pattern))
    errors = forecast.errors(weights_of(SHARES))
    assert errors["County"].variance[only] == pytest.approx(errors["State"].variance[spine.parents[1][only]])


def test_units_of_real_runs_have_the_predicted_errors_in_law() -> None:
    """Own answers of the topmost geounit: variance 1 / (2 rho), clipped nowhere near."""
    case = small_state(3)
    plan, truth = units_of(case)
    pattern = [np.tile(np.eye(5)[at], (len(starts), 1)) for at, starts in enumerate(plan.spine.starts)]
    stand_in = StandIn(plan.spine, pattern, "zcdp", truth, case.quarters, np.zeros(1, int))
    weights = weights_of(plan.allocation)
    errors = UnitsForecast(stand_in).errors(weights)
    rho = weights["State"]["detailed"]
    assert errors["State"].variance[0, 0] == pytest.approx(1 / (2 * rho), rel=1e-6)
    assert (errors["Block"].mean_absolute[:, 0] <= case.quarters[:, 0] + 1e-9).all()


def test_the_best_shares_are_the_optimum_hold_the_sum_and_what_is_kept() -> None:
    """Of errors c / weight, whose sum is least where weights are as the square roots of c."""
    start = {level: {"total": 1.0, "a": 1.0, "b": 3.0} for level in ("US", "Tract", "Block")}
    costs = {("Tract", "total"): 4.0, ("Tract", "a"): 1.0, ("Block", "total"): 9.0, ("Block", "a"): 1.0}

    def predict(weights):  # type: ignore[no-untyped-def]
        own = {name: cost / weights[name[0]][name[1]] for name, cost in costs.items()}
        return {("all", "total"): sum(own.values()), ("Tract", "total"): own["Tract", "total"]}

    found = best_shares(predict, start, Aims({("all", "total"): 1.0}), kept=("US",))
    assert found["US"] == start["US"]
    assert sum(map(sum, (own.values() for own in found.values()))) == pytest.approx(15)
    assert found["Block"]["b"] == pytest.approx(3 * found["Block"]["a"])  # they keep their proportion
    roots = {("Tract", "total"): 2.0, ("Tract", "a"): 2.0, ("Block", "total"): 3.0, ("Block", "a"): 2.0}
    for (level, name), root in roots.items():  # of a and b, four times the weight of a
        many = 4 if name == "a" else 1
        assert many * found[level][name] == pytest.approx(10 * root / 9, rel=0.05)
    limited = best_shares(predict, start, Aims({("all", "total"): 1.0}, {("Tract", "total"): 0.4}), kept=("US",))
    assert predict(limited)["Tract", "total"] <= 0.42 * 4
    assert predict(limited)["all", "total"] > predict(found)["all", "total"]


def test_a_least_factor_is_the_edge_of_the_target() -> None:
    assert least_factor(lambda factor: factor >= 0.37) == pytest.approx(0.37, rel=1e-4)
    assert least_factor(lambda factor: False) is None
    assert least_factor(lambda factor: True) == 1e-3


def test_pure_dp_answers_have_the_precision_of_their_laws() -> None:
    asked = {"total": 1.0, "detailed": 3.0}
    own = precision(asked, np.array([2.0]), "puredp")
    assert own.total == pytest.approx((2.0 / 4) ** 2 / 8)
    assert own.cell == pytest.approx(1.5**2 / 8)
    zcdp = precision(asked, np.array([2.0]), "zcdp")
    assert zcdp.total == pytest.approx(0.5)
    assert zcdp.group == 0
