"""Population groups: the flatmap g_i and the exact counts (paper section 3.2, Algorithm 1 lines 6 to 9).

For a partition of the blocks, let A count persons by (region, cell) x race/ethnicity combination and let G be the 0/1
matrix of combinations x iterations. Then A @ G are the exact counts by (region, cell) x iteration: every combination
is mapped once and no person becomes a row. Everything here is confidential but the partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from spine.settings import Jurisdiction
from tasks.detailed_dhca.domain import AGE23, AGES, load_domain
from tasks.detailed_dhca.person_file import CELLS
from tasks.detailed_dhca.persons import encoded_chunks
from tasks.detailed_dhca.run import DetailedRun
from tasks.inputs.configuration import ITERATION_LEVELS, REGION_TYPES, Level
from tasks.inputs.grf_c import NOWHERE, RegionMap
from tasks.inputs.iterations import KINDS, Granularity
from tasks.lifecycle.files import load_object, open_array, read_part, save_arrays, save_object, stamp, unless_done
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.workers import Workers

MOST_BLOCKS = 50_000  # a partition's size, where the country is large; about 2 million persons
PARTITIONS_PER_WORKER = 4
Persons: TypeAlias = dict[str, NDArray[Any]]
LivesIn: TypeAlias = tuple[NDArray[np.int32], int]  # the region of each block of a partition or NOWHERE; how many
FEWEST_PERSONS = FEWEST_ENTRIES = 1 << 16  # for a kernel; for fewer, numba would take longer than it saves


@dataclass(frozen=True)
class Partition:
    """A range of whole tracts: its blocks, and per region type the range of regions that it touches. Public."""

    blocks: slice
    regions: dict[str, tuple[int, int]]


def count_population_groups(
    run: DetailedRun, workers: Workers, jurisdiction: Jurisdiction, blocks_each: int | None = None
) -> None:
    """Count the population groups of all levels, one partition of the blocks a piece."""
    geography = run.geography
    if blocks_each is None:
        blocks_each = min(MOST_BLOCKS, len(geography.blocks) // (PARTITIONS_PER_WORKER * workers.count) + 1)
    unless_done(run.partitions_path, lambda: _save_partitions(run, geography, jurisdiction, blocks_each))
    partitions = load_partitions(run)
    workers.map("population groups", run, count_partition, [(number,) for number in range(len(partitions))])


def _save_partitions(run: DetailedRun, geography: RegionMap, jurisdiction: Jurisdiction, blocks_each: int) -> None:
    levels = run.parameters.configuration.levels(jurisdiction)
    region_types = [name for name in REGION_TYPES[jurisdiction] if any(level.region_type == name for level in levels)]
    partitions = [
        Partition(blocks, {name: geography.regions_in(name, blocks) for name in region_types})
        for blocks in geography.partitions(blocks_each)
    ]
    save_object(run.partitions_path, partitions)


def load_partitions(run: DetailedRun) -> list[Partition]:
    """Return the partitions of a run's blocks."""
    partitions: list[Partition] = load_object(run.partitions_path)
    return partitions


def count_partition(run: DetailedRun, number: int) -> None:
    """Write the exact counts of one partition for every region type: a CSR matrix (region, cell) x iteration each.

    Arrays `indptr`, `indices` and `data`; row = 46 (region - first region of the partition) + cell.
    """
    partition = load_partitions(run)[number]
    todo = [name for name in partition.regions if not run.counts_folder(name, number).exists()]
    if not todo:
        return
    use_kernels(run.state_folder)
    persons, combinations = read_persons(run, partition.blocks)
    geography, iterations = run.geography, run.parameters.iterations
    lives_in: dict[str, LivesIn] = {}
    for name in todo:
        (first, last), regions = partition.regions[name], geography.region_of[name][partition.blocks]
        lives_in[name] = np.where(regions == NOWHERE, NOWHERE, regions - first), last - first
    count = _count_compiled if len(persons["block"]) >= FEWEST_PERSONS else _count_plainly
    for granularity in (iterations.nation_state, iterations.sub_state):
        mine = {name: each for name, each in lives_in.items() if iterations.granularity(Level(name, 1)) is granularity}
        for name, counts in count(persons, combinations, granularity, mine) if mine else ():
            save_arrays(run.counts_folder(name, number), counts)


def _count_plainly(
    persons: Persons, combinations: NDArray[np.uint16], granularity: Granularity, lives_in: dict[str, LivesIn]
) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
    """Yield the matrix of `count_partition` of each region type of a granularity, as the product A @ G."""
    flatmap = granularity.flatmap(combinations)
    for name, (region_of_block, regions) in lives_in.items():
        region = region_of_block[persons["block"]]
        inside = region != NOWHERE
        row = region[inside] * CELLS + persons["cell"][inside]
        counts = _count_pairs(row, persons["combination"][inside], (regions * CELLS, flatmap.shape[0])) @ flatmap
        yield name, {"indptr": counts.indptr, "indices": counts.indices.astype(np.uint16), "data": counts.data}


def _count_compiled(
    persons: Persons, combinations: NDArray[np.uint16], granularity: Granularity, lives_in: dict[str, LivesIn]
) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
    """Yield what `_count_plainly` does, the entries of a row perhaps in another order.

    Persons are counted once: by units, which are the blocks that lie in the same region of every type. Regions of any
    type are made of units, whose entries are far fewer than persons.
    """
    from tasks.detailed_dhca.compiled_counts import add_units, count_units

    unit: NDArray[np.int64] = np.zeros(1, np.int64)
    for region_of_block, regions in lives_in.values():
        unit, _ = pd.factorize(unit * (regions + 1) + (region_of_block - NOWHERE))
    order = np.argsort(unit, kind="stable")
    a_block = order[np.searchsorted(unit[order], np.arange(unit.max(initial=-1) + 1))]  # of each unit
    pointers, iterations = _flatmap_compiled(granularity, combinations)
    room = np.zeros((CELLS, len(granularity.codes)), np.int32), np.empty((CELLS, len(granularity.codes)), np.int32)
    starts = np.searchsorted(persons["block"], np.arange(len(unit) + 1, dtype=np.int32))  # of one type, so no copy
    most = int(np.diff(pointers)[persons["combination"]].sum())
    counting = starts, persons["cell"], persons["combination"], order, unit[order], pointers, iterations
    of_units = _filled(partial(count_units, *counting, *room), len(a_block), most)
    for name, (region_of_block, regions) in lives_in.items():
        region = region_of_block[a_block]
        inside = np.flatnonzero(region != NOWHERE)
        units = inside[np.argsort(region[inside], kind="stable")]
        of_unit = of_units["indptr"], of_units["indices"], of_units["data"]
        adding = partial(add_units, *of_unit, units, region[units], *room)
        yield name, _filled(adding, regions, len(of_units["data"]))


def _filled(count: Callable[..., int], rows: int, most: int) -> dict[str, NDArray[Any]]:
    """Return the matrix that a kernel makes of so many units or regions, with at most so many entries."""
    indptr = np.zeros(rows * CELLS + 1, np.int64)
    indices, data = np.empty(most, np.uint16), np.empty(most, np.int32)
    entries = count(indptr[1:], indices, data)
    return {"indptr": indptr, "indices": indices[:entries], "data": data[:entries]}


def _flatmap_compiled(
    granularity: Granularity, combinations: NDArray[np.uint16]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return `Granularity.flatmap`: where the iterations of each combination start, and the iterations."""
    from tasks.detailed_dhca.compiled_counts import map_combinations

    alone, combination, ethnicity = (
        np.stack([granularity.maps[kind, level] for level in ITERATION_LEVELS]) for kind in KINDS
    )
    pointers = np.empty(len(combinations) + 1, np.int32)
    room = np.empty(len(ITERATION_LEVELS) * (int(np.count_nonzero(combinations)) + len(combinations)), np.int32)
    pairs = map_combinations(combinations, alone, combination, ethnicity, pointers, room)
    return pointers, room[:pairs]


def _count_pairs(
    row: NDArray[np.integer[Any]], column: NDArray[np.integer[Any]], shape: tuple[int, int]
) -> sparse.csr_array:
    """Return how often each pair stands there; to sort numbers takes less than half of scipy's sum of duplicates."""
    pairs, counts = np.unique(row.astype(np.int64) * shape[1] + column, return_counts=True)
    rows, columns = np.divmod(pairs, shape[1])
    starts = np.searchsorted(rows, np.arange(shape[0] + 1))
    return sparse.csr_array((counts.astype(np.int32), columns.astype(np.int32), starts.astype(np.int32)), shape=shape)


def read_persons(run: DetailedRun, blocks: slice) -> tuple[dict[str, NDArray[Any]], NDArray[np.uint16]]:
    """Gather the encoded persons of a range of blocks from all chunks, with the combinations that occur among them.

    They are sorted by `block`, int32, whose number counts from the first block of the range.
    """
    parts: dict[str, list[NDArray[Any]]] = {"block": [], "cell": [], "combination": []}
    combinations = [np.zeros((0, 9), np.uint16)]
    known = 0
    for chunk, lowest, highest in _chunks(run, stamp(run / "persons")):
        if lowest >= blocks.stop or highest < blocks.start:
            continue
        block = open_array(chunk, "block")
        start, stop = np.searchsorted(block, [blocks.start, blocks.stop])
        if start == stop:
            continue
        combination = np.asarray(open_array(chunk, "combination")[start:stop])
        distinct = open_array(chunk, "combinations")
        used = np.zeros(len(distinct), bool)
        used[combination] = True
        parts["block"].append(block[start:stop] - np.int32(blocks.start))
        parts["cell"].append(open_array(chunk, "cell")[start:stop])
        parts["combination"].append((np.cumsum(used, dtype=np.int32) + np.int32(known - 1))[combination])
        combinations.append(distinct[used])
        known += len(combinations[-1])
    persons = {name: np.concatenate(arrays) if arrays else np.zeros(0, np.int32) for name, arrays in parts.items()}
    if np.any(persons["block"][1:] < persons["block"][:-1]):  # chunks of a file that is in another order
        by_block = np.argsort(persons["block"], kind="stable")
        persons = {name: array[by_block] for name, array in persons.items()}
    return persons, np.concatenate(combinations)


@lru_cache(maxsize=4)
def _chunks(run: DetailedRun, _stamp: tuple[int, int]) -> list[tuple[Path, int, int]]:
    """Return the encoded chunks that hold a person, each with its first and last block: few meet a partition."""
    opened = ((chunk, open_array(chunk, "block")) for chunk in encoded_chunks(run))
    return [(chunk, int(block[0]), int(block[-1])) for chunk, block in opened if len(block)]


@dataclass(frozen=True)
class Entries:
    """Entries of a sparse matrix (region, cell) x iteration, whole regions of it. Confidential.

    Attributes
    ----------
    regions : slice
        The regions, counted from the first that is asked for.
    ends : int64 array
        Where the entries of each row start and, behind the last row, end; in the whole matrix.
    iteration : uint16 array, one per entry
    count : int32 array, one per entry
    """

    regions: slice
    ends: NDArray[np.int64]
    iteration: NDArray[np.uint16]
    count: NDArray[np.int32]

    @property
    def many(self) -> bool:
        """Whether there are enough for a kernel."""
        return len(self.count) >= FEWEST_ENTRIES

    def of_level(self, position: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Region, cell, position of the iteration and count of the entries of those iterations that have a position."""
        row = np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends))
        place = position[self.iteration]
        those = np.flatnonzero(place >= 0)
        return (*np.divmod(row[those], CELLS), place[those], self.count[those].astype(np.int64))


@dataclass(frozen=True)
class ExactCounts:
    """The exact counts of the groups of a level in a range of regions. Confidential: never leaves a worker.

    Attributes
    ----------
    regions : int
        The number of regions. Group = region x iterations of the level + position of the iteration.
    width : int
        The number of iterations of the level.
    position : int64 array, one per iteration of the granularity
        The position of the level's iterations, -1 for those of the other level, which lie in the same matrix.
    parts : list of Entries
        Those of each partition; a region may be in several.
    """

    regions: int
    width: int
    position: NDArray[np.int64]
    parts: list[Entries]

    @property
    def groups(self) -> int:
        """The number of groups in the range of regions."""
        return self.regions * self.width

    def totals(self) -> NDArray[np.int64]:
        """Persons of every group, empty ones included."""
        totals = np.zeros((self.regions, self.width), np.int64)
        for part in self.parts:
            if part.many:
                from tasks.detailed_dhca.compiled_counts import add_totals

                add_totals(part.ends, part.iteration, part.count, self.position, totals[part.regions])
            else:
                region, _, place, count = part.of_level(self.position)
                np.add.at(totals[part.regions], (region, place), count)
        return totals.reshape(-1)

    def cells(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Persons of the chosen groups by sex and age23: len(chosen) x 46."""
        cells = np.zeros((len(chosen), CELLS), np.int64)
        if not len(chosen):
            return cells
        slots = np.full((self.regions, self.width), -1, np.int32)
        slots.reshape(-1)[chosen] = np.arange(len(chosen))
        for part in self.parts:
            if part.many:
                from tasks.detailed_dhca.compiled_counts import add_cells

                add_cells(part.ends, part.iteration, part.count, self.position, slots[part.regions], cells)
            else:
                region, cell, place, count = part.of_level(self.position)
                slot = slots[part.regions][region, place]
                inside = slot >= 0
                np.add.at(cells, (slot[inside], cell[inside]), count[inside])
        return cells

    def tables(self, chosen: NDArray[np.int64], detail: int) -> NDArray[np.int64]:
        """Persons of the chosen groups by sex and the age bins of a detail: len(chosen) x (2 x bins)."""
        return in_bins(self.cells(chosen), detail)


def in_bins(cells: NDArray[np.int64], detail: int) -> NDArray[np.int64]:
    """Add up rows of 46 cells, by sex and age23, to sex and the age bins of a detail."""
    bins = np.searchsorted(AGES[AGE23], AGES[detail])  # every age bin is a range of age23 bins
    by_sex = cells.reshape(len(cells), 2, CELLS // 2)
    return np.add.reduceat(by_sex, bins, axis=2).reshape(len(cells), 2 * len(bins))


def read_exact_counts(run: DetailedRun, level: Level, first: int, last: int) -> ExactCounts:
    """Return the exact counts of a level's groups in the regions first ... last - 1."""
    use_kernels(run.state_folder)
    domain = load_domain(run, level)
    width = len(domain.iterations)
    position = np.full(len(run.parameters.iterations.granularity(level).codes), -1, np.int64)
    position[domain.iterations] = np.arange(width)
    return ExactCounts(last - first, width, position, list(_entries(run, level.region_type, first, last)))


def _entries(run: DetailedRun, region_type: str, first: int, last: int) -> Iterator[Entries]:
    """Yield the entries of each partition in these regions."""
    for number, partition in enumerate(load_partitions(run)):
        low, high = partition.regions[region_type]
        start, stop = max(low, first), min(high, last)
        if start >= stop:
            continue
        folder = run.counts_folder(region_type, number)
        ends = read_part(folder, "indptr", (start - low) * CELLS, (stop - low) * CELLS + 1).astype(np.int64)
        iteration, count = (read_part(folder, name, int(ends[0]), int(ends[-1])) for name in ("indices", "data"))
        yield Entries(slice(start - first, stop - first), ends, iteration, count)
