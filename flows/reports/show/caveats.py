"""How to read a view of any release, in a sentence or two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.reports.show.confidence import confidence

EXACT = "These are exact counts without any noise. Never publish them."
NO_ESTIMATES = " Estimates are left out: their margins are known at 95% alone."
CLIPPED = " Negative counts were set to 0 after all sums, so small counts are too high on average and sums may differ."


def caveat(manifest: Mapping[str, Any], text: str, *, clipped: bool = False) -> str:
    """Return how to read a view of a noisy release; of exact counts, that they are exact."""
    level = confidence()
    if not level.is_released:
        text = text.replace("95 of 100", f"{level.percent} of 100") + NO_ESTIMATES * ("estimates" in manifest)
    return EXACT if "NOT_PRIVATE" in manifest else text + CLIPPED * clipped
