"""What the estimation of a wide table knows before it reads an answer: its passes, and how their cells nest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privacy.tables.histogram import DETAILED, TOTAL
from spine.declaration.declaration import Declaration
from spine.geography import BoolArray, FloatArray, IntArray
from spine.hierarchy import Spine
from spine.top_down.histogram import Product
from spine.top_down.queries import query_group

DENSE_WIDTH = 1024  # coordinates of a query whose sums are all coupled in the metric: few, and few next to the cells
DENSE_PART = 8
Numbers = NDArray[np.signedinteger[Any]]


class ReadAt(Protocol):
    """Noisy answers of geounits of a level at coordinates of a query, both (n,). All that estimation reads."""

    def __call__(self, level: str, query: str, geounits: IntArray, coordinates: IntArray) -> IntArray:
        """Return (n,) answers, the same at every call."""
        ...


@dataclass(frozen=True, eq=False)
class Pass:
    """A least squares and a rounding over the coordinates of one query, whose sums over a coarser one are known.

    cells, kept: the two queries. dense, large: further queries that are asked, few sums and many. chain: nested sums
    that rounding keeps close to. up: by name, the coordinate of each cell in a coarser query. anchors: weights next to
    the cells of sums that no query asks: at the top, those of all answers of the cells take the place of answers.
    """

    cells: str
    kept: str
    dense: tuple[str, ...]
    large: tuple[str, ...]
    chain: tuple[str, ...]
    up: Mapping[str, Numbers]
    anchors: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class WidePlan:
    """A declaration with `is_wide`, its spine, and the coordinates that its passes need.

    spine: its levels are the declaration's, or those from some level on. equal: the name of the release's partition.
    """

    declaration: Declaration
    spine: Spine

    @property
    def product(self) -> Product:
        """Return the table."""
        return self.declaration.product

    @property
    def equal(self) -> str:
        """Return the partition whose counts every child has from the release."""
        return self.declaration.form.equal[0].partition

    @cached_property
    def passes(self) -> tuple[Pass, Pass]:
        """The pass over the sums that the release's counts divide, and the one over all cells inside these sums."""
        level, passes, (form, *_) = (
            self.declaration.levels[-1].name,
            self.declaration.passes,
            self.declaration.form.passes,
        )
        (first,), chain = passes.earlier[level], passes.rounded
        known = (TOTAL, DETAILED, chain[-1], *first)
        later = [name for name in self.declaration.queries(level) if name not in known]
        return (
            self._pass(chain[-1], self.equal, [name for name in first if name != chain[-1]], chain[:-1], form.anchors),
            self._pass(DETAILED, chain[-1], later, passes.then, form.then[0].anchors),
        )

    def _pass(
        self, cells: str, kept: str, queries: list[str], chain: tuple[str, ...], anchors: Mapping[str, Fraction]
    ) -> Pass:
        width = self.product.width(cells)
        dense = [name for name in queries if self.product.width(name) <= min(DENSE_WIDTH, width // DENSE_PART)]
        large = [name for name in queries if name not in dense]
        names = dict.fromkeys((kept, *queries, *chain, *anchors))
        up = {name: self._above(cells, name) for name in names}
        weights = {name: float(weight) for name, weight in anchors.items()}
        return Pass(cells, kept, tuple(dense), tuple(large), tuple(chain), up, weights)

    def coordinate(self, query: str) -> Numbers:
        """Return the (cells,) coordinate of every cell in a query."""
        return query_group(self.product, query).coordinate

    def _above(self, cells: str, coarse: str) -> Numbers:
        """Return the coordinate in a coarser query of each coordinate of a pass's cells."""
        own = self.coordinate(coarse)
        if cells == DETAILED:
            return own
        found = np.zeros(self.product.width(cells), own.dtype)
        found[self.coordinate(cells)] = own
        return found

    def possible(self, which: int) -> IntArray:
        """Return the coordinates of a pass with a possible cell; the top alone needs them."""
        cells, name = np.flatnonzero(self.product.possible), self.passes[which].cells
        return cells if name == DETAILED else np.flatnonzero(np.bincount(self.coordinate(name)[cells]))

    @cached_property
    def kinds(self) -> tuple[Numbers, ...]:
        """By pass, the part of each coordinate in the partition of the counts that are repaired; 0 without any."""
        form = self.declaration.form
        if not form.counts:
            return tuple(np.zeros(self.product.width(each.cells), np.int8) for each in self.passes)
        return tuple(self._above(each.cells, form.counts[0].partition) for each in self.passes)

    @cached_property
    def declared(self) -> tuple[BoolArray, IntArray]:
        """Return, by part of that partition, whether it has counts, and the fewest records for each counted."""
        if not self.declaration.form.counts:
            return np.zeros(1, bool), np.zeros(1, np.int64)
        (count,) = self.declaration.form.counts
        return np.array([*map(bool, count.columns)]), np.array(count.least or (0,) * len(count.columns))

    def open_and_least(self, counts: IntArray) -> tuple[BoolArray, IntArray]:
        """Return (children, parts) whether a child may have records in a part, and the fewest that it has.

        counts: (children, parts) declared ones; parts without a column are not read.
        """
        declared, least = self.declared
        return (counts > 0) | ~declared, np.where(declared, counts * least, 0)

    def weight(self, level: str, query: str, cells: str) -> float:
        """Return the inverse variance of a query next to that of a pass's cells: zCDP, the same in all geounits."""
        shares = self.declaration.allocation.queries[level]
        return float(shares[query] / shares[cells])

    def scale(self, level: int, first: int, last: int) -> FloatArray:
        """Return the shares of geounits of a level, next to their largest."""
        shares = self.spine.shares[level][first:last].astype(float)
        return np.asarray(shares / max(shares.max(), 1.0))
