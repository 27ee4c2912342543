"""The queries of a population group level of SafeTab-P: stability, budgets and noise (docs/privacy.md#proof)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from privacy.accounting.composition import QueryBudgets, query_budgets
from privacy.noise.laws import Definition, Law, law
from privacy.noise.margins import margin_of_error, suppression_threshold
from tasks.detailed_dhca.details import TOTAL_ONLY
from tasks.detailed_dhca.run import DetailedRun
from tasks.inputs.configuration import Level
from tasks.lifecycle.files import stamp


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
