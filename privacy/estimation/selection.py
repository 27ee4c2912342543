"""The correction that keeps a pooled total unbiased although step 1's answer chose the detail of its table.

Given the detail, T = N + A is in a window [a, b) of two thresholds, so near a threshold A is truncated and
S - m(S - T) is biased. With pi_d(x) = P(A = x | D = d) let a function l of N have the posterior mean

    G(t, d) = sum_x pi_d(x) l(t - x).

S - rnd(m(D)) + G(T, D) is unbiased given the detail, whatever N is, if M l = g for every N that the detail can have:

    g(N)     = sum_{a <= t < b} p(t - N) h(t - N),             h(x)     = sum_b q(b) rnd(m(b - x))
    M(N, N') = sum_{a <= t < b} p(t - N) K(t - N, t - N'),     K(x, x') = p(x') sum_d q(d + x) q(d + x') / r(d)

The bias of S - rnd(m) is -g (E[B; T in the window] = 0, because B and T are independent), and G adds M l. This estimate
has the least sum over N of mean squared errors of all unbiased ones: the problem has the Lagrange solution E[N + l(N) |
t, d]. For normal laws it is the estimate of Cohen and Sackrowitz (1989), "Two stage conditionally unbiased estimators
of the selected mean".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from privacy.estimation.densities import moment, tails, values
from privacy.estimation.pooling import AnswerLaws, Pooling, nearest, own_scale, pool, scale_within

LEAST = 1e-6  # sizes with a P(detail) above this, relative to the largest of any size, are kept unbiased
SMALL, SEEN = 1e-3, 1e-9  # corrections below SMALL sd(S), or at D less likely than SEEN, end the table
UNSEEN = 1e-12  # a D less likely than this gets the correction of the nearest likelier one: its own would be erratic
TELLING = 8  # a window narrower than sd(A) / TELLING leaves no information in T
WIDEST_TABLE, WIDEST_PARTNER = 48, 1500  # sd(A) and sd(S) of a table, in its units


@dataclass(frozen=True)
class Correction:
    """G on the window 0 <= T < width, or T >= 0: the correction of a pooled total.

    pooling: the laws it was solved for, in units of `scale` counts: 1 unless step 1's noise is wide. width: the
    window's, in counts; None without an upper end. values: t x d; G in units, for t = 0, 1, ... and d = -m ... m in
    units. The last row and the outer columns extend beyond the table.
    """

    pooling: Pooling = field(repr=False)
    scale: int
    width: int | None
    values: NDArray[np.float64] = field(repr=False)

    @property
    def reach(self) -> int:
        """The number of counts from the window's edge for which there is a correction."""
        return (len(self.values) - 1) * self.scale if self.width is None else self.width

    @property
    def widest(self) -> int:
        """The largest |d| of the table, in units."""
        return int(self.values.shape[1]) // 2

    def at(self, t: NDArray[np.int64], d: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return g(t, d) in counts, with t from the window's edge; interpolated linearly in t and d between units."""
        correction = np.zeros(len(t))
        near = np.flatnonzero(t < self.reach)
        row = np.clip((t[near] + 0.5) / self.scale - 0.5, 0, len(self.values) - 1)
        column = np.clip(d[near] / self.scale + self.widest, 0, 2 * self.widest)
        correction[near] = self.scale * _bilinear(self.values, row, column)
        return correction


def _bilinear(table: NDArray[np.float64], row: NDArray[np.float64], column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Interpolate a table between its entries."""
    top, left = row.astype(np.int64), column.astype(np.int64)
    down, right = row - top, column - left
    below, next_column = np.minimum(top + 1, len(table) - 1), np.minimum(left + 1, table.shape[1] - 1)
    upper = table[top, left] * (1 - right) + table[top, next_column] * right
    lower = table[below, left] * (1 - right) + table[below, next_column] * right
    between: NDArray[np.float64] = upper * (1 - down) + lower * down
    return between


def table_scale(answers: AnswerLaws, width: int | None = None) -> int:
    """Return the unit of a correction's table: a power of two that divides `width` and makes the table small enough."""
    scale = scale_within(answers, WIDEST_TABLE, WIDEST_PARTNER, own_scale(answers))
    return scale if width is None else gcd(scale, width)


def fits(answers: AnswerLaws, width: int) -> bool:
    """Return whether a window with dependent ends can be solved for, and T has information within it."""
    first, _ = answers.deviations
    scale = table_scale(answers, width)
    return first <= 2 * WIDEST_TABLE * scale and scale >= own_scale(answers) and width > max(1, first / TELLING)


def correct(answers: AnswerLaws, weight: float = 1.0, width: int | None = None, ridge: float = 1e-9) -> Correction:
    """Solve for the correction of a window of this width in counts, or of one without an upper end.

    `ridge`, in mean eigenvalues, selects a short solution l without oscillation; the remaining bias grows with it.
    """
    scale = table_scale(answers, width)
    pooling = pool(answers.coarser(scale) if scale > 1 else answers, weight)
    units = None if width is None else width // scale
    solved = _solve(pooling, units, ridge, whole=scale == 1)
    if width is None:  # end it with a row of zeros
        rows = _last_row(pooling, solved) + 1
        solved = np.vstack([solved[:rows], np.zeros((1, solved.shape[1]))])
    seen = np.flatnonzero(pooling.difference > UNSEEN)
    return Correction(pooling, scale, width, solved[:, seen[0] : seen[-1] + 1].copy())


def _last_row(pooling: Pooling, table: NDArray[np.float64]) -> int:
    """Return the last t with a visible correction, or -1."""
    seen = pooling.difference > SEEN
    large = np.abs(table[:, seen]).max(axis=1) > SMALL * moment(pooling.second) ** 0.5
    return int(np.flatnonzero(large).max(initial=-1))


def _solve(pooling: Pooling, width: int | None, ridge: float, *, whole: bool) -> NDArray[np.float64]:
    """Return g for t = 0, 1, ...: to the window's end, or until a missing upper end makes no difference.

    whole: also correct the rounding of the pooled total. In coarse units it is negligible.
    """
    p = pooling.first
    n = len(p)
    reach = n // 2
    given = sliding_window_view(np.pad(pooling.second, 2 * reach), len(pooling.pull))  # q(d + x): x by d
    back = given.T / pooling.difference[:, None]  # d by x
    across = (given @ back) * p  # K
    pull = nearest(pooling.pull) if whole else pooling.pull
    lacking = (given * pull).sum(axis=1)  # h

    last = 3 * reach if width is None else width - 1 + reach
    sizes = np.arange(-reach, last + 1)
    low = np.clip(reach - sizes, 0, n)  # the places of the x = t - N with t in the window
    high = np.full(len(sizes), n) if width is None else np.clip(width + reach - sizes, 0, n)
    chance = _between(p, low, high)
    kept = chance >= LEAST * chance.max()
    sizes, low, high, chance = sizes[kept], low[kept], high[kept], chance[kept]

    from scipy.linalg import cho_factor, cho_solve

    columns = np.arange(sizes[0] - reach, (2 * reach if width is None else sizes[-1] + reach) + 1)
    diagonals = _diagonals(p[:, None] * across)  # x by x' - x = N - N'
    by_difference = _between(diagonals, low, high) / chance[:, None]
    matrix = _take(by_difference, sizes[:, None] - columns + 2 * reach)
    wanted = _between(p * lacking, low, high) / chance

    square = matrix @ matrix.T
    square[np.diag_indices(len(square))] += ridge * np.trace(square) / len(square)
    solution = matrix.T @ cho_solve(cho_factor(square), wanted)

    t = np.arange(2 * reach + 1 if width is None else width)
    around = _take(np.broadcast_to(solution, (len(t), len(solution))), t[:, None] - values(p) - columns[0])
    return around @ (p[:, None] * back.T)


def _between(weights: NDArray[np.float64], low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sums of weights[low:high], numbers or rows."""
    summed = tails(weights)
    return summed[low] - summed[high]


def _diagonals(square: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the entries (x, x + j) of an n x n matrix, x by j = -(n - 1) ... n - 1; 0 outside of it."""
    n = len(square)
    sheared = np.zeros((n, 2 * n - 1))
    x = np.arange(n)[:, None]
    sheared[x, np.arange(n) - x + n - 1] = square
    return sheared


def _take(table: NDArray[np.float64], place: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return table[i, place[i, j]], or 0 for places outside the table."""
    inside = (place >= 0) & (place < table.shape[1])
    return np.where(inside, np.take_along_axis(table, np.where(inside, place, 0), axis=1), 0.0)
