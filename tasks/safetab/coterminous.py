"""Coterminous regions: regions of several types with the same blocks (paper 5.3.3), and Algorithm 4.

The sets of coterminous regions are public and found before any charge. Within a set, all groups of an iteration get the
same numbers: a recipient copies the donor's table, with its detail; an estimate keeps its margin and whether it was
dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from spine.settings import Jurisdiction
from tasks.errors import Refused
from tasks.geography.grf_c import NOWHERE, RegionMap
from tasks.geography.regions import REGION_TYPES
from tasks.lifecycle.files import save_arrays, save_object
from tasks.lifecycle.workers import Workers
from tasks.records.files import digest_file, unchanged
from tasks.records.tables import read_table
from tasks.safetab.domain import load_domain
from tasks.safetab.group_tables import GroupTables, final_folders
from tasks.safetab.levels import ITERATION_LEVELS, Level
from tasks.safetab.run import COTERMINOUS, SafeTabRun

LIST_COLUMNS = ("SET", "REGION_TYPE", "REGION_ID")
ALL_TYPES = {region_type for region_types in REGION_TYPES.values() for region_type in region_types}


def save_sets(
    run: SafeTabRun, jurisdiction: Jurisdiction, *, enabled: bool, listed: str | None, digest: object = None
) -> None:
    """Find and save the sets of coterminous regions, before the reservation: a faulty list costs nothing.

    Each try finds them again, because the list may have changed; the reservation of a run refuses a changed list.

    Raises Refused as `find_sets`, and if the list's digest is not `digest`, which the release will name.
    """
    path = listed if enabled else None
    with unchanged([path] if path else []):
        sets = find_sets(run, jurisdiction, path) if enabled else {}
        read = digest_file(path) if path else None
    if path and digest not in (None, read):
        raise Refused(f"{path} changed while it was read")
    save_object(run / COTERMINOUS, sets)


def find_sets(run: SafeTabRun, jurisdiction: Jurisdiction, listed: str | None = None) -> dict[str, NDArray[np.int64]]:
    """Return, by region type, the coterminous set of each region, -1 for a region without one. Public.

    Raises Refused if the list names an unknown region or puts two regions of one type into a set.
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
    """Return whether blocks, given by number, are water only (block code 0xxx, tract 9900xx; paper 5.3.3)."""
    water: NDArray[np.bool_] = (blocks % 10_000 < 1_000) | (blocks // 1_000_000 % 10_000 == 9_900)
    return water


def _equal_pairs(
    geography: RegionMap, region_types: tuple[str, ...], offsets: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield pairs of regions of two types that hold the same land blocks: both have as many as they share."""
    regions, blocks = _runs(geography, region_types)
    count = {name: len(geography.region_ids[name]) for name in region_types}
    somewhere = {name: regions[name] != NOWHERE for name in region_types}
    sizes = {name: np.bincount(regions[name][there], blocks[there], count[name]) for name, there in somewhere.items()}
    for (i, first), (j, second) in combinations(enumerate(region_types), 2):
        both = somewhere[first] & somewhere[second]
        place = regions[first][both], regions[second][both]
        shared = sparse.coo_array((blocks[both], place), shape=(count[first], count[second]))
        shared.sum_duplicates()
        row, column = shared.coords
        same = (shared.data == sizes[first][row]) & (shared.data == sizes[second][column])
        yield row[same].astype(np.int64) + offsets[i], column[same].astype(np.int64) + offsets[j]


def _runs(
    geography: RegionMap, region_types: tuple[str, ...]
) -> tuple[dict[str, NDArray[np.integer]], NDArray[np.int64]]:
    """Cut the land blocks into runs within one region of every type; return the regions and the number of blocks."""
    land = np.flatnonzero(~is_water(geography.blocks))
    region_of = {name: geography.region_of[name][land] for name in region_types}
    begins = np.arange(len(land)) == 0
    for regions in region_of.values():
        begins[1:] |= regions[1:] != regions[:-1]
    starts = np.flatnonzero(begins)
    return {name: regions[starts] for name, regions in region_of.items()}, np.diff(starts, append=len(land))


def _listed_pairs(
    path: str, geography: RegionMap, region_types: tuple[str, ...], offsets: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield pairs from the curator's list, a pipe-delimited table of SET, REGION_TYPE and REGION_ID."""
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


# -- Algorithm 4 -------------------------------------------------------------------------------------------------------


def equate_coterminous(
    run: SafeTabRun, workers: Workers, jurisdiction: Jurisdiction, kinds: Sequence[type[GroupTables]]
) -> None:
    """Give all groups of a coterminous set the donor's table; write the final tables of every level."""
    halves = [(jurisdiction, iteration_level, kind) for iteration_level in ITERATION_LEVELS for kind in kinds]
    workers.map("coterminous", run, equate, halves)


def equate(run: SafeTabRun, jurisdiction: Jurisdiction, iteration_level: int, kind: type[GroupTables]) -> None:
    """Write the final tables of a kind, for the levels of one iteration level that have them.

    The donor of a group is the first level, in the order R, that published it.
    """
    configuration = run.parameters.configuration
    levels = [
        level
        for level in configuration.levels(jurisdiction)
        if level.iteration_level == iteration_level and configuration.budgets[kind.BUDGET][level] != 0
    ]
    if all(folder.exists() for level in levels for folder in final_folders(run, level, kind)):
        return
    pieces = {level: load_domain(run, level).pieces() for level in levels}
    made = {level: [run.noisy_folder(level, kind.MADE, first) for first, _ in pieces[level]] for level in levels}
    sides = [_read_side(run, level, kind, made[level]) for level in levels]
    recipients = _recipients(sides)
    for place, side in enumerate(sides):
        given = _given(sides, recipients[recipients["place"] == place], side.codes)
        for source, (first, last) in zip(made[side.level], pieces[side.level], strict=True):
            inside = np.arange(*np.searchsorted(given.group, np.array([first, last]) * len(side.codes)))
            folder = run.noisy_folder(side.level, kind.FINAL, first)
            if not folder.exists():
                _write_final(source, folder, given.take(inside))


@dataclass(frozen=True)
class _Side:
    """A level while coterminous groups are equated.

    codes: those of its iterations. set_of: the set of each region. tables: the published groups in coterminous regions,
    a small part of all.
    """

    level: Level
    codes: NDArray[np.str_]
    set_of: NDArray[np.int64]
    tables: GroupTables


def _read_side(run: SafeTabRun, level: Level, kind: type[GroupTables], folders: Sequence[Path]) -> _Side:
    domain = load_domain(run, level)
    nowhere = np.full(len(domain.region_ids), NOWHERE, np.int64)
    set_of = run.coterminous_sets.get(level.region_type, nowhere)
    parts = [kind.load([])]
    for folder in folders if (set_of != NOWHERE).any() else ():
        piece = kind.load([folder])
        region = piece.group // len(domain.iterations)
        parts.append(piece.take(np.flatnonzero(set_of[region] != NOWHERE)))
    return _Side(level, np.array(domain.iteration_codes, str), set_of, kind.join(parts))


def _recipients(sides: Sequence[_Side]) -> pd.DataFrame:
    """Return the groups that copy the table of a donor: the first level, in the order R, that published theirs."""
    published, members = [], []
    for place, side in enumerate(sides):
        region, position = np.divmod(side.tables.group, len(side.codes))
        groups = {"set": side.set_of[region], "code": side.codes[position], "donor": place, "row": range(len(region))}
        published.append(pd.DataFrame(groups))
        regions = np.flatnonzero(side.set_of != NOWHERE)
        members.append(pd.DataFrame({"set": side.set_of[regions], "place": place, "region": regions}))
    donors = pd.concat(published).drop_duplicates(["set", "code"])  # the levels are in the order R
    recipients = donors.merge(pd.concat(members), on="set")
    return recipients[recipients["donor"] != recipients["place"]]


def _given(sides: Sequence[_Side], recipients: pd.DataFrame, codes: NDArray[np.str_]) -> GroupTables:
    """Return the tables that the recipients of one level get, sorted by group. codes: its iterations'."""
    kind = type(sides[0].tables)
    parts = [kind.load([])]
    recipients = recipients[recipients["code"].isin(codes)]  # a level gets only groups of its own iterations
    for donor, side in enumerate(sides):
        mine = recipients[recipients["donor"] == donor]
        group = mine["region"].to_numpy() * len(codes) + np.searchsorted(codes, mine["code"].to_numpy(str))
        parts.append(replace(side.tables.take(mine["row"].to_numpy()), group=group))
    joined = kind.join(parts)
    return joined.take(np.argsort(joined.group, kind="stable"))


def _write_final(source: Path, final: Path, given: GroupTables) -> None:
    """Write a piece of a level, in which the given tables replace those of the same groups."""
    published = type(given).load([source])
    if not len(given.group):
        save_arrays(final, published.arrays())
        return
    kept = published.take(np.flatnonzero(~np.isin(published.group, given.group)))
    joined = type(given).join([kept, given])
    save_arrays(final, joined.take(np.argsort(joined.group, kind="stable")).arrays())
