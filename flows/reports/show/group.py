"""A population group of a Detailed DHC-A: its count with margin and law, or why there is none; its sex ratio."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt
from typing import Literal

from flows.reports.show.view import Confidence
from tasks.releases.description import Noise
from tasks.releases.manifest import read_law
from tasks.releases.pages import decimal
from tasks.safetab.persons.pyramid import Pyramid

TOO_NOISY = "not known: the noise is as large as the counts"


@dataclass(frozen=True)
class Group:
    """A population group with its published count, or why it was not published.

    key: its part of an address, `COUNTY/44007/2001`. within: the names of the regions around its region. count, margin
    and noise are None if nothing was published, noise also in a release of exact counts; `why` is the reason. noise:
    the release's statement about the noise in its total, which sums `cells`. estimate, estimate_margin: None without
    one.
    """

    key: str
    iteration: str
    region: str
    within: str
    status: Literal["published", "suppressed", "not tabulated"]
    why: str = ""
    count: int | None = None
    margin: int | None = None
    shape: str = ""
    noise: Noise | None = None
    estimate: int | None = None
    estimate_margin: int | None = None

    @property
    def title(self) -> str:
        """Its name."""
        return f"{self.iteration}, {self.region}"

    @property
    def parts(self) -> list[str]:
        """The type and the id of its region, and the code of its iteration."""
        return self.key.split("/")

    @property
    def interval(self) -> tuple[int, int]:
        """Its count minus and plus the margin."""
        return (self.count or 0) - (self.margin or 0), (self.count or 0) + (self.margin or 0)

    @property
    def relative(self) -> float | None:
        """The margin as a share of the count; None for a count of 0 or less."""
        return (self.margin or 0) / self.count if self.count and self.count > 0 else None

    @property
    def law(self) -> str:
        """The noise in its total in words, or ""."""
        if self.noise is None:
            return ""
        law, cells = read_law(self.noise), int(self.noise["cells"])
        deviation = (law.variance() * cells) ** 0.5
        answer = "one noisy answer" if cells == 1 else f"the sum of {cells} noisy cells"
        relative = f", {deviation / self.count:.1%} of the count" if self.count and self.count > 0 else ""
        return f"{answer}, {law.name}; standard error {decimal(deviation)}{relative}"


@dataclass(frozen=True)
class SexRatio:
    """Males per 100 females, with the ends of the interval, None if not finite, and the same in words."""

    value: float | None
    low: float | None
    high: float | None
    words: str


def widened(margin: float) -> float:
    """Return the margin of a sum that need not be a whole number; 0 is the margin of exact counts."""
    return margin + 0.5 if margin else 0.0


def sex_ratio(table: Pyramid, at: Confidence) -> SexRatio:
    """Return males per 100 females, with the interval at a confidence.

    Fieller's theorem: the interval contains all r for which the count of males and r times that of females differ
    by at most their joint margin, as independent, nearly normal sums of cells. It is shown for all counts, even if
    it has no upper end: intervals only for large counts would miss the small ratios.

    A margin of whole numbers holds for whole numbers. r times a count is not whole, so half a person is added to
    it.
    """
    male, female = table.male.count, table.female.count
    of_male, of_female = widened(table.male.margin), widened(table.female.margin)
    # The ends solve (M - rF)^2 = m_M^2 + r^2 m_F^2, which is first r^2 - 2 half r + last = 0.
    first, half, last = female**2 - of_female**2, male * female, male**2 - of_male**2
    root = sqrt(max(half**2 - first * last, 0))
    if first > 0 and female > 0 and male >= 0:
        low, high = (max((half + side * root) / first, 0) for side in (-1, 1))
        words = f"{100 * male / female:.1f}"
        if hypot(of_male, of_female):
            words += f", {at.percent}% interval {100 * low:.1f} to {100 * high:.1f}"
        return SexRatio(100 * male / female, 100 * low, 100 * high, words)
    if last > 0 and male > 0 and first < 0 and female >= 0:
        low = 100 * (half - root) / first
        return SexRatio(None, low, None, f"not known, {at.percent}% interval {low:.1f} or more")
    return SexRatio(None, None, None, TOO_NOISY)
