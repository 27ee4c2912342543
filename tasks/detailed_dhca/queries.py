"""The queries of a population group level of SafeTab-P: stability, budgets and noise (docs/privacy.md#proof)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from privacy.noise.laws import Law
from privacy.noise.margins import margin_of_error, suppression_threshold
from tasks.detailed_dhca.details import TOTAL_ONLY
from tasks.detailed_dhca.run import DetailedRun
from tasks.lifecycle.files import stamp
from tasks.population_groups import queries
from tasks.population_groups.levels import Level
from tasks.population_groups.queries import LevelQueries


@dataclass(frozen=True)
class Queries(LevelQueries):
    """The queries of a level, `total_only`, `stage_1` and `stage_2` (Algorithm 2), and the chance that suppresses."""

    zero_suppression_chance: Fraction | None

    def of_detail(self, detail: int) -> Law:
        """Return the noise in each cell of a group's published table."""
        return self.law("total_only" if detail == TOTAL_ONLY else "stage_2")

    def margin(self, detail: int, cells: int) -> int:
        """Return the 95% margin of error of a sum of `cells` published cells of a group with that detail."""
        return margin_of_error(self.of_detail(detail), cells)

    @cached_property
    def suppression_threshold(self) -> int | None:
        """The largest noisy total that is suppressed, None where nothing is (paper eq. 12)."""
        if not self.zero_suppression_chance:
            return None
        return suppression_threshold(self.law("stage_2"), self.zero_suppression_chance)


def load_queries(run: DetailedRun, level: Level) -> Queries:
    """Return the queries of a level of a validated run. Raises ValueError where its budget is infinite."""
    return _queries(run, level, stamp(run.parameters_path))


@lru_cache(maxsize=64)
def _queries(run: DetailedRun, level: Level, _stamp: tuple[int, int]) -> Queries:
    chance = run.parameters.configuration.zero_suppression_chance
    return Queries(**vars(queries.load_queries(run, level)), zero_suppression_chance=chance)
