"""Pass information up the spine: sum up, geounit by geounit, everything that was measured in it and below it.

Made of noisy answers and declared invariants alone, so it costs no budget. Counties, tracts and the levels between them
are saved; block groups are passed up again by the batch that estimates blocks.

```
noisy/PRODUCT/SS/up/LEVEL/FIRST    information of a batch of geounits
```
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import spine.gls as engine  # its compiled functions are imported at first use: they import numba
from spine.top_down import Measure
from tasks.lifecycle.files import complete, open_array, save_arrays, unless_done
from tasks.top_down.run_plan import ProductName
from tasks.top_down.source import Source

if TYPE_CHECKING:
    from spine.gls import Information
    from spine.top_down import Plan


def information_folder(source: Source, product: ProductName, state: str, level: str) -> Path:
    """Return where the information of a level is saved, in batches by their first geounit."""
    return source / f"noisy/{product}/{state}/up/{level}"


def pass_up(source: Source, product: ProductName, state: str, first: int, last: int) -> None:
    """Save the information of the counties first ... last - 1 and down to their tracts; the counties' last."""

    def make() -> None:
        measuring = source.answers(product, state)
        levels = measuring.plan.spine.levels
        passed = engine.pass_up(measuring.plan, measuring, levels.index("County"), first, last)
        for information in reversed([part for part in passed if part.level <= levels.index("Tract")]):
            folder = information_folder(source, product, state, levels[information.level])
            arrays = {"linear": information.linear, "precision": information.precision}
            save_arrays(folder / f"{information.first:07d}", {"at": np.array([information.level]), **arrays})

    unless_done(information_folder(source, product, state, "County") / f"{first:07d}", make)


def above_counties(
    source: Source, product: ProductName, state: str, plan: Plan, measure: Measure
) -> tuple[Information, ...]:
    """Return the information of a state's parts and of its counties."""
    number = len(plan.spine.starts[plan.spine.levels.index("County")])
    return engine.pass_up_above(plan, measure, load_information(source, product, state, "County", 0, number))


def above_parts(source: Source, product: ProductName, nation: Plan, measure: Measure) -> tuple[Information, ...]:
    """Return the information of the nation and of all states' parts."""
    linear, precision = [], []
    for state in source.validated.states:
        measuring = source.answers(product, state)
        parts = above_counties(source, product, state, measuring.plan, measuring)[0]
        linear.append(parts.linear)
        precision.append(parts.precision)
    level = nation.spine.levels.index("State")
    parts = engine.Information(level, 0, np.concatenate(linear), np.concatenate(precision))
    return engine.pass_up_above(nation, measure, parts)


def load_information(
    source: Source, product: ProductName, state: str, level: str, first: int, last: int
) -> Information:
    """Read the information of the geounits first ... last - 1 of a level."""
    parts = []
    for path in complete(information_folder(source, product, state, level)):
        start = int(path.name)
        linear, precision = open_array(path, "linear"), open_array(path, "precision")
        low, high = max(first, start), min(last, start + len(linear))
        if low < high:
            rows = slice(low - start, high - start)
            index = int(open_array(path, "at")[0])
            parts.append(engine.Information(index, low, np.array(linear[rows]), np.array(precision[rows])))
    return engine.information_joined(parts)
