"""Split an axis into components: functions of its cells on which all query groups have small matrices together.

Query groups ask for an axis's cells, recodes or nothing. Each of these is a partition, and each must refine the next. A
partition into parts of one size multiplies a function that is constant on the parts by that size, and maps a function
that sums to 0 on them to 0. So between two such partitions every query group is a number: a component `difference`.
From the finest partition whose parts have several sizes on, the base, query groups are a matrix between the base's
parts. An axis without such a partition has itself as one part for its base, whose matrix is a number: the mean and the
residual of votingage (2), hispanic (2), cenrace (63).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from privacy.tables.histogram import Axis, Recode
from spine.geography import BoolArray, FloatArray, IntArray

Tables = list[FloatArray]  # by component (n, slots, slots): n matrices between its slots, the parts of the base


@dataclass(frozen=True, eq=False)
class Split:
    """A split axis.

    names: the partitions that queries ask for, finest first. partitions: the (cells,) part of each cell in these, and
    last in the axis as a whole. base: the number of the base. Component 0 is the base; the differences follow, finest
    last.
    """

    names: tuple[str, ...]
    partitions: tuple[IntArray, ...]
    base: int

    def number(self, asked: str | None) -> int:
        """Return the number of a partition by its name; any other name asks for the whole axis."""
        return self.names.index(asked) if asked in self.names else len(self.names)

    @cached_property
    def first(self) -> list[IntArray]:
        """Return by partition the first cell of every part, which represents the part."""
        return [np.unique(part, return_index=True)[1] for part in self.partitions]

    @cached_property
    def sizes(self) -> list[FloatArray]:
        """Return by partition the sizes of its parts."""
        return [np.bincount(part).astype(float) for part in self.partitions]

    @property
    def nodes(self) -> list[IntArray]:
        """Return, in order, the lists of cells that a transform replaces by their sum, in the first, and contrasts."""
        found = []
        for at, coarse in enumerate(self.partitions[1 : self.base + 1]):
            first = np.sort(self.first[at])
            found += [first[coarse[first] == part] for part in range(coarse.max() + 1)]
        return [node for node in found if len(node) > 1]

    @property
    def copies(self) -> list[list[IntArray]]:
        """Return by component the cells of its coordinates, a list of its slots for each copy."""
        differences = [
            [np.array([cell]) for cell in np.setdiff1d(fine, coarse)]
            for fine, coarse in pairwise(self.first[: self.base + 1])
        ]
        return [[self.first[self.base]], *reversed(differences)]

    def squared(self, asked: str | None) -> Tables:
        """Return Q'Q of a query group that asks for this partition, one matrix per component; None: the whole axis."""
        at = self.number(asked)
        size = self.sizes[at][0]
        part, own = self.partitions[at][self.first[self.base]], self.sizes[self.base]
        spread = (
            np.equal.outer(part, part) * np.sqrt(np.outer(own, own)) if at >= self.base else size * np.eye(len(own))
        )
        return [spread[None], *(np.full((1, 1, 1), size * (at <= fine)) for fine in reversed(range(self.base)))]

    @cached_property
    def patterns(self) -> tuple[IntArray, Tables, BoolArray]:
        """Return the (cells, cells) pattern of two cells, each pattern's entries, and the mask of patterns apart.

        An entry belongs to the operator that is the identity between two slots of a component; it is the same for all
        cells in a pattern. Two cells are apart if no partition finer than the base has both in one part.
        """
        base, n = self.partitions[self.base], len(self.partitions[0])
        agree = [np.equal.outer(part, part) for part in self.partitions[: self.base + 1]]
        depth = np.sum(agree[: self.base], axis=0, dtype=np.int64) + np.zeros((n, n), np.int64)
        key = (depth * n + base[:, None]) * n + base
        _, example, pattern = np.unique(key, return_index=True, return_inverse=True)
        one, other = np.divmod(example, n)
        own = self.sizes[self.base]
        slot = np.eye(len(own))
        entries = [same[one, other] / self.sizes[at][self.partitions[at][one]] for at, same in enumerate(agree)]
        differences = [(fine - coarse)[:, None, None] for fine, coarse in pairwise(entries)]
        slots = slot[base[one]][:, :, None] * slot[base[other]][:, None, :] / np.sqrt(np.outer(own, own))
        return pattern.reshape(n, n), [slots, *reversed(differences)], depth[one, other] == 0

    def sums(self, asked: str | None) -> Tables:
        """Return the contribution of a matrix between slots to the variance of each sum over a part of a partition."""
        part = self.partitions[self.number(asked)]
        inside = []
        for own in self.partitions[: self.base + 1]:
            inside.append(np.zeros((int(part.max()) + 1, int(own.max()) + 1)))
            np.add.at(inside[-1], (part, own), 1.0)
        norms = [(cells**2 / size).sum(axis=1) for cells, size in zip(inside, self.sizes, strict=False)]
        slots = inside[-1] / np.sqrt(self.sizes[self.base])
        differences = [(fine - coarse)[:, None, None] for fine, coarse in pairwise(norms)]
        return [slots[:, :, None] * slots[:, None, :], *reversed(differences)]


def split(axis: Axis, recodes: Collection[Recode]) -> Split:
    """Return the split of an axis by its recodes. Raises ValueError, which names them, if two of them cross."""
    partitions = {axis.name: np.arange(len(axis))}
    nested = sorted((each for each in recodes if len(each) > 1), key=len, reverse=True)
    partitions |= {each.name: np.array(each.part) for each in nested}
    for fine, coarse in pairwise(partitions):
        pairs = partitions[fine] * len(axis) + partitions[coarse]
        if len(np.unique(pairs)) > partitions[fine].max() + 1:
            raise ValueError(f"the recodes {fine} and {coarse} of {axis.name} cross")
    parts = (*partitions.values(), np.zeros(len(axis), np.int64))
    even = [len(set(np.bincount(part).tolist())) == 1 for part in parts]
    base = even.index(False) if False in even else len(parts) - 1
    return Split(tuple(partitions), parts, base)


def joint(tables: Collection[Tables]) -> Tables:
    """Return the tables of a product of axes: components, matrices and slots, each in C order."""
    found: Tables = [np.ones((1, 1, 1))]
    for own in tables:
        found = [
            np.einsum("xab,yij->xyaibj", one, other).reshape(len(one) * len(other), -1, one.shape[2] * other.shape[2])
            for one in found
            for other in own
        ]
    return found


def padded(tables: Tables) -> FloatArray:
    """Return tables as (n, components, slots, slots), 0 outside a component's own slots."""
    slots = max(own.shape[1] for own in tables)
    found = np.zeros((len(tables[0]), len(tables), slots, slots))
    for at, own in enumerate(tables):
        found[:, at, : own.shape[1], : own.shape[2]] = own
    return found
