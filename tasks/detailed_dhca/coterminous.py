"""Coterminous geographies (paper 5.3.3, Algorithm 4): regions made of the same blocks get the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from spine.settings import Jurisdiction
from tasks.detailed_dhca.published import Estimated, Published, load_kind, load_published
from tasks.detailed_dhca.run import DetailedRun
from tasks.detailed_dhca.suppression import published_folders
from tasks.inputs.configuration import ITERATION_LEVELS, REGION_TYPES, Level
from tasks.inputs.files import digest_file, unchanged
from tasks.inputs.grf_c import NOWHERE, RegionMap
from tasks.inputs.tables import read_table
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import load_object, save_arrays, save_object, unless_done
from tasks.lifecycle.workers import Workers
from tasks.population_groups.domain import load_domain

LIST_COLUMNS = ("SET", "REGION_TYPE", "REGION_ID")
ALL_TYPES = {region_type for region_types in REGION_TYPES.values() for region_type in region_types}


def equate_coterminous(
    run: DetailedRun,
    workers: Workers,
    jurisdiction: Jurisdiction,
    *,
    enabled: bool,
    listed: str | None,
    estimates: bool = False,
) -> None:
    """Overwrite, in each set of coterminous groups, all but the donor; write the final tables of every level."""
    unless_done(run.coterminous_path, lambda: save_sets(run, jurisdiction, enabled=enabled, listed=listed))
    kinds = (False, True) if estimates else (False,)
    halves = [(jurisdiction, iteration_level, kind) for iteration_level in ITERATION_LEVELS for kind in kinds]
    workers.map("coterminous", run, equate, halves)


def save_sets(
    run: DetailedRun, jurisdiction: Jurisdiction, *, enabled: bool, listed: str | None, digest: object = None
) -> None:
    """Find the sets of coterminous regions; before the budget check, so that a list with a fault costs nothing.

    Found anew in each try, for the list may have changed since; once a run is reserved, the budget check refuses that.

    Raises
    ------
    Refused
        as `find_sets`, and where the list is not the one whose `digest` the release will name.
    """
    path = listed if enabled else None
    with unchanged([path] if path else []):
        sets = find_sets(run, jurisdiction, path) if enabled else {}
        read = digest_file(path) if path else None
    if path and digest not in (None, read):
        raise Refused(f"{path} changed while it was read")
    save_object(run.coterminous_path, sets)


def find_sets(run: DetailedRun, jurisdiction: Jurisdiction, listed: str | None = None) -> dict[str, NDArray[np.int64]]:
    """Per region type, the number of the coterminous set that each region is in, -1 for none. Public.

    Raises
    ------
    Refused
        where the list names an unknown region or puts two regions of one type in a set.
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
    """Water-only blocks by their numbers (block code 0xxx, tract 9900xx): nobody lives there (paper 5.3.3)."""
    water: NDArray[np.bool_] = (blocks % 10_000 < 1_000) | (blocks // 1_000_000 % 10_000 == 9_900)
    return water


def _equal_pairs(
    geography: RegionMap, region_types: tuple[str, ...], offsets: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Pairs of regions of two types that hold the same land blocks.

    A region can only equal the one that holds its first block; it does where the two have as many blocks as both. Runs
    of blocks are few where blocks are many.
    """
    region_of, blocks = _runs(geography, region_types)
    sizes, firsts = {}, {}
    for name in region_types:
        inside = np.flatnonzero(region_of[name] != NOWHERE)
        count = len(geography.region_ids[name])
        sizes[name] = _added_up(region_of[name][inside], blocks[inside], count)
        firsts[name] = np.full(count, NOWHERE)
        firsts[name][region_of[name][inside][::-1]] = inside[::-1]
    for i, first in enumerate(region_types):
        for j, second in enumerate(region_types[i + 1 :], start=i + 1):
            regions = np.flatnonzero(sizes[first])
            if not len(regions):
                continue
            candidate = np.full(len(sizes[first]), NOWHERE)
            candidate[regions] = region_of[second][firsts[first][regions]]
            inside = region_of[first] != NOWHERE
            shared = inside & (region_of[second] != NOWHERE) & (region_of[second] == candidate[region_of[first]])
            both = _added_up(region_of[first][shared], blocks[shared], len(sizes[first]))
            regions = regions[candidate[regions] != NOWHERE]
            same = (both[regions] == sizes[first][regions]) & (both[regions] == sizes[second][candidate[regions]])
            yield regions[same] + offsets[i], candidate[regions[same]] + offsets[j]


def _runs(
    geography: RegionMap, region_types: tuple[str, ...]
) -> tuple[dict[str, NDArray[np.int32]], NDArray[np.int64]]:
    """Cut the land blocks into runs that lie in the same region of every type: their regions, and how many blocks."""
    land = np.flatnonzero(~is_water(geography.blocks))
    begins = np.zeros(len(land), bool)
    begins[:1] = True
    region_of = {name: geography.region_of[name][land] for name in region_types}
    for regions in region_of.values():
        begins[1:] |= regions[1:] != regions[:-1]
    starts = np.flatnonzero(begins)
    return {name: regions[starts] for name, regions in region_of.items()}, np.diff(starts, append=len(land))


def _added_up(region: NDArray[np.int32], blocks: NDArray[np.int64], regions: int) -> NDArray[np.int64]:
    """Return the number of blocks of each region."""
    return np.bincount(region, weights=blocks, minlength=regions).astype(np.int64)


def _listed_pairs(
    path: str, geography: RegionMap, region_types: tuple[str, ...], offsets: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Pairs from a list of the curator's: a pipe-delimited table of SET, REGION_TYPE and REGION_ID."""
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


@dataclass(frozen=True)
class _Side:
    """A level while coterminous groups are equated: its domain by iteration code, its regions' sets, and the published
    groups of its coterminous regions, a small part of them all."""

    level: Level
    codes: NDArray[np.str_]
    set_of: NDArray[np.int64]
    coterminous: Published

    def records(self, place: int) -> pd.DataFrame:
        """Return the published groups of coterminous regions: set, code, place of the level, row."""
        region, position = np.divmod(self.coterminous.group, len(self.codes))
        row = np.arange(len(region))
        return pd.DataFrame({"set": self.set_of[region], "code": self.codes[position], "donor": place, "row": row})

    def members(self, place: int) -> pd.DataFrame:
        """Return the coterminous regions: set, place of the level, region."""
        regions = np.flatnonzero(self.set_of != NOWHERE)
        return pd.DataFrame({"set": self.set_of[regions], "place": place, "region": regions})


def equate(run: DetailedRun, jurisdiction: Jurisdiction, iteration_level: int, estimates: bool = False) -> None:
    """Algorithm 4 for the levels of one iteration level; writes their final tables, piece by piece.

    Estimates are equated as counts are: of the same groups, so with the same donors. A set has its donor's estimate,
    margin and fate in the ancestor test.
    """
    levels = [
        level for level in run.parameters.configuration.levels(jurisdiction) if level.iteration_level == iteration_level
    ]
    if all(folder.exists() for level in levels for folder in final_folders(run, level, estimates)):
        return
    sides = [_side(run, level, estimates) for level in levels]
    recipients = _recipients(sides)
    for place, side in enumerate(sides):
        given = _given(sides, recipients[recipients["place"] == place], side.codes)
        regions = load_domain(run, side.level).pieces()
        sources, finals = _sources(run, side.level, estimates), final_folders(run, side.level, estimates)
        for (first, last), source, final in zip(regions, sources, finals, strict=True):
            inside = np.arange(*np.searchsorted(given.group, np.array([first, last]) * len(side.codes)))
            unless_done(final, partial(_write_final, source, final, given.take(inside)))


def final_folders(run: DetailedRun, level: Level, estimates: bool = False) -> list[Path]:
    """Where the tables of a level lie that will be released, or its estimates, in the order of their groups."""
    folder = run.final_estimates_folder if estimates else run.final_folder
    return [folder(level, first) for first, _ in load_domain(run, level).pieces()]


def load_final(run: DetailedRun, level: Level) -> Iterator[Published]:
    """Return the tables of a level that will be released, a piece of its groups at a time."""
    return (load_published([folder]) for folder in final_folders(run, level))


def load_final_estimates(run: DetailedRun, level: Level) -> Iterator[Estimated]:
    """Return the estimates of a level, those that are dropped too, a piece of its groups at a time."""
    return (load_kind([folder], Estimated) for folder in final_folders(run, level, estimates=True))


def _sources(run: DetailedRun, level: Level, estimates: bool) -> list[Path]:
    if not estimates:
        return published_folders(run, level)
    return [run.estimates_folder(level, first) for first, _ in load_domain(run, level).pieces()]


def _side(run: DetailedRun, level: Level, estimates: bool) -> _Side:
    domain = load_domain(run, level)
    nowhere = np.full(len(domain.region_ids), NOWHERE, np.int64)
    set_of = load_object(run.coterminous_path).get(level.region_type, nowhere)
    kind: type[Published] = Estimated if estimates else Published
    parts = [load_kind([], kind)]
    for folder in _sources(run, level, estimates):
        piece = load_kind([folder], kind)
        region = piece.group // len(domain.iterations)
        parts.append(piece.take(np.flatnonzero(set_of[region] != NOWHERE)))
    return _Side(level, np.array(domain.iteration_codes, str), set_of, kind.join(parts))


def _recipients(sides: list[_Side]) -> pd.DataFrame:
    """Return the groups that take another's data: that of the first level, in the order R, with their iteration."""
    records = pd.concat([side.records(place) for place, side in enumerate(sides)])
    donors = records.drop_duplicates(["set", "code"])  # the levels stand in the order R
    members = pd.concat([side.members(place) for place, side in enumerate(sides)])
    recipients = donors.merge(members, on="set")
    return recipients[recipients["donor"] != recipients["place"]]


def _given(sides: list[_Side], recipients: pd.DataFrame, codes: NDArray[np.str_]) -> Published:
    """Return what the recipients of one level, whose iterations have these codes, are given; sorted by group."""
    kind = type(sides[0].coterminous)
    parts = [load_kind([], kind)]
    recipients = recipients[recipients["code"].isin(codes)]  # a group enters no domain that it is not in
    for donor, side in enumerate(sides):
        mine = recipients[recipients["donor"] == donor]
        group = mine["region"].to_numpy() * len(codes) + np.searchsorted(codes, mine["code"].to_numpy(str))
        data = side.coterminous.take(mine["row"].to_numpy())
        parts.append(replace(data, group=group))
    joined = kind.join(parts)
    return joined.take(np.argsort(joined.group, kind="stable"))


def _write_final(source: Path, final: Path, given: Published) -> None:
    """Write a piece of a level, what was given in the place of what it had."""
    kind = type(given)
    published = load_kind([source], kind)
    kept = published.take(np.flatnonzero(~np.isin(published.group, given.group)))
    joined = kind.join([kept, given])
    save_arrays(final, joined.take(np.argsort(joined.group, kind="stable")).arrays())
