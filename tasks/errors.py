"""The two kinds of error that end a command, each with an exit code of its own."""

from collections.abc import Iterator
from contextlib import contextmanager

PUT_BACK = "put back what it began with, or start a new run, which has a charge of its own"  # of a run that met another


class Refused(Exception):
    """The input, the budget or the output path is refused: nothing was written and nothing was spent (exit 1).

    The message is one clear line for the terminal. It never holds a person's value.
    """


class Failed(Exception):
    """The run stopped half-way and can be resumed under its run id (exit 3).

    The message names the stage and the rule only; the run's confidential directory holds the details.
    """


@contextmanager
def refusing(what: str = "") -> Iterator[None]:
    """Turn the ValueError by which a library function rejects its arguments into a refusal; what: they are of."""
    try:
        yield
    except ValueError as error:
        raise Refused(f"{what}: {error}" if what else str(error)) from None


def not_imported(error: ImportError) -> str:
    """Return the message for an import of a named module that fails once a command has begun."""
    return f"the module {error.name} cannot be imported: install das-flows again, with the libraries that it locks"
