"""The exact law of an estimate's error near a threshold, given the detail, and the margins that hold there.

For a group of true size N let m*(N) be the smallest m with P(|U - N| <= m | detail) >= .95. The margin of an estimate u
is the largest distance |u - N| to a size N under which u would not be unlikely:

    margin(u) = max { |u - N| : |u - N| <= m*(N) }, at least m*(u).

Whatever N is, |U - N| <= m*(N) implies |U - N| <= margin(U). So the margin covers N with probability .95 given the
detail, for both laws and every gamma: Neyman's construction (1937), "Outline of a theory of statistical estimation". It
is a function of the level, the detail and the estimate, all of them public.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privacy.estimation.densities import margin_of_sizes, tails, values
from privacy.estimation.pooling import nearest
from privacy.estimation.selection import Correction

# The least P(detail), relative to the largest of any size, at which errors are compared with the count's, or margins
# hold
LIKELY, COVERED = 1e-2, 1e-3
UNLIKELY = 1e-10  # probabilities of an answer below this are dropped
STEPS = 8  # sizes tried in a standard deviation of A


@dataclass(frozen=True)
class SizeLaw:
    """The error of the estimate of a group of true size `size`, given the detail; the size from the window's edge.

    In counts: size; bias and deviation, the mean and root mean square of the error; margin, m*. chance: P(detail).
    covered: P(|error| <= the requested margin | detail).
    """

    size: int
    chance: float
    bias: float
    deviation: float
    margin: int
    covered: float


@dataclass(frozen=True)
class EdgeMargins:
    """Margins of estimates at start, start + 1, ... from a window's edge; the first and last also hold beyond."""

    start: int
    values: NDArray[np.int64]

    def of(self, estimate: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the margin of each estimate, counted from the window's edge."""
        return self.values[np.clip(estimate - self.start, 0, len(self.values) - 1)]


def size_laws(correction: Correction, step: int | None = None, margin: int = 0) -> list[SizeLaw]:
    """Return the law of the error at sizes that reach the window often enough (COVERED), in steps of this many units.

    margin: the margin whose coverage each law reports.
    """
    sums = _Sums(correction)
    step = step or max(1, round(sums.deviation / STEPS))
    rows = len(correction.values)
    last = rows + sums.reach if correction.width is None else rows - 1 + sums.reach
    laws = [sums.law(size, margin) for size in range(-sums.reach, last + step, step)]
    most = max(law.chance for law in laws if law is not None)
    return [law for law in laws if law is not None and law.chance >= COVERED * most]


def likely(laws: list[SizeLaw]) -> list[SizeLaw]:
    """Return the laws of the sizes that reach the window more often (LIKELY)."""
    most = max(law.chance for law in laws)
    return [law for law in laws if law.chance >= LIKELY * most]


def margins_near(laws: list[SizeLaw], far: int, width: int | None) -> EdgeMargins:
    """Return the margins by these laws, at least `far`; a size between two has the larger of their margins."""
    sizes = np.array([law.size for law in laws])
    stars = np.maximum([law.margin for law in laws], far)
    if width is None:
        stars[-1] = far
        stars = np.maximum.accumulate(stars[::-1])[::-1]
    every = np.arange(sizes[0], sizes[-1] + 1)
    before = np.searchsorted(sizes, every, side="right") - 1
    star = np.maximum(stars[before], stars[np.minimum(before + (sizes[before] < every), len(sizes) - 1)])
    widest = int(star.max())
    estimates = np.arange(every[0] - widest, every[-1] + widest + 2)
    at_least = star[np.clip(estimates - every[0], 0, len(star) - 1)]
    return EdgeMargins(int(estimates[0]), np.maximum(_farthest(estimates, every, star), at_least))


def _farthest(estimates: NDArray[np.int64], sizes: NDArray[np.int64], star: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the largest |u - N| <= m*(N) of each estimate u, or -1."""
    upwards = np.maximum.accumulate(sizes + star)  # the first size that reaches u from below
    first = np.searchsorted(upwards, estimates)
    above = np.where(first < len(sizes), estimates - sizes[np.minimum(first, len(sizes) - 1)], -1)
    downwards = np.minimum.accumulate((sizes - star)[::-1])[::-1]  # the last that reaches it from above
    last = np.searchsorted(downwards, estimates, side="right") - 1
    below = np.where(last >= 0, sizes[np.maximum(last, 0)] - estimates, -1)
    return np.maximum(above, below)


class _Sums:
    """Double sums over (A, B) at any size. Rows beyond the table's last one are summed once for each A."""

    def __init__(self, correction: Correction) -> None:
        pooling = correction.pooling
        self.correction = correction
        self.scale, self.whole = correction.scale, correction.scale == 1
        first, second = pooling.first > UNLIKELY, pooling.second > UNLIKELY
        self.a, self.p = values(pooling.first)[first], pooling.first[first]
        self.b, self.q = values(pooling.second)[second], pooling.second[second]
        self.q = self.q / self.q.sum()
        self.reach = int(self.a[-1])
        self.deviation = float((self.a**2 * self.p).sum()) ** 0.5
        self.place = self.b - self.a[:, None] + pooling.reach  # the index of D, for each (A, B)
        pull = nearest(pooling.pull) if self.whole else pooling.pull
        self.error = self.b - pull[self.place]  # in units
        self.place = np.clip(self.place - pooling.reach, -correction.widest, correction.widest) + correction.widest
        self.most = int(np.ceil(self.scale * (np.abs(self.error).max() + np.abs(correction.values).max()))) + 2
        single = [self._sums(self.error[[row]], np.zeros((1, 1)), self.p[[row]]) for row in range(len(self.a))]
        self.beyond = [tails(np.array([law[part] for law in single])) for part in range(3)]

    def law(self, size: int, margin: int) -> SizeLaw | None:
        """Return the error at a true size in units; None if the detail is too unlikely there."""
        rows = len(self.correction.values)
        t = size + self.a
        inside = np.flatnonzero((t >= 0) & (t < rows))
        after = int(np.searchsorted(t, rows)) if self.correction.width is None else len(t)
        chance = float(self.p[inside].sum() + self.p[after:].sum())
        if chance < UNLIKELY:
            return None
        corrections = np.take_along_axis(self.correction.values[t[inside]], self.place[inside], axis=1)
        near = self._sums(self.error[inside], corrections, self.p[inside])
        mean, square, sizes = ((part + beyond[after]) / chance for part, beyond in zip(near, self.beyond, strict=True))
        least, covered = margin_of_sizes(np.arange(len(sizes)), sizes), float(sizes[: margin + 1].sum())
        bias, deviation = float(mean) * self.scale, float(square) ** 0.5 * self.scale
        return SizeLaw(size * self.scale, chance, bias, deviation, least, covered)

    def _sums(
        self, error: NDArray[np.float64], correction: NDArray[np.float64], p: NDArray[np.float64]
    ) -> tuple[float, float, NDArray[np.float64]]:
        """Return mean, mean square (units) and the sizes' chances (counts) of errors, A by B."""
        weight = p[:, None] * self.q
        if self.whole:  # rounded up with the probability of its fraction
            floor = np.floor(correction)
            up = (correction - floor) * weight
            kinds = [(error + floor, weight - up), (error + floor + 1, up)]
        else:
            kinds = [(error + correction, weight)]
        sizes = np.zeros(self.most)
        for each, chance in kinds:
            size = np.ceil(self.scale * np.abs(each) - 1e-9).astype(np.int64)
            sizes += np.bincount(size.ravel(), chance.ravel(), minlength=self.most)
        return (
            sum(float((each * chance).sum()) for each, chance in kinds),
            sum(float((each * each * chance).sum()) for each, chance in kinds),
            sizes,
        )
