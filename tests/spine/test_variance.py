"""The tree algorithm against the dense inverse of equation 19, and Theorem 2."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from spine_cases import (
    SMALL,
    dense_variance,
    matrix,
    query_matrix,
    random_allocation,
    random_family,
    random_spine,
    root_of,
)

from spine.allocations import Allocation
from spine.bypass import bypass
from spine.hierarchy import Spine
from spine.osed import overlap
from spine.redistricting import PERSONS
from spine.settings import settings_for
from spine.variance import Root, cell_variance, downward, entity_sums, marginal_parts, upward

MARGINALS = ("total", "cenrace", "votingage*cenrace", "hhgq", "hhinstlevels", "detailed")


def spines(seed: int, definition: str, blocks: int = 7) -> tuple[Spine, Allocation]:
    """A random spine after bypass, so that some geounits have no share."""
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, blocks)
    allocation = random_allocation(rng, spine.levels, definition)
    settings = replace(
        settings_for("pl94-persons"), definition=definition, levels=spine.levels, split=spine.levels[1:-1]
    )
    return bypass(spine.with_shares(dict(allocation.levels)), settings), allocation


def cell_variances(dense: np.ndarray, rows: np.ndarray, marginal: str) -> np.ndarray:
    """The mean variance of a marginal's cells, for each row of block weights."""
    query = np.kron(rows, query_matrix(marginal, SMALL))
    return np.einsum("ij,jk,ik->i", query, dense, query).reshape(len(rows), -1).mean(1)


@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
@pytest.mark.parametrize("seed", range(6))
def test_every_geounit_and_entity_has_the_variance_of_the_dense_inverse(seed: int, definition: str) -> None:
    spine, allocation = spines(seed, definition)
    family = random_family(np.random.default_rng(seed), spine.blocks)
    pairs = overlap(spine, family.of_block, len(family.codes))
    dense = dense_variance(spine, allocation, SMALL)
    members = np.eye(len(family.codes))[family.of_block[spine.order]].T
    for marginal in MARGINALS:
        geounits = [np.zeros(len(s)) for s in spine.starts]
        entities = np.zeros(len(family.codes))
        for part in marginal_parts(marginal, SMALL, allocation):
            up = upward(spine, part, 1 if definition == "zcdp" else 2)
            root = root_of(spine, up)
            *levels, blocks = downward(spine, up, root)
            for total, variance in zip(geounits, [*levels, blocks[up.row_of_block]], strict=True):
                total += cell_variance(part, variance)
            entities += cell_variance(part, entity_sums(spine, up, family, pairs).under(root))
        for level, total in enumerate(geounits):
            np.testing.assert_allclose(total, cell_variances(dense, matrix(spine, level), marginal), rtol=1e-8)
        np.testing.assert_allclose(entities, cell_variances(dense, members, marginal), rtol=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_a_forest_under_a_root_is_the_whole_spine(seed: int) -> None:
    spine, allocation = spines(seed, "zcdp", blocks=9)
    top = spine.levels[1:]
    forest = Spine(top, spine.order, spine.starts[1:], spine.shares[1:], spine.denominator)
    family = random_family(np.random.default_rng(seed), spine.blocks)
    for part in marginal_parts("total", SMALL, allocation):
        whole, up = upward(spine, part, 1), upward(forest, part, 1)
        own = spine.shares[0][0] / spine.denominator * part.information[spine.levels[0]]
        root = root_of(forest, up, own)
        assert isinstance(root, Root)
        pairs = overlap(spine, family.of_block, len(family.codes)), overlap(forest, family.of_block, len(family.codes))
        np.testing.assert_allclose(
            entity_sums(forest, up, family, pairs[1]).under(root),
            entity_sums(spine, whole, family, pairs[0]).under(root_of(spine, whole)),
        )
        np.testing.assert_allclose(downward(forest, up, root)[0], downward(spine, whole, root_of(spine, whole))[1])


@pytest.mark.ci
def test_the_production_workloads_add_up_to_what_their_matrices_give() -> None:
    from spine.production import allocation_for

    settings = settings_for("pl94-persons")
    allocation = allocation_for(settings)
    queries = [query_matrix(q, PERSONS) for q in allocation.queries["County"]]
    assert sum(len(q) for q in queries) == 2603  # draws per geounit
    rho = float(allocation.budget)
    inner = sum(rho * float(a) * (q.T @ q) for q, a in zip(queries, allocation.queries["County"].values(), strict=True))
    dense = np.linalg.inv(inner)
    for marginal in ("total", "hispanic*cenrace"):
        q = query_matrix(marginal, PERSONS)
        parts = marginal_parts(marginal, PERSONS, allocation)
        total = sum(cell_variance(part, np.linalg.inv(part.information["County"])) for part in parts)
        np.testing.assert_allclose(total, (q @ dense @ q.T).diagonal().mean(), rtol=1e-8)


def test_blocks_that_nothing_tells_apart_are_refused() -> None:
    spine, allocation = spines(1, "zcdp")
    blind = replace(spine, shares=(*spine.shares[:-1], np.zeros_like(spine.shares[-1])))
    part = marginal_parts("total", SMALL, allocation)[0]
    with pytest.raises(ValueError, match="block with siblings has no share"):
        upward(blind, part, 1)
