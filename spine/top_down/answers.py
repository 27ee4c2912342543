"""What the children of a parent are estimated from: their own noisy answers, or what all below them says as well."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spine.geography import IntArray
from spine.top_down.failures import NO_FLOATS, Division, Told
from spine.top_down.measurements import NoisyAnswers, weights
from spine.top_down.plan import Plan
from spine.top_down.queries import TOTAL
from spine.top_down.tree import V_CELLS, Information, entries, estimates, to_cells, total_of, total_variance
from spine.workload import FloatArray

LEFT = 0.99  # of the total's precision that may be taken out of P: what is left must stay positive definite


@dataclass(frozen=True)
class Measured:
    """Noisy answers of a range of geounits as least squares takes them.

    answers: (geounits, coordinates of the last pass's query groups). weights: (groups, geounits) inverse variances.
    total, total_weight: (geounits,) the answers of the total query, and their inverse variance; empty if not asked.
    """

    first: int
    answers: FloatArray
    weights: FloatArray
    total: FloatArray
    total_weight: FloatArray

    def __len__(self) -> int:
        return len(self.answers)

    def only(self, first: int, last: int) -> Measured:
        """The geounits first, ..., last - 1."""
        rows = slice(first - self.first, last - self.first)
        return Measured(first, self.answers[rows], self.weights[:, rows], self.total[rows], self.total_weight[rows])

    def into(self, division: Division, types: IntArray) -> Division:
        """The problem of a parent with these answers of its children."""
        return replace(division, answers=self.answers, weights=np.ascontiguousarray(self.weights))

    def with_total_out(self, division: Division, total: FloatArray, band: float = 0.0) -> Division:
        """The children's totals within the band; no query group of the last pass asks them."""
        return replace(division, low=total - band, high=total + band)


def measured(plan: Plan, level: int, given: NoisyAnswers) -> Measured:
    """The noisy answers of a range of geounits, with their weights."""
    name, spine = plan.spine.levels[level], plan.spine
    shares = spine.shares[level][given.first : given.last]
    queries, _ = plan.asked[level]

    def weigh(names: list[str]) -> FloatArray:
        return weights(plan.allocation, name, names, shares, spine.denominator)

    answers = np.concatenate([np.asarray(given.answers[query], float) for query in queries], axis=1)
    if TOTAL in plan.allocation.queries[name]:
        total, total_weight = np.asarray(given.answers[TOTAL], float)[:, 0], weigh([TOTAL])[0]
    else:
        total, total_weight = NO_FLOATS, NO_FLOATS
    return Measured(given.first, answers, weigh(queries), total, total_weight)


@dataclass(frozen=True)
class Informed:
    """Information of a range of geounits as least squares takes it.

    told: h and P. linear, begin: (geounits, 2016) h and z = h/P of the cells. total, total_weight: (geounits,) the
    totals of z, and their inverse variance.
    """

    told: Information
    linear: FloatArray
    begin: FloatArray
    total: FloatArray
    total_weight: FloatArray

    def __len__(self) -> int:
        return len(self.told)

    def only(self, first: int, last: int) -> Informed:
        """The geounits first, ..., last - 1."""
        rows = slice(first - self.told.first, last - self.told.first)
        parts = (self.linear[rows], self.begin[rows], self.total[rows], self.total_weight[rows])
        return Informed(self.told.only(first, last), *parts)

    def into(self, division: Division, types: IntArray) -> Division:
        """The problem of a parent with this information on its children. types: (T,) those of its cells."""
        precision = self.told.precision[:, :, types[:, None], types]
        scale = precision.max()
        told = Told(
            precision / scale,
            entries(precision / scale),
            np.ascontiguousarray(self.linear[:, division.cells].T) / scale,
            np.ascontiguousarray(self.begin[:, division.cells].T),
            scale,
        )
        return replace(division, told=told)

    def with_total_out(self, division: Division, total: FloatArray, band: float = 0.0) -> Division:
        """The children's totals within the band, and their weight taken out of P as far as it has any.

        Subtracts kappa (1'x - total)^2 / 2, all but constant within the band. With it the majorizer is so large
        that least squares crawls. kappa: the least entry of P between cells that agree in nothing,
        as long as P stays positive.
        """
        told = division.told
        assert told is not None
        both = division.allowed.T[:, :, None] & division.allowed.T[:, None, :]
        apart = np.where(both, told.between[:, 0], np.inf).min(axis=(1, 2))
        kappa = np.clip(np.minimum(apart, LEFT * self.total_weight / told.scale), 0.0, None)
        precision, out = told.precision.copy(), kappa[:, None, None] * both
        precision[:, 0] -= V_CELLS * out
        linear = told.linear - kappa * total * division.allowed[division.kind]
        told = replace(told, precision=precision, between=told.between - out[:, None], linear=linear)
        return replace(division, told=told, low=total - band, high=total + band)


def informed(plan: Plan, told: Information) -> Informed:
    """Information of a range of geounits, with its estimates and their totals."""
    allowed = np.ascontiguousarray(plan.invariants.allowed(told.level)[told.first : told.last])
    z, variance = estimates(told, allowed)
    return Informed(told, to_cells(told.linear), to_cells(z), total_of(z), 1 / total_variance(variance))
