"""Population groups: the exact counts of records by region, iteration and cell (Algorithm 1 lines 6 to 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spine.settings import Jurisdiction
from tasks.geography.grf_c import NOWHERE
from tasks.kernels import worth_a_kernel
from tasks.lifecycle.files import load_object, open_array, save_arrays, save_object, stamp
from tasks.lifecycle.workers import Workers
from tasks.safetab.encode import encoded_chunks
from tasks.safetab.flatmap import Records, Regions, count_compiled, count_plainly
from tasks.safetab.levels import Level
from tasks.safetab.run import SafeTabRun

PARTITIONS = "prepared/partitions"
MOST_BLOCKS = 50_000  # a partition's size, where the country is large; about 2 million persons
PARTITIONS_PER_WORKER = 4


@dataclass(frozen=True)
class Partition:
    """A range of whole tracts: its blocks, and per region type the range of regions that it touches."""

    blocks: slice
    regions: dict[str, tuple[int, int]]


def make_partitions(run: SafeTabRun, levels: Sequence[Level], workers: int, blocks_each: int | None) -> int:
    """Cut the blocks into partitions for a number of workers, unless that was done; return how many there are."""
    if not (run / PARTITIONS).exists():
        geography = run.geography
        most = blocks_each or min(MOST_BLOCKS, len(geography.blocks) // (PARTITIONS_PER_WORKER * workers) + 1)
        region_types = dict.fromkeys(level.region_type for level in levels)
        partitions = [
            Partition(blocks, {name: geography.regions_in(name, blocks) for name in region_types})
            for blocks in geography.partitions(most)
        ]
        save_object(run / PARTITIONS, partitions)
    return len(load_partitions(run))


def load_partitions(run: SafeTabRun) -> list[Partition]:
    """Return the partitions of a run's blocks."""
    return load_object(run / PARTITIONS, list[Partition])


def count_population_groups(
    run: SafeTabRun, workers: Workers, jurisdiction: Jurisdiction, blocks_each: int | None = None
) -> None:
    """Count the population groups of all levels; a piece of the work is a partition of the blocks."""
    partitions = make_partitions(run, run.parameters.configuration.levels(jurisdiction), workers.count, blocks_each)
    workers.map("population groups", run, count_partition, [(number,) for number in range(partitions)])


def count_partition(run: SafeTabRun, number: int) -> None:
    """Write the exact counts of one partition for every region type, as `count_plainly` gives them."""
    partition = load_partitions(run)[number]
    todo = [name for name in partition.regions if not run.counts_folder(name, number).exists()]
    if not todo:
        return
    records = read_records(run, partition.blocks)
    geography, iterations = run.geography, run.parameters.iterations
    regions: dict[str, Regions] = {}
    for name in todo:
        (first, last), of_block = partition.regions[name], geography.region_of[name][partition.blocks]
        regions[name] = Regions(last - first, np.where(of_block == NOWHERE, NOWHERE, of_block - first))
    granularities = {name: iterations.granularity(Level(name, 1)) for name in todo}
    count = count_compiled if worth_a_kernel(len(records.cell)) else count_plainly
    for name, counts in count(records, granularities, regions, iterations.tabulated, run.KIND.cells):
        save_arrays(run.counts_folder(name, number), counts._asdict())


def read_records(run: SafeTabRun, blocks: slice) -> Records:
    """Gather the encoded records of a range of blocks from all chunks, with their distinct combinations."""
    kinds = {"block": np.int64, "records": np.int64, "cell": np.uint8, "combination": np.uint32}
    parts: dict[str, list[NDArray[Any]]] = {name: [np.zeros(0, kind)] for name, kind in kinds.items()}
    combinations = [np.zeros((0, 9), np.uint16)]
    known = 0
    for chunk, lowest, highest in _chunks(run, stamp(run / "records")):
        if lowest >= blocks.stop or highest < blocks.start:
            continue
        block = open_array(chunk, "block")
        first, last = np.searchsorted(block, [blocks.start, blocks.stop])
        if first == last:
            continue
        ends = open_array(chunk, "ends")
        start, stop = int(ends[first - 1]) if first else 0, int(ends[last - 1])
        combination = open_array(chunk, "combination")[start:stop]
        distinct = open_array(chunk, "combinations")
        used = np.bincount(combination, minlength=len(distinct)) > 0
        parts["block"].append(block[first:last].astype(np.int64) - blocks.start)
        parts["records"].append(np.diff(ends[first:last], prepend=ends.dtype.type(start)))
        parts["cell"].append(open_array(chunk, "cell")[start:stop])
        number = np.cumsum(used, dtype=np.uint32) + np.uint32(known) - np.uint32(1)
        parts["combination"].append(number.take(combination))
        combinations.append(distinct[used])
        known += len(combinations[-1])
    block, records, cell, combination = (np.concatenate(parts[name]) for name in kinds)
    if np.any(block[1:] < block[:-1]):  # the file is not sorted by block
        order = np.argsort(np.repeat(block, records), kind="stable")
        cell, combination = cell[order], combination[order]
    in_blocks = np.zeros(blocks.stop - blocks.start, np.int64)
    np.add.at(in_blocks, block, records)
    return Records(np.append(0, np.cumsum(in_blocks)), cell, combination, np.concatenate(combinations))


@lru_cache(maxsize=4)
def _chunks(run: SafeTabRun, _stamp: tuple[int, int]) -> list[tuple[Path, int, int]]:
    """Return the encoded chunks with records, each with its first and last block: few chunks meet a partition."""
    opened = ((chunk, open_array(chunk, "block")) for chunk in encoded_chunks(run))
    return [(chunk, int(block[0]), int(block[-1])) for chunk, block in opened if len(block)]
