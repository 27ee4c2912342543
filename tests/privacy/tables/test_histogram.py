"""Histograms: cells, marginals, structural zeros; counts as masks against each cell by itself."""

import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.tables.histogram import Axis, Histogram, Recode, cell_table, mask, sums
from spine.redistricting import PERSON_TABLES, PERSONS, UNITS


def axis(name: str, size: int) -> Axis:
    return Axis(name, name, tuple(f"{name} {at}" for at in range(size)), name.upper(), tuple(map(str, range(size))))


@st.composite
def conditions(draw: st.DrawFn) -> tuple[tuple[Axis, ...], dict[str, set[int]]]:
    axes = tuple(axis(name, draw(st.integers(1, 4))) for name in "abc"[: draw(st.integers(1, 3))])
    named = [one for one in axes if draw(st.booleans())]
    return axes, {one.name: draw(st.sets(st.integers(0, len(one) - 1))) for one in named}


@given(conditions())
def test_masks_and_tables_number_the_cells_alike(case: tuple[tuple[Axis, ...], dict[str, set[int]]]) -> None:
    axes, where = case
    cells = itertools.product(*(range(len(one)) for one in axes))
    expected = [all(at in where.get(one.name, {at}) for one, at in zip(axes, cell, strict=True)) for cell in cells]
    assert mask(axes, where).tolist() == expected
    cells = pd.DataFrame(cell_table(axes))
    chosen = cells[expected]
    for one in axes if any(expected) else ():
        assert set(chosen[one.column]) == {one.codes[at] for at in where.get(one.name, range(len(one)))}


THREE = Histogram((axis("a", 2), axis("b", 3), axis("c", 4)))


def test_cells_and_coordinates_are_inverse_and_row_major() -> None:
    cells = np.arange(THREE.cells)
    at = THREE.coordinates_of(cells)
    assert THREE.cell([*at.values()]).tolist() == cells.tolist()
    assert {name: own[[0, 1, 23]].tolist() for name, own in at.items()} == {
        "a": [0, 0, 1],
        "b": [0, 0, 2],
        "c": [0, 1, 3],
    }


GROUPED = Histogram(THREE.axes, (Recode("half", "c", (0, 0, 1, 1), ("low", "high")), Recode("two", "b", (1, 0, 1))))


@settings(max_examples=25, derandomize=True, deadline=None)
@given(
    st.lists(st.integers(-1000, 1000), min_size=24, max_size=24),
    st.lists(st.sampled_from(["a", "b", "c", "half", "two"]), unique=True),
)
def test_marginals_are_sums_of_cells_by_axes_and_recodes_in_any_order(values: list[int], names: list[str]) -> None:
    """Also by an axis and a recode of it, where groups have no cell."""
    groups = GROUPED.groups(names)
    places = {"half": lambda at: int(at["c"]) // 2, "two": lambda at: int(at["b"] != 1)}
    sums: dict[tuple[int, ...], int] = {}
    for cell, value in enumerate(values):
        at = {name: own[cell] for name, own in GROUPED.coordinates.items()}
        key = tuple(places.get(name, lambda at, name=name: int(at[name]))(at) for name in names)
        sums[key] = sums.get(key, 0) + value
        codes = [own[place] for own, place in zip(groups.codes, key, strict=True)]
        assert groups.number(codes) == groups.of(at)
        assert groups.label(int(groups.of(at))) == dict(zip(names, codes, strict=True))
    every = itertools.product(*map(range, groups.shape))
    assert GROUPED.marginal(np.array(values), names).tolist() == [sums.get(key, 0) for key in every]


def test_a_query_is_a_marginal_in_the_order_of_the_axes() -> None:
    values = np.arange(24) ** 2
    for query, names in (("total", ()), ("detailed", "abc"), ("half*a", ("a", "half")), ("c * two", ("two", "c"))):
        part, width = GROUPED.partition(query)
        assert width == GROUPED.width(query)
        assert np.bincount(part, values, width).tolist() == GROUPED.marginal(values, names).tolist()
    assert GROUPED.groups(["two"]).codes == (("0", "1"),)  # its labels are not declared


def test_structural_zeros_are_conditions() -> None:
    ruled = Histogram(THREE.axes, zeros=({"a": frozenset({0}), "b": frozenset({1})}, {"c": frozenset({3})}))
    at = ruled.coordinates
    wanted = ~(((at["a"] == 0) & (at["b"] == 1)) | (at["c"] == 3))
    assert ruled.possible.tolist() == wanted.tolist()
    assert ruled.are_possible(np.array([7, 3, 7])).tolist() == wanted[[7, 3, 7]].tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: axis("a", 0), "the axis a has no codes"),
        (lambda: Axis("a", "", (), "", ("x", "x")), "the axis a has a code twice"),
        (lambda: Histogram(()), "at least one axis"),
        (lambda: Histogram((THREE.axes[0], THREE.axes[0])), "and each once, not a, a"),
        (lambda: THREE.marginal(np.zeros(24, np.int64), ["d"]), "no axis, level or recode 'd'"),
    ],
)
def test_what_is_not_declared_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_sums_add_up_entries_of_one_cell() -> None:
    row, cell, count = np.array([0, 0, 2]), np.array([1, 1, 0]), np.array([3, 4, 5], np.int32)
    assert sums(row, cell, count, 3, np.array([[1, 0], [1, 1]])).tolist() == [[7, 7], [0, 0], [5, 0]]


def test_names_of_counts_are_unique_and_conditions_leave_out_what_they_do_not_restrict() -> None:
    for product in (PERSONS, UNITS):
        every = [*product.counts, *itertools.chain.from_iterable(product.tables.values())]
        assert len({count.name for count in every}) == len(every)
        sizes = {one.name: len(one) for one in product.axes}
        assert all(0 < len(chosen) < sizes[name] for count in every for name, chosen in count.where.items())


@pytest.mark.parametrize(
    ("product", "name", "cells"),
    [
        (PERSONS, "total", ["P0010001", "P0020001"]),
        (PERSONS, "voting age", ["P0030001", "P0040001"]),
        (PERSONS, "Hispanic", ["P0020002"]),
        (PERSONS, "race: white", ["P0010003"]),
        (PERSONS, "race: some other race", ["P0010008"]),
        (PERSONS, "race: two or more races", ["P0010009"]),
        (PERSONS, "voting age by race: Asian", ["P0030006"]),
        (PERSONS, "voting age by origin: Hispanic", ["P0040002"]),
        (PERSONS, "group quarters: type 1", ["P0050003"]),
        (PERSONS, "group quarters: type 4", ["P0050006"]),
        (PERSONS, "group quarters: type 5", ["P0050008"]),
        (PERSONS, "group quarters: type 7", ["P0050010"]),
        (UNITS, "total", ["H0010001"]),
        (UNITS, "occupied", ["H0010002"]),
    ],
)
def test_counts_are_cells_of_the_published_tables(product, name, cells) -> None:
    assert product.cells_like(product.count(name)) == cells


def test_the_298_cells_are_those_of_the_tables() -> None:
    """Numbers and sums as the documentation of the tables has them."""
    assert [len(table) for table in PERSON_TABLES.values()] == [71, 73, 71, 73, 10]
    every = [*itertools.chain.from_iterable(PERSON_TABLES.values())]
    count = dict(zip([cell.name for cell in every], PERSONS.matrix(every).T, strict=True))
    for table, first in (("P001", 1), ("P002", 3), ("P003", 1), ("P004", 3)):
        total, one, more = (count[f"{table}{first + at:04d}"] for at in (0, 1, 8))
        np.testing.assert_array_equal(total, one + more)
        np.testing.assert_array_equal(one, sum(count[f"{table}{first + at:04d}"] for at in range(2, 8)))
        groups = [first + at for at in (9, 25, 46, 62, 69)]
        np.testing.assert_array_equal(more, sum(count[f"{table}{at:04d}"] for at in groups))
        for at, number in zip(groups, (15, 20, 15, 6, 1), strict=True):
            parts = [count[f"{table}{at + part:04d}"] for part in range(1, number + 1)]
            np.testing.assert_array_equal(count[f"{table}{at:04d}"], sum(parts))
            assert {int(part.sum()) for part in parts} == {
                8 * 2 * 2 // {"P001": 1, "P002": 2, "P003": 2, "P004": 4}[table]
            }
    for number in (1, 2):
        total, hispanic, other = (count[f"P00{2 * number}{at:04d}"] for at in (1, 2, 3))
        np.testing.assert_array_equal(total, hispanic + other)
        np.testing.assert_array_equal(total, count[f"P00{2 * number - 1}0001"])
    titles = {cell.name: cell.words for cell in every}
    words = {"P0010009": "two or more races", "P0020003": "not Hispanic", "P0040005": "not Hispanic: White alone"}
    words |= {"P0030070": "six races", "P0050007": "noninstitutional", "P0050010": "other noninstitutional facilities"}
    assert {name: titles[name] for name in words} == words
    assert all(len({cell.words for cell in table}) == len(table) for table in PERSON_TABLES.values())
    np.testing.assert_array_equal(count["P0050001"], count["P0050002"] + count["P0050007"])
