"""Cached states for questions about areas: the trees of their spines, and facts.

```
STATE/areas/DIGEST/         0700, named by the digest of the measurements and the code
  about                     facts about the state (`About`)
  PRODUCT/LEVEL/FIRST       geounits of a level, as saved while information is passed up
  PRODUCT/whole             the whole state
  PRODUCT/code              (blocks,) public codes of 15 digits, in spine order
```
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from spine.geography import IntArray
from tasks.lifecycle.files import complete, load_object, open_array, remove, save_arrays, save_object
from tasks.lifecycle.private_folder import check_private, make_private
from tasks.records.block_codes import short_codes
from tasks.top_down.blocks import BlockSource
from tasks.top_down.estimate.gls.tree import Tree, state_folder

FOLDER = "areas"
MOST_CACHED = 64  # states; the least recently used one is removed first


@dataclass(frozen=True)
class About:
    """Facts about a cached state. levels: those of each product's spine, top first. total: declared population."""

    state: str
    levels: dict[str, tuple[str, ...]]
    total: int


@dataclass(frozen=True)
class CachedState:
    """A cached state."""

    folder: Path

    @cached_property
    def about(self) -> About:
        """The facts about the state."""
        return load_object(self.folder / "about", About)

    def codes(self, product: str) -> IntArray:
        """Return the (blocks,) public codes of 15 digits, in spine order."""
        return np.array(open_array(self.folder / product / "code", "code"))

    def tree(self, product: str) -> Tree:
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
        passed_up, blocks = state_folder(source, state), source.state(state)
        spines = {branch.product: source.spine(branch) for branch in source.branches if branch.name == state}
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
