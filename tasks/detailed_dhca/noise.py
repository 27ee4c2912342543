"""Where the noise of a run comes from: its secret, or, for `das truth`, nowhere.

A run has a secret only after the budget check. Its existence is the authorization: without it no stage can draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import RunSecret
from tasks.detailed_dhca.domain import DETAILS, load_queries
from tasks.inputs.configuration import Level
from tasks.lifecycle.errors import Failed
from tasks.lifecycle.run_directory import RunDirectory, load_public

SECRET = "secret"
TRUTH = "TRUTH"  # marks the directory of a das truth
AUTHORIZATION = "authorization"


@dataclass(frozen=True)
class Authorization:
    """What the budget check fixes for a run: all that its noise depends on besides the secret."""

    input_digest: str
    configuration_digest: str
    secret_digest: str


class Noise(Protocol):
    """Noise of a level's queries, row by row of the level's domain. `query` is stage_1, stage_2 or total_only."""

    def run(self, query: str, start: int, stop: int) -> NDArray[np.int64]:
        """Noise of the totals of groups start ... stop - 1."""

    def rows(self, detail: int, groups: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Noise of the tables of these groups at a detail: len(groups) x width."""


@dataclass(frozen=True)
class RunNoise:
    """The noise of a run, drawn from its secret: a stream for each (level, stage, detail)."""

    level: Level
    secret: RunSecret
    authorization: Authorization
    directory: RunDirectory

    def run(self, query: str, start: int, stop: int) -> NDArray[np.int64]:
        """Noise of the totals of groups start ... stop - 1."""
        return self._stream(query, "total").draw_run(start, stop)

    def rows(self, detail: int, groups: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Noise of the tables of these groups at a detail: len(groups) x width."""
        return self._stream("stage_2", DETAILS[detail]).draw(groups, width)

    def _stream(self, query: str, detail: str) -> QueryNoise:
        return QueryNoise(
            load_queries(self.directory, self.level).law(query),
            self.secret,
            input_digest=self.authorization.input_digest,
            configuration_digest=self.authorization.configuration_digest,
            query=f"{self.level}/{query}/{detail}",
        )


class NoNoise:
    """The zero noise of `das truth`: exact counts, not private."""

    def run(self, query: str, start: int, stop: int) -> NDArray[np.int64]:
        """Zeros."""
        return np.zeros(stop - start, np.int64)

    def rows(self, detail: int, groups: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Zeros."""
        return np.zeros((len(groups), width), np.int64)


def open_noise(run: RunDirectory, level: Level) -> Noise:
    """The noise of a level of a run. Raises Failed as `read_secret` does."""
    if is_truth(run):
        if (run / SECRET).exists() or (run / AUTHORIZATION).exists():
            raise Failed("noise: a run that may draw noise is never without it")
        return NoNoise()
    secret, authorization = read_secret(run)
    return RunNoise(level, secret, authorization, run)


def read_secret(run: RunDirectory) -> tuple[RunSecret, Authorization]:
    """The secret of a run and what else its noise depends on.

    Raises
    ------
    Failed
        where the run has no secret, or not the one it was authorized with.
    """
    try:
        secret = RunSecret((run / SECRET).read_bytes())
        authorization: Authorization = load_public(run / AUTHORIZATION)
    except (FileNotFoundError, ValueError):
        raise Failed("budget check: the run has no secret, so no noise can be drawn") from None
    if secret.digest() != authorization.secret_digest:
        raise Failed("budget check: the secret is not the one the run was authorized with")
    return secret, authorization


def is_truth(run: RunDirectory) -> bool:
    """True for a run of `das truth`, which is marked so from its first moment and can never be released as private."""
    return (run / TRUTH).exists()
