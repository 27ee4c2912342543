"""A run's permission to draw noise: its secret, made in one act with the ledger's row. No stage can draw without it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import NamedTuple

from privacy.noise.laws import Law
from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import RunSecret
from tasks.errors import Failed, Refused
from tasks.lifecycle.files import atomic_path, fsync_up
from tasks.lifecycle.run_directory import RunDirectory

SECRET = "secret"
TRUTH = "TRUTH"  # marks the directory of a das truth
REPETITION = "REPETITION"  # marks a directory whose noise, on marked data, is only compared with the truth
AUTHORIZATION = "authorization"


@dataclass(frozen=True)
class Authorization:
    """The facts besides the secret on which a run's noise depends, fixed by the reservation.

    journal: the digest of the run's reservation, the head of the ledger's journal then; None for marked data.
    """

    input_digest: str
    configuration_digest: str
    secret_digest: str
    journal: str | None = None


class NoiseSource(NamedTuple):
    """The source of a run's noise: its secret, and the facts it was authorized with."""

    secret: RunSecret
    authorization: Authorization

    def noise(self, law: Law, query: str) -> QueryNoise:
        """Return the noise of a query; no two queries of a run share a name."""
        return QueryNoise(
            law,
            self.secret,
            input_digest=self.authorization.input_digest,
            configuration_digest=self.authorization.configuration_digest,
            query=query,
        )


def save_authorization(run: RunDirectory, authorization: Authorization) -> None:
    """Write a run's authorization as JSON, which later versions of the code can read."""
    with atomic_path(run / AUTHORIZATION, durable=True) as temporary:
        temporary.write_text(json.dumps(asdict(authorization)), "utf-8")


def read_authorization(run: RunDirectory) -> Authorization | None:
    """Return the run's authorization; None if missing or unreadable: `authorize` then writes it again."""
    try:
        return Authorization(**json.loads((run / AUTHORIZATION).read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def read_secret(run: RunDirectory) -> NoiseSource:
    """Return the source of a run's noise.

    Raises Refused if the run has no secret, or another than it was authorized with: such a run cannot be resumed.
    """
    try:
        secret = RunSecret((run / SECRET).read_bytes())
        authorization = read_authorization(run)
    except (FileNotFoundError, ValueError):
        authorization = None
    if authorization is None:
        raise Refused("the secret of the run is gone, so its noise cannot be drawn; a new run spends budget again")
    if secret.digest() != authorization.secret_digest:
        raise Refused("the secret is not the one that the run was authorized with; a new run spends budget again")
    return NoiseSource(secret, authorization)


def read_secret_digest(run: RunDirectory) -> str | None:
    """Return the digest of the secret in the run directory, or None."""
    try:
        return RunSecret((run / SECRET).read_bytes()).digest()
    except (FileNotFoundError, ValueError):
        return None


def make_secret(run: RunDirectory) -> str:
    """Write a fresh secret (0600, flushed) and return its digest. A secret without a row has authorized nothing."""
    secret = RunSecret.generate()
    path = run / SECRET
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.write(handle, secret.expose())
        os.fsync(handle)
    finally:
        os.close(handle)
    fsync_up(run.path)
    return secret.digest()


def is_truth(run: RunDirectory) -> bool:
    """Return whether this is a run of `das truth`.

    Such a run is marked from the start and can never be released as private.
    """
    return (run / TRUTH).exists()


def may_draw(run: RunDirectory) -> bool:
    """Return whether a run has a secret or an authorization: it may have drawn noise, and its charge stays."""
    return not is_repetition(run) and any((run / name).exists() for name in (SECRET, AUTHORIZATION))


def is_repetition(run: RunDirectory) -> bool:
    """Return whether the noise drawn here, on marked data, is only compared with the truth."""
    return (run / REPETITION).exists()


def mark_repetition(run: RunDirectory) -> None:
    """Mark a directory that releases nothing. Raises Refused if its run may draw noise."""
    if may_draw(run):
        raise Refused(f"{run.id} is a run that may draw noise: its errors cannot be measured in its own directory")
    (run / REPETITION).touch()


def read_drawing(run: RunDirectory) -> NoiseSource | None:
    """Return the source of a run's noise; None for a truth, which draws none.

    Raises Refused as `read_secret` does, and Failed for a truth that could draw.
    """
    if not is_truth(run):
        return read_secret(run)
    if (run / SECRET).exists() or (run / AUTHORIZATION).exists():
        raise Failed("noise: a run that may draw noise is never without it")
    return None
