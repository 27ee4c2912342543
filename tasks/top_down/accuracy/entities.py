"""The entities of a state that errors are reported for, level by level, and the sums of blocks over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from spine.geography import IntArray
from tasks.inputs.block_codes import short_codes
from tasks.lifecycle.files import load_object, save_object, unless_done
from tasks.pages.words import level_title
from tasks.top_down.areas import DIGITS, areas
from tasks.top_down.input.geography import make_spine
from tasks.top_down.run_plan import ProductName
from tasks.top_down.source import TopDownRun

LEVELS = {  # in words
    level: level_title(level) for level in ("state", "county", "tract", "cbg", "obg", "block", "place", "mcd", "aian")
}
WIDTHS = {"state": 2, **DIGITS, "block": 15}  # of public codes; optimized block groups have none


@dataclass(frozen=True)
class Entities:
    """The entities of one level of a state that have blocks.

    level: a key of LEVELS. codes: public codes, or numbers. of_block: the entity of each block, -1 outside all.
    present: which of the family's areas they are.
    """

    level: str
    codes: IntArray
    of_block: IntArray
    present: IntArray

    def sums(self, values: IntArray) -> IntArray:
        """Return the sums over each entity of values of blocks, (blocks, columns)."""
        sums = np.zeros((len(self.codes), values.shape[1]), values.dtype)
        inside = self.of_block >= 0
        np.add.at(sums, self.of_block[inside], values[inside])
        return sums

    def names(self) -> list[str]:
        """Return the public codes as text."""
        return [f"{code:0{WIDTHS.get(self.level, 1)}d}" for code in self.codes.tolist()]


def entities(run: TopDownRun, product: ProductName, state: str) -> Iterator[Entities]:
    """Yield the entities of every level that a state has; they are found once, for many seeds and estimators."""
    path = run / f"accuracy/{product}/{state}"
    unless_done(path, lambda: save_object(path, list(_find(run, product, state))))
    yield from load_object(path, list[Entities])


def _find(run: TopDownRun, product: ProductName, state: str) -> Iterator[Entities]:
    geography, settings = run.state(state).geography, run.design.settings[product]
    number = len(geography)
    yield _present("state", np.array([int(state)]), np.zeros(number, np.int64))
    for family in areas(geography, settings):
        yield _present(family.family, family.codes, family.of_block)
    spine = make_spine(geography, replace(run.design, kind="optimized"), product)
    group = np.empty(number, np.int64)
    level = spine.levels.index("Block_Group")
    group[spine.order] = spine.geounit_of_block(level)
    yield _present("obg", np.arange(len(spine.starts[level])), group)
    yield _present("block", short_codes(geography.geocode), np.arange(number))


def _present(level: str, codes: IntArray, of_block: IntArray) -> Entities:
    """Return the entities that have a block."""
    present = np.flatnonzero(np.bincount(of_block[of_block >= 0], minlength=len(codes)))
    row = np.full(len(codes) + 1, -1)
    row[present] = np.arange(len(present))
    return Entities(level, codes[present], row[of_block], present)
