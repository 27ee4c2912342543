"""Rows of published tables: keys x rows in files, and a received table against what it must be."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from privacy.noise.laws import DiscreteGaussian, TwoSidedGeometric
from privacy.noise.margins import margin_of_error
from privacy.tables.published import Published, PublishedRow
from tasks.releases.published import check_rows, counts_in, laws_by_margin, row_column, rows_of

TABLE = Published(
    "t",
    "",
    "m",
    "households",
    ("CELL",),
    (PublishedRow(("0",), "all", (0, 1)), PublishedRow(("2",), "a", (1,)), PublishedRow(("1",), "b", (0,))),
    by="tenure",
)
KEYS = {"REGION": pa.array(["x", "y"])}
CELLS = np.array([[3, 4], [-5, 1]])


def rows(counts: np.ndarray = CELLS, margin: object = 1) -> pa.Table:
    return rows_of(TABLE, KEYS, {"COUNT": TABLE.counts(counts), "MOE": margin})


def test_rows_are_keys_by_rows_and_numbers_of_a_row_are_those_of_every_key() -> None:
    assert [[*row.values()] for row in rows(margin=[9, 7, 7]).to_pylist()] == [
        ["x", "0", 7, 9],
        ["x", "2", 4, 7],
        ["x", "1", 3, 7],
        ["y", "0", -4, 9],
        ["y", "2", 1, 7],
        ["y", "1", -5, 7],
    ]
    with pytest.raises(ValueError, match="broadcast"):
        rows(margin=[9, 7])


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_cells_are_read_back_whatever_the_order_and_of_some_keys(order: slice) -> None:
    found = rows().take(np.arange(6)[order])
    assert counts_in(found, TABLE, KEYS)[:, TABLE.single].tolist() == CELLS.tolist()
    some = {"REGION": pa.array(["y", "z"])}
    assert counts_in(found, TABLE, some)[:, TABLE.single].tolist() == [[-5, 1], [0, 0]]
    twice = pa.concat_tables([found, rows(CELLS + 100)])
    assert counts_in(twice, TABLE, KEYS)[:, TABLE.single].tolist() == CELLS.tolist()
    assert counts_in(found[:0], TABLE, KEYS).tolist() == [[0, 0, 0]] * 2


@pytest.mark.parametrize(
    ("column", "value", "fault"),
    [
        ("COUNT", 8, "COUNT differs in 1 rows"),
        ("COUNT", 6, "COUNT differs in 1 rows"),
        ("MOE", 2, "MOE differs in 1 rows"),
        ("REGION", "z", "REGION differs in 1 rows"),
        ("CELL", "1", "CELL differs in 1 rows"),
        ("CELL", None, "CELL differs in 1 rows"),
        ("COUNT", None, "COUNT differs in 1 rows"),
    ],
)
def test_each_value_that_differs_is_a_fault(column: str, value: object, fault: str) -> None:
    expected = rows()
    assert not check_rows("t", [(rows(), expected)]).faults
    changed = pa.Table.from_pylist(
        [{**row, column: value} if not at else row for at, row in enumerate(rows().to_pylist())]
    )
    assert check_rows("t", [(changed, expected)]).faults == (fault,)
    assert check_rows("t", [(changed.slice(1), expected)]).faults == ("it has 5 rows, not 6",)
    both = rows().slice(0, 3), rows().slice(3)
    pieces = [(both[0].slice(1), both[0]), (pa.concat_tables([both[1], both[1].slice(0, 1)]), both[1])]
    assert check_rows("t", pieces).faults == ("it has 6 rows, not 6",), "the pieces differ"
    near = column == "COUNT" and value is not None
    assert bool(check_rows("t", [(changed, expected)], rounding=1).faults) != near


def test_of_clipped_counts_those_below_their_sums_are_right_if_they_are_steps_from_zero() -> None:
    at = rows().column_names.index("COUNT")
    expected = rows().set_column(at, "COUNT", pa.array([7.5] * 6))
    for count, step, fault in (
        (7, 0.5, None),
        (7.25, 0.5, "1 counts are negative, or not multiples of the step"),
        (-1, 0.5, "1 counts are negative, or not multiples of the step"),
        (8, 0.5, "COUNT differs in 1 rows"),
    ):
        changed = expected.set_column(at, "COUNT", pa.array([count, *[7.5] * 5], pa.float64()))
        assert [*check_rows("t", [(changed, expected)], clipped=True, step=step).faults] == [fault] * bool(fault)


def test_of_two_laws_with_one_margin_the_larger_is_stated() -> None:
    laws = [DiscreteGaussian(Fraction(variance)) for variance in (100, 101, 400)]
    assert margin_of_error(laws[0], 1) == margin_of_error(laws[1], 1)
    found = laws_by_margin([(laws[2], 1), (laws[1], 1), (laws[0], 1), (laws[0], 2)])
    assert [(each["margin"], each["cells"]) for each in found] == [
        (margin_of_error(law, cells), cells) for law, cells in ((laws[1], 1), (laws[0], 2), (laws[2], 1))
    ]
    assert found[0]["sigma_squared"] == "101"
    assert laws_by_margin([(TwoSidedGeometric(Fraction(3)), 1)])[0]["law"] == TwoSidedGeometric.name


def test_the_column_of_rows_says_that_sums_overlap() -> None:
    column = row_column(TABLE)
    assert (column.name, column.codes, column.overlap) == ("CELL", {"0": "all", "2": "a", "1": "b"}, True)
    assert (column.title, column.frame, column.meaning) == ("Tenure", "tenure", "the cell of tenure")
