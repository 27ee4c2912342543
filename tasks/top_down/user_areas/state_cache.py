"""Cached states for questions about areas: the trees of their spines, and facts; and the estimates of areas from them.

```
STATE/areas/DIGEST/         0700, named by the digest of the measurements and the code
  about                     facts about the state (`About`)
  PRODUCT/LEVEL/FIRST       geounits of a level, as saved while information is passed up
  PRODUCT/whole             the whole state
  PRODUCT/code              (blocks,) public codes of 15 digits, in spine order
```

The estimates are the best linear unbiased ones of every count, with standard errors and covariances. Each state is
estimated separately, so an area of several states is the sum of independent parts. The US level is not used: it would
require reading all states for standard errors less than 1 % smaller (docs/published.md#areas).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from spine.geography import FloatArray, IntArray
from spine.gls.columns import Covariances
from spine.gls.entity_sums import entity_estimates
from tasks.lifecycle.files import complete, load_object, open_array, remove, save_arrays, save_object
from tasks.lifecycle.private_folder import check_private, make_private
from tasks.records.block_codes import short_codes
from tasks.top_down.blocks import BlockSource
from tasks.top_down.estimate.gls.tree import Tree, columns_of, tree_folder
from tasks.top_down.run_plan import ProductName

FOLDER = "areas"
MOST_CACHED = 64  # states; the least recently used one is removed first
MOST_BETWEEN = 500  # with more areas, covariances between them are not kept


@dataclass(frozen=True)
class About:
    """Facts about a cached state. levels: those of each product's spine, top first. total: declared population."""

    state: str
    levels: dict[ProductName, tuple[str, ...]]
    total: int


@dataclass(frozen=True)
class CachedState:
    """A cached state."""

    folder: Path

    @cached_property
    def about(self) -> About:
        """The facts about the state."""
        return load_object(self.folder / "about", About)

    def codes(self, product: ProductName) -> IntArray:
        """Return the (blocks,) public codes of 15 digits, in spine order."""
        return np.array(open_array(self.folder / product / "code", "code"))

    def tree(self, product: ProductName) -> Tree:
        """Return the tree of the state's spine."""
        return Tree(self.folder / product, self.about.levels[product])


def find_state(home: Path, digest: str) -> CachedState | None:
    """Return a cached state, or None."""
    folder = home / FOLDER / digest
    check_private(home, may_be_link=True)
    check_private(home / FOLDER)
    check_private(folder)
    if not (folder / "about").exists():
        return None
    os.utime(folder)
    return CachedState(folder)


def cache_states(source: BlockSource, home: Path, digests: dict[str, str]) -> None:
    """Cache states whose information was passed up. digests: by state."""
    folder = home / FOLDER
    make_private(home, may_be_link=True)
    make_private(folder)
    for state, digest in digests.items():
        passed_up, blocks = tree_folder(source, state), source.state(state)
        spines = {product: source.spine(product, state) for product in source.design.products}
        for product, spine in spines.items():
            code = short_codes(blocks.geography.geocode[spine.order])
            save_arrays(passed_up / product / "code", {"code": code})
        levels = {product: spine.levels for product, spine in spines.items()}
        save_object(passed_up / "about", About(state, levels, blocks.totals[int(state)]))
        try:
            os.replace(passed_up, folder / digest)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # a concurrent question cached it meanwhile
                raise
        (folder / digest).chmod(0o700)
    for path in sorted(complete(folder), key=lambda path: path.stat().st_mtime, reverse=True)[MOST_CACHED:]:
        remove(path)


@dataclass(frozen=True)
class ProductEstimates:
    """The counts of the areas in one product.

    names: the counts'. estimate, error: (areas, counts). blocks: (areas,) number with living quarters. whole, cut:
    (areas,) block groups of the spine that an area holds in full and in part. covariances: between any two areas, or
    only each area's own if there are more than MOST_BETWEEN. groups_cut: number of block groups that areas share.
    """

    names: tuple[str, ...]
    estimate: FloatArray
    error: FloatArray
    blocks: IntArray
    whole: IntArray
    cut: IntArray
    covariances: Covariances
    groups_cut: int


def estimate_areas(
    states: Sequence[CachedState], product: ProductName, of_code: Sequence[IntArray], areas: int
) -> ProductEstimates:
    """Return the estimates of areas. of_code: by state, the (blocks,) area of each block, in spine order."""
    columns = columns_of(product, minority=True)
    components = len(columns.parts)
    covariances = Covariances.empty(components, areas, between=areas <= MOST_BETWEEN)
    estimate, variance = np.zeros((2, areas, len(columns)))
    blocks, whole, cut = np.zeros((3, areas), np.int64)
    shared = 0
    for state, area in zip(states, of_code, strict=True):
        tree = state.tree(product)
        for level, (meets,) in enumerate(tree.climb(columns, [area], covariances)):
            if not level:  # block groups
                whole += np.bincount(meets.entity[meets.whole], minlength=areas)
                shared += len(np.unique(meets.geounit[~meets.whole]))
        number, found, error, groups_cut = entity_estimates(columns, tree.whole, meets, covariances)
        estimate[number] += found
        variance[number] += error**2
        cut[number] += groups_cut
        blocks += np.bincount(area, minlength=areas)
    return ProductEstimates(columns.names, estimate, np.sqrt(variance), blocks, whole, cut, covariances, shared)
