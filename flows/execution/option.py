"""Settings as options of the command line: a field declares its option's name, type, help and default."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from spine.fault_words import first_fault
from tasks.errors import Refused

M = TypeVar("M", bound=BaseModel)
OF_TYPER = {"callback", "metavar", "min", "show_default"}  # arguments of an option; all others belong to the field


@dataclass(frozen=True)
class Option:
    """A setting with an option on the command line; a field without one is not on the command line.

    names: names in place of the field's own, such as `--only-state`. typed: its type on the command line, in place of
    the field's. read: converts what was typed to the setting's value. about: further arguments of typer.Option.
    of_truth: whether only commands for exact tables, and no runs, have it.
    """

    names: tuple[str, ...] = ()
    typed: Any = None
    read: Callable[[Any], Any] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    of_truth: bool = False


class Argument(Option):
    """A setting that is a positional argument; its only name is the one in the help."""


def option(default: Any, help: str, *names: str, typed: Any = None, read: Any = None, **more: Any) -> Any:
    """Return a field with an option, which is required if the default is `...`.

    default: a value, or a function that returns it. more: arguments of typer.Option and of pydantic.Field.
    """
    about = {name: more.pop(name) for name in OF_TYPER & more.keys()}
    return _field(default, help, Option(names, typed, read, about), **more)


def argument(name: str, help: str, *, typed: Any = None) -> Any:
    """Return a field that is a positional argument."""
    return _field(..., help, Argument((name,), typed))


def flag(default: Any, help: str, name: str, value: Any, *, of_truth: bool = False) -> Any:
    """Return a field with an option that takes no value and sets the field to `value`."""
    return _field(default, help, Option((name,), bool, lambda on: value if on else None, of_truth=of_truth))


def _field(default: Any, help: str, option: Option, **limits: Any) -> Any:
    made: Any = Field(**{"default_factory" if callable(default) else "default": default}, description=help, **limits)
    made.metadata.append(option)
    return made


def validated(model: type[M], values: Mapping[str, Any], within: str = "") -> M:
    """Return settings from typed values; None keeps a default.

    Raises Refused with the first fault. within: goes before the fault's key.
    """
    try:
        return model(**{name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        raise Refused(f"{within}{first_fault(error)}") from None


def refuse_url(path: Path) -> None:
    """Refuse a URL in place of a path: `s3://x` would make a folder `s3:`."""
    if re.match(r"[A-Za-z][\w+.-]*:(/|$)", str(path)):
        url = str(path).replace(":/", "://", 1)
        raise Refused(f"{url} is a URL; give a path, on this machine or on a file system that it mounts")
