"""The partitions of a run's blocks: the pieces in which population groups are counted. Public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.lifecycle.files import load_object, save_object, unless_done
from tasks.population_groups.levels import Level
from tasks.population_groups.run import SafeTabRun

MOST_BLOCKS = 50_000  # a partition's size, where the country is large; about 2 million persons
PARTITIONS_PER_WORKER = 4


@dataclass(frozen=True)
class Partition:
    """A range of whole tracts: its blocks, and per region type the range of regions that it touches."""

    blocks: slice
    regions: dict[str, tuple[int, int]]


def make_partitions(run: SafeTabRun, levels: Sequence[Level], workers: int, blocks_each: int | None) -> int:
    """Cut the blocks into partitions for a number of workers, unless it was done; return how many there are."""
    geography = run.geography
    most = blocks_each or min(MOST_BLOCKS, len(geography.blocks) // (PARTITIONS_PER_WORKER * workers) + 1)
    region_types = dict.fromkeys(level.region_type for level in levels)

    def make() -> None:
        partitions = [
            Partition(blocks, {name: geography.regions_in(name, blocks) for name in region_types})
            for blocks in geography.partitions(most)
        ]
        save_object(run.partitions_path, partitions)

    unless_done(run.partitions_path, make)
    return len(load_partitions(run))


def load_partitions(run: SafeTabRun) -> list[Partition]:
    """Return the partitions of a run's blocks."""
    return load_object(run.partitions_path, list[Partition])
