"""A small table like the DHC's persons, for the tests: kinds of quarters of three sorts, sex, age and race."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from spine.declaration.declaration import read_declaration
from spine.declaration.hierarchy import make_hierarchy
from spine.geography import BoolArray, IntArray
from spine.top_down.histogram import Estimates, TrueHistograms, from_entries, joined, summed
from spine.top_down.queries import exact_answers, query_group
from spine.wide.estimate import WideEstimation
from spine.wide.plan import WidePlan
from spine.wide.rounding import Rounding

WIDE: dict[str, Any] = {
    "name": "wide",
    "records": "person",
    "budget": "4",
    "leaves": {"file": "blocks.csv", "key": "block"},
    "levels": [
        {"name": "state"},
        {"name": "county", "columns": ["county"]},
        {"name": "tract", "columns": ["tract"]},
        {"name": "block", "columns": ["code"]},
    ],
    "axes": {
        "relgq": {"column": "RELGQ", "values": "0-6"},  # 0-2 in households; 3, 4 and 5, 6 of two sorts of quarters
        "sex": {"column": "SEX", "values": "1-2"},
        "age": {"column": "AGE", "values": "0-11"},
        "race": {"column": "RACE", "values": "1-3"},
    },
    "recodes": {
        "hhgq": {"axis": "relgq", "from": ["0-2", "3-4", "5-6"]},
        "relgq5": {"axis": "relgq", "from": ["0", "1", "2", "3-4", "5-6"]},
        "gqtype": {"axis": "relgq", "from": ["0-2", "3", "4", "5", "6"]},
        "votingage": {"axis": "age", "starts": [0, 4]},
        "age3": {"axis": "age", "starts": [0, 4, 8]},
        "age6": {"axis": "age", "width": 2},
    },
    "queries": {
        "hhgq*age3": "1/8",
        "sex*age6": "1/8",
        "relgq": "1/8",
        "relgq5*sex*age6*race": "1/8",
        "relgq*sex*age6*race": "1/4",
        "detailed": "1/4",
    },
    "zeros": [{"where": {"relgq": "1", "age": "0-2"}}, {"where": {"relgq": "5", "age": ["0-1", "10-11"]}}],
    "equal": [{"partition": "hhgq*votingage*race", "release": "redistricting"}],
    "counts": [
        {
            "partition": "gqtype",
            "columns": ["", "gq1", "gq2", "gq3", "gq4"],
            "least": [0, 1, 1, 1, 1],
            "repair": "switch",
        }
    ],
    "passes": [
        {
            "levels": ["state", "county", "tract", "block"],
            "least_squares": [["rest"]],
            "round": ["hhgq*sex*votingage*race", "relgq5*sex*age6*race", "relgq*sex*age6*race"],
            "then": [{"least_squares": [["detailed"]]}],
        }
    ],
}


def changed_wide(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The declaration after a change."""
    raw = copy.deepcopy(WIDE)
    change(raw)
    return raw


@dataclass(frozen=True, eq=False)
class Tree:
    """A made-up table over a tree: its plan, the blocks' records, and what is declared by level."""

    plan: WidePlan
    truth: tuple[TrueHistograms, ...]
    sums: tuple[IntArray, ...]
    counts: tuple[IntArray, ...]

    def noisy(self, sd: float, seed: int = 0) -> dict[tuple[str, str], IntArray]:
        """All noisy answers, by level and query: (geounits, coordinates)."""
        random, found = np.random.default_rng(seed), {}
        for level, own in zip(self.plan.spine.levels, self.truth, strict=True):
            for query in self.plan.declaration.queries(level):
                exact = exact_answers(own, query_group(self.plan.product, query), 0, len(own))
                found[level, query] = exact + np.rint(random.normal(0, sd, exact.shape)).astype(np.int64)
        return found

    def estimate(
        self, answers: dict[tuple[str, str], IntArray], how: Rounding = "program", backwards: bool = False
    ) -> tuple[list[Estimates], WideEstimation, dict[tuple[str, str], BoolArray]]:
        """The estimates of all levels, and which answers were read. backwards: parents come in the other order."""
        seen = {key: np.zeros(own.shape, bool) for key, own in answers.items()}

        def read(level: str, query: str, geounits: IntArray, coordinates: IntArray) -> IntArray:
            assert not seen[level, query][geounits, coordinates].any(), "read twice"
            seen[level, query][geounits, coordinates] = True
            return answers[level, query][geounits, coordinates]

        estimation = WideEstimation(self.plan, read, how)
        levels = [estimation.root(0, self.sums[0], self.counts[0])]
        for level in range(1, len(self.truth)):
            above, first_child = levels[-1], self.plan.spine.first_child[level - 1]
            found = {}
            for parent in reversed(range(len(above))) if backwards else range(len(above)):
                first, last = first_child[parent : parent + 2].tolist()
                declared = self.sums[level][first:last], self.counts[level][first:last]
                found[parent] = estimation.children(above.only(parent), first, *declared)
            levels.append(joined([found[parent] for parent in sorted(found)]))
        return levels, estimation, seen


def tree(persons: int = 300, blocks: int = 12, raw: dict[str, Any] | None = None, seed: int = 1) -> Tree:
    """A tree of two counties with two tracts each, whose quarters are in few blocks."""
    random = np.random.default_rng(seed)
    declaration, faults = read_declaration(raw or WIDE)
    assert declaration is not None, faults
    at = np.arange(blocks)
    columns = {"county": at * 2 // blocks, "tract": at * 4 // blocks, "code": at, "block": at}
    hierarchy, wrong = make_hierarchy(declaration, {name: [*map(str, own)] for name, own in columns.items()})
    assert hierarchy is not None, wrong
    plan, product = WidePlan(declaration, hierarchy.spine), declaration.product
    part = query_group(product, declaration.form.counts[0].partition)
    quarters = random.random((blocks, part.width)) < 0.3
    quarters[:, 0] = True
    block = random.integers(0, blocks, persons)
    popular = np.flatnonzero(product.possible)[random.integers(0, product.possible.sum(), 60)]
    cell = popular[random.integers(0, len(popular), persons)]
    keep = quarters[block, part.coordinate[cell]]
    leaves = from_entries(TrueHistograms, 3, 0, block[keep], cell[keep], np.ones(keep.sum(), np.int64), blocks)
    truth = summed(leaves, hierarchy.spine)
    sums = [exact_answers(own, query_group(product, plan.equal), 0, len(own)) for own in truth]
    own = exact_answers(leaves, part, 0, blocks)
    facilities = np.minimum(own, random.integers(1, 3, own.shape)) * (np.arange(part.width) > 0)
    counts = [np.add.reduceat(facilities, starts) for starts in hierarchy.spine.starts]
    return Tree(plan, truth, tuple(sums), tuple(counts))
