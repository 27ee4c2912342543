"""Save the blocks, living quarters and geounits of one state from the files of its products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spine.geography import NO_AIANNH, NO_COUSUB, NO_PLACE, BadGeography, Geography, IntArray, checked, gq_pattern
from spine.redistricting import HOUSEHOLD
from tasks.lifecycle.files import load_object, save_arrays, save_object
from tasks.records.block_codes import find_blocks
from tasks.records.findings import Finding
from tasks.top_down.blocks import Blocks
from tasks.top_down.published.nmf.census_2020 import as_tabulated
from tasks.top_down.published.nmf.faults import Faults
from tasks.top_down.published.nmf.geounits import StateGeounits, read_geounits, spine_of
from tasks.top_down.published.nmf.source import GEOGRAPHY, NmfSource
from tasks.top_down.release.nmf_layout import LEVELS
from tasks.top_down.run_plan import ProductName

OF_2010 = 8  # digits of a county in the files of the 2010 demonstration


class StateRead(NamedTuple):
    """The result of reading a state's geounits: findings, and the lengths of geocodes by product and level.

    moved: for each measured block that the tables have moved, the block there (`as_tabulated`).
    """

    findings: list[Finding]
    widths: dict[ProductName, tuple[int, ...]]
    housing_units: int = 0
    moved: tuple[tuple[int, int], ...] = ()


def read_state(source: NmfSource, state: str) -> StateRead:
    """Save the blocks of a state and, for each product, its geounits; return findings."""
    inventory, request, totals = source.opened
    faults = Faults()
    read = {product: read_geounits(inventory, product, state, faults) for product in inventory.products}
    found = {product: geounits for product, geounits in read.items() if geounits is not None}
    if len(found) < len(read):
        return StateRead(faults.findings(), {})
    _compare_products(found, state, faults)
    first = found[inventory.products[0]]
    public = np.sort(first.public)
    quarters = first.quarters[np.argsort(first.public)]
    _check_declared(first, quarters, state, totals[int(state)], "persons" in found, faults)
    of_2020 = first.codes[LEVELS.index("County")].shape[1] != OF_2010
    stays = not of_2020 or inventory.written_by is not None or request.check_spine or request.as_measured
    tabulated = public if stays else as_tabulated(public)  # the Bureau moved blocks in water in the tables of 2020
    order = np.lexsort((public, tabulated))  # order of the run's blocks: by the tables' codes
    number = np.argsort(order)
    try:
        geography = _geography(source, state, tabulated, quarters, faults).take(order)
    except BadGeography as error:
        faults.add("geography", str(error))
        return StateRead(faults.findings(), {})
    save_object(source / f"prepared/blocks/{state}", Blocks(geography, quarters[order], totals))
    for product, geounits in found.items():
        spine = spine_of(geounits.codes, number[np.searchsorted(public, geounits.public)])
        save_object(geounits_path(source, product, state), spine)
        save_arrays(source.codes_folder(product, state), {str(n): codes for n, codes in enumerate(geounits.codes)})
    moved = tuple((old, new) for old, new in zip(public.tolist(), tabulated.tolist(), strict=True) if old != new)
    widths = {product: tuple(codes.shape[1] for codes in geounits.codes) for product, geounits in found.items()}
    return StateRead(faults.findings(), widths, int(quarters[:, HOUSEHOLD].sum()), moved)


def geounits_path(source: NmfSource, product: ProductName, state: str) -> Path:
    """Return the path of a state's spine before its shares are known."""
    return source / f"prepared/spine/{product}/{state}.geounits"


def _compare_products(found: Mapping[ProductName, StateGeounits], state: str, faults: Faults) -> None:
    """Report blocks that persons and units do not share, or whose housing units differ."""
    if len(found) < 2:
        return
    persons, units = found["persons"], found["units"]
    (p, p_order), (u, u_order) = ((each.public, np.argsort(each.public)) for each in (persons, units))
    for name, own, other in (("persons", p, u), ("units", u, p)):
        faults.add(
            f"{name}, State={state}", "a block that the other product lacks", _codes16(own[~np.isin(own, other)])
        )
    if np.array_equal(p[p_order], u[u_order]):
        differ = persons.quarters[p_order, HOUSEHOLD] != units.quarters[u_order, HOUSEHOLD]
        rule = "a block whose housing units differ between persons and units"
        faults.add(f"persons and units, State={state}", rule, _codes16(p[p_order][differ]))


def _codes16(public: IntArray) -> list[str]:
    return [f"{code:016d}" for code in public.tolist()]


def _check_declared(
    geounits: StateGeounits, quarters: IntArray, state: str, total: int, persons: bool, faults: Faults
) -> None:
    facilities = int(quarters[:, HOUSEHOLD + 1 :].sum())
    if total < facilities:
        faults.add(f"State={state}", f"a declared population of {total:,}, less than its {facilities:,} group quarters")
    if persons and geounits.totals is not None and int(geounits.totals.sum()) != total:
        own = int(geounits.totals.sum())
        faults.add(
            f"State={state}", f"the files declare a population of {own:,}, not {total:,}: give it with --state-totals"
        )


def _geography(source: NmfSource, state: str, public: IntArray, quarters: IntArray, faults: Faults) -> Geography:
    """Return the blocks with their areas; without a geography, they are outside all areas."""
    n = len(public)
    areas: dict[str, Any] = {
        "place": np.full(n, NO_PLACE, np.int32),
        "cousub": np.full(n, NO_COUSUB, np.int32),
        "aiannh": np.full(n, NO_AIANNH, np.int16),
    }
    path = source / f"{GEOGRAPHY}/{state}"
    if path.exists():
        known = load_object(path, Geography)
        row, there = find_blocks(known.geocode, public)
        for name, column in areas.items():
            column[there] = getattr(known, name)[row[there]]
        if not there.all():
            faults.note(
                f"State={state}",
                f"{int((~there).sum()):,} blocks are missing in the geography and are outside all areas",
            )
    else:
        faults.note("", "places, county subdivisions and AIAN areas need --geography")
    gq = gq_pattern([quarters[:, kind] > 0 for kind in range(1, quarters.shape[1])])
    found = checked(Geography(np.arange(n), areas["place"], areas["cousub"], areas["aiannh"], gq=gq))
    return replace(found, geocode=public)  # two measured blocks may be one in the tables
