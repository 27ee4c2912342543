"""A-attribute loss of a household: the figures of the paper's rule, and brute force over changes of one record."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import pytest

from privacy.analyses.attribute_loss_dhca import (
    CROSSED,
    HOUSEHOLD_ATTRIBUTES,
    OF_TABLES,
    GroupLevel,
    Record,
    losses_of_household,
)

RHO = Fraction("1.9208")
BOTH = {table: GroupLevel("COUNTY", 2, RHO, 8, 1) for table in OF_TABLES}


def loss_of_household(*arguments, **keywords) -> Fraction:
    return sum(losses_of_household(*arguments, **keywords).values(), Fraction(0))


@pytest.mark.parametrize(
    ("attributes", "rhos"),
    [
        ({"Type"}, Fraction(2)),  # 2b in each of 9 groups of T3
        ({"Tenure"}, Fraction(2)),
        ({"Type", "Tenure"}, Fraction(4)),
        ({"Race"}, 2 * Fraction(16, 9)),
        ({"Ethnicity"}, 2 * Fraction(2, 9)),
        ({"Block"}, Fraction(4)),
        (set(HOUSEHOLD_ATTRIBUTES), Fraction(4)),
        (set(), Fraction(0)),
    ],
)
def test_the_figures_of_the_rule(attributes: set[str], rhos: Fraction) -> None:
    assert loss_of_household(BOTH, frozenset(attributes)) == rhos * RHO
    only_t3 = {"t3": BOTH["t3"]}
    if attributes == {"Tenure"}:
        assert loss_of_household(only_t3, frozenset(attributes)) == 0
    if attributes == {"Block"}:
        assert loss_of_household(BOTH, frozenset(attributes), crossed=CROSSED["same county"]) == 0


def test_it_is_the_most_over_all_changes_of_one_record() -> None:
    """Squared distance of the measured cells over both tables, times b / 1, for every pair of records."""
    races, spans, blocks = [("a",), ("b",)], ["x", "y"], [0, 1]
    records = list(product(range(2), range(2), races, spans, blocks))
    levels = {table: GroupLevel("TRACT", 2, Fraction(3), 2, 1) for table in OF_TABLES}

    def cells(record: tuple[int, int, tuple[str, ...], str, int]) -> set[tuple[object, ...]]:
        kind, tenure, race, span, block = record
        groups = [*((block, *each) for each in product(race, ("alone", "combined"))), (block, span)]
        return {(table, group, cell) for group in groups for table, cell in (("t3", kind), ("t4", tenure))}

    for size in range(len(HOUSEHOLD_ATTRIBUTES) + 1):
        for attributes in combinations(range(len(HOUSEHOLD_ATTRIBUTES)), size):
            most = max(
                len(cells(one) ^ cells(other))
                for one, other in product(records, records)
                if all(one[at] == other[at] for at in range(5) if at not in attributes)
            )
            names = frozenset(HOUSEHOLD_ATTRIBUTES[at] for at in attributes)
            assert loss_of_household(levels, names, Record("any", 2, total_only=1)) == most, names
