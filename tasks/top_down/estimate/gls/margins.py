"""Find the margins of error: of every total and table cell the unbiased estimate and its standard error.

Made of noisy answers and declared invariants alone, so they cost no budget. While information passes up a batch of
tracts, the sums over places and other areas in it are kept; they are joined state by state.

```
noisy/PRODUCT/SS/meets/FAMILY/FIRST     the sums over areas of a batch of tracts (`spine.gls.entity_sums`)
noisy/PRODUCT/US/states                 whole states, where the US level is measured
```
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spine.geography import IntArray
from tasks.lifecycle.files import complete, open_array, save_arrays, unless_done
from tasks.lifecycle.workers import Workers
from tasks.top_down.areas import areas
from tasks.top_down.estimate.gls.margin_tables import AREAS, columns_of, margins_folder, save_level
from tasks.top_down.estimate.gls.pass_up import Keeper, load_information, save_information
from tasks.top_down.estimate.topdown import all_batches, batches
from tasks.top_down.input.geography import plan_of
from tasks.top_down.run_plan import US, ProductName
from tasks.top_down.source import Source

if TYPE_CHECKING:
    from spine.gls import Information
    from spine.gls.blue import Blue
    from spine.gls.entity_sums import Regressed
    from spine.top_down import Plan


class MarginsKeeper(Keeper):
    """Keeps what margins need below the tracts: the block groups' information, and the sums over areas."""

    def __init__(self, source: Source, product: ProductName, state: str, plan: Plan) -> None:
        super().__init__(source, product, state, plan)
        self.columns = columns_of(product, source.design.pl94)
        self.families = dict(_families(source, product, state))
        self.meets: dict[str, list[Regressed]] = {family: [] for family in self.families}

    def add(self, level: int, first: int, last: int, children: Information) -> None:
        """Keep the sums over areas of the children's blocks; above the tracts nothing."""
        from spine.gls.blue import sibling_sums
        from spine.gls.entity_sums import joined, of_blocks, of_children

        below = self.plan.spine.levels[children.level]
        if below not in ("Block", "Block_Group"):
            return
        siblings = sibling_sums(self.plan, level, first, last, children)
        for family, area in self.families.items():
            if below == "Block":
                here = area[children.first : children.last]
                self.meets[family].append(of_blocks(self.columns, siblings, first, here))
                continue
            found = of_children(self.columns, siblings, first, children.first, joined(self.meets[family]))
            folder = _meets_folder(self.source, self.product, self.state, family)
            save_arrays(folder / f"{first:07d}", found.arrays)
        if below == "Block_Group":
            save_information(self.source, self.product, self.state, self.plan, children)


def find_margins(source: Source, workers: Workers) -> None:
    """Save the margins of every product and state; information is passed up already."""
    if source.validated.nation:
        workers.map("margins of states", source, of_states, [(product,) for product in source.design.products])
    workers.map("margins", source, below_tracts, all_batches(source, "Tract", "Block"))
    workers.map("margins of states", source, above_tracts, source.product_states)


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


def _meets_folder(source: Source, product: ProductName, state: str, family: str) -> Path:
    return source / f"noisy/{product}/{state}/meets/{family}"


def _families(source: Source, product: ProductName, state: str) -> Iterator[tuple[str, IntArray]]:
    """Yield every family with the area of each block in the spine's order (-1 outside all)."""
    order = source.spine(product, state).order
    design = source.design
    for family in areas(source.state(state).geography, design.settings[product], whole_state=design.pl94):
        yield family.family, family.of_block[order]


class _Upper(NamedTuple):
    """The estimates of a whole state, its parts and counties; and the information of parts and counties.

    Where each part has a declared total, each is as a whole state.
    """

    whole: Blue
    parts: Blue
    counties: Blue
    of_parts: Information
    of_counties: Information


def _upper(source: Source, product: ProductName, state: str, plan: Plan) -> _Upper:
    from spine.gls.blue import STATES, Blue, blue_children, blue_roots, blue_states

    of_parts, of_counties = (
        load_information(source, product, state, level, 0, len(starts))
        for level, starts in zip(plan.spine.levels[:2], plan.spine.starts[:2], strict=True)
    )
    if source.validated.nation:
        row = source.validated.states.index(state)
        x, variance = (np.array(open_array(_states_path(source, product), name)) for name in ("x", "variance"))
        whole = Blue(STATES, 0, x[row : row + 1], variance[row : row + 1])
    else:
        whole = blue_states(plan, of_parts)
    parts = blue_roots(plan, of_parts, whole)
    return _Upper(whole, parts, blue_children(plan, parts, of_counties), of_parts, of_counties)


def below_tracts(source: Source, product: ProductName, state: str, first: int, last: int) -> None:
    """Save the margins of the tracts first ... last - 1 and of their block groups."""

    def make() -> None:
        plan = plan_of(source, product, state)  # before what imports numba
        from spine.gls.blue import blue_children

        tract = plan.spine.levels.index("Tract")
        counties = _upper(source, product, state, plan).counties
        county = plan.spine.parents[tract][[first, last - 1]] + (0, 1)
        tracts_of_counties = plan.first_child[tract - 1][county]
        of_tracts = load_information(source, product, state, "Tract", *tracts_of_counties.tolist())
        tracts = blue_children(plan, counties.only(*county.tolist()), of_tracts).only(first, last)
        of_groups = load_information(source, product, state, "Block_Group", *plan.children_of(tract, first, last))
        save_level(source, product, state, "Tract", tracts)
        save_level(source, product, state, "Block_Group", blue_children(plan, tracts, of_groups), first)

    unless_done(margins_folder(source, product, state, "Block_Group") / f"{first:07d}", make)


def above_tracts(source: Source, product: ProductName, state: str) -> None:
    """Save the margins of a state's parts and counties, and of its areas."""

    def make() -> None:
        plan = plan_of(source, product, state)  # before what imports numba
        from spine.gls.blue import STATES, sibling_sums
        from spine.gls.entity_sums import entity_estimates, joined, of_children

        columns, county = columns_of(product, source.design.pl94), plan.spine.levels.index("County")
        upper = _upper(source, product, state, plan)
        of_tracts = {
            family: _load_meets(source, product, state, family) for family, _ in _families(source, product, state)
        }
        meets: dict[str, list[Regressed]] = {family: [] for family in of_tracts}
        for first, last in batches(plan.spine, "County", "Tract"):
            start, end = plan.first_child[county][[first, last]].tolist()
            siblings = sibling_sums(
                plan, county, first, last, load_information(source, product, state, "Tract", start, end)
            )
            for family, found in of_tracts.items():
                meets[family].append(of_children(columns, siblings, first, start, found.only(start, end)))
        of_parts = sibling_sums(plan, 0, 0, len(upper.parts), upper.of_counties)
        of_state = sibling_sums(plan, STATES, 0, len(upper.whole), upper.of_parts)
        for family, parts in meets.items():
            top = of_children(columns, of_state, 0, 0, of_children(columns, of_parts, 0, 0, joined(parts)))
            area, estimate, error, cut = entity_estimates(columns, upper.whole, top)
            arrays = {"area": area, "estimate": estimate, "error": error, "cut": cut}
            save_arrays(margins_folder(source, product, state, family) / AREAS, arrays)
        save_level(source, product, state, "State", upper.parts)
        save_level(source, product, state, "County", upper.counties)

    unless_done(margins_folder(source, product, state, "County") / "0000000", make)


def _load_meets(source: Source, product: ProductName, state: str, family: str) -> Regressed:
    from spine.gls.entity_sums import NAMES, from_arrays, joined

    paths = complete(_meets_folder(source, product, state, family))
    return joined([from_arrays({name: np.array(open_array(path, name)) for name in NAMES}) for path in paths])
