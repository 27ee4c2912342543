"""Theorems 1 and 3: what a replaced record costs; and the production allocations, to the last digit."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from spine_cases import SMALL, matrix, query_matrix, random_allocation, random_spine

from privacy.noise import laws
from spine.allocations import Allocation
from spine.bypass import bypass
from spine.hierarchy import Spine
from spine.noise import distinct_shares, noise, parameter, replacement_cost
from spine.production import allocation_for
from spine.settings import PRODUCTS, Definition, settings_for

RUNS = {
    "PL94_persons": "pl94-persons",
    "PL94_units": "pl94-units",
    "DHC_persons": "dhc-persons",
    "DHC_units": "dhc-units",
}


def test_definitions_are_those_of_the_noise() -> None:
    assert set(get_args(Definition)) == set(get_args(laws.Definition))


def dearest_replacement(spine: Spine, allocation: Allocation) -> float:
    """Lemma 3 by brute force: every pair of (block, cell), every coordinate of every query of every geounit."""
    cells = np.eye(spine.blocks * query_matrix("detailed", SMALL).shape[1])
    cost = np.zeros((len(cells), len(cells)))
    for level, name in enumerate(spine.levels):
        for query, alpha in allocation.queries[name].items():
            answers = np.kron(matrix(spine, level), query_matrix(query, SMALL))
            rows = len(query_matrix(query, SMALL))
            gamma = np.repeat(spine.shares[level], rows)
            for answer, share in zip(answers, gamma, strict=True):
                if share:
                    value = float(parameter(allocation, Fraction(int(share), spine.denominator), alpha))
                    change = np.abs(answer[:, None] - answer[None, :])
                    cost += change**2 / (2 * value) if allocation.definition == "zcdp" else change / value
    return float(cost.max())


@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
@pytest.mark.parametrize("bypassed", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_replaced_record_costs_at_most_the_budget(seed: int, bypassed: bool, definition: str) -> None:
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, blocks=6)
    allocation = random_allocation(rng, spine.levels, definition)
    spine = spine.with_shares(dict(allocation.levels))
    if bypassed:
        settings = settings_for("pl94-persons", definition=definition, levels=spine.levels, split=spine.levels[1:-1])
        spine = bypass(spine, settings)
    assert replacement_cost(spine, allocation) == allocation.budget  # every share is spent, and no more
    assert dearest_replacement(spine, allocation) <= float(allocation.budget) * (1 + 1e-12)
    without = {level: {"detailed": Fraction(1, 3), "cenrace": Fraction(2, 3)} for level in spine.levels}
    tight = replace(allocation, queries=without)  # no query group whose sum hides the replacement
    assert dearest_replacement(spine, tight) == pytest.approx(float(allocation.budget))


def test_a_path_with_too_much_share_is_found() -> None:
    spine = random_spine(np.random.default_rng(3), blocks=6)
    allocation = random_allocation(np.random.default_rng(3), spine.levels)
    spine = spine.with_shares(dict(allocation.levels))
    more = spine.shares[-1].copy()
    more[2] += 1
    cost = replacement_cost(replace(spine, shares=(*spine.shares[:-1], more)), allocation)
    assert cost == allocation.budget * (1 + Fraction(1, spine.denominator))


@pytest.mark.parametrize("jurisdiction", ["us", "pr"])
@pytest.mark.parametrize("run", RUNS)
def test_the_production_allocations(das_data: Path, run: str, jurisdiction: str) -> None:
    published = json.loads((das_data / "tda-production-allocations.json").read_text())[f"{run}_{jurisdiction.upper()}"]
    allocation = allocation_for(settings_for(RUNS[run], jurisdiction))
    assert allocation.budget == Fraction(published["rho"])
    shares = published.get("geolevel") or published["geolevel_share"]
    assert dict(allocation.levels) == {level: Fraction(share) for level, share in shares.items()}
    by_level = {level: [share] for level, share in allocation.levels.items()}
    parameters = {(row.level, row.query): row.parameter for row in noise(allocation, by_level)}
    expected = {
        (level, query.replace(" * ", "*")): sigma2
        for level, queries in published["sigma2"].items()
        for query, sigma2 in queries.items()
        if sigma2 is not None
    }
    assert parameters.keys() == expected.keys()
    for key, sigma2 in expected.items():
        assert float(parameters[key]) == pytest.approx(sigma2, rel=1e-12)
    if "query_rho" in published:  # absolute rho: the reciprocal of the variance, exactly
        for level, queries in published["query_rho"].items():
            for query, rho in queries.items():
                assert parameters[level, query.replace(" * ", "*")] == 1 / Fraction(rho)


def test_the_noise_of_the_redistricting_totals() -> None:
    """Standard deviations of `total` that the field quotes: State 1.10, County 2.17, Tract 2.47, OBG 1.75."""
    allocation = allocation_for(settings_for("pl94-persons"))
    rows = noise(allocation, {level: [share] for level, share in allocation.levels.items()})
    deviations = {row.level: round(float(row.parameter) ** 0.5, 2) for row in rows if row.query == "total"}
    assert deviations == {"State": 1.1, "County": 2.17, "Tract": 2.47, "Block_Group": 1.75, "Block": 89.24}


def test_parameters_are_those_of_theorem_3() -> None:
    allocation = random_allocation(np.random.default_rng(0), ("a", "b"))
    pure = replace(allocation, definition="puredp", budget=Fraction(3))
    assert parameter(pure, Fraction(1, 2), Fraction(1, 5)) == Fraction(20, 3)  # 2 / (3 / 10)
    assert parameter(replace(pure, definition="zcdp"), Fraction(1, 2), Fraction(1, 5)) == Fraction(10, 3)
    assert noise(pure, {"a": [Fraction(0)]}) == []  # a bypassed geounit is not measured


def test_distinct_shares_are_exact() -> None:
    spine = random_spine(np.random.default_rng(1), 5).with_shares({f"L{i}": Fraction(i + 1, 10) for i in range(4)})
    assert distinct_shares(spine)["L2"] == [Fraction(3, 10)]


@pytest.mark.parametrize("product", PRODUCTS)
def test_pure_dp_needs_a_budget_of_its_own(product: str) -> None:
    settings = settings_for(product, definition="puredp")
    with pytest.raises(ValueError, match="pure DP needs a budget"):
        allocation_for(settings)
    assert allocation_for(settings, Fraction(17)).budget == 17


def test_allocations_that_do_not_add_up_are_refused() -> None:
    good = random_allocation(np.random.default_rng(0), ("a", "b"))
    with pytest.raises(ValueError, match="sum to 1"):
        replace(good, levels={"a": Fraction(1, 2), "b": Fraction(1, 3)})
    with pytest.raises(ValueError, match="query shares of level a"):
        replace(good, queries={**good.queries, "a": {"total": Fraction(2)}})
    with pytest.raises(ValueError, match="not positive"):
        replace(good, budget=Fraction(0))


def test_comparison_spines_spend_the_same_budget() -> None:
    allocation = allocation_for(settings_for("dhc-persons"))
    plain = allocation.on(("US", "State", "County", "Tract", "Block_Group", "Block"))
    assert plain.levels["Tract"] == sum(
        allocation.levels[level] for level in ("Prim", "Tract_Subset_Group", "Tract_Subset")
    )
    assert plain.queries["Tract"] == allocation.queries["Tract_Subset"]
    grouped = allocation_for(settings_for("pl94-persons", tract_groups=True))
    assert grouped.levels["Tract_Group"] == grouped.levels["Tract"] == Fraction(687, 4099) / 2


GROUPED = [(product, "0") for product in PRODUCTS]
GROUPED += [(product, share) for product in ("pl94-persons", "pl94-units") for share in ("1/2", "1/3")]


@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
@pytest.mark.parametrize("variant", ["production", "paper"])
@pytest.mark.parametrize("jurisdiction", ["us", "pr"])
@pytest.mark.parametrize(("product", "tract_groups"), GROUPED)
def test_every_run_spends_its_budget_exactly(
    product: str, tract_groups: str, jurisdiction: str, variant: str, definition: str
) -> None:
    """Whatever the budget, the shares and their denominators: the dearest path costs the budget, bypassed or not."""
    share = Fraction(tract_groups)
    changes: dict[str, Any] = {"tract_groups": True, "tract_group_share": share} if share else {}
    settings = settings_for(product, jurisdiction, variant, definition=definition, **changes)
    allocation = allocation_for(settings, Fraction(17, 7) if definition == "puredp" else None)
    rng = np.random.default_rng(7)
    spine = random_spine(rng, blocks=200, levels=len(settings.levels), keep=0.5)
    spine = replace(spine, levels=settings.levels).with_shares(dict(allocation.levels))
    for measured in (spine, bypass(spine, settings)):
        assert replacement_cost(measured, allocation) == allocation.budget
