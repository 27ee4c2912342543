"""How to read a view of any release, in a sentence or two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXACT = "These are exact counts without any noise. Never publish them."
CLIPPED = " Negative counts were set to 0 after all sums, so small counts are too high on average and sums may differ."


def caveat(manifest: Mapping[str, Any], text: str, *, clipped: bool = False) -> str:
    """Return how to read a view of a noisy release; of exact counts, that they are exact."""
    return EXACT if "NOT_PRIVATE" in manifest else text + CLIPPED * clipped
