"""Household sizes of a block: independent draws from a law, given their sum (`sizes`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
EXACT = 64  # households after the next whose sum has a table
WIDTH = 1200  # persons in a table
NEGLIGIBLE = 1e-13  # of the weight of smaller sizes: 32-bit draws cannot tell
LOWEST_MEAN, MEAN_STEP, MEANS = 1.0, 0.025, 600  # of the tilted laws


@compiled
def convolve(weights: FloatArray) -> FloatArray:
    """Return the weights of sums of 0 to EXACT sizes, (EXACT + 1, WIDTH)."""
    sums = np.zeros((EXACT + 1, WIDTH))
    sums[0, 0] = 1.0
    for households in range(1, EXACT + 1):
        for persons in range(households, WIDTH):
            weight = 0.0
            for size in range(1, min(len(weights), persons + 1)):
                weight += weights[size] * sums[households - 1, persons - size]
            sums[households, persons] = weight
    return sums


@compiled
def tilt(weights: FloatArray) -> FloatArray:
    """Return theta and variance of the laws weights[s] exp(theta s) that have the means of the grid, (MEANS, 2)."""
    tilts = np.zeros((MEANS, 2))
    theta = -40.0
    for place in range(MEANS):
        mean = LOWEST_MEAN + MEAN_STEP * place + 1e-4 * (place == 0)
        variance = 1.0
        for _ in range(60):
            total, first, second = 0.0, 0.0, 0.0
            for size in range(1, len(weights)):
                weight = weights[size] * np.exp(theta * (size - mean))
                total += weight
                first += weight * (size - mean)
                second += weight * (size - mean) ** 2
            away = first / total
            variance = max(second / total - away * away, 1e-9)
            step = min(max(-away / variance, -1.0), 1.0)
            theta += step
            if abs(step) < 1e-10:
                break
        tilts[place, 0], tilts[place, 1] = theta, variance
    return tilts


@compiled
def weigh(
    households: int, persons: int, weights: FloatArray, sums: FloatArray, tilts: FloatArray, chances: FloatArray
) -> float:
    """Fill `chances` with weights of the next size, where 2 or more `households` share `persons`; return the sum."""
    others = households - 1
    most, total = min(len(weights) - 1, persons - others), 0.0
    chances[:] = 0.0
    if others <= EXACT and persons < WIDTH:
        for size in range(1, most + 1):
            chances[size] = weights[size] * sums[others, persons - size]
            total += chances[size]
            if chances[size] < NEGLIGIBLE * total:
                break
        return total
    mean = persons / households
    at = min((mean - LOWEST_MEAN) / MEAN_STEP, MEANS - 1.001)
    place = int(at)
    part = at - place
    theta = (1 - part) * tilts[place, 0] + part * tilts[place + 1, 0]
    variance = (1 - part) * tilts[place, 1] + part * tilts[place + 1, 1]
    for size in range(1, most + 1):
        away = size - mean
        chances[size] = weights[size] * np.exp(theta * away - away * away / (2 * others * variance))
        total += chances[size]
        if away > 0 and chances[size] < NEGLIGIBLE * total:
            break
    return total


@compiled
def mix(
    households: IntArray,
    persons: IntArray,
    blocks: IntArray,
    weights: FloatArray,
    sums: FloatArray,
    tilts: FloatArray,
) -> FloatArray:
    """Return the share of each size in blocks of these households and persons; blocks: how many there are."""
    mixture, chances = np.zeros(len(weights)), np.zeros(len(weights))
    for row in range(len(households)):
        count = float(households[row] * blocks[row])
        if households[row] == 1:
            mixture[min(persons[row], len(weights) - 1)] += count
            continue
        total = weigh(households[row], persons[row], weights, sums, tilts, chances)
        if total > 0:
            mixture += chances * (count / total)
    mixture /= mixture.sum()
    return mixture


@compiled
def draw_sizes(
    first: IntArray,
    units: IntArray,
    occupied: IntArray,
    persons: IntArray,
    size_draws: FloatArray,
    vacancy_draws: FloatArray,
    weights: FloatArray,
    sums: FloatArray,
    tilts: FloatArray,
    size: IntArray,
) -> None:
    """Fill the sizes of each block's housing units, 0 for the vacant ones, which are anywhere among them.

    first, units: the first row of a block's housing units, and their number. size_draws, vacancy_draws, size: by row.
    """
    chances = np.zeros(len(weights))
    for block in range(len(first)):
        households, rest = occupied[block], persons[block]
        for place in range(units[block]):
            row = first[block] + place
            if vacancy_draws[row] * (units[block] - place) >= households:
                size[row] = 0
                continue
            chosen = rest
            if households > 1:
                left = size_draws[row] * weigh(households, rest, weights, sums, tilts, chances)
                chosen = 1
                most = min(len(weights) - 1, rest - households + 1)
                while chosen < most and (left >= chances[chosen] or chances[chosen] == 0.0):
                    left -= chances[chosen]
                    chosen += 1
            size[row] = chosen
            households -= 1
            rest -= chosen
