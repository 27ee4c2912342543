"""Conventional, AIAN and optimized spines from the blocks of a run (paper, sections 1, 4 and 6)."""

from __future__ import annotations

import numpy as np

from spine.allocations import Allocation
from spine.bypass import bypass
from spine.entities import aian_part, block_group_key, is_strong_mcd
from spine.entities import entities as entities_of
from spine.geography import BoolArray, Geography, IntArray
from spine.groups import group_starts, size_cap, with_tract_groups
from spine.hierarchy import Spine, changes
from spine.settings import SpineSettings

Keys = dict[str, tuple[IntArray | BoolArray, ...]]  # by level
CONVENTIONAL = ("US", "State", "County", "Tract", "Block_Group", "Block")


def conventional(geography: Geography, settings: SpineSettings) -> Spine:
    """Return the spine of US (or PR), state, county, tract, tabulation block group, block."""
    return _tabulation(geography, np.zeros(len(geography), bool), settings)


def aian(geography: Geography, settings: SpineSettings) -> Spine:
    """Return the conventional spine with every geounit from the state down split into its AIAN part and the rest."""
    return _tabulation(geography, aian_part(geography, settings), settings)


def optimized(geography: Geography, settings: SpineSettings) -> Spine:
    """Return the spine that Algorithm 2 makes of the AIAN spine, before any bypass and without shares.

    Raises ValueError if the settings name a column that the geography lacks.
    """
    part = aian_part(geography, settings)
    county = county_codes(geography, part, settings)
    families = [name for name in settings.entities if name != "gq" or geography.gq is not None]
    entities = [_required(block_group_key(geography, name, settings), name) for name in families]
    if "Prim" in settings.levels:
        return _by_prim(geography, settings, part, county, entities)
    order = np.lexsort((geography.geocode, *entities[::-1], geography.tract, county, part, geography.state))
    upper = _upper(geography.state[order], part[order], county[order], settings.levels)
    begins = _nested(upper | {"Tract": (geography.tract[order],)})
    begins["Block_Group"] = _block_groups(begins["Tract"], tuple(code[order] for code in entities), settings)
    spine = _spine(order, begins, tuple(level for level in settings.levels if level != "Tract_Group"))
    if "Tract_Group" not in settings.levels:
        return spine
    measured = [entities_of(geography, name, settings) for name in settings.objective]
    return with_tract_groups(spine, [family for family in measured if family is not None], settings)


def measured_spine(
    kind: str, geography: Geography, settings: SpineSettings, allocation: Allocation, *, root: bool
) -> Spine:
    """Return the spine of a kind with the shares of an allocation, with or without its root; bypassed if optimized."""
    spine = {"conventional": conventional, "aian": aian, "optimized": optimized}[kind](geography, settings)
    spine = spine.with_shares(dict(allocation.on(spine.levels).levels))
    if not root:
        spine = spine.without_root()
    return bypass(spine, settings) if kind == "optimized" else spine


def _by_prim(
    geography: Geography, settings: SpineSettings, part: BoolArray, county: IntArray, entities: list[IntArray]
) -> Spine:
    """Return the DHC spine: county, prim, tract subset group, tract subset, optimized block group."""
    prim = _required(geography.prim, "prim")
    area = block_group_key(geography, "aian", settings)
    assert area is not None
    subset_area = area if settings.subset_by_aian_area else np.zeros(len(geography), np.int64)
    # Grouping by OSE needs the tract subsets of one AIAN area to be adjacent; the programs keep the order of tracts.
    first, second = (
        (subset_area, geography.tract) if settings.subset_groups_by_entity else (geography.tract, subset_area)
    )
    order = np.lexsort((geography.geocode, *entities[::-1], second, first, prim, county, part, geography.state))
    upper = _upper(geography.state[order], part[order], county[order], settings.levels)
    begins = _nested(upper | {"Prim": (prim[order],), "Tract_Subset": (first[order], second[order])})
    begins["Tract_Subset_Group"] = _subset_groups(begins, subset_area[order], settings)
    begins["Block_Group"] = _block_groups(begins["Tract_Subset"], tuple(code[order] for code in entities), settings)
    return _spine(order, begins, settings.levels)


def _subset_groups(begins: dict[str, BoolArray], area: IntArray, settings: SpineSettings) -> BoolArray:
    """Return where tract subset groups begin: runs of subsets inside a prim (in the paper, inside an AIAN OSE)."""
    subsets = np.flatnonzero(begins["Tract_Subset"])
    prim = (np.cumsum(begins["Prim"]) - 1)[subsets]
    cap = size_cap(np.bincount(prim), settings.fanout_cutoff, settings.cap_extra)[prim]
    classes = (area[subsets],) if settings.subset_groups_by_entity else ()
    result = np.zeros(len(area), bool)
    result[subsets[group_starts(prim, classes, cap, settings.division)]] = True
    return result


def _block_groups(begins: BoolArray, classes: tuple[IntArray, ...], settings: SpineSettings) -> BoolArray:
    tract = np.cumsum(begins) - 1
    cap = size_cap(np.bincount(tract), settings.fanout_cutoff, settings.cap_extra)[tract]
    return group_starts(tract, classes, cap, settings.division)


def _tabulation(geography: Geography, part: BoolArray, settings: SpineSettings) -> Spine:
    levels = CONVENTIONAL if settings.jurisdiction == "us" else CONVENTIONAL[1:]
    county = county_codes(geography, part, settings)
    order = np.lexsort((geography.geocode, county, part, geography.state))
    upper = _upper(geography.state[order], part[order], county[order], levels)
    finer = {"Tract": (geography.tract[order],), "Block_Group": (geography.block_group[order],)}
    return _spine(order, _nested(upper | finer), levels)


def county_codes(geography: Geography, part: BoolArray, settings: SpineSettings) -> IntArray:
    """Return county codes inside a state; AIAN areas count as counties where the settings redefine them."""
    plain = 10**4 + geography.county % 1000  # the programs write '1', '0' and the county code, or '0' and AIANNHCE
    if settings.redefine_counties == "nowhere":
        return plain
    where = part if settings.redefine_counties == "everywhere" else part & is_strong_mcd(geography, settings)
    return np.where(where, geography.aiannh.astype(np.int64), plain)


def _upper(state: IntArray, part: BoolArray, county: IntArray, levels: tuple[str, ...]) -> Keys:
    """Return the keys of the levels down to the counties; state, part, county: by block in spine order."""
    top: Keys = {"US": (np.zeros(len(state), np.int64),)} if "US" in levels else {}
    return top | {"State": (state, part), "County": (county,)}


def _nested(keys: Keys) -> dict[str, BoolArray]:
    """Return where the geounits of each level begin; keys: distinct among the children of each parent."""
    begins: dict[str, BoolArray] = {}
    above: BoolArray | None = None
    for level, key in keys.items():
        here = changes(*(np.asarray(k, np.int64) for k in key))
        above = here if above is None else above | here
        begins[level] = above
    return begins


def _spine(order: IntArray, begins: dict[str, BoolArray], levels: tuple[str, ...]) -> Spine:
    starts = tuple(np.flatnonzero(begins[level]) for level in levels[:-1])
    starts = (*starts, np.arange(len(order)))
    return Spine(levels, order, starts, tuple(np.zeros(len(s), np.int64) for s in starts), 1)


def _required(column: IntArray | None, name: str) -> IntArray:
    if column is None:
        raise ValueError(f"the settings ask for '{name}', which this geography does not have")
    return column
