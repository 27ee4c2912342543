"""Algorithm 3 against its pseudocode in fractions; Theorem 2, Observation 1 and the conditions around them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spine_cases import (
    QUERIES,
    SMALL,
    dense_variance,
    matrix,
    query_matrix,
    random_allocation,
    random_shares,
    random_spine,
    shares_of,
)

from spine.allocations import Allocation
from spine.bypass import bypass, exact_rule, minimum_rule
from spine.hierarchy import Spine
from spine.settings import SpineSettings, settings_for


def path_sums(spine: Spine) -> np.ndarray:
    """The sum of shares from the top down to each block in spine order (numerators)."""
    return sum(spine.shares[level][spine.geounit_of_block(level)] for level in range(len(spine.levels)))


def settings_on(spine: Spine, definition: str, **changes: Any) -> SpineSettings:
    base = settings_for("pl94-persons", definition=definition)
    free = {"split": spine.levels[1:-1], "bypass_cutoff": None}
    return replace(base, levels=spine.levels, **(free | changes))


def literal(spine: Spine, definition: str) -> list[list[tuple[tuple[int, ...], Fraction]]]:
    """Algorithm 3 word by word, on lists of (blocks, share) per level; the root is not split."""
    levels = [
        [
            (tuple(np.flatnonzero(row).tolist()), share)
            for row, share in zip(matrix(spine, level), shares_of(spine, level), strict=True)
        ]
        for level in range(len(spine.levels))
    ]
    for level in range(len(levels) - 2, -1, -1):
        for parent in list(levels[level]):
            children = [child for child in levels[level + 1] if set(child[0]) <= set(parent[0])]
            c, least = len(children), min(share for _, share in children)
            allowed = c == 1 or (definition == "puredp" and level > 0)
            if allowed and least >= Fraction(c - 1, 2) * parent[1]:
                place = levels[level].index(parent)
                levels[level][place : place + 1] = [(blocks, parent[1] + share) for blocks, share in children]
                for blocks, share in children:
                    where = levels[level + 1].index((blocks, share))
                    levels[level + 1][where] = (blocks, Fraction(0))
    return levels


@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(1, 14), st.integers(2, 5))
def test_bypass_is_algorithm_3(definition: str, seed: int, blocks: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, blocks, levels)
    spine = spine.with_shares(random_shares(rng, spine.levels))
    bypassed = bypass(spine, settings_on(spine, definition))
    for level, expected in enumerate(literal(spine, definition)):
        units = [tuple(np.flatnonzero(row).tolist()) for row in matrix(bypassed, level)]
        assert units == [blocks for blocks, _ in expected]
        assert shares_of(bypassed, level) == [share for _, share in expected]
    assert (path_sums(bypassed) == bypassed.denominator).all()  # to the last digit
    assert len(bypassed.starts[0]) == 1
    if definition == "zcdp":
        again = bypass(bypassed, settings_on(spine, definition))
        assert all((a == b).all() for a, b in zip(bypassed.shares, again.shares, strict=True))
        for level in range(len(bypassed.levels) - 1):  # Observation 1: an only child keeps no share
            only = (bypassed.children(level) == 1)[bypassed.parents[level + 1]]
            assert (bypassed.shares[level + 1][only] == 0).all()


def star(children: int, parent: int, shares: list[int]) -> Spine:
    """A root with two parents: one of `children` blocks with these shares, and one of two blocks."""
    starts = (np.array([0]), np.array([0, children]), np.arange(children + 2))
    total = 7 + parent + max(shares)
    given_shares = (np.array([7]), np.array([parent, parent]), np.array([*shares, max(shares), max(shares)]))
    return Spine(("root", "parent", "block"), np.arange(children + 2), starts, given_shares, total)


def with_equal_queries(spine: Spine, definition: str) -> Allocation:
    allocation = random_allocation(np.random.default_rng(5), spine.levels, definition)
    return replace(allocation, queries=dict.fromkeys(spine.levels, allocation.queries[spine.levels[0]]))


def moved(spine: Spine) -> Spine:
    """The share of the first parent given to each of its children: what a bypass does to the matrix (section 5)."""
    root, parents, blocks = spine.shares
    first = int(parents[0])
    first_children = spine.parents[2] == 0
    return replace(spine, shares=(root, np.array([0, first]), blocks + np.where(first_children, first, 0)))


@pytest.mark.parametrize("children", [2, 3, 4, 5])
@pytest.mark.parametrize("share", [1, 2, 3, 5, 9])
def test_theorem_2_no_variance_rises_where_the_rule_bypasses(children: int, share: int) -> None:
    spine = star(children, 2, [share] * children)
    allocation = with_equal_queries(spine, "puredp")
    if minimum_rule(spine, 1)[0]:
        before, after = (dense_variance(s, allocation, SMALL) for s in (spine, moved(spine)))
        np.testing.assert_array_less(np.linalg.eigvalsh(after - before).max(), 1e-9 * before.max())
        rows = np.kron(np.vstack([matrix(spine, level) for level in range(3)]), np.eye(before.shape[0] // spine.blocks))
        rise = np.einsum("ij,jk,ik->i", rows, after - before, rows)
        assert rise.max() <= 1e-9 * before.max()
    assert minimum_rule(spine, 1)[0] == (2 * share >= (children - 1) * 2)


@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
@pytest.mark.parametrize("rule", ["minimum", "exact"])
@pytest.mark.parametrize("seed", range(8))
def test_no_variance_rises_on_a_whole_spine(seed: int, rule: str, definition: str) -> None:
    """Algorithm 3 with equal queries on every level, from the blocks up: every query of every geounit, no worse.

    Under zCDP only only-children are bypassed, and no variance changes at all (section 5; Observation 1 is about TDA).
    """
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, blocks=6, levels=4, keep=0.4)
    allocation = with_equal_queries(spine, definition)
    spine = spine.with_shares(dict(allocation.levels))
    after = bypass(spine, settings_on(spine, definition, exact_bypass=rule == "exact"))
    before_dense, after_dense = (dense_variance(s, allocation, SMALL) for s in (spine, after))
    every = np.vstack([matrix(spine, level) for level in range(len(spine.levels))])
    rows = np.kron(every, np.vstack([query_matrix(query, SMALL) for query in QUERIES]))
    rise = np.einsum("ij,jk,ik->i", rows, after_dense - before_dense, rows)
    scale = np.einsum("ij,jk,ik->i", rows, before_dense, rows)
    assert (rise <= 1e-9 * scale).all()
    if definition == "zcdp":
        np.testing.assert_allclose(rise, 0, atol=1e-9 * scale.max())


@pytest.mark.parametrize("seed", range(40))
def test_the_exact_rule_is_the_loewner_order(seed: int) -> None:
    """Unequal shares: the parent's part of the information matrix grows iff the exact rule says so."""
    rng = np.random.default_rng(seed)
    children = int(rng.integers(2, 6))
    shares = rng.integers(1, 12, children)
    parent = int(rng.integers(1, 6))
    spine = star(children, parent, shares.tolist())
    gain = parent * (np.diag(2 * shares + parent) - parent * np.ones((children, children)))
    assert exact_rule(spine, 1)[0] == (np.linalg.eigvalsh(gain).min() >= -1e-9)
    assert exact_rule(spine, 1)[0] or not minimum_rule(spine, 1)[0]  # the paper's rule is the stricter one


def test_under_zcdp_a_parent_of_two_loses_and_a_parent_of_one_does_not() -> None:
    for children, rises in ((1, False), (2, True), (3, True)):
        spine = star(children, 2, [9] * children)
        allocation = with_equal_queries(spine, "zcdp")
        before, after = (dense_variance(s, allocation, SMALL) for s in (spine, moved(spine)))
        row = np.kron(matrix(spine, 1)[:1], np.ones((1, before.shape[0] // spine.blocks)))
        assert ((row @ (after - before) @ row.T).item() > 1e-9) == rises


def test_the_cutoff_bounds_the_fanout_above() -> None:
    starts = (np.array([0]), np.arange(0, 12, 3), np.arange(12))
    spine = Spine(("root", "parent", "block"), np.arange(12), starts, tuple(np.full(len(s), 1) for s in starts), 3)
    free = bypass(spine, settings_on(spine, "puredp"))
    assert len(free.starts[1]) == 12  # three children with equal shares: all four parents are bypassed
    capped = bypass(spine, settings_on(spine, "puredp", bypass_cutoff=9))
    assert len(capped.starts[1]) == 8  # 4 -> 6 -> 8 children of the root; a third bypass would make 10
    assert (path_sums(capped) == 3).all()


def test_a_root_is_never_split() -> None:
    spine = star(2, 1, [5, 5])
    with pytest.raises(ValueError, match="root level root cannot be split"):
        bypass(spine, settings_on(spine, "puredp", split=("root", "parent")))
