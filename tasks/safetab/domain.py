"""The public domain of a population group level (paper 3.2; docs/privacy.md#proof).

A level's groups are numbered: group = region number x iterations of the level + position of the iteration. Regions and
iterations are sorted and come from public files alone, so every group has its number in every run, empty or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privacy.estimation.equality import find_equalities
from tasks.lifecycle.files import stamp
from tasks.lifecycle.workers import Workers
from tasks.safetab.levels import Level
from tasks.safetab.run import SafeTabRun

GROUPS_EACH = 1 << 21  # groups that one piece of a noise stage holds


@dataclass(frozen=True)
class Domain:
    """The population groups of a level.

    region_ids: tuple of str; the level's regions, sorted.
    iterations: int64 array; the level's iterations, as numbers of its granularity.
    iteration_codes: tuple of str; their codes, sorted.
    total_only: bool array; whether only a total of the iteration is tabulated.
    """

    level: Level
    region_ids: tuple[str, ...]
    iterations: NDArray[np.int64]
    iteration_codes: tuple[str, ...]
    total_only: NDArray[np.bool_]

    @property
    def groups(self) -> int:
        """The number of population groups."""
        return len(self.region_ids) * len(self.iterations)

    def pieces(self) -> list[tuple[int, int]]:
        """Return ranges (first, last) of whole regions with about GROUPS_EACH groups each."""
        step = max(1, GROUPS_EACH // max(1, len(self.iterations)))
        regions = len(self.region_ids)
        return [(first, min(first + step, regions)) for first in range(0, regions, step)]


def load_domain(run: SafeTabRun, level: Level) -> Domain:
    """Return the domain of a level of a validated run."""
    return _domain(run, level, stamp(run.parameters_path))


@lru_cache(maxsize=64)
def _domain(run: SafeTabRun, level: Level, _stamp: tuple[int, int]) -> Domain:
    granularity = run.parameters.iterations.granularity(level)
    iterations = granularity.of_level(level.iteration_level)
    return Domain(
        level=level,
        region_ids=run.geography.region_ids[level.region_type],
        iterations=iterations,
        iteration_codes=tuple(granularity.codes[number] for number in iterations),
        total_only=granularity.total_only[iterations],
    )


def map_pieces(
    stage: str, run: SafeTabRun, workers: Workers, level: Level, work: Callable[..., None], *options: object
) -> None:
    """Run a stage of a level on workers: `work(run, level, first, last, *options)` for the regions of each piece."""
    calls = [(level, first, last, *options) for first, last in load_domain(run, level).pieces()]
    workers.map(f"{stage} ({level.name})", run, work, calls)


def equalities(run: SafeTabRun, level: Level) -> dict[int, tuple[int, ...]]:
    """Return the level's iterations that are sums of Detailed ones, with the places of these in their level's domain.

    They follow from the maps of single-valued attributes: ethnicity, and race if a record has one code.
    """
    parameters = run.parameters
    below = Level(level.region_type, 2)
    if level.iteration_level != 1 or below not in parameters.configuration.levels(level.jurisdiction):
        return {}
    kinds = ("ethnicity",) if parameters.configuration.max_race_codes > 1 else ("ethnicity", "alone", "combination")
    maps = parameters.iterations.granularity(level).maps
    own, parts = (load_domain(run, each).iterations for each in (level, below))
    return {
        int(np.searchsorted(own, whole)): tuple(np.searchsorted(parts, summands).tolist())
        for kind in kinds
        for whole, summands in find_equalities(maps[kind, 1], maps[kind, 2]).items()
    }
