"""A state whose measurements were passed up the spine, as it is kept for questions about areas.

Of blocks only the columns' estimates are kept, and their variances by kind: share, and types of living quarters. All
of it is a function of published noisy answers.

```
STATE/areas/DIGEST/         0700, named by the digest of the measurements and the code
  about                     what the state is (`About`)
  PRODUCT/LEVEL/FIRST       geounits of a level numbered from FIRST, with the sums of their parents
  PRODUCT/whole             the whole state
  PRODUCT/code              (blocks,) public codes of 15 digits, in spine order
```
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from spine.geography import BoolArray, IntArray
from spine.gls.siblings import STATES, Blue, SiblingSums
from spine.workload import FloatArray
from tasks.lifecycle.files import complete, load_object, open_array
from tasks.lifecycle.private_folder import check_private
from tasks.top_down.run_plan import ProductName

FOLDER = "areas"


@dataclass(frozen=True)
class About:
    """What a kept state is. levels: of each product's spine, top first. total: declared population."""

    state: str
    levels: dict[ProductName, tuple[str, ...]]
    total: int


class Siblings(NamedTuple):
    """Children of a range of parents; sums: of blocks, (children, K) of their columns, and no z."""

    first_parent: int
    first_child: int
    given: SiblingSums
    sums: FloatArray | None


@dataclass(frozen=True)
class Tree:
    """A kept state."""

    folder: Path

    @cached_property
    def about(self) -> About:
        """What the state is."""
        return load_object(self.folder / "about", About)

    def codes(self, product: ProductName) -> IntArray:
        """Return the (blocks,) public codes of 15 digits, in spine order."""
        return np.array(open_array(self.folder / product / "code", "code"))

    def siblings(self, product: ProductName, level: str) -> Iterator[Siblings]:
        """Yield the geounits of a level, range by range, with their parents' sums."""
        for path in complete(self.folder / product / level):
            kept = {file.stem: np.load(file) for file in path.iterdir()}
            parent = np.repeat(np.arange(len(kept["children"])), kept["children"])
            b = _unpacked(kept["b_types"], kept["b"])
            if "sums" in kept:
                z, variance = np.zeros((0, *b.shape[1:])), kept["variance_of_kind"][kept["kind"]]
            else:
                z, variance = _unpacked(kept["z_types"], kept["z"]), kept["variance"]
            given = SiblingSums(parent, kept["is_only_child"], z, variance, b, kept["below"])
            first_parent, first_child = kept["at"].tolist()
            yield Siblings(first_parent, first_child, given, kept.get("sums"))

    def whole(self, product: ProductName) -> Blue:
        """Return the estimate of the whole state."""
        place = self.folder / product / "whole"
        return Blue(STATES, 0, np.array(open_array(place, "x")), np.array(open_array(place, "variance")))


def find_tree(home: Path, digest: str) -> Tree | None:
    """Return a state that is kept, None where it is not."""
    folder = home / FOLDER / digest
    check_private(home, may_be_link=True)
    check_private(home / FOLDER)
    check_private(folder)
    if not (folder / "about").exists():
        return None
    os.utime(folder)
    return Tree(folder)


def _unpacked(some: BoolArray, x: FloatArray) -> FloatArray:
    full = np.zeros((*some.shape, *x.shape[1:]))
    full[some] = x
    return full
