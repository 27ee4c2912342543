"""Pass information up the spine: sum up, geounit by geounit, everything that was measured in it and below it.

One pass, which asks for every answer once, serves estimates, margins of error and areas: it keeps the information of
geounits above the blocks, and what sums of blocks follow from (tree.py). It is made of noisy answers and declared
invariants alone, so it costs no budget.

```
noisy/PRODUCT/SS/up/LEVEL/FIRST    information of a batch of geounits
```
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spine.gls.grid import STATES
from tasks.lifecycle.files import complete, open_array, save_arrays
from tasks.lifecycle.workers import Workers
from tasks.top_down.estimate.gls.margin_tables import columns_of
from tasks.top_down.estimate.gls.tree import keep_siblings, keep_whole, tree_folder
from tasks.top_down.estimate.topdown import FIRST, all_batches
from tasks.top_down.run_plan import US, ProductName
from tasks.top_down.source import Source

if TYPE_CHECKING:
    from spine.gls.information import Information
    from spine.gls.upward import Seen
    from spine.top_down import Plan


def pass_up(source: Source, workers: Workers, *, groups: bool = False, areas: bool = True) -> None:
    """Pass the measurements of every product and state up to the state's parts.

    groups: whether to keep the block groups' information, which an estimate needs. areas: whether to keep what sums of
    blocks follow from.
    """
    batches = [(*batch, groups, areas) for batch in all_batches(source, source.descents[-1])]
    workers.map("pass up", source, up_to_tracts, batches)
    workers.map("pass up states", source, up_to_roots, [(*pair, areas) for pair in source.product_states])


def up_to_tracts(
    source: Source, product: ProductName, state: str, first: int, last: int, groups: bool, areas: bool
) -> None:
    """Save the information of the tracts first ... last - 1, and keep what is below them.

    Tracts are the level from which the last stage of an estimate begins.
    """
    tract = source.descents[-1].level
    if (information_folder(source, product, state, tract) / f"{first:07d}").exists():
        return
    from spine.gls import upward  # imports numba

    answers = source.answers(product, state)
    plan = answers.plan
    keep = {"seen": _keeper(source, product, state, plan)} if areas else {}
    passed = upward.pass_up(plan, answers, plan.spine.levels.index(tract), first, last, **keep)
    for information in reversed(passed[: 1 + groups]):
        save_information(source, product, state, plan, information)


def up_to_roots(source: Source, product: ProductName, state: str, areas: bool) -> None:
    """Save the information of a state's counties and parts, and keep what is above the tracts.

    US: that of the nation, from all states' parts.
    """
    answers = source.answers(product, state)
    plan = answers.plan
    if (information_folder(source, product, state, plan.spine.levels[0]) / FIRST).exists():
        return
    from spine.gls import upward  # imports numba

    name = "State" if state == US else source.descents[-1].level
    number = plan.spine.levels.index(name)
    below = load_information(source, product, state, name, 0, len(plan.spine.starts[number]))
    keep = _keeper(source, product, state, plan) if areas else None
    passed = upward.pass_up_above(plan, answers, below, *([] if keep is None else [keep]))
    if keep is not None:
        keep(STATES, 0, len(plan.bounds.lowest_totals.values), passed[0])
        keep_whole(tree_folder(source, state) / product, plan, passed[0])
    for information in reversed(passed[:number]):
        save_information(source, product, state, plan, information)


def _keeper(source: Source, product: ProductName, state: str, plan: Plan) -> Seen:
    folder, columns = tree_folder(source, state) / product, columns_of(product, source.design.pl94)
    return partial(keep_siblings, folder, plan, columns)


def information_folder(source: Source, product: ProductName, state: str, level: str) -> Path:
    """Return where the information of a level is saved, in batches by their first geounit."""
    return source / f"noisy/{product}/{state}/up/{level}"


def save_information(source: Source, product: ProductName, state: str, plan: Plan, information: Information) -> None:
    """Save the information of a batch of geounits."""
    folder = information_folder(source, product, state, plan.spine.levels[information.level])
    arrays = {"linear": information.linear, "precision": information.precision}
    save_arrays(folder / f"{information.first:07d}", {"at": np.array([information.level]), **arrays})


def load_information(
    source: Source, product: ProductName, state: str, level: str, first: int, last: int
) -> Information:
    """Read the information of the geounits first ... last - 1 of a level; of the nation's states, all their parts."""
    from spine.gls import information

    if (state, level) == (US, "State"):  # kept with each state, where they are the first level
        parts = [load_information(source, product, name, level, 0, last) for name in source.validated.states]
        return replace(information.information_joined(parts), level=1)
    parts = []
    for path in complete(information_folder(source, product, state, level)):
        start = int(path.name)
        linear, precision = open_array(path, "linear"), open_array(path, "precision")
        low, high = max(first, start), min(last, start + len(linear))
        if low < high:
            rows = slice(low - start, high - start)
            index = int(open_array(path, "at")[0])
            parts.append(information.Information(index, low, np.array(linear[rows]), np.array(precision[rows])))
    return information.information_joined(parts)
