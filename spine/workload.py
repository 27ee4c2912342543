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

from spine.allocations import Allocation
from spine.geography import FloatArray
from spine.top_down.histogram import Product


@dataclass(frozen=True)
class Part:
    """One orthogonal part of the histogram, as a marginal meets it.

    information: for each level the (d, d) information that a share of 1 buys (of the share squared under pure DP).
    cell: (d, k) matrix C: the part adds trace(C' V C) to the variance of the marginal's cell, V the (d, d) variance of
        a geounit or entity in this part.
    """

    information: Mapping[str, FloatArray]
    cell: FloatArray


def marginal_parts(marginal: str, product: Product | None, allocation: Allocation) -> list[Part]:
    """Return the parts that make up one cell of a marginal (on the grouped axis: the mean over its cells).

    Without a product (DHC: its recodes do not nest) the marginal must be a query group of the allocation, and is
    estimated from that query group alone: an upper bound of the variance.
    """
    if product is None:
        rows = {level: allocation.queries[level].get(marginal) for level in allocation.levels}
        if None in rows.values():
            raise ValueError(f"{marginal} is not asked on every level")
        own = {level: np.array([[_weight(allocation, float(alpha or 0))]]) for level, alpha in rows.items()}
        return [Part(own, np.ones((1, 1)))]
    kept, grouping = kept_axes(product, marginal)
    if grouping:
        raise ValueError(f"{marginal}: cells of grouped levels have no common variance")
    grouped, _ = groups(product)
    parts = []
    plain = sorted(kept - {grouped})
    for residual in chain.from_iterable(combinations(plain, r) for r in range(len(plain) + 1)):
        scale = prod(
            ((len(axis) - 1) / len(axis) if axis.name in residual else 1 / len(axis))
            if axis.name in kept
            else len(axis)
            for axis in product.axes
            if axis.name != grouped
        )
        for between in (True, False):
            cell = _grouped_cell(product, grouped in kept, between)
            if cell is not None:
                parts.append(Part(_information(product, allocation, residual, between), np.sqrt(scale) * cell))
    return parts


def groups(product: Product) -> tuple[str | None, FloatArray]:
    """Return the axis that queries ask in groups, and the sizes of the groups; ValueError where there are several."""
    if len(product.recodes) > 1:
        raise ValueError(f"{product.name}: query groups commute only where one axis has groups")
    return next(
        ((recode.axis, np.bincount(recode.part).astype(float)) for recode in product.recodes), (None, np.ones(1))
    )


def kept_axes(product: Product, query: str) -> tuple[frozenset[str], bool]:
    """Return the axes that a query asks cell by cell, and whether it asks the grouped axis in groups."""
    asked = product.asked(query)
    kept = frozenset(axis for axis, name in asked.items() if axis == name)
    return kept, len(kept) < len(asked)


def _grouped_cell(product: Product, kept: bool, between: bool) -> FloatArray | None:
    """Return the grouped axis of a cell, between the groups (in the basis of their unit indicators) or within them."""
    grouped, sizes = groups(product)
    if grouped is None:
        return np.ones((1, 1)) if between else None
    size = sizes.sum()
    if not kept:
        return np.sqrt(sizes)[:, None] if between else None
    return np.eye(len(sizes)) / np.sqrt(size) if between else np.full((1, 1), np.sqrt((size - len(sizes)) / size))


def _information(
    product: Product, allocation: Allocation, residual: tuple[str, ...], between: bool
) -> dict[str, FloatArray]:
    """Return the information of each level in one part: the sum of weight times Kronecker eigenvalue."""
    grouped, sizes = groups(product)
    identity = np.eye(len(sizes)) if between else np.ones((1, 1))
    ones = np.outer(np.sqrt(sizes), np.sqrt(sizes)) if between else np.zeros((1, 1))
    by_group = np.diag(sizes) if between else np.zeros((1, 1))
    information: dict[str, FloatArray] = {}
    for level in allocation.levels:
        total: Any = np.zeros_like(identity)
        for query, alpha in allocation.queries[level].items():
            kept, grouping = kept_axes(product, query)
            factor = prod(
                1 if axis.name in kept else (0 if axis.name in residual else len(axis))
                for axis in product.axes
                if axis.name != grouped
            )
            matrix = identity if grouped is None or grouped in kept else by_group if grouping else ones
            total = total + _weight(allocation, float(alpha)) * factor * matrix
        information[level] = total
    return information


def _weight(allocation: Allocation, alpha: float) -> float:
    """Return 1 / variance of a coordinate at share 1: rho alpha, or (epsilon alpha)^2 / 8 under pure DP (2 b^2)."""
    budget = float(allocation.budget)
    return budget * alpha if allocation.definition == "zcdp" else (budget * alpha) ** 2 / 8
