"""Household sizes: independent draws from a base law given the sum that each block has.

One household after another: with m households and R persons left, P(s) is proportional to base(s) f(R - s), where f is
the law of the sum of m - 1 sizes; by tables for m - 1 up to 64, beyond by the law tilted to the block's mean and a
normal factor. A tilt of the base law drops out. Blocks' means spread more than samples of one law do, and a mixture of
such blocks has too many households of one and of seven, so the base law of a state is fitted to its blocks first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.synth.population.compiled_sizes import FloatArray, IntArray, convolve, mix, tilt

LARGEST = 60
MOST_MEAN = 15  # persons in a household of a block, at most
# Persons in households per household: (331,449,281 - 8,239,016) / 126,817,580 in 2020.
MEAN = 2.549
ROUNDS = 6  # of the fit


def _law() -> FloatArray:
    """Return the shares of sizes 0 to LARGEST: 27.6% of one as in 2020, the others own, 7 and more falling by .45."""
    tail = 0.45 ** np.arange(LARGEST - 6)
    return np.concatenate([[0, 0.276, 0.325, 0.159, 0.132, 0.065, 0.026], 0.017 * tail / tail.sum()])


@dataclass(frozen=True)
class SizeLaw:
    """The base law of a state. weights: (LARGEST + 1,), times 2^s, which drops out and keeps sums within floats."""

    weights: FloatArray
    sums: FloatArray
    tilts: FloatArray


def base_law(weights: FloatArray | None = None) -> SizeLaw:
    """Return a law with the tables of its sums."""
    weights = _law() * 2.0 ** np.arange(LARGEST + 1) if weights is None else weights
    return SizeLaw(weights, convolve(weights), tilt(weights))


def fit_law(occupied: IntArray, persons: IntArray) -> SizeLaw:
    """Return the law of blocks with these households and persons under which all sizes have the national shape.

    The national shape is the base law, tilted to the blocks' mean.
    """
    law = base_law()
    lived_in = occupied > 0
    if not lived_in.any():
        return law
    pairs, blocks = np.unique(np.column_stack([occupied, persons])[lived_in], axis=0, return_counts=True)
    households, heads = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    target = _tilted(_law(), persons[lived_in].sum() / occupied[lived_in].sum())
    for _ in range(ROUNDS):
        mixture = mix(households, heads, blocks, law.weights, law.sums, law.tilts)
        ratio = np.ones(LARGEST + 1)
        np.divide(target, mixture, out=ratio, where=mixture > 1e-9)
        law = base_law(law.weights * np.clip(ratio, 0.2, 5.0))
    return law


def _tilted(law: FloatArray, mean: float) -> FloatArray:
    sizes, low, high = np.arange(len(law)), -30.0, 30.0
    for _ in range(80):
        theta = (low + high) / 2
        tilted = law * np.exp(theta * sizes - max(theta * LARGEST, theta))
        low, high = (theta, high) if (tilted @ sizes) < mean * tilted.sum() else (low, theta)
    return np.asarray(tilted / tilted.sum())
