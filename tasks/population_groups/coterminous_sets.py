"""The sets of coterminous regions: regions of several types that are made of the same blocks (paper 5.3.3). Public."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from spine.settings import Jurisdiction
from tasks.inputs.files import digest_file, unchanged
from tasks.inputs.grf_c import NOWHERE, RegionMap
from tasks.inputs.regions import REGION_TYPES
from tasks.inputs.tables import read_table
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import save_object
from tasks.population_groups.run import COTERMINOUS, SafeTabRun

LIST_COLUMNS = ("SET", "REGION_TYPE", "REGION_ID")
ALL_TYPES = {region_type for region_types in REGION_TYPES.values() for region_type in region_types}


def save_sets(
    run: SafeTabRun, jurisdiction: Jurisdiction, *, enabled: bool, listed: str | None, digest: object = None
) -> None:
    """Find the sets of coterminous regions; before the reservation, so that a list with a fault costs nothing.

    Each try finds them anew, for the list may have changed; once a run is reserved, the reservation refuses that.

    Raises Refused as `find_sets`, and where the list is not the one whose `digest` the release will name.
    """
    path = listed if enabled else None
    with unchanged([path] if path else []):
        sets = find_sets(run, jurisdiction, path) if enabled else {}
        read = digest_file(path) if path else None
    if path and digest not in (None, read):
        raise Refused(f"{path} changed while it was read")
    save_object(run / COTERMINOUS, sets)


def find_sets(run: SafeTabRun, jurisdiction: Jurisdiction, listed: str | None = None) -> dict[str, NDArray[np.int64]]:
    """Return, by region type, the number of the coterminous set that each region is in, -1 for none. Public.

    Raises Refused where the list names an unknown region or puts two regions of one type in a set.
    """
    geography = run.geography
    region_types = REGION_TYPES[jurisdiction]
    offsets = np.cumsum([0, *(len(geography.region_ids[name]) for name in region_types)])
    pairs = list(_equal_pairs(geography, region_types, offsets))
    if listed:
        pairs += list(_listed_pairs(listed, geography, region_types, offsets))
    rows = np.concatenate([np.zeros(0, np.int64), *(a for a, _ in pairs)])
    columns = np.concatenate([np.zeros(0, np.int64), *(b for _, b in pairs)])
    graph = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(offsets[-1], offsets[-1]))
    _, component = sparse.csgraph.connected_components(graph, directed=False)
    size = np.bincount(component, minlength=1)
    label = np.where(size > 1, np.cumsum(size > 1) - 1, NOWHERE)
    sets = {
        name: label[component[start:stop]].astype(np.int64)
        for name, start, stop in zip(region_types, offsets, offsets[1:], strict=False)
    }
    for name, numbers in sets.items():
        if (np.bincount(numbers[numbers != NOWHERE]) > 1).any():
            raise Refused(f"the list of coterminous regions puts two {name} regions into one set")
    return sets


def is_water(blocks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether blocks are water only, by their numbers (block code 0xxx, tract 9900xx; paper 5.3.3)."""
    water: NDArray[np.bool_] = (blocks % 10_000 < 1_000) | (blocks // 1_000_000 % 10_000 == 9_900)
    return water


def _equal_pairs(
    geography: RegionMap, region_types: tuple[str, ...], offsets: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield pairs of regions of two types that hold the same land blocks: both have as many as they share."""
    runs = _runs(geography, region_types)
    of_type = {name: runs[runs[name] != NOWHERE] for name in region_types}
    sizes = {name: of_type[name].groupby(name)["blocks"].sum() for name in region_types}
    for (i, first), (j, second) in combinations(enumerate(region_types), 2):
        both = of_type[first][of_type[first][second] != NOWHERE]
        shared = both.groupby([first, second])["blocks"].sum().reset_index()
        blocks = shared["blocks"]
        same = shared[(blocks == shared[first].map(sizes[first])) & (blocks == shared[second].map(sizes[second]))]
        yield same[first].to_numpy() + offsets[i], same[second].to_numpy() + offsets[j]


def _runs(geography: RegionMap, region_types: tuple[str, ...]) -> pd.DataFrame:
    """Cut the land blocks into runs in the same region of every type: these regions, and how many `blocks`."""
    land = np.flatnonzero(~is_water(geography.blocks))
    region_of = {name: geography.region_of[name][land] for name in region_types}
    begins = np.arange(len(land)) == 0
    for regions in region_of.values():
        begins[1:] |= regions[1:] != regions[:-1]
    starts = np.flatnonzero(begins)
    return pd.DataFrame({name: regions[starts] for name, regions in region_of.items()}).assign(
        blocks=np.diff(starts, append=len(land))
    )


def _listed_pairs(
    path: str, geography: RegionMap, region_types: tuple[str, ...], offsets: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield pairs from a list of the curator's: a pipe-delimited table of SET, REGION_TYPE and REGION_ID."""
    table, findings = read_table(path, "the list", LIST_COLUMNS)
    if table is None or findings:
        raise Refused(f"{path}: {findings[0].rule}")
    numbers = {
        (name, region_id): number + offset
        for name, offset in zip(region_types, offsets, strict=False)
        for number, region_id in enumerate(geography.region_ids[name])
    }
    first: dict[str, int] = {}
    for row in table.to_pylist():
        if row["REGION_TYPE"] in ALL_TYPES - set(region_types):
            continue  # one list may serve US and Puerto Rico
        node = numbers.get((row["REGION_TYPE"], row["REGION_ID"]))
        if node is None:
            raise Refused(f"{path}: {row['REGION_TYPE']} {row['REGION_ID']} is not a region of this run")
        yield np.array([first.setdefault(row["SET"], node)]), np.array([node])
