"""Histograms and query groups: index maps against Kronecker products, and sums up the spine."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from weakref import ref

import numpy as np
import pytest
from top_down_cases import small_state

from privacy.tables.histogram import Axis
from spine.production import allocation
from spine.redistricting import PERSONS, UNITS
from spine.top_down import exact_answers, query_group, summed
from spine.top_down.histogram import Product, joined
from spine.top_down.least_squares import sums_of
from spine.top_down.queries import query_hierarchy

NAMES = list(allocation("pl94-persons", "us").queries["Block"])
GROUPS = sorted((query_group(PERSONS, name) for name in NAMES), key=lambda group: -group.width)


def kronecker(name: str) -> np.ndarray:
    """The matrix of a query group, axis by axis: identity where it asks the axis, a row of ones where it sums."""
    factor = []
    for axis, size in ((axis.name, len(axis)) for axis in PERSONS.axes):
        if name == "hhinstlevels" and axis == "hhgq":
            factor.append(np.array([[1, 0, 0, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1, 1, 1]]))
        else:
            factor.append(np.eye(size) if name == "detailed" or axis in name.split("*") else np.ones((1, size)))
    return reduce(np.kron, factor)


@pytest.mark.parametrize("name", NAMES)
def test_a_query_group_is_its_kronecker_product(name: str) -> None:
    group, matrix = query_group(PERSONS, name), kronecker(name)
    assert matrix.shape == (group.width, 2016)
    assert (matrix.sum(axis=0) == 1).all()
    np.testing.assert_array_equal(matrix.argmax(axis=0), group.coordinate)


def test_all_query_groups_have_2603_coordinates() -> None:
    assert sum(group.width for group in GROUPS) == 2603


def test_query_groups_are_narrow_and_go_with_their_product() -> None:
    product = replace(PERSONS)
    coordinate = query_group(product, "hispanic*cenrace").coordinate
    assert coordinate.dtype == np.int8
    assert query_group(product, "hispanic*cenrace").coordinate is coordinate
    kept = ref(coordinate)
    del product, coordinate
    assert kept() is None


@pytest.mark.parametrize("width", [127, 128, 129])
def test_the_number_after_the_last_coordinate_has_its_type(width: int) -> None:
    codes = tuple(map(str, range(width)))
    product = Product((Axis("a", "a", codes, "A", codes),), name="axis", counts=())
    assert (query_group(product, "a").coordinate + 1).max() == width


def test_an_unknown_axis_is_refused() -> None:
    with pytest.raises(ValueError, match="the axes are"):
        query_group(PERSONS, "age*cenrace")


def test_groups_factor_through_voting_age_hispanic_race_and_hhgq() -> None:
    histogram, hierarchy = np.random.default_rng(1).integers(0, 9, 2016), query_hierarchy(GROUPS)
    values = [np.bincount(GROUPS[0].coordinate, histogram)]
    for at, group in enumerate(GROUPS[1:], start=1):
        finer = values[hierarchy.finer[at]]
        parent_of = hierarchy.parent_of[hierarchy.parent_offsets[at] :][: len(finer)]
        values.append(np.bincount(parent_of, finer, minlength=group.width))
        np.testing.assert_array_equal(values[-1], kronecker(group.name) @ histogram)
    from_cells = [group.name for group, finer in zip(GROUPS[1:], hierarchy.finer[1:], strict=True) if finer == 0]
    assert from_cells == ["votingage*hispanic*cenrace", "hhgq"]


def test_sums_of_some_cells_are_the_query_groups_of_them() -> None:
    rng = np.random.default_rng(2)
    cells = np.sort(rng.choice(2016, 40, replace=False))
    x = rng.integers(1, 9, 40)
    sums = sums_of(query_hierarchy(GROUPS), cells)
    value = np.zeros(len(sums.group), np.int64)
    value[:40] = x
    for i in range(40):
        value[sums.up[i]] += x[i]
    for tail, head in zip(sums.tail, sums.head, strict=True):
        value[head] += value[tail]
    dense = np.zeros(2016, np.int64)
    dense[cells] = x
    everything = np.concatenate([kronecker(group.name) @ dense for group in GROUPS])
    np.testing.assert_array_equal(everything[sums.coordinate], value)
    assert everything.sum() == value.sum()  # and no coordinate is left out


def test_minors_in_nursing_facilities_are_a_structural_zero() -> None:
    assert (~PERSONS.possible).sum() == 126
    assert UNITS.possible.all()


def test_histograms_sum_up_the_spine() -> None:
    case = small_state(3)
    levels = summed(case.persons, case.spine)
    dense = case.persons.dense(2016)
    for level, histograms in enumerate(levels):
        expected = np.add.reduceat(dense, case.spine.starts[level], axis=0)
        np.testing.assert_array_equal(histograms.dense(2016), expected)
        group = query_group(PERSONS, "votingage*cenrace")
        answers = exact_answers(histograms, group, 0, len(histograms))
        np.testing.assert_array_equal(answers, expected @ kronecker(group.name).T.astype(int))
    tracts = levels[2]
    parts = [tracts.only(0, 5), tracts.only(5), tracts.only(6, len(tracts))]
    np.testing.assert_array_equal(joined(parts).dense(2016), tracts.dense(2016))
    np.testing.assert_array_equal(exact_answers(parts[2], group, 7, 9), exact_answers(tracts, group, 7, 9))
