"""The noise of a level's queries: drawn from the run's secret, or, for a release of exact counts, none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import Keystream, RunSecret, query_key
from tasks.lifecycle.authorization import Authorization, read_drawing, read_secret
from tasks.population_groups.levels import Level
from tasks.population_groups.queries import load_queries
from tasks.population_groups.run import SafeTabRun


class LevelNoise(Protocol):
    """The noise of a level's queries, by group of its domain. A query has a stream for each detail of its tables."""

    def totals(self, query: str, detail: str, start: int, asked: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the noise of one cell of groups from `start` on; 0, and none is drawn, where one is not asked."""

    def rows(self, query: str, detail: str, groups: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Return the noise of the tables of these groups: len(groups) x width."""


@dataclass(frozen=True)
class RunNoise:
    """The noise of a run, drawn from its secret: a stream for each (level, query, detail)."""

    level: Level
    secret: RunSecret
    authorization: Authorization
    directory: SafeTabRun

    def totals(self, query: str, detail: str, start: int, asked: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the noise of one cell of groups from `start` on; 0, and none is drawn, where one is not asked."""
        if not asked.any():
            return np.zeros(len(asked), np.int64)
        return self._stream(query, detail).draw_run(start, start + len(asked), asked)

    def rows(self, query: str, detail: str, groups: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Return the noise of the tables of these groups: len(groups) x width."""
        return self._stream(query, detail).draw(groups, width)

    def _stream(self, query: str, detail: str) -> QueryNoise:
        return QueryNoise(
            load_queries(self.directory, self.level).law(query),
            self.secret,
            input_digest=self.authorization.input_digest,
            configuration_digest=self.authorization.configuration_digest,
            query=f"{self.level}/{query}/{detail}",
        )


class NoNoise:
    """The zero noise of a release of exact counts: not private."""

    def totals(self, query: str, detail: str, start: int, asked: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return zeros."""
        return np.zeros(len(asked), np.int64)

    def rows(self, query: str, detail: str, groups: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Return zeros."""
        return np.zeros((len(groups), width), np.int64)


def open_noise(run: SafeTabRun, level: Level) -> LevelNoise:
    """Return the noise of a level of a run. Raises Failed as `read_drawing` does."""
    drawing = read_drawing(run)
    return NoNoise() if drawing is None else RunNoise(level, *drawing, run)


def estimate_words(run: SafeTabRun, level: Level, groups: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return two uniform words for the estimate of each of these groups, from a stream that no noise is drawn from.

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
