"""Two cells with a declared sum, such as vacant and occupied housing units: one unknown per geounit, in closed form.

The number of housing units is invariant, so one of (vacant, occupied) is unknown: for noisy answers y0, y1 of equal
variance, the best target of occupied is (hu - y0 + y1) / 2, with weight proportional to the share. The children of a
parent are projected onto {sum = the parent's, 0 <= occupied <= hu} (one multiplier) and rounded by largest remainder.
"""

from __future__ import annotations

import numpy as np

from spine.compiled import compiled
from spine.geography import FloatArray, IntArray
from spine.top_down.histogram import Estimates, from_entries


def targets(units: IntArray, answers: IntArray) -> FloatArray:
    """Return the (geounits,) targets of occupied units. answers: (geounits, 2) noisy vacant and occupied."""
    return (units - answers[:, 0] + answers[:, 1]) / 2


def estimates(level: int, first: int, units: IntArray, occupied: IntArray) -> Estimates:
    """Return the histograms of geounits from their (geounits,) housing units, all and occupied."""
    row = np.repeat(np.arange(len(units)), 2)
    cell = np.tile(np.arange(2), len(units))
    count = np.column_stack([units - occupied, occupied]).ravel()
    return from_entries(Estimates, level, first, row, cell, count, len(units))


@compiled
def children(occupied: IntArray, first: IntArray, units: IntArray, target: FloatArray, weight: FloatArray) -> IntArray:
    """Return the (children,) occupied units of all parents' children. first: (parents + 1,) their first children."""
    result = np.zeros(len(units), np.int64)
    for p in range(len(occupied)):
        start, end = first[p], first[p + 1]
        if end - start == 1:
            result[start] = occupied[p]
        else:
            share = divided(occupied[p], units[start:end], target[start:end], weight[start:end])
            integers = whole(occupied[p], units[start:end], share)
            for c in range(start, end):
                result[c] = integers[c - start]
    return result


@compiled
def divided(total: int, units: IntArray, target: FloatArray, weight: FloatArray) -> FloatArray:
    """Minimize sum weight (o - target)^2 with sum o = total, 0 <= o <= units: o = clip(target + lambda / weight).

    The sum is piecewise linear in lambda, so bracketed Newton, between the bounds at which all are empty and all full,
    ends after few steps.
    """
    n = len(units)
    low, high = np.inf, -np.inf
    for c in range(n):
        low = min(low, (0.0 - target[c]) * weight[c])
        high = max(high, (units[c] - target[c]) * weight[c])
    result = np.empty(n)
    multiplier = min(high, max(low, 0.0))
    for _ in range(200):
        total_now, slope = 0.0, 0.0
        for c in range(n):
            z = target[c] + multiplier / weight[c]
            result[c] = min(float(units[c]), max(0.0, z))
            total_now += result[c]
            slope += 1.0 / weight[c] if 0.0 < z < units[c] else 0.0
        missing = total - total_now
        if abs(missing) <= 1e-12 * (1.0 + total):
            break
        if missing > 0:
            low = multiplier
        else:
            high = multiplier
        following = multiplier + missing / slope if slope > 0.0 else np.nan
        if not low < following < high:
            following = 0.5 * (low + high)
        if following == multiplier:
            break
        multiplier = following
    return result


@compiled
def whole(total: int, most: IntArray, share: FloatArray) -> IntArray:
    """Return integers next to the shares of a total, each at most `most`: the largest fractions are rounded up.

    Ties, and units that rounding errors leave over, go in spine order.
    """
    n, remaining = len(most), total
    result, fraction = np.empty(n, np.int64), np.empty(n)
    for c in range(n):
        result[c] = min(most[c], int(np.floor(share[c] + 1e-9)))
        fraction[c] = share[c] - result[c] if result[c] < most[c] else -np.inf
        remaining -= result[c]
    for _ in range(remaining):
        best = 0
        for c in range(1, n):
            if fraction[c] > fraction[best]:
                best = c
        result[best] += 1
        fraction[best] = -np.inf if result[best] == most[best] else fraction[best] - 1.0
    return result
