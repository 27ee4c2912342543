"""The predicted errors of occupied housing units, whose number in all is declared.

Every geounit has one unknown. Its own answers leave the variance 1 / (2 rho), the estimate lies between 0 and the
number of housing units, and the children of a parent add up to it.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from spine.forecast.division import MET, ROUNDS, BlockErrors, Local
from spine.geography import FloatArray, IntArray


def divide_units(occupied: FloatArray, units: FloatArray, budgets: FloatArray, parent: IntArray | None) -> Local:
    """Return the errors that dividing a parent's occupied units adds, (children, 1).

    occupied, units: (children,) of the stand-in, and declared. budgets: (children,) precision that one answer has.
    parent: (children,) the parent; None for the topmost geounits, which add up to nothing that is known.
    """
    group = np.arange(len(units)) if parent is None else parent
    siblings = np.bincount(group)[group]
    copied = (units == 0) | (budgets == 0) | ((siblings == 1) & (parent is not None))
    deviation = np.where(copied, 1.0, 1 / np.sqrt(2 * np.where(budgets > 0, budgets, 1.0)))
    moved = np.zeros(int(group.max(initial=-1)) + 1)
    for _ in range(ROUNDS):
        mean, variance, free = clipped_part(occupied - moved[group], units, deviation)
        missed = np.bincount(group, np.where(copied, 0.0, mean - occupied), len(moved))
        slope = np.maximum(np.bincount(group, np.where(copied, 0.0, free), len(moved)), 1e-9)
        if parent is None or np.abs(missed).max(initial=0.0) < MET:
            break
        moved += missed / slope
    zero = copied[:, None]
    return Local(np.where(zero, 0.0, variance[:, None]), np.where(zero, 0.0, (mean - occupied)[:, None]))


def block_units(occupied: FloatArray, units: FloatArray, budgets: FloatArray, parent: IntArray) -> BlockErrors:
    """Return the errors of blocks; arguments as those of `divide_units`."""
    variance, bias = divide_units(occupied, units, budgets, parent)
    of_all = np.bincount(parent, variance[:, 0])[parent, None]
    tied = np.where(of_all > 0, variance * (1 - variance / np.where(of_all > 0, of_all, 1.0)), 0.0)
    return BlockErrors(tied, bias, variance)


def clipped_part(
    mean: FloatArray, most: FloatArray, deviation: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean and variance of min(most, max(0, N(mean, deviation^2))), and the chance of lying between."""
    low, high = -mean / deviation, (most - mean) / deviation
    density = [np.exp(-0.5 * at**2) / np.sqrt(2 * np.pi) for at in (low, high)]
    inside, above = ndtr(high) - ndtr(low), ndtr(-high)
    first = mean * inside + deviation * (density[0] - density[1]) + most * above
    second = (
        (mean**2 + deviation**2) * inside
        + deviation * (mean * density[0] - (mean + most) * density[1])
        + most**2 * above
    )
    return first, np.maximum(second - first**2, 0.0), inside
