"""The measures of error in every accuracy report; an error is a released count minus the true one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PERCENT, PERSONS = 5, 5  # errors that users call small


class ErrorSums(NamedTuple):
    """Sums over counts, from which the means of one part or of several follow: numbers, or columns of them.

    n: how many counts; absolute, signed, squared: the sums of |error|, error and error^2.
    """

    n: Any
    absolute: Any
    signed: Any
    squared: Any

    @classmethod
    def of(cls, error: NDArray[np.int64], number: NDArray[np.int64] | None = None) -> ErrorSums:
        """Return the sums of errors, each of which occurred `number` times, or once."""
        times = np.ones_like(error) if number is None else number
        squared = (error.astype(np.float64) ** 2 * times).sum()
        return cls(times.sum(), (np.abs(error) * times).sum(), (error * times).sum(), squared)

    @property
    def mean_absolute(self) -> Any:
        """The mean of |error|."""
        return self.absolute / self.n

    @property
    def bias(self) -> Any:
        """The mean of the error."""
        return self.signed / self.n

    @property
    def rmse(self) -> Any:
        """The root of the mean square."""
        return (self.squared / self.n) ** 0.5


class Closeness(NamedTuple):
    """Sums over counts of the measures by which users judge them: numbers, or columns of them.

    positive: the number of true counts above 0. relative: the sum of |error| / true count over these. within_percent:
    the number of these within 5% of the true count. within_persons: the number of all counts within 5. outliers: the
    number within neither.
    """

    positive: Any
    relative: Any
    within_percent: Any
    within_persons: Any
    outliers: Any

    @classmethod
    def of(cls, error: NDArray[np.int64], true: NDArray[np.int64], axis: int | None = None) -> Closeness:
        """Return the sums for errors and true counts, over all or along an axis."""
        size = np.abs(error)
        positive = true > 0
        near, few = positive & (100 * size <= PERCENT * true), size <= PERSONS
        relative = np.where(positive, size / np.maximum(true, 1), 0.0)
        return cls(*(part.sum(axis) for part in (positive, relative, near, few, ~near & ~few)))

    def shares(self, n: Any) -> dict[str, Any]:
        """Return the mean absolute percentage error and the shares of `n` counts, in per cent."""
        return {
            "mape": 100 * self.relative / self.positive,
            "within_5_percent": 100 * self.within_percent / self.positive,
            "within_5": 100 * self.within_persons / n,
            "outliers": 100 * self.outliers / n,
        }


def quantile_95(error: NDArray[np.int64], number: NDArray[np.int64]) -> int:
    """Return the smallest m such that at most 5% of the errors, weighted by their numbers, are beyond ±m."""
    order = np.argsort(np.abs(error))
    within = np.cumsum(number[order])
    return int(np.abs(error[order])[np.argmax(20 * within >= 19 * within[-1])])
