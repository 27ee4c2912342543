"""All or none: of a command over US and Puerto Rico neither is charged before both are known to pass.

The first run validates the other one too, in the other's directory, before its own gate. When the other begins, it
finds itself validated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TypeVar

from spine.settings import Jurisdiction
from tasks.lifecycle.authorization import AUTHORIZATION
from tasks.lifecycle.errors import Failed, Refused
from tasks.lifecycle.reservation import Charging
from tasks.lifecycle.run_directory import locked
from tasks.lifecycle.workers import Workers
from tasks.population_groups.reserve_budget import precheck_reservation
from tasks.population_groups.run import PublicInput, Validated
from tasks.population_groups.shared_reading import NextRun
from tasks.population_groups.validation import validate, validated_for_another

NAMES: dict[Jurisdiction, str] = {"us": "US", "pr": "Puerto Rico"}
T = TypeVar("T")


def all_or_none(attempts: Mapping[Jurisdiction, Callable[[], T]]) -> dict[Jurisdiction, T]:
    """Make every attempt and return what each returned.

    Raises Refused where any was refused; the message says which, why, and which is not released for that reason.
    """
    results: dict[Jurisdiction, T] = {}
    refusals: dict[Jurisdiction, str] = {}
    for jurisdiction, attempt in attempts.items():
        try:
            results[jurisdiction] = attempt()
        except Refused as error:
            refusals[jurisdiction] = str(error)
    if refusals:
        spared = "".join(f"{NAMES[each]} not released: " for each in results)
        raise Refused(spared + _reasons(refusals))
    return results


def _reasons(refusals: Mapping[Jurisdiction, str]) -> str:
    if len(set(refusals.values())) < len(refusals):
        return f"{' and '.join(NAMES[each] for each in refusals)} were refused: {next(iter(refusals.values()))}"
    return "; ".join(f"{NAMES[jurisdiction]} was refused: {reason}" for jurisdiction, reason in refusals.items())


def validate_sibling(
    sibling: NextRun,
    workers: Workers,
    params: str,
    data: str,
    charging: Charging,
    others: Sequence[PublicInput] = (),
) -> Validated | None:
    """Validate the sibling run, unless it is charged already, and check its account; charge nothing.

    Raises Refused as `validate` and `reserve_budget` do; Failed where another process holds that run, before it is
    charged.
    """
    run = sibling.run
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(run))
        except Refused as error:
            if (run / AUTHORIZATION).exists():
                return None
            raise Failed(f"validate: {error}; both are charged or none") from None
        if (run / AUTHORIZATION).exists():
            return None
        done = run.validated_path.exists()
        inputs = (workers, params, data, sibling.jurisdiction)
        validated = run.validated if done else validate(run, *inputs, others=others)
        if validated is not None:
            validated_for_another(run)
            precheck_reservation(run, sibling.jurisdiction, charging)
    return validated
