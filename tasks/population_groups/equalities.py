"""Regional iterations that are sums of Detailed ones, in the domains of a run's levels."""

from __future__ import annotations

import numpy as np

from privacy.estimation.equality import find_equalities
from tasks.population_groups.domain import load_domain
from tasks.population_groups.levels import Level
from tasks.population_groups.run import SafeTabRun


def equalities(run: SafeTabRun, level: Level) -> dict[int, tuple[int, ...]]:
    """Return the level's iterations that are sums of Detailed ones, each by its place in its level's domain.

    Found in the maps of single-valued attributes: ethnicity, and race where a record has one code.
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
