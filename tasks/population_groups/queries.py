"""The queries of a population group level: their budgets, and the noise of their answers (docs/privacy.md#proof)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from privacy.noise.laws import Definition, Law, law
from tasks.population_groups.configuration import SafeTabConfiguration
from tasks.population_groups.iterations import Iterations
from tasks.population_groups.levels import Level


@dataclass(frozen=True)
class LevelQueries:
    """The queries of a level: its stability, and the budget of each query by name."""

    definition: Definition
    stability: int
    budgets: Mapping[str, Fraction]

    def law(self, query: str) -> Law:
        """Return the noise of a query's answers; it costs a group budget / stability."""
        return law(self.definition, self.budgets[query], self.stability)


def queries_of(configuration: SafeTabConfiguration, iterations: Iterations, table: str, level: Level) -> LevelQueries:
    """Return the queries that measure a table of a level.

    Raises
    ------
    ValueError
        where the budget is infinite, or the formula of stability is not enough.
    """
    stability = iterations.stability(level, configuration.max_race_codes)
    return LevelQueries(configuration.privacy_defn, stability, configuration.queries(table, level))
