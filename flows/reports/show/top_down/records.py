"""What a TopDown release has of a geounit: its sums, the share of a count, its noisy answers, and its margins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from flows.reports.show.confidence import deviations
from spine.top_down import PERSONS, UNITS
from tasks.top_down.estimate.gls.margin_tables import COVERED
from tasks.top_down.user_areas.intervals import interval

Place = TypeVar("Place")  # a Geounit, or its row in a view


@dataclass(frozen=True)
class GeounitTotals(Generic[Place]):
    """A geounit with its sums by name; None where the release lacks the product, or it is on the other's spine.

    margin: of the persons, where the release has one.
    """

    geounit: Place
    sums: Mapping[str, int | None]
    margin: float | None = None


@dataclass(frozen=True)
class CountOfWhole:
    """A geounit's sum of all cells, its sum of some cells, and the margin of the first (None where it has none)."""

    code: str
    whole: int
    part: int
    margin: float | None


@dataclass(frozen=True)
class NoisyAnswer:
    """A query group of a spine geounit: its share of the budget, number of answers, and the noise in one.

    first: the answer, where there is only one.
    """

    query: str
    share: str
    answers: int
    first: int | None
    deviation: float
    margin: int


@dataclass(frozen=True)
class EstimatedCount:
    """A count with its margin (None where the release has none) and the unbiased estimate with its standard error."""

    product: str
    count: str
    released: int
    margin: float | None
    estimate: float
    error: float

    @property
    def why(self) -> str:
        """Why its count has no margin; empty where it has one."""
        if self.margin is not None:
            return ""
        quantity = next((one.quantity for one in (*PERSONS.counts, *UNITS.counts) if one.name == self.count), "")
        if quantity in COVERED:
            return "cuts block groups"
        return "group quarters" if quantity.startswith("group quarters") else "not covered"

    @property
    def outside(self) -> bool:
        """Whether the released count is outside the estimate's interval."""
        low, high = self.interval
        return not low <= self.released <= high

    @property
    def interval(self) -> tuple[int, int]:
        """The ends of the estimate's interval for the count, at the confidence of this answer."""
        return interval(self.estimate, self.error, deviations())

    def at(self, times: float) -> EstimatedCount:
        """Return the same with a margin so many times as wide."""
        return self if self.margin is None else replace(self, margin=times * self.margin)
