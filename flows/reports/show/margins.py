"""Margins by the laws that a release states, at the confidence of one answer: 95% by default, or any other."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from flows.reports.show.view import NotThere, Table, View
from privacy.noise.laws import Law
from privacy.noise.margins import Z95, margin_of_error, margin_of_sum, normal_margin

EXACT = "These are exact counts without any noise. Never publish them."
NO_ESTIMATES = " Estimates are left out: their margins are known at 95% alone."
CLIPPED = " Negative counts were set to 0 after all sums, so small counts are too high on average and sums may differ."


@dataclass(frozen=True)
class Confidence:
    """A confidence as a percentage, in digits: `95`, `99.5`."""

    percent: str

    @classmethod
    def named(cls, text: str) -> Confidence:
        """Return the confidence that a user names. Raises NotThere for none from 50 to 99.9."""
        digits = text.strip().removesuffix("%")
        if not re.fullmatch(r"\d\d(\.\d)?", digits) or Fraction(digits) < 50:
            raise NotThere(f"{text!r} is not a confidence from 50 to 99.9 percent, such as 90")
        return cls(digits.removesuffix(".0"))

    @property
    def alpha(self) -> Fraction:
        """The share of runs in which noise may exceed a margin."""
        return 1 - Fraction(self.percent) / 100

    @property
    def is_released(self) -> bool:
        """Whether it is that of the margins in a release's files."""
        return self == RELEASED


RELEASED = Confidence("95")
_current: ContextVar[Confidence] = ContextVar("confidence", default=RELEASED)


def confidence() -> Confidence:
    """Return the confidence of this answer."""
    return _current.get()


def deviations() -> float:
    """Return the standard deviations of a normal law in a margin at the confidence of this answer."""
    return normal_margin(confidence().alpha)


def widening() -> float:
    """Return how many times as wide as at 95% a margin in standard errors is, at the confidence of this answer."""
    return deviations() / Z95


@contextmanager
def at_confidence(text: str | None) -> Iterator[None]:
    """Make the answers within this block at a confidence; None leaves it as it is. Raises NotThere as `named`."""
    if text is None:
        yield
        return
    token = _current.set(Confidence.named(text))
    try:
        yield
    finally:
        _current.reset(token)


def as_data(view: View) -> dict[str, Any]:
    """Return a view as JSON has it; `confidence` is there where its margins are not the release's own."""
    return asdict(view) | ({} if confidence().is_released else {"confidence": confidence().percent})


def table_of(view: View) -> Table:
    """Return the main table of a view; columns of margins that are not the release's own name their confidence."""
    columns, rows = view.table()
    return list(map(column_at, columns)), rows


def column_at(name: str) -> str:
    """Return the name of a column at the confidence of this answer, `MOE_90`."""
    is_margin = name == "MOE" or name.startswith("MOE_")
    return name + f"_{confidence().percent}" * (is_margin and not confidence().is_released)


def has_estimates(manifest: Mapping[str, Any]) -> bool:
    """Return whether a release has tables of estimates next to those of its counts, whichever system made it."""
    return any("/estimates/" in f"/{name}" for name in manifest["files"])


def is_clipped(manifest: Mapping[str, Any]) -> bool:
    """Return whether negative counts were set to 0: by any system's run, or on tabulation."""
    configuration = manifest.get("configuration")
    refused = isinstance(configuration, dict) and configuration.get("allow_negative_counts") is False
    return refused or bool(manifest.get("clipped")) or "tabulated" in manifest


def caveat(manifest: Mapping[str, Any], text: str) -> str:
    """Return how to read a view of a noisy release; of exact counts, that they are exact."""
    level = confidence()
    if not level.is_released:
        text = text.replace("95 of 100", f"{level.percent} of 100") + NO_ESTIMATES * has_estimates(manifest)
    return EXACT if "NOT_PRIVATE" in manifest else (text + CLIPPED * is_clipped(manifest)).strip()


def margin_of_cells(cells: Iterable[tuple[Law, int]]) -> int:
    """Return the margin, at the confidence of this answer, of a sum or difference of cells (law, number of cells)."""
    together: defaultdict[Law, int] = defaultdict(int)
    for law, number in cells:
        together[law] += number
    return margin_of_sum(together, confidence().alpha)


@lru_cache(maxsize=4096)
def most_cells(law: Law, margin: int) -> int:
    """Return the most draws whose sum has at most this 95% margin; 0 where one draw has a larger one."""
    most = 1
    while margin_of_error(law, most) <= margin:
        most *= 2
    return bisect_right(range(1, most), margin, most // 2, key=partial(margin_of_error, law))
