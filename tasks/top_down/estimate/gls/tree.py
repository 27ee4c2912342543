"""The saved tree of a state, for estimates, and for sums of blocks: places, districts, a user's areas.

Each geounit has its estimate without its parent, and each parent the sums of its children. For blocks, only the
columns' estimates are saved, and their variances by kind: share, and types of living quarters. All of it follows from
noisy answers.

```
noisy/PRODUCT/SS/up/LEVEL/FIRST      information of a batch of geounits
noisy/tree/SS/PRODUCT/LEVEL/FIRST    geounits of a level numbered from FIRST, with the sums of their parents
noisy/tree/SS/PRODUCT/whole          the whole state; for margins whole-in-nation, if the US level is measured
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spine.geography import BoolArray, FloatArray, IntArray
from spine.gls.columns import Columns, Covariances
from spine.gls.entity_sums import Regressed, joined, regress_block_groups, regress_parents
from spine.gls.grid import Blue, SiblingSums
from spine.redistricting import MAJORITY_COUNTS, MINORITY, PERSONS
from tasks.lifecycle.files import complete, read_object, save_object
from tasks.top_down.run_plan import SCHEMAS, US, counts_of
from tasks.top_down.source import Branch, Source

if TYPE_CHECKING:
    from spine.gls.information import Information
    from spine.top_down import Plan

WHOLE, IN_NATION = "whole", "whole-in-nation"  # a state from its own spine; with the nation's measurement


@lru_cache(maxsize=4)
def columns_of(product: str, pl94: bool = False, *, minority: bool = False) -> Columns:
    """Return these counts as the columns of least squares over the tree; minority: and those of the minority."""
    from spine.gls.columns import columns

    found = columns(SCHEMAS[product], counts_of(product, pl94))
    if not minority or product != "persons":
        return found
    majority = columns(PERSONS, MAJORITY_COUNTS)
    parts = np.concatenate([found.parts, found.parts[:, :2] - majority.parts], axis=1)  # of the total, of voting age
    return replace(
        found, names=(*found.names, *MINORITY), types=np.concatenate([found.types, majority.types]), parts=parts
    )


def state_folder(source: Source, state: str) -> Path:
    """Return the folder of a state's trees."""
    return source / f"noisy/tree/{state}"


def tree_folder(source: Source, branch: Branch) -> Path:
    """Return the folder of a branch's tree."""
    return state_folder(source, branch.name) / branch.product


class SavedSiblings(NamedTuple):
    """Children of a range of parents. sums: the (children, K) columns of blocks, instead of z."""

    first_parent: int
    first_child: int
    given: SiblingSums
    sums: FloatArray | None


@dataclass(frozen=True)
class Tree:
    """The saved tree of a state, in one product."""

    folder: Path
    levels: tuple[str, ...]

    def siblings(self, level: str) -> Iterator[SavedSiblings]:
        """Yield the geounits of a level, range by range, with their parents' sums."""
        for path in complete(self.folder / level):
            kept = read_object(path, dict[str, NDArray[Any]])
            parent = np.repeat(np.arange(len(kept["children"])), kept["children"])
            b = _unpacked(kept["b_types"], kept["b"])
            if "sums" in kept:
                z, variance = np.zeros((0, *b.shape[1:])), kept["variance_of_kind"][kept["kind"]]
            else:
                z, variance = _unpacked(kept["z_types"], kept["z"]), kept["variance"]
            given = SiblingSums(parent, kept["is_only_child"], z, variance, b, kept["below"])
            first_parent, first_child = kept["at"].tolist()
            yield SavedSiblings(first_parent, first_child, given, kept.get("sums"))

    @property
    def whole(self) -> Blue:
        """Load the estimate of the whole state, with the nation's measurement if it was computed."""
        place = self.folder / (IN_NATION if (self.folder / IN_NATION).exists() else WHOLE)
        return replace(read_object(place, Blue), first=0)

    def climb(
        self, columns: Columns, families: Sequence[IntArray], covariances: Covariances | None = None
    ) -> Iterator[list[Regressed]]:
        """Yield the counts of areas within block groups, within the geounits of the next level, ..., the whole state.

        families: for each family, (blocks,) the area of each block in spine order, -1 outside all. covariances:
        increased by theirs.
        """
        meets: list[Regressed] = []
        for level in reversed(self.levels):
            parts: list[list[Regressed]] = [[] for _ in families]
            for batch in self.siblings(level):
                at, last = (batch.first_parent, batch.first_child), batch.first_child + len(batch.given.parent)
                for family, (found, area) in enumerate(zip(parts, families, strict=True)):
                    if meets:
                        below = meets[family].only(batch.first_child, last)
                        found.append(regress_parents(columns, batch.given, *at, below, covariances))
                    else:
                        own = batch.given, batch.first_parent, area[batch.first_child : last], batch.sums
                        found.append(regress_block_groups(columns, *own, covariances))
            yield (meets := [joined(found) for found in parts])


def keep_siblings(
    folder: Path, plan: Plan, columns: Columns, level: int, first: int, last: int, children: Information
) -> None:
    """Save the children of the geounits first ... last - 1 of a level, or (STATES) of whole states."""
    from spine.gls.blue import sibling_sums

    given = sibling_sums(plan, level, first, last, children)
    if children.level == len(plan.spine.levels) - 1:
        own = _by_kind(plan, children.first, given) | {"sums": columns.sums(given.z)}
    else:
        z_types, z = _packed(given.z)
        own = {"z_types": z_types, "z": z, "variance": given.variance}
    b_types, b = _packed(given.b)
    sums: dict[str, np.ndarray] = {
        "at": np.array([first, children.first]),
        "children": np.bincount(given.parent),
        "is_only_child": given.is_only_child,
        "b_types": b_types,
        "b": b,
        "below": given.below,
    }
    save_object(folder / f"{plan.spine.levels[children.level]}/{children.first:07d}", sums | own)


def keep_whole(folder: Path, whole: Blue, name: str = WHOLE) -> None:
    """Save the estimate of the whole state. name: WHOLE or IN_NATION."""
    save_object(folder / name, whole)


def _packed(x: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Return which types of living quarters each geounit has, and the values of these."""
    some = (x != 0).any(axis=(2, 3))
    return some, x[some]


def _by_kind(plan: Plan, first: int, given: SiblingSums) -> dict[str, np.ndarray]:
    """Return the variances of blocks by kind; blocks of one kind share them."""
    rows = slice(first, first + len(given.parent))
    share = plan.spine.shares[-1][rows]
    allowed = plan.bounds.allowed(len(plan.spine.levels) - 1, rows)
    bits = (allowed << np.arange(allowed.shape[1])).sum(axis=1)
    _, example, kind = np.unique(
        ((share << allowed.shape[1]) + bits) * 2 + given.is_only_child, return_index=True, return_inverse=True
    )
    return {"kind": kind.ravel().astype(np.int32), "variance_of_kind": given.variance[example]}


def _unpacked(some: BoolArray, x: FloatArray) -> FloatArray:
    full = np.zeros((*some.shape, *x.shape[1:]))
    full[some] = x
    return full


def information_folder(source: Source, branch: Branch, level: str) -> Path:
    """Return the folder of a level's information, in batches by their first geounit."""
    return source / f"noisy/{branch}/up/{level}"


def save_information(source: Source, branch: Branch, plan: Plan, information: Information) -> None:
    """Save the information of a batch of geounits."""
    folder = information_folder(source, branch, plan.spine.levels[information.level])
    save_object(folder / f"{information.first:07d}", information)


def load_information(source: Source, branch: Branch, level: str, first: int, last: int) -> Information:
    """Read the information of the geounits first ... last - 1 of a level; for the nation's states, all their parts."""
    from spine.gls import information

    if (branch.name, level) == (US, "State"):  # saved with each state, as its first level
        parts = [load_information(source, state, level, 0, last) for state in source.branches_of(branch.product)]
        return replace(information.information_joined(parts), level=1)
    folder = information_folder(source, branch, level)
    batches = [read_object(path, information.Information) for path in complete(folder)]
    ends = [(batch, max(first, batch.first), min(last, batch.last)) for batch in batches]
    return information.information_joined([batch.only(low, high) for batch, low, high in ends if low < high])


def blue_below(source: Source, branch: Branch, above: Blue | None = None) -> Blue:
    """Return the best linear unbiased estimates of the children of some geounits, or of the top level.

    They follow from the information that was passed up. above: the parents' estimates; None for the top level.
    """
    plan = source.plan(branch)  # before importing numba
    from spine.gls.blue import blue_level
    from spine.gls.upward import measured

    level, ends = 0, (0, len(plan.spine.starts[0]))
    if above is not None:
        level, ends = above.level + 1, plan.children_of(above.level, above.first, above.first + len(above))
    if plan.is_leaf(level):  # whose information is not kept
        return blue_level(plan, measured(plan, source.needed_answers(branch), level, *ends), above)
    return blue_level(plan, load_information(source, branch, plan.spine.levels[level], *ends), above)
