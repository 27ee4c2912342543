"""Margins by the laws that a release states, at the requested confidence: 95% by default, or any other."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

from flows.reports.show.view import Confidence
from privacy.noise.laws import Law
from privacy.noise.margins import margin_of_error, margin_of_sum

EXACT = "These are exact counts without any noise. Never publish them."
NO_ESTIMATES = " Estimates are left out: their margins are known at 95% alone."
CLIPPED = " Negative counts were set to 0 after all sums, so small counts are too high on average and sums may differ."


def has_estimates(manifest: Mapping[str, Any]) -> bool:
    """Return whether a release of any system has tables of estimates next to those of its counts."""
    return any("/estimates/" in f"/{name}" for name in manifest["files"])


def is_clipped(manifest: Mapping[str, Any]) -> bool:
    """Return whether negative counts were set to 0, by a run of any system or on tabulation."""
    configuration = manifest.get("configuration")
    refused = isinstance(configuration, dict) and configuration.get("allow_negative_counts") is False
    return refused or bool(manifest.get("clipped")) or "tabulated" in manifest


def caveat(manifest: Mapping[str, Any], text: str, at: Confidence) -> str:
    """Return how to read a view of a noisy release; for exact counts, a warning that they are exact."""
    if not at.is_released:
        text = text.replace("95 of 100", f"{at.percent} of 100") + NO_ESTIMATES * has_estimates(manifest)
    return EXACT if "NOT_PRIVATE" in manifest else (text + CLIPPED * is_clipped(manifest)).strip()


def margin_of_cells(cells: Iterable[tuple[Law, int]], at: Confidence) -> int:
    """Return the margin of a sum or difference of cells (law, number of cells)."""
    together: defaultdict[Law, int] = defaultdict(int)
    for law, number in cells:
        together[law] += number
    return margin_of_sum(together, at.alpha)


@lru_cache(maxsize=4096)
def most_cells(law: Law, margin: int) -> int:
    """Return the most draws whose sum has at most this 95% margin; 0 if the margin of one draw is larger."""
    most = 1
    while margin_of_error(law, most) <= margin:
        most *= 2
    return bisect_right(range(1, most), margin, most // 2, key=partial(margin_of_error, law))
