"""Switches of parts: the fewest records by brute force, and where they go."""

from __future__ import annotations

from itertools import product as choices
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wide import changed_wide, tree

from spine.geography import BoolArray, IntArray
from spine.wide.switches import Switcher, _fewest

SWITCHER = Switcher(tree().plan)


def fewest(supply: IntArray, demand: IntArray, closed: BoolArray) -> int:
    """The fewest records on closed pairs, by looking at every division."""
    if len(demand) == 1:
        return int(supply[closed[:, 0]].sum())
    found = []
    for own in choices(*(range(n + 1) for n in supply)):
        if sum(own) == demand[0]:
            own_ = np.array(own)
            found.append(int(own_[closed[:, 0]].sum()) + fewest(supply - own_, demand[1:], closed[:, 1:]))
    return min(found, default=10**6)


@given(st.data())
def test_the_flow_has_the_fewest_records_that_must_switch(data: st.DataObject) -> None:
    parts, children = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    division = np.array(data.draw(st.lists(st.integers(0, 2), min_size=parts * children, max_size=parts * children)))
    closed = np.array(data.draw(st.lists(st.booleans(), min_size=parts * children, max_size=parts * children)))
    division, closed = division.reshape(parts, children), closed.reshape(parts, children)
    supply, demand = division.sum(axis=1), division.sum(axis=0)
    flow = _fewest(supply, demand, closed)
    np.testing.assert_array_equal(flow.sum(axis=1), supply)
    np.testing.assert_array_equal(flow.sum(axis=0), demand)
    assert flow[closed].sum() == fewest(supply, demand, closed)


def cell(relgq: int, sex: int, age: int, race: int) -> int:
    return int(np.ravel_multi_index((relgq, sex, age, race), (7, 2, 12, 3)))


@pytest.mark.parametrize(
    ("age", "found"),
    [(5, cell(5, 1, 5, 2)), (11, cell(5, 1, 9, 2)), (0, cell(5, 1, 2, 2))],  # part 5 has nobody of 0, 1, 10 and 11
)
def test_a_record_keeps_its_other_coordinates_or_gets_the_nearest_possible_age(age: int, found: int) -> None:
    assert SWITCHER.target(cell(6, 1, age, 2), 3) == (found, age == 5)


def test_a_record_gets_the_first_coordinate_of_its_part_that_is_possible_in_the_sum() -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["recodes"]["gq"] = {"axis": "relgq", "from": ["0-2", "3-6"]}
        raw["equal"][0]["partition"] = "gq*votingage*race"
        raw["counts"][0].update(partition="hhgq", columns=["", "gq1", "gq2"], least=[0, 1, 1])
        raw["zeros"].append({"where": {"relgq": "5", "age": "4-11"}})

    switcher = Switcher(tree(raw=changed_wide(change)).plan)
    assert switcher.target(cell(3, 1, 9, 2), 2) == (cell(6, 1, 9, 2), True)
    assert switcher.target(cell(3, 1, 3, 2), 2) == (cell(5, 1, 3, 2), True)


def test_a_parts_need_is_met_by_parts_that_have_more_than_theirs() -> None:
    cells = np.array([cell(0, 0, 5, 0), cell(3, 0, 6, 1), cell(5, 0, 6, 1), cell(6, 0, 11, 1)])
    child, least = (cells, np.array([9, 4, 1, 3])), np.array([0, 1, 2, 2, 1])
    found, counts = SWITCHER.filled(child, least)
    # Two of the second part, which only the first can give; one of the third, which the fourth can.
    moved = dict(zip(found.tolist(), counts.tolist(), strict=True))
    assert moved == {
        cells[0]: 9,
        cells[1]: 2,
        cell(4, 0, 6, 1): 2,
        cells[2]: 1,
        cell(5, 0, 9, 1): 1,  # at the oldest age of its part
        cells[3]: 2,
    }
    enough = cells, counts[[0, 1, 1, 1]]
    assert SWITCHER.filled(enough, least * 0) is enough
