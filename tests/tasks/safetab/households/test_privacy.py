"""Brute force over all records of a small list of codes: how many cells one household, or two, can change."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from dhca_naive import iterations
from dhcb_inputs import HouseholdInputs, household

from flows.reports.tuning.queries import answers, households, tables
from tasks.safetab.households.tables import TABLES

MOST_CODES, STABILITY = 3, 4  # of races of a record; of groups that it is in: that many in combination, one ethnicity
RACES = [f"1{number}00" for number in range(1, 9)]
SPANS = [f"2{number}00" for number in range(1, 6)]


def records(width: int) -> np.ndarray:
    """What every possible record adds to the cells of a table of each group: records x (groups x width)."""
    inputs = HouseholdInputs(
        race=[(f"{kind}{code}", "2", kind, "False", "False", code) for code in RACES for kind in ("True", "False")],
        ethnicity=[(f"3{code}", "2", "False", "False", code) for code in SPANS],
        totals=[],
    )
    groups = sorted(code for code, *_ in (*inputs.race, *inputs.ethnicity))
    found = {
        frozenset(iterations(inputs, household(races=races, QSPAN=span), "STATE", 2))
        for count in range(1, MOST_CODES + 1)
        for races in combinations_with_replacement(RACES, count)
        for span in SPANS
    }
    added = np.zeros((len(found) * width, len(groups), width), np.int32)
    for row, (codes, cell) in enumerate(product(found, range(width))):
        added[row, [groups.index(code) for code in codes], cell] = 1
    return added.reshape(len(added), -1)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_one_record_changes_s_cells_one_replaced_2s_and_two_replaced_8s(table) -> None:
    """Two replaced cost most where both are the same: (a + a') - (b + b') is no longer than twice the longest a - b."""
    added = records(int(table.widths[-1]))
    size = (added**2).sum(axis=1)
    assert size.max() == STABILITY
    replaced = size[:, None] + size[None, :] - 2 * added @ added.T
    assert replaced.max() == 2 * STABILITY
    one, other = np.unravel_index(replaced.argmax(), replaced.shape)
    assert ((2 * added[one] - 2 * added[other]) ** 2).sum() == 8 * STABILITY


def test_a_record_is_in_one_measured_cell_of_every_detail() -> None:
    for table in TABLES.values():
        for detail in range(len(table.details)):
            assert (table.counted(detail).sum(axis=1) == 1).all()


NMFV5 = [  # of T3 and T4 each: budget, variance, margins of 1 to 5 cells
    ("Nation, Detailed", "1.9208", Fraction(5625, 2401), (3, 4, 5, 6, 7)),
    ("State, Detailed", "1.9208", Fraction(5625, 2401), (3, 4, 5, 6, 7)),
    ("County, Detailed", "0.142869", Fraction(1500000, 47623), (11, 16, 19, 22, 25)),
    ("AIANNH, Detailed", "0.142869", Fraction(1500000, 47623), (11, 16, 19, 22, 25)),
    ("Tract, Regional", "0.006915", Fraction(300000, 461), (50, 71, 87, 100, 112)),
    ("PR-State, Detailed", "1.9208", Fraction(5625, 2401), (3, 4, 5, 6, 7)),
]


def test_the_production_budgets_variances_and_margins() -> None:
    found = answers(households(None), None, Fraction(1, 10**10))
    spent = {name: [each["exact"] for each in spent["relations"][:2]] for name, spent in found["spent"].items()}
    us, pr = Fraction("8.895302"), Fraction("4.754134")
    assert spent == {"us": [str(us), str(2 * us)], "pr": [str(pr), str(2 * pr)]}
    queries = {row["query"]: row for row in found["queries"]}
    assert "AIANNH, Regional: T3" not in queries
    assert len(queries) == 2 * (11 + 8)
    for level, budget, variance, margins in NMFV5:
        for table, cells in (("T3", (1, 2, 4, 5)), ("T4", (1, 3))):
            row = queries[f"{level}: {table}"]
            assert (row["budget"], row["stability"], row["cells"]) == (Fraction(budget), 9, cells)
            assert 9 / (2 * row["budget"]) == variance
            assert row["margins"] == [margins[number - 1] for number in cells]
    assert queries["Nation, Regional: T3"]["thresholds"] == (4971, 19971, 149971)
    assert queries["County, Detailed: T4"]["thresholds"] == (971,)
    assert len(list(tables(found))) == 2
