"""The estimates of a run or of published measurements, as their batches were saved."""

from __future__ import annotations

import spine.top_down as engine
from spine.top_down import Estimates, joined
from tasks.lifecycle.files import complete, load_object
from tasks.top_down.run import load_histograms
from tasks.top_down.run_plan import ProductName
from tasks.top_down.source import Source

SOLVES = "solves"
FIRST = "0000000"  # the name of a batch that starts at the first geounit


def load_solves(source: Source, product: ProductName, state: str) -> list[engine.Solve]:
    """Read how the parents of a state, or (US) of the nation, were solved; a truth solves none."""
    folder = source.estimates_folder(product, state, SOLVES)
    paths = complete(folder) if folder.exists() else []
    return [solve for path in paths for solve in load_object(path, list[engine.Solve])]


def load_estimates(
    source: Source, product: ProductName, state: str, level: str, first: int = 0, last: int | None = None
) -> Estimates:
    """Read the estimates of the geounits first ... last - 1 of a level, or of all of them."""
    paths = complete(source.estimates_folder(product, state, level))
    spine = source.spine(product, state)
    number = len(spine.starts[spine.levels.index(level)])
    starts = [int(path.name) for path in paths]
    parts = []
    for path, start, end in zip(paths, starts, [*starts[1:], number], strict=True):
        low, high = max(first, start), min(number if last is None else last, end)
        if low < high:
            parts.append(load_histograms(path, Estimates, low - start, high - start))
    return joined(parts)
