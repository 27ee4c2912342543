"""The first of two passes over a state: work that is done state by state, in any order.

A run of several states builds each state as a forest of its top geounits and puts a root above them all; a run of one
state has its root from the start. The first pass returns what the root needs; the second (`tasks.spine.second_pass`)
measures and writes, with the root known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spine.allocations import Allocation
from spine.build import CONVENTIONAL, measured_spine
from spine.entities import Entities, entities
from spine.geocodes import largest_numbers
from spine.geography import Geography, IntArray
from spine.hierarchy import Spine
from spine.redistricting import PRODUCTS
from spine.settings import SpineSettings
from spine.variance import Part, marginal_parts, upward
from tasks.lifecycle.files import read_object

SPINES = {"conventional": "conventional", "aian": "AIAN", "optimized": "optimized"}  # with their titles
REPORTED = ("county", "tract", "cbg", "place", "mcd", "aian", "pme")


@dataclass(frozen=True)
class SpinePlan:
    """The settings that every state of a run shares. marginals: the cells whose standard errors are reported."""

    settings: SpineSettings
    allocation: Allocation
    marginals: tuple[str, ...]
    rooted: bool

    @property
    def power(self) -> int:
        """The exponent by which information grows with the share: 1 under zCDP, 2 under pure DP."""
        return 1 if self.allocation.definition == "zcdp" else 2

    @property
    def levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of each spine, root first."""
        plain = CONVENTIONAL if self.settings.jurisdiction == "us" else CONVENTIONAL[1:]
        return {"conventional": plain, "aian": plain, "optimized": self.settings.levels}

    def parts(self, which: str) -> dict[str, list[Part]]:
        """Return the orthogonal parts of each marginal, by the allocation on one of the spines."""
        allocation = self.allocation.on(self.levels[which])
        product = PRODUCTS.get(self.settings.product)
        return {marginal: marginal_parts(marginal, product, allocation) for marginal in self.marginals}


@dataclass(frozen=True)
class StateSpineSummary:
    """The facts about a state that the root needs; all of them are small.

    codes: by family, the codes of its entities. geounits: by spine, their number per level. fanout: by spine and level,
    the number of geounits with 0, 1, 2... children. tops: by spine and marginal, for each part the (d, d) sum of the
    variances of all top geounits. numbers: for each level of the optimized spine, the largest number in a geocode.
    """

    blocks: int
    codes: Mapping[str, IntArray]
    geounits: Mapping[str, tuple[int, ...]]
    fanout: Mapping[str, tuple[IntArray, ...]]
    tops: Mapping[tuple[str, str], list[NDArray[np.floating[Any]]]]
    numbers: tuple[int, ...]


def build(geography: Geography, plan: SpinePlan) -> dict[str, Spine]:
    """Return the three spines of one state, with shares; the optimized one is bypassed."""
    return {kind: measured_spine(kind, geography, plan.settings, plan.allocation, root=plan.rooted) for kind in SPINES}


def reported_families(geography: Geography, settings: SpineSettings) -> dict[str, Entities]:
    """Return the tabulation geounits, places, MCDs, AIAN areas, PMEs, and the settings' own OSEs."""
    names = dict.fromkeys((*REPORTED, *settings.entities))
    families = {name: entities(geography, name, settings) for name in names}
    return {name: family for name, family in families.items() if family is not None}


def summarize_state(path: Path, plan: SpinePlan) -> StateSpineSummary:
    """Make the first pass over the state whose blocks are at `path`; return its summary."""
    geography = read_object(path, Geography)
    spines = build(geography, plan)
    tops: dict[tuple[str, str], list[Any]] = {}
    for which, spine in spines.items():
        for marginal, parts in plan.parts(which).items():
            ups = [upward(spine, part, plan.power) for part in parts]
            tops[which, marginal] = [up.variance[0].sum(axis=0) for up in ups]
    return StateSpineSummary(
        blocks=len(geography),
        codes={name: family.codes for name, family in reported_families(geography, plan.settings).items()},
        geounits={name: tuple(map(len, spine.starts)) for name, spine in spines.items()},
        fanout={
            name: tuple(np.bincount(spine.children(level)) for level in range(len(spine.levels) - 1))
            for name, spine in spines.items()
        },
        tops=tops,
        numbers=largest_numbers(spines["optimized"], geography, plan.settings),
    )
