"""Margins of error: of every total and table cell the unbiased estimate and its standard error (estimator gls).

Made of noisy answers and declared invariants alone, so they cost no budget. Runs of tracts are worked on apart, each
from the blocks up; what they say of places and other entities off the spine is joined state by state.

```
noisy/PRODUCT/SS/margins/LEVEL/FIRST    estimates and standard errors of a run of geounits; FAMILY/all, of entities
noisy/PRODUCT/SS/meets/FAMILY/FIRST     where entities meet a run of tracts (`spine.top_down.entity_sums`)
noisy/PRODUCT/US/states                 whole states, where the US level is measured
```
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spine.entities import entities
from spine.geography import IntArray
from spine.top_down import Measure
from spine.top_down.histogram import Histograms
from spine.workload import FloatArray
from tasks.lifecycle.files import complete, open_array, save_arrays, unless_done
from tasks.lifecycle.workers import Workers
from tasks.top_down.estimate.batches import batches
from tasks.top_down.gls.pass_up import above_counties, load_information
from tasks.top_down.measure.measuring import open_measuring
from tasks.top_down.run import TopDownRun
from tasks.top_down.run_plan import US, ProductName

if TYPE_CHECKING:
    from spine.top_down import Information, Plan
    from spine.top_down.blue import Blue
    from spine.top_down.columns import Columns
    from spine.top_down.entity_sums import Regressed

TABULATED = {"county": "County", "tract": "Tract", "cbg": "Block_Group"}  # families that are tabulation geounits
ENTITIES = ("place", "mcd", "aian")
RACES = ("white", "black", "AIAN", "Asian", "NHPI", "some other race", "two or more races")
ALL = "all"
MARGINS = "margins"
Z = 1.96  # standard errors on either side of a 95% interval


@lru_cache(maxsize=2)
def columns_of(product: ProductName) -> Columns:
    """The totals and table cells that get a margin."""
    from spine.top_down.columns import occupied_column, person_columns

    if product == "units":
        return occupied_column("occupied")
    types, both, races = range(8), (0, 1), range(63)
    race = [range(at, at + 1) for at in range(6)] + [range(6, 63)]
    return person_columns(
        [
            ("total", types, both, both, races),
            ("voting age", types, (1,), both, races),
            ("Hispanic", types, both, (1,), races),
            *((f"race: {name}", types, both, both, of) for name, of in zip(RACES, race, strict=True)),
            *((f"voting age by race: {name}", types, (1,), both, of) for name, of in zip(RACES, race, strict=True)),
            *((f"group quarters: type {t}", (t,), both, both, races) for t in types[1:]),
        ]
    )


def find_margins(run: TopDownRun, workers: Workers) -> None:
    """Find the margins of every product and state, once everything is passed up."""
    each = [(product, state) for product in run.design.products for state in run.validated.states]
    pieces = [(*of, *piece) for of in each for piece in batches(run.spine(*of), "Tract", "Block")]
    workers.map("margins", run, below_tracts, pieces)
    workers.map("margins of states", run, above_tracts, each)


def save_states(run: TopDownRun, product: ProductName, nation: Plan, known: tuple[Information, ...]) -> None:
    """Keep what the nation's measurement adds to every state; known: of the nation and the states' parts."""
    from spine.top_down.blue import blue_nation, blue_states

    if known:
        states = blue_states(nation, known[1], blue_nation(nation, known[0]))
        save_arrays(_states_at(run, product), {"x": states.x, "variance": states.variance})


def _states_at(run: TopDownRun, product: ProductName) -> Path:
    return run / f"noisy/{product}/{US}/states"


def margins_folder(run: TopDownRun, product: ProductName, state: str, name: str) -> Path:
    """Where margins lie, by level or family."""
    return run / f"noisy/{product}/{state}/{MARGINS}/{name}"


def _meets_folder(run: TopDownRun, product: ProductName, state: str, family: str) -> Path:
    return run / f"noisy/{product}/{state}/meets/{family}"


def families(run: TopDownRun, product: ProductName, state: str) -> dict[str, tuple[IntArray, IntArray]]:
    """The codes of every family's entities, and the entity of each block in the spine's order (-1 outside all)."""
    blocks, order, found = run.state(state), run.spine(product, state).order, {}
    for name in (*TABULATED, *ENTITIES):
        family = entities(blocks.geography, name, run.design.settings[product])
        if family is not None and not family.outside.all():
            of = np.where(family.outside[family.of_block], -1, family.of_block)
            found[name] = family.codes, of[order]
    return found


class _Upper(NamedTuple):
    """The estimates of a whole state, its parts and counties; and what parts and counties say."""

    whole: Blue
    parts: Blue
    counties: Blue
    of_parts: Information
    of_counties: Information


def _upper(run: TopDownRun, product: ProductName, state: str, plan: Plan, measure: Measure) -> _Upper:
    from spine.top_down.blue import STATES, Blue, blue_children, blue_roots, blue_states

    of_parts, of_counties = above_counties(run, product, state, plan, measure)
    if run.validated.nation:
        at = run.validated.states.index(state)
        x, variance = (np.array(open_array(_states_at(run, product), name)) for name in ("x", "variance"))
        whole = Blue(STATES, 0, x[at : at + 1], variance[at : at + 1])
    else:
        whole = blue_states(plan, of_parts)
    parts = blue_roots(plan, of_parts, whole)
    return _Upper(whole, parts, blue_children(plan, parts, of_counties), of_parts, of_counties)


def below_tracts(run: TopDownRun, product: ProductName, state: str, first: int, last: int) -> None:
    """Save the margins of the tracts first ... last - 1 and their block groups, and where entities meet the tracts."""

    def make() -> None:
        measure = open_measuring(run, product, state)  # before what imports numba
        from spine.top_down.blue import blue_children, said
        from spine.top_down.entity_sums import joined, of_blocks, of_children
        from spine.top_down.tree import information_joined
        from spine.top_down.upward import above, own

        plan, columns = measure.plan, columns_of(product)
        levels, of_family = plan.spine.levels, families(run, product, state)
        tract, group, block = (levels.index(name) for name in ("Tract", "Block_Group", "Block"))
        counties = _upper(run, product, state, plan, measure).counties
        county = plan.spine.parents[tract][[first, last - 1]] + (0, 1)
        of_county = plan.first_child[tract - 1][county]
        told = load_information(run, product, state, "Tract", *of_county.tolist())
        tracts = blue_children(plan, counties.only(*county.tolist()), told).only(first, last)

        begin, end = plan.first_child[tract][[first, last]].tolist()
        groups: list[Information] = []
        meets: dict[str, list[Regressed]] = {name: [] for name in of_family}
        for here, after in plan.runs(group, begin, end):
            bounds = plan.first_child[group][[here, after]].tolist()
            blocks = own(plan, measure, block, *bounds)
            groups.append(above(plan, measure, blocks, here, after))
            given = said(plan, group, here, after, blocks)
            for name, (_, of) in of_family.items():
                meets[name].append(of_blocks(columns, given, here, of[slice(*bounds)]))
        told = information_joined(groups)
        given = said(plan, tract, first, last, told)
        for name, parts in meets.items():
            found = of_children(columns, given, first, begin, joined(parts))
            save_arrays(_meets_folder(run, product, state, name) / f"{first:07d}", found.arrays)
        _save(run, product, state, "Tract", columns, tracts)
        _save(run, product, state, "Block_Group", columns, blue_children(plan, tracts, told), first)

    unless_done(margins_folder(run, product, state, "Block_Group") / f"{first:07d}", make)


def above_tracts(run: TopDownRun, product: ProductName, state: str) -> None:
    """Save the margins of a state's parts and counties, and of its entities off the spine."""

    def make() -> None:
        measure = open_measuring(run, product, state)  # before what imports numba
        from spine.top_down.blue import STATES, said
        from spine.top_down.entity_sums import entity_estimates, joined, of_children

        plan, columns = measure.plan, columns_of(product)
        county = plan.spine.levels.index("County")
        upper = _upper(run, product, state, plan, measure)
        meets: dict[str, list[Regressed]] = {name: [] for name in families(run, product, state)}
        tracts = {name: _meets(run, product, state, name) for name in meets}
        for first, last in batches(plan.spine, "County", "Tract"):
            begin, end = plan.first_child[county][[first, last]].tolist()
            given = said(plan, county, first, last, load_information(run, product, state, "Tract", begin, end))
            for name, found in tracts.items():
                meets[name].append(of_children(columns, given, first, begin, found.only(begin, end)))
        of_parts = said(plan, 0, 0, len(upper.parts), upper.of_counties)
        of_state = said(plan, STATES, 0, 1, upper.of_parts)
        for name, parts in meets.items():
            top = of_children(columns, of_state, 0, 0, of_children(columns, of_parts, 0, 0, joined(parts)))
            entity, estimate, error, cut = entity_estimates(columns, upper.whole, top)
            arrays = {"entity": entity, "estimate": estimate, "error": error, "cut": cut}
            save_arrays(margins_folder(run, product, state, name) / ALL, arrays)
        _save(run, product, state, "State", columns, upper.parts)
        _save(run, product, state, "County", columns, upper.counties)

    unless_done(margins_folder(run, product, state, "County") / "0000000", make)


def _meets(run: TopDownRun, product: ProductName, state: str, family: str) -> Regressed:
    from spine.top_down.entity_sums import NAMES, from_arrays, joined

    paths = complete(_meets_folder(run, product, state, family))
    return joined([from_arrays({name: np.array(open_array(path, name)) for name in NAMES}) for path in paths])


def _save(
    run: TopDownRun,
    product: ProductName,
    state: str,
    level: str,
    columns: Columns,
    found: Blue,
    piece: int | None = None,
) -> None:
    """Save estimates and standard errors of a run of geounits, under its first or the number of its piece."""
    arrays = {"estimate": columns.sums(found.x), "error": np.sqrt(columns.variances(found.variance))}
    at = found.first if piece is None else piece
    save_arrays(margins_folder(run, product, state, level) / f"{at:07d}", arrays)


@dataclass(frozen=True)
class Margins:
    """Unbiased estimates and standard errors of a level's geounits, or of a family's entities.

    entity: (n,) which of a family's entities; None for all geounits of a level. estimate, error: (n, K) by column.
    cut: (n,) how many block groups of the spine an entity holds in part: 0 for a geounit.
    """

    entity: IntArray | None
    estimate: FloatArray
    error: FloatArray
    cut: IntArray

    def only(self, at: IntArray) -> Margins:
        """Some of them."""
        entity = None if self.entity is None else self.entity[at]
        return Margins(entity, self.estimate[at], self.error[at], self.cut[at])


def load_margins(run: TopDownRun, product: ProductName, state: str, name: str) -> Margins | None:
    """The margins of a level or family, None where there are none."""
    folder = margins_folder(run, product, state, name)
    if not folder.exists():
        return None
    paths = complete(folder)
    estimate, error = (np.concatenate([open_array(path, of) for path in paths]) for of in ("estimate", "error"))
    if paths[0].name != ALL:
        return Margins(None, estimate, error, np.zeros(len(error), np.int64))
    entity, cut = (np.array(open_array(paths[0], of)) for of in ("entity", "cut"))
    return Margins(entity, estimate, error, (cut > 0).astype(np.int64))


def counted(found: Histograms, columns: Columns) -> IntArray:
    """(geounits, K) the columns of histograms."""
    sums = np.zeros((len(found), len(columns)), np.int64)
    np.add.at(sums, found.row, columns.cells[found.cell] * found.count[:, None])
    return sums
