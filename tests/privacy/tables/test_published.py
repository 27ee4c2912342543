"""Published tables: rows as sums of cells, their margins by law, which rows are single cells."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from privacy.noise.laws import law
from privacy.noise.margins import margin_of_error
from privacy.tables.published import Published, PublishedRow

ROWS = (
    PublishedRow(("0",), "all", (0, 1, 2)),
    PublishedRow(("1",), "first", (0,)),
    PublishedRow(("2",), "second", (1,)),
    PublishedRow(("3",), "third", (2,)),
)
TABLE = Published("t", "A table", "m", "households", ("CELL",), ROWS, by="tenure")


def test_a_row_is_the_sum_of_its_cells_for_every_key() -> None:
    answer = np.arange(12).reshape(2, 2, 3)
    assert TABLE.counts(answer).tolist() == [[[sum(key), *key] for key in of] for of in answer.tolist()]


def test_a_margin_is_that_of_as_many_draws_as_a_row_has_cells() -> None:
    noise = law("puredp", Fraction(1, 3), 9)
    assert TABLE.draws.tolist() == [3, 1, 1, 1]
    for alpha in (Fraction(1, 20), Fraction(1, 10)):
        whole, single = (margin_of_error(noise, cells, alpha) for cells in (3, 1))
        assert TABLE.margins(noise, alpha).tolist() == [whole, single, single, single]
        assert single < whole < 3 * single


def test_rows_that_share_cells_may_not_be_added_up_and_single_cells_give_all_rows() -> None:
    assert TABLE.overlaps
    assert TABLE.single == (1, 2, 3)
    parts = Published("p", "", "m", "", ("CELL",), ROWS[:0:-1])
    assert not parts.overlaps
    assert parts.single == (2, 1, 0)
    assert Published("s", "", "m", "", ("CELL",), ROWS[:3]).single == ()  # the third cell is in a sum alone
    answer = np.array([[5, 7, -2]])
    for table in (TABLE, parts):
        assert (table.counts(answer)[:, table.single] == answer).all()
