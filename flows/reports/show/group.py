"""A population group of a Detailed DHC-A: its count with margin and law, or why it was not published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tasks.releases.description import Noise
from tasks.releases.manifest import read_law
from tasks.releases.pages import decimal


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
