"""The declarations of the DHC's units and households: types, zeros, queries and shares of the production runs."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pytest

from spine.declaration.declaration import read_declaration
from spine.dhc_households import household_types, households_declaration, units_declaration
from spine.production import allocation
from spine.settings import Jurisdiction


def test_seven_rules_give_the_types() -> None:
    types = household_types()
    assert len(types) == 522
    assert [own.code for own in types] == sorted(own.code for own in types)
    assert len({(own.couple, own.generations, own.own, own.size) for own in types}) == 183
    assert (
        sha256(" ".join(own.code for own in types).encode()).hexdigest()
        == "b4c211e7a2113bc90996c776cc413221c63152c62336795d0715c7c3057293e5"
    )


@pytest.mark.parametrize("jurisdiction", ["us", "pr"])
def test_the_declarations_are_those_of_production(jurisdiction: Jurisdiction) -> None:
    units, faults = read_declaration(units_declaration(jurisdiction))
    assert not faults
    assert units is not None
    assert units.passes.on_grid, "the tenures that households keep depend on no solver's last digits"
    households, faults = read_declaration(households_declaration(jurisdiction, ["gq101"]))
    assert not faults
    assert households is not None
    production = allocation("dhc-units", jurisdiction)
    assert units.allocation.budget + households.allocation.budget == production.budget
    for level, shares in production.queries.items():
        rho = sorted(share * production.levels[level] * production.budget for share in shares.values())
        own = [
            share * each.levels[level] * each.budget
            for each in (units.allocation, households.allocation)
            for share in each.queries[level].values()
        ]
        assert sorted(own) == rho
    product = households.product
    assert [product.width(query) for query in households.queries("Block")] == [
        *(8, 4, 28, 48, 20, 15_372, 138_348, 4_941, 1_578_528)
    ]
    assert (~product.possible).sum() == 466_956
    coarse, width = product.partition(households.passes.rounded[-1])
    assert len(np.unique(coarse[product.possible])) == width == 15_372
    assert units.product.possible.sum() == 11
    assert households.form.is_wide
