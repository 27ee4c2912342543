"""The distance and the variance of every entity of a state, with the root above it known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spine.entities import Entities
from spine.geography import Geography, IntArray
from spine.hierarchy import Spine
from spine.osed import Costs, costs_at_top
from spine.overlap import overlap
from spine.variance import Root, Sums, cell_variance, entity_sums, upward
from tasks.spine.first_pass import SpinePlan

Roots = Mapping[str, Mapping[str, list[Root]]]  # by spine and marginal, one root a part


@dataclass(frozen=True)
class Family:
    """A state's entities of one family.

    codes, outside, blocks, population: (entities,), as in `spine.entities`, with how many blocks and persons they hold.
    costs: by spine. variance: by spine and marginal the (entities,) variance of a cell, which is right where the entity
    is in this state alone. shared: (entities,) whether it is in other states too; sums: by spine, marginal and part
    what the root needs to know of those.
    """

    codes: IntArray
    outside: NDArray[np.bool_]
    blocks: IntArray
    population: IntArray | None
    shared: NDArray[np.bool_]
    costs: Mapping[str, Costs]
    variance: Mapping[str, Mapping[str, NDArray[np.floating[Any]]]]
    sums: Mapping[str, Mapping[str, list[Sums]]]


def measure_families(
    geography: Geography,
    spines: Mapping[str, Spine],
    families: Mapping[str, Entities],
    shared: Mapping[str, IntArray],
    plan: SpinePlan,
    roots: Roots,
) -> dict[str, Family]:
    """Return every family on every spine.

    shared: by family, the codes of entities that several states have a part of.
    """
    cost: dict[str, dict[str, Costs]] = {name: {} for name in families}
    variance: dict[str, dict[str, Any]] = {name: {} for name in families}
    kept: dict[str, dict[str, Any]] = {name: {} for name in families}
    several = {name: np.isin(family.codes, shared[name]) for name, family in families.items()}
    for which, spine in spines.items():
        parts = plan.parts_of(spine)
        ups = {m: [upward(spine, part, plan.power) for part in parts[m]] for m in parts}
        for name, family in families.items():
            pairs = overlap(spine, family.of_block, len(family.codes))
            cost[name][which] = costs_at_top(spine, family, pairs)
            variance[name][which], kept[name][which] = {}, {}
            for marginal, of_parts in parts.items():
                sums = [entity_sums(spine, up, family, pairs) for up in ups[marginal]]
                variance[name][which][marginal] = sum(
                    cell_variance(part, root.entities(each))
                    for part, each, root in zip(of_parts, sums, roots[which][marginal], strict=True)
                )
                kept[name][which][marginal] = [_rows(each, several[name]) for each in sums]
    return {
        name: Family(
            family.codes,
            family.outside,
            np.bincount(family.of_block, minlength=len(family.codes)),
            _persons(geography, family),
            several[name],
            cost[name],
            variance[name],
            kept[name],
        )
        for name, family in families.items()
    }


def _rows(sums: Sums, chosen: NDArray[np.bool_]) -> Sums:
    return Sums(*(getattr(sums, f.name)[chosen] for f in fields(sums)))


def _persons(geography: Geography, family: Entities) -> IntArray | None:
    if geography.population is None:
        return None
    persons = np.bincount(family.of_block, weights=geography.population, minlength=len(family.codes))
    return persons.astype(np.int64)
