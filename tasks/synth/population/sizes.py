"""Household sizes: independent draws from a base law, given each block's sum.

Households are drawn one after another: with m households and R persons remaining, P(s) is proportional to
base(s) f(R - s), where f is the law of the sum of m - 1 sizes, from tables for m - 1 up to 64, and beyond from the law
tilted to the block's mean and a normal factor. A tilt of the base law cancels out. Blocks' means spread more than
samples of one law do, and a mixture of such blocks has too many households of one and of seven, so the base law of a
state is first fitted to its blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spine.compiled import compiled
from tasks.synth.draws import FloatArray, shares
from tasks.synth.population.model import IntArray

LARGEST = 60
MOST_MEAN = 15  # the largest mean household size of a block
# Persons in households per household: (331,449,281 - 8,239,016) / 126,817,580 in 2020.
MEAN = 2.549
ROUNDS = 6  # rounds of the fit
EXACT = 64  # the most remaining households whose sum has a table
WIDTH = 1200  # persons in a table
NEGLIGIBLE = 1e-13  # relative to the weight of smaller sizes: 32-bit draws cannot resolve it
LOWEST_MEAN, MEAN_STEP, MEANS = 1.0, 0.025, 600  # the grid of the tilted laws


def _law() -> FloatArray:
    """Return the shares of sizes 0 to LARGEST: 27.6% of size 1 as in 2020, the others own, falling by .45 from 7 on."""
    tail = 0.45 ** np.arange(LARGEST - 6)
    return np.concatenate([[0, 0.276, 0.325, 0.159, 0.132, 0.065, 0.026], 0.017 * tail / tail.sum()])


class StateSizeLaw(NamedTuple):
    """The base law of a state.

    weights: (LARGEST + 1,), times 2^s, which cancels out and keeps sums within floats. sums: the weights of sums of 0
    to EXACT sizes, (EXACT + 1, WIDTH). tilts: theta and variance of the laws weights[s] exp(theta s) that have the
    means of the grid, (MEANS, 2).
    """

    weights: FloatArray
    sums: FloatArray
    tilts: FloatArray


def base_law(weights: FloatArray | None = None) -> StateSizeLaw:
    """Return a law with the tables of its sums."""
    weights = _law() * 2.0 ** np.arange(LARGEST + 1) if weights is None else weights
    sums = [np.eye(1, WIDTH)[0]]
    for _ in range(EXACT):
        sums.append(np.convolve(sums[-1], weights)[:WIDTH])
    means = LOWEST_MEAN + MEAN_STEP * np.arange(MEANS)
    return StateSizeLaw(weights, np.array(sums), np.column_stack(_tilt(weights, np.maximum(means, 1 + 1e-4))))


def _tilted(weights: FloatArray, theta: FloatArray) -> FloatArray:
    """Return weights[s] exp(theta s), scaled so that the largest exponent is 0."""
    sizes = np.arange(len(weights))
    return np.asarray(weights * np.exp(theta * (sizes - np.where(theta > 0, sizes[-1], 1))))


def _tilt(weights: FloatArray, means: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return theta and variance of the laws weights[s] exp(theta s) that have these means, by Newton's method."""
    away = np.arange(len(weights)) - means[:, None]
    theta = np.zeros(len(means))
    for _ in range(60):
        tilted = _tilted(weights, theta[:, None])
        tilted /= tilted.sum(axis=1, keepdims=True)
        first = (tilted * away).sum(axis=1)
        variance = np.maximum((tilted * away**2).sum(axis=1) - first**2, 1e-9)
        step = np.clip(-first / variance, -1.0, 1.0)
        theta += step
        if np.abs(step).max() < 1e-10:
            break
    return theta, variance


def fit_law(occupied: IntArray, persons: IntArray) -> StateSizeLaw:
    """Return the law of blocks with these households and persons for which all sizes have the national shape.

    The national shape is the base law, tilted to the blocks' mean.
    """
    law = base_law()
    lived_in = occupied > 0
    if not lived_in.any():
        return law
    pairs, blocks = np.unique(np.column_stack([occupied, persons])[lived_in], axis=0, return_counts=True)
    households, heads = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    theta, _ = _tilt(_law(), np.array([persons[lived_in].sum() / occupied[lived_in].sum()]))
    target = shares(_tilted(_law(), theta))
    for _ in range(ROUNDS):
        mixture = mix(households, heads, blocks, law)
        ratio = np.ones(LARGEST + 1)
        np.divide(target, mixture, out=ratio, where=mixture > 1e-9)
        law = base_law(law.weights * np.clip(ratio, 0.2, 5.0))
    return law


@compiled
def weigh(households: int, persons: int, law: StateSizeLaw, chances: FloatArray) -> float:
    """Fill `chances` with weights of the next size, if 2 or more `households` share `persons`; return the sum."""
    weights, tilts, others = law.weights, law.tilts, households - 1
    most, total = min(len(weights) - 1, persons - others), 0.0
    chances[:] = 0.0
    if others <= EXACT and persons < WIDTH:
        for size in range(1, most + 1):
            chances[size] = weights[size] * law.sums[others, persons - size]
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
def mix(households: IntArray, persons: IntArray, blocks: IntArray, law: StateSizeLaw) -> FloatArray:
    """Return the share of each size in blocks with these households and persons; blocks: their numbers."""
    mixture, chances = np.zeros(len(law.weights)), np.zeros(len(law.weights))
    for row in range(len(households)):
        count = float(households[row] * blocks[row])
        if households[row] == 1:
            mixture[min(persons[row], len(mixture) - 1)] += count
            continue
        total = weigh(households[row], persons[row], law, chances)
        if total > 0:
            share = count / total
            for size in range(len(mixture)):
                mixture[size] += chances[size] * share
    whole = 0.0
    for size in range(len(mixture)):
        whole += mixture[size]
    for size in range(len(mixture)):
        mixture[size] /= whole
    return mixture


@compiled
def draw_sizes(
    first: IntArray,
    units: IntArray,
    occupied: IntArray,
    persons: IntArray,
    size_draws: FloatArray,
    vacancy_draws: FloatArray,
    law: StateSizeLaw,
    size: IntArray,
) -> None:
    """Fill the sizes of each block's housing units; the vacant ones, with 0, are anywhere among them.

    first, units: the first row of a block's housing units, and their number. size_draws, vacancy_draws, size: by row.
    """
    chances = np.zeros(len(law.weights))
    for block in range(len(first)):
        households, rest = occupied[block], persons[block]
        for place in range(units[block]):
            row = first[block] + place
            if vacancy_draws[row] * (units[block] - place) >= households:
                size[row] = 0
                continue
            chosen = rest
            if households > 1:
                left = size_draws[row] * weigh(households, rest, law, chances)
                chosen = 1
                most = min(len(chances) - 1, rest - households + 1)
                while chosen < most and (left >= chances[chosen] or chances[chosen] == 0.0):
                    left -= chances[chosen]
                    chosen += 1
            size[row] = chosen
            households -= 1
            rest -= chosen
