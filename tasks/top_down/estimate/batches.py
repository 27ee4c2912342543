"""Cut the geounits of a state into batches of neighbours that are estimated together."""

from __future__ import annotations

import numpy as np

from spine.hierarchy import Spine
from tasks.top_down.run import TopDownRun
from tasks.top_down.run_plan import ProductName

BATCH = {"Tract": 150, "Block": 4096}  # geounits of a lower level in a batch


def batches(spine: Spine, level: str, lower: str) -> list[tuple[int, int]]:
    """Cut a level into ranges (first, last + 1) with about BATCH[lower] geounits of a lower level, one at the least."""
    first, below = (spine.starts[spine.levels.index(name)] for name in (level, lower))
    begins = np.append(np.searchsorted(below, first), len(below))
    cuts = [0]
    for geounit in range(1, len(first)):
        if begins[geounit + 1] - begins[cuts[-1]] > BATCH[lower]:
            cuts.append(geounit)
    return list(zip(cuts, [*cuts[1:], len(first)], strict=True))


def all_batches(run: TopDownRun, level: str, lower: str) -> list[tuple[ProductName, str, int, int]]:
    """Return the batches of every product and state: product, state, first geounit, last + 1."""
    return [
        (product, state, first, last)
        for product, state in run.product_states
        for first, last in batches(run.spine(product, state), level, lower)
    ]
