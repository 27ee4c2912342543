"""How the work on a state is cut: runs of neighbouring geounits."""

from __future__ import annotations

import numpy as np

from spine.hierarchy import Spine

EACH = {"Tract": 150, "Block": 4096}  # geounits of a level below the pieces


def batches(spine: Spine, above: str, below: str) -> list[tuple[int, int]]:
    """Cut the geounits of a level into runs with about EACH[below] geounits of a lower level, or into single ones."""
    first, lower = (spine.starts[spine.levels.index(level)] for level in (above, below))
    begins = np.append(np.searchsorted(lower, first), len(lower))
    cuts = [0]
    for geounit in range(1, len(first)):
        if begins[geounit + 1] - begins[cuts[-1]] > EACH[below]:
            cuts.append(geounit)
    return list(zip(cuts, [*cuts[1:], len(first)], strict=True))
