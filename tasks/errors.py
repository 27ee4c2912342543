"""The two kinds of error that end a command, each with an exit code of its own."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

PUT_BACK = "put back what it began with, or start a new run, which has a charge of its own"  # in another's place


class Refused(Exception):
    """The input, the budget or the output path is refused: nothing was written, and nothing more is spent (exit 1).

    The message is one clear line for the terminal. It never holds a person's value.
    """


class Failed(Exception):
    """The run stopped half-way and can be resumed under its run id (exit 3).

    The message names the stage and the rule only; the run's confidential directory holds the details.
    """


@contextmanager
def refusing(what: str = "") -> Iterator[None]:
    """Turn a library function's ValueError about its arguments into a refusal; what: begins the message."""
    try:
        yield
    except ValueError as error:
        raise Refused(f"{what}: {error}" if what else str(error)) from None


def all_or_none(attempts: Mapping[str, Callable[[], T]]) -> list[T]:
    """Make every attempt, each for a part of a run by the part's name, and return what each returned.

    Raises Refused where any was refused. Unless all were for the same reason, the message says which, why, and then
    what is not released for it.
    """
    results: dict[str, T] = {}
    refusals: dict[str, Refused] = {}
    for name, attempt in attempts.items():
        try:
            results[name] = attempt()
        except Refused as error:
            refusals[name] = error
    if len(refusals) == len(attempts) and len(set(map(str, refusals.values()))) == 1:
        raise next(iter(refusals.values()))
    if refusals:
        reasons = [f"{name} was refused: {reason}" for name, reason in refusals.items()]
        raise Refused("; ".join([*reasons, *(f"so {name} is not released" for name in results)]))
    return list(results.values())


def not_imported(error: ImportError) -> str:
    """Return the message for an import of a named module that fails once a command has begun."""
    return f"the module {error.name} cannot be imported: install das-flows again, with the libraries that it locks"
