"""Algorithm 1 against brute force, and what an OSED must be by definition."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spine_cases import matrix, random_family, random_spine

from spine.entities import Entities
from spine.hierarchy import Spine
from spine.osed import at_root, costs_at_top, osed


def least_signed_sum(spine: Spine, members: np.ndarray) -> int:
    """The least number of distinct geounits whose signed sum is the indicator `members`, by trying all."""
    rows = np.unique(np.vstack([matrix(spine, level) for level in range(len(spine.levels))]), axis=0)
    signs = np.array(list(product((-1, 0, 1), repeat=len(rows))), np.int8)
    made = (signs @ rows.astype(np.int8) == members).all(axis=1)
    return int(np.abs(signs[made]).sum(axis=1).min())


@pytest.mark.parametrize("seed", range(60))
def test_osed_is_the_least_number_of_geounits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, blocks=int(rng.integers(2, 7)), levels=int(rng.integers(2, 5)), keep=0.5)
    family = random_family(rng, spine.blocks, entities=2)
    distances = osed(spine, family)
    for entity, distance in enumerate(distances):
        assert distance == least_signed_sum(spine, family.of_block[spine.order] == entity)


def test_a_hand_made_case() -> None:
    """Ten blocks in one group: nine of them are the group less one block (equation 20)."""
    group = (np.array([0]), np.array([0, 10]), np.arange(20))
    spine = Spine(("root", "group", "block"), np.arange(20), group, tuple(np.zeros(len(s), int) for s in group), 1)
    family = Entities("one", np.arange(2), (np.arange(20) >= 9).astype(int))
    assert osed(spine, family).tolist() == [2, 2]  # group 0 - block 9; group 1 + block 9


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(2, 5), st.integers(1, 8))
def test_distances_of_any_family(seed: int, blocks: int, levels: int, entities: int) -> None:
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, blocks, levels)
    family = random_family(rng, blocks, entities)
    distances = osed(spine, family)
    members = np.bincount(family.of_block)
    assert (distances >= 1).all()
    assert (distances <= members).all()  # adding up its blocks is always possible
    for entity in range(len(distances)):  # all at once is one by one
        alone = Entities("one", np.arange(2), (family.of_block == entity).astype(int))
        if len(members) > 1:
            assert osed(spine, alone)[1] == distances[entity]
    for level in range(len(spine.levels)):  # a geounit is at distance 1
        of_block = np.empty(blocks, int)
        of_block[spine.order] = spine.geounit_of_block(level)
        units = Entities("units", np.arange(of_block.max() + 1), of_block)
        assert (osed(spine, units) == 1).all()


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(2, 40))
def test_a_root_above_a_forest(seed: int, blocks: int) -> None:
    rng = np.random.default_rng(seed)
    spine, family = random_spine(rng, blocks), random_family(rng, blocks, 4)
    forest = spine.without_root()
    assert (at_root(costs_at_top(forest, family), len(forest.starts[0])) == osed(spine, family)).all()
