"""Query groups as Kronecker products (paper, section 2.3), cut into parts in which weighted least squares is small.

W' diag(alpha) W of a level is a sum of Kronecker products of identities I and all-ones matrices J, one factor an axis.
These commute, so the histogram splits into orthogonal parts, "mean" or "residual" on each axis, and in each the
information of a level is one number. The one exception are the grouped levels of hhgq: their matrix does
not commute with J, so the mean part of hhgq is as wide as there are groups, and the information a small matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, combinations
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from spine.allocations import Allocation
from spine.counts import sizes
from spine.redistricting import HHGQ, HHINSTLEVELS, INSTITUTIONS, PERSON_AXES, UNIT_AXES

FloatArray = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Workload:
    """The axes of a histogram. grouped: the one axis with grouped levels, its groups' sizes and that query's name."""

    axes: Mapping[str, int]
    grouped: str | None = None
    groups: tuple[int, ...] = ()
    grouping: str = ""

    def keeps(self, query: str) -> tuple[frozenset[str], bool]:
        """Return the axes that a query does not sum over, and whether it asks the grouped levels; or ValueError."""
        if query == "total":
            return frozenset(), False
        if query == "detailed":
            return frozenset(self.axes), False
        names = {name.strip() for name in query.split("*")}
        grouping = self.grouping in names
        names.discard(self.grouping)
        if not names <= set(self.axes):
            raise ValueError(f"query group {query}: the axes are {', '.join(self.axes)}")
        return frozenset(names), grouping


# The redistricting histograms: persons, with hhinstlevels = {0}, {1-4}, {5-7}; units, with H1 alone.
WORKLOADS = {
    "pl94-persons": Workload(sizes(PERSON_AXES), HHGQ.name, tuple(map(len, INSTITUTIONS)), HHINSTLEVELS.name),
    "pl94-units": Workload(sizes(UNIT_AXES)),
}


@dataclass(frozen=True)
class Part:
    """One orthogonal part of the histogram, as a marginal meets it.

    information: for each level the (d, d) information that a share of 1 buys (of the share squared under pure DP).
    cell: (d, k) matrix C: the part adds trace(C' V C) to the variance of the marginal's cell, V the (d, d) variance of
        a geounit or entity in this part.
    """

    information: Mapping[str, FloatArray]
    cell: FloatArray


def marginal_parts(marginal: str, workload: Workload | None, allocation: Allocation) -> list[Part]:
    """Return the parts that make up one cell of a marginal (on the grouped axis: the mean over its cells).

    Without a workload (DHC: its recodes do not nest) the marginal must be a query group of the allocation, and is
    estimated from that query group alone: an upper bound of the variance.
    """
    if workload is None:
        rows = {level: allocation.queries[level].get(marginal) for level in allocation.levels}
        if None in rows.values():
            raise ValueError(f"{marginal} is not asked on every level")
        own = {level: np.array([[_weight(allocation, float(alpha or 0))]]) for level, alpha in rows.items()}
        return [Part(own, np.ones((1, 1)))]
    kept, grouping = workload.keeps(marginal)
    if grouping:
        raise ValueError(f"{marginal}: cells of grouped levels have no common variance")
    plain = sorted(kept - {workload.grouped})
    parts = []
    for residual in chain.from_iterable(combinations(plain, r) for r in range(len(plain) + 1)):
        scale = prod(
            ((size - 1) / size if axis in residual else 1 / size) if axis in kept else size
            for axis, size in workload.axes.items()
            if axis != workload.grouped
        )
        for between in (True, False):
            cell = _grouped_cell(workload, workload.grouped in kept, between)
            if cell is not None:
                parts.append(Part(_information(workload, allocation, residual, between), np.sqrt(scale) * cell))
    return parts


def _grouped_cell(workload: Workload, kept: bool, between: bool) -> FloatArray | None:
    """Return the grouped axis of a cell, between the groups (in the basis of their unit indicators) or within them."""
    if workload.grouped is None:
        return np.ones((1, 1)) if between else None
    sizes, size = np.array(workload.groups, float), workload.axes[workload.grouped]
    if not kept:
        return np.sqrt(sizes)[:, None] if between else None
    return np.eye(len(sizes)) / np.sqrt(size) if between else np.full((1, 1), np.sqrt((size - len(sizes)) / size))


def _information(
    workload: Workload, allocation: Allocation, residual: tuple[str, ...], between: bool
) -> dict[str, FloatArray]:
    """Return the information of each level in one part: the sum of weight times Kronecker eigenvalue."""
    sizes = np.array(workload.groups or (1,), float)
    identity = np.eye(len(sizes)) if between else np.ones((1, 1))
    ones = np.outer(np.sqrt(sizes), np.sqrt(sizes)) if between else np.zeros((1, 1))
    grouped = np.diag(sizes) if between else np.zeros((1, 1))
    information: dict[str, FloatArray] = {}
    for level in allocation.levels:
        total: Any = np.zeros_like(identity)
        for query, alpha in allocation.queries[level].items():
            kept, grouping = workload.keeps(query)
            factor = prod(
                1 if axis in kept else (0 if axis in residual else size)
                for axis, size in workload.axes.items()
                if axis != workload.grouped
            )
            matrix = identity if workload.grouped is None or workload.grouped in kept else grouped if grouping else ones
            total = total + _weight(allocation, float(alpha)) * factor * matrix
        information[level] = total
    return information


def _weight(allocation: Allocation, alpha: float) -> float:
    """Return 1 / variance of a coordinate at share 1: rho alpha, or (epsilon alpha)^2 / 8 under pure DP (2 b^2)."""
    budget = float(allocation.budget)
    return budget * alpha if allocation.definition == "zcdp" else (budget * alpha) ** 2 / 8
