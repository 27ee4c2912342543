import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy.estimation.allocation import allocate, ranks, sex_margin

CELLS = st.sampled_from([2, 8, 10, 18, 46])


@given(CELLS, st.lists(st.tuples(st.integers(-10_000, 10_000), st.integers(0, 45)), min_size=1, max_size=20))
def test_cells_and_sexes_share_alike_and_add_up(cells, tables):
    change = np.array([change for change, _ in tables])
    turn = np.array([turn % cells for _, turn in tables])
    spread = allocate(change, turn, cells)
    assert (spread.sum(axis=1) == change).all()
    assert (np.ptp(spread, axis=1) <= 1).all()
    sexes = spread.reshape(len(tables), 2, -1).sum(axis=2)
    assert (np.ptp(sexes, axis=1) <= 1).all()
    assert (allocate(-change, turn, cells) == -spread).all()


@pytest.mark.parametrize("cells", [2, 8, 10, 18, 46])
def test_every_cell_has_every_rank_once(cells):
    """So over all turns each cell gets the same: e."""
    each = np.sort(ranks(cells), axis=0)
    assert (each == np.arange(cells)[:, None]).all()
    assert (np.sort(ranks(cells), axis=1) == np.arange(cells)).all()
    for change in (1, -7, cells + 5):
        spread = allocate(np.full(cells, change), np.arange(cells), cells)
        assert (spread.sum(axis=0) == change).all()


def test_the_first_cells_of_a_turn():
    """Turn 3 of a table with 4 ages: sex 2 first, from the second age on."""
    order = np.argsort(ranks(8)[3]).tolist()
    assert order == [5, 1, 6, 2, 7, 3, 4, 0]


def test_sex_margins():
    """Of production, sub-state: (m_total^2 + m_S^2)^.5 / 2, rounded up; the measured margins are 22, 34 and 53."""
    for total, measured, margin in ((23, 31, 20), (27, 47, 28), (30, 75, 41)):
        assert sex_margin(np.array([total]), measured).tolist() == [margin]
