"""States that are kept for questions about areas: what passed up their spines, and what they are.

```
STATE/areas/DIGEST/         0700, named by the digest of the measurements and the code
  about                     what the state is (`About`)
  PRODUCT/LEVEL/FIRST       geounits of a level, as they are kept while information passes up
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
from tasks.top_down.estimate.gls.tree import Tree, tree_folder
from tasks.top_down.run_plan import ProductName

FOLDER = "areas"
KEPT_AT_MOST = 64  # states; the one that was not asked for longest goes first


@dataclass(frozen=True)
class About:
    """What a kept state is. levels: of each product's spine, top first. total: declared population."""

    state: str
    levels: dict[ProductName, tuple[str, ...]]
    total: int


@dataclass(frozen=True)
class KeptState:
    """A kept state."""

    folder: Path

    @cached_property
    def about(self) -> About:
        """What the state is."""
        return load_object(self.folder / "about", About)

    def codes(self, product: ProductName) -> IntArray:
        """Return the (blocks,) public codes of 15 digits, in spine order."""
        return np.array(open_array(self.folder / product / "code", "code"))

    def tree(self, product: ProductName) -> Tree:
        """Return what passed up the state's spine."""
        return Tree(self.folder / product, self.about.levels[product])


def find_state(home: Path, digest: str) -> KeptState | None:
    """Return a state that is kept, None where it is not."""
    folder = home / FOLDER / digest
    check_private(home, may_be_link=True)
    check_private(home / FOLDER)
    check_private(folder)
    if not (folder / "about").exists():
        return None
    os.utime(folder)
    return KeptState(folder)


def keep(source: BlockSource, home: Path, digests: dict[str, str]) -> None:
    """Keep states that were passed up; digests: by state."""
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
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # another question kept it meanwhile
                raise
        (folder / digest).chmod(0o700)
    for path in sorted(complete(folder), key=lambda path: path.stat().st_mtime, reverse=True)[KEPT_AT_MOST:]:
        remove(path)
