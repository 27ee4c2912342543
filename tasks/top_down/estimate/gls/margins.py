"""Find the margins of error: of every total and table cell the unbiased estimate and its standard error.

Made of noisy answers and declared invariants alone, so they cost no budget. Those of geounits follow from their
information, those of places and other areas from the tree that was kept (tree.py).

```
noisy/PRODUCT/US/states     whole states, where the US level is measured
```
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spine.gls.entity_sums import entity_estimates
from spine.gls.grid import STATES, Blue
from tasks.lifecycle.files import open_array, save_arrays
from tasks.lifecycle.workers import Workers
from tasks.top_down.areas import FOLDERS, areas
from tasks.top_down.estimate.gls.margin_tables import AREAS, columns_of, margins_folder, save_level
from tasks.top_down.estimate.gls.pass_up import load_information
from tasks.top_down.estimate.gls.tree import Tree, tree_folder
from tasks.top_down.estimate.topdown import FIRST, all_batches
from tasks.top_down.input.geography import plan_of
from tasks.top_down.run_plan import US, ProductName
from tasks.top_down.source import Source

if TYPE_CHECKING:
    from spine.top_down import Plan


def find_margins(source: Source, workers: Workers) -> None:
    """Save the margins of every product and state; information is passed up already."""
    if source.validated.nation:
        workers.map("margins of states", source, of_states, [(product,) for product in source.design.products])
    workers.map("margins", source, below_tracts, all_batches(source, source.descents[-1]))
    workers.map("margins of states", source, above_tracts, source.product_states)
    pairs = source.product_states
    workers.map("margins of areas", source, of_areas, [(*pair, family) for family in FOLDERS for pair in pairs])


def of_states(source: Source, product: ProductName) -> None:
    """Save the estimates of whole states, with the nation's measurement, and the margins of the nation if asked for."""
    plan = plan_of(source, product, US)  # before what imports numba
    from spine.gls.blue import blue_nation, blue_states

    whole = blue_nation(plan, load_information(source, product, US, US, 0, 1))
    states = blue_states(plan, load_information(source, product, US, "State", 0, plan.spine.blocks), whole)
    if source.design.pl94:
        save_level(source, product, US, US, whole)
    save_arrays(_states_path(source, product), {"x": states.x, "variance": states.variance})


def _states_path(source: Source, product: ProductName) -> Path:
    return source / f"noisy/{product}/{US}/states"


def _whole(source: Source, product: ProductName, state: str) -> Blue:
    """Return the estimate of a whole state; where each of its parts has a declared total, each is as a whole state."""
    if not source.validated.nation:
        return Tree(tree_folder(source, state) / product, ()).whole
    row = source.validated.states.index(state)
    x, variance = (np.array(open_array(_states_path(source, product), name)) for name in ("x", "variance"))
    return Blue(STATES, 0, x[row : row + 1], variance[row : row + 1])


def _parts_and_counties(source: Source, product: ProductName, state: str, plan: Plan) -> tuple[Blue, Blue]:
    """Return the estimates of a state's parts and counties."""
    from spine.gls.blue import blue_children, blue_roots

    of_parts, of_counties = (
        load_information(source, product, state, level, 0, len(starts))
        for level, starts in zip(plan.spine.levels[:2], plan.spine.starts[:2], strict=True)
    )
    parts = blue_roots(plan, of_parts, _whole(source, product, state))
    return parts, blue_children(plan, parts, of_counties)


def below_tracts(source: Source, product: ProductName, state: str, first: int, last: int) -> None:
    """Save the margins of the tracts first ... last - 1 and of their block groups."""
    if (margins_folder(source, product, state, "Block_Group") / f"{first:07d}").exists():
        return
    plan = plan_of(source, product, state)  # before what imports numba
    from spine.gls.blue import blue_children

    tract = plan.spine.levels.index("Tract")
    _, counties = _parts_and_counties(source, product, state, plan)
    county = plan.spine.parents[tract][[first, last - 1]] + (0, 1)
    tracts_of_counties = plan.first_child[tract - 1][county]
    of_tracts = load_information(source, product, state, "Tract", *tracts_of_counties.tolist())
    tracts = blue_children(plan, counties.only(*county.tolist()), of_tracts).only(first, last)
    of_groups = load_information(source, product, state, "Block_Group", *plan.children_of(tract, first, last))
    save_level(source, product, state, "Tract", tracts)
    save_level(source, product, state, "Block_Group", blue_children(plan, tracts, of_groups), first)


def above_tracts(source: Source, product: ProductName, state: str) -> None:
    """Save the margins of a state's parts and counties."""
    if (margins_folder(source, product, state, "County") / FIRST).exists():
        return
    parts, counties = _parts_and_counties(source, product, state, plan_of(source, product, state))
    save_level(source, product, state, "State", parts)
    save_level(source, product, state, "County", counties)


def of_areas(source: Source, product: ProductName, state: str, family: str) -> None:
    """Save the margins of a family's areas, if the state has any."""
    design, folder = source.design, margins_folder(source, product, state, family) / AREAS
    of_state = areas(source.state(state).geography, design.settings[product], whole_state=design.pl94)
    of_block = next((found.of_block for found in of_state if found.family == family), None)
    if of_block is None or folder.exists():
        return
    columns, spine = columns_of(product, design.pl94), source.spine(product, state)
    *_, top = Tree(tree_folder(source, state) / product, spine.levels).climb(columns, of_block[spine.order])
    area, estimate, error, cut = entity_estimates(columns, _whole(source, product, state), top)
    save_arrays(folder, {"area": area, "estimate": estimate, "error": error, "cut": cut})
