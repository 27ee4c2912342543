"""The public domain of a population group level and the laws of its queries (paper 3.2; docs/privacy.md#proof).

A level's groups are numbered: group = region number x iterations of the level + position of the iteration. Regions and
iterations are sorted and come from public files alone, so every group has its number in every run, empty or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.composition import QueryBudgets, query_budgets
from privacy.noise.laws import Definition, Law, law
from privacy.noise.margins import margin_of_error, suppression_threshold
from tasks.detailed_dhca.person_file import AGE23_BINS
from tasks.detailed_dhca.run import DetailedRun
from tasks.inputs.configuration import Level
from tasks.lifecycle.files import stamp

GROUPS_EACH = 1 << 20  # groups that one piece of a noise stage holds

# Details of a group's table. 0 to 3 are the outcomes of step 1 (its stat level), TOTAL_ONLY is given beforehand.
TOTAL, AGE4, AGE9, AGE23, TOTAL_ONLY = range(5)
DETAILS = ("total", "age4", "age9", "age23", "total_only")
WIDTHS = np.array([1, 8, 18, 46, 1])  # cells that are measured
AGES = {
    AGE4: (0, 18, 45, 65),
    AGE9: (0, 5, 18, 25, 35, 45, 55, 65, 75),
    AGE23: AGE23_BINS,
}
LAST_AGE = 115


@dataclass(frozen=True)
class Domain:
    """The population groups of a level.

    Attributes
    ----------
    region_ids : tuple of str
        The level's regions, sorted.
    iterations : int64 array
        The level's iterations, as numbers of its granularity.
    iteration_codes : tuple of str
        Their codes, sorted.
    total_only : bool array
        Which of them are tabulated as a total only.
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
        """Ranges of whole regions (first, last) that hold about GROUPS_EACH groups each."""
        step = max(1, GROUPS_EACH // max(1, len(self.iterations)))
        regions = len(self.region_ids)
        return [(first, min(first + step, regions)) for first in range(0, regions, step)]


@dataclass(frozen=True)
class Queries:
    """The stability of a level, its budget and the noise of its queries."""

    definition: Definition
    stability: int
    budgets: QueryBudgets
    zero_suppression_chance: Fraction | None

    def law(self, query: str) -> Law:
        """Return the noise of a query, `total_only`, `stage_1` or `stage_2`; it costs a group budget / stability."""
        return law(self.definition, getattr(self.budgets, query), self.stability)

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


def load_domain(run: DetailedRun, level: Level) -> Domain:
    """Return the domain of a level of a validated run."""
    return _domain(run, level, stamp(run.parameters_path))


@lru_cache(maxsize=64)
def _domain(run: DetailedRun, level: Level, _stamp: tuple[int, int]) -> Domain:
    granularity = run.parameters.iterations.granularity(level)
    iterations = granularity.of_level(level.iteration_level)
    return Domain(
        level=level,
        region_ids=run.geography.region_ids[level.region_type],
        iterations=iterations,
        iteration_codes=tuple(granularity.codes[number] for number in iterations),
        total_only=granularity.total_only[iterations],
    )


def load_queries(run: DetailedRun, level: Level) -> Queries:
    """Return the queries of a level of a validated run. Raises ValueError where its budget is infinite."""
    return _queries(run, level, stamp(run.parameters_path))


@lru_cache(maxsize=64)
def _queries(run: DetailedRun, level: Level, _stamp: tuple[int, int]) -> Queries:
    parameters = run.parameters
    configuration = parameters.configuration
    return Queries(
        definition=configuration.privacy_defn,
        stability=parameters.iterations.stability(level, configuration.max_race_codes),
        budgets=query_budgets(configuration.budget(level), configuration.stage_1_fraction),
        zero_suppression_chance=configuration.zero_suppression_chance,
    )
