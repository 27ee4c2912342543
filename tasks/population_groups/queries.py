"""The queries of a population group level: their budgets, and the noise of their answers (docs/privacy.md#proof)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from privacy.noise.laws import Definition, Law, law
from tasks.lifecycle.files import stamp
from tasks.population_groups.levels import Level
from tasks.population_groups.run import SafeTabRun


@dataclass(frozen=True)
class LevelQueries:
    """The queries of a level, of all its tables: its stability, and the budget of each query by name."""

    definition: Definition
    stability: int
    budgets: Mapping[str, Fraction]

    def law(self, query: str) -> Law:
        """Return the noise of a query's answers; it costs a group budget / stability."""
        return law(self.definition, self.budgets[query], self.stability)


def load_queries(run: SafeTabRun, level: Level) -> LevelQueries:
    """Return the queries of a level of a validated run. Raises ValueError where a budget is infinite."""
    return _queries(run, level, stamp(run.parameters_path))


@lru_cache(maxsize=64)
def _queries(run: SafeTabRun, level: Level, _stamp: tuple[int, int]) -> LevelQueries:
    parameters = run.parameters
    configuration = parameters.configuration
    return LevelQueries(
        definition=configuration.privacy_defn,
        stability=parameters.iterations.stability(level, configuration.max_race_codes),
        budgets={
            query: budget
            for table, budgets in configuration.budgets.items()
            if budgets[level] != 0
            for query, budget in configuration.queries(table, level).items()
        },
    )
