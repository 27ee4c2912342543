"""The queries of a population group level, with budgets and laws, and the noise that a run draws from its secret.

docs/privacy.md#proof shows what they cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privacy.noise.laws import Definition, Law, law
from privacy.noise.margins import margin_of_error
from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import Keystream, query_key
from tasks.lifecycle.authorization import NoiseSource, is_truth, read_drawing, read_secret
from tasks.lifecycle.files import stamp
from tasks.safetab.configuration import SafeTabConfiguration
from tasks.safetab.levels import Level
from tasks.safetab.run import SafeTabRun


@dataclass(frozen=True)
class LevelQueries:
    """The queries of a level, over all its tables: the stability, and each query's budget by name."""

    definition: Definition
    stability: int
    budgets: Mapping[str, Fraction]

    def law(self, query: str) -> Law:
        """Return the law of a query's noise. A group costs budget / stability."""
        return law(self.definition, self.budgets[query], self.stability)

    def margin(self, query: str, cells: int = 1) -> int:
        """Return the 95% margin of error of a sum of `cells` answers to a query."""
        return margin_of_error(self.law(query), cells)


def load_queries(run: SafeTabRun, level: Level) -> LevelQueries:
    """Return the queries of a level of a validated run. Raises ValueError where a budget is infinite."""
    return _queries(run, level, stamp(run.parameters_path))


def noisy_queries(run: SafeTabRun, level: Level) -> LevelQueries | None:
    """Return the queries of a level of a run, or None if its counts are exact."""
    return None if is_truth(run) else load_queries(run, level)


@lru_cache(maxsize=64)
def _queries(run: SafeTabRun, level: Level, _stamp: tuple[int, int]) -> LevelQueries:
    configuration = run.parameters.configuration
    return queries_of(configuration, level, run.parameters.iterations.stability(level, configuration.max_race_codes))


def queries_of(configuration: SafeTabConfiguration, level: Level, stability: int) -> LevelQueries:
    """Return the queries of a level at a stability. Raises ValueError where a budget is infinite."""
    return LevelQueries(
        definition=configuration.privacy_defn,
        stability=stability,
        budgets={
            query: budget
            for table, budgets in configuration.budgets.items()
            if budgets[level] != 0
            for query, budget in configuration.queries(table, level).items()
        },
    )


@dataclass(frozen=True)
class LevelNoise:
    """The noise of a level's queries, by group of its domain: a stream for each (level, query, detail of its tables).

    drawing: the source of the noise; None for exact counts, whose noise is 0.
    """

    run: SafeTabRun
    level: Level
    drawing: NoiseSource | None

    def totals(self, query: str, detail: str, start: int, asked: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the noise of one cell of the groups from `start` on. Where `asked` is False it is 0 and not drawn."""
        if self.drawing is None or not asked.any():
            return np.zeros(len(asked), np.int64)
        return self._stream(self.drawing, query, detail).draw_run(start, start + len(asked), asked)

    def rows(self, query: str, detail: str, groups: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Return the noise of the tables of these groups: len(groups) x width."""
        if self.drawing is None:
            return np.zeros((len(groups), width), np.int64)
        return self._stream(self.drawing, query, detail).draw(groups, width)

    def _stream(self, drawing: NoiseSource, query: str, detail: str) -> QueryNoise:
        return drawing.noise(load_queries(self.run, self.level).law(query), f"{self.level}/{query}/{detail}")


def open_noise(run: SafeTabRun, level: Level) -> LevelNoise:
    """Return the noise of a level of a run. Raises Failed as `read_drawing` does."""
    return LevelNoise(run, level, read_drawing(run))


def estimate_words(run: SafeTabRun, level: Level, groups: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return two uniform words for the estimate of each of these groups, from a stream that draws no noise.

    Raises Failed as `read_secret` does.
    """
    secret, authorization = read_secret(run)
    key = query_key(
        secret,
        input_digest=authorization.input_digest,
        configuration_digest=authorization.configuration_digest,
        query=f"{level}/estimates",
        width=2,
        purpose="estimates",
    )
    return Keystream(key).rows(groups, 2)
