"""The interval of a count from its estimate and standard error."""

from __future__ import annotations

from math import ceil, floor


def interval(estimate: float, error: float, z: float) -> tuple[int, int]:
    """Return the smallest and largest integer >= 0 within z standard errors; else the nearest."""
    low, high = ceil(estimate - z * error - 1e-6), floor(estimate + z * error + 1e-6)
    if low > high:
        low = high = round(estimate)
    return max(low, 0), max(high, 0)
