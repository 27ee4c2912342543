"""How a setting is typed on the command line: an annotation of its field, which has name, type, help and default."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from tasks.lifecycle.errors import Refused

M = TypeVar("M", bound=BaseModel)


class Option:
    """A setting that is typed as an option; one without this annotation is not on the command line.

    names: in place of its own, as `--only-state`. typed: its type on the command line, in place of the field's. read:
    makes the setting's value of what was typed. about: further arguments of typer.Option.
    """

    def __init__(self, *names: str, typed: Any = None, read: Callable[[Any], Any] | None = None, **about: Any) -> None:
        self.names = names
        self.typed = typed
        self.read = read
        self.about = about


class Argument(Option):
    """A setting that is typed by its place; its only name is the one that help shows."""


class Flag(Option):
    """An option without a value, which sets the setting to this one."""

    def __init__(self, name: str, value: Any) -> None:
        super().__init__(name, typed=bool, read=lambda on: value if on else None)


class TruthOption(Flag):
    """A flag of exact tables alone: no run has it."""


def validated(model: type[M], values: Mapping[str, Any]) -> M:
    """Return settings from what a person typed; None keeps a default. Raises Refused with the first fault."""
    try:
        return model(**{name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        raise Refused(f"{first['loc'][0]}: {first['msg'].removeprefix('Value error, ')}") from None


def refuse_url(path: Path) -> None:
    """Refuse a URL in place of a path: `s3://x` would make a folder `s3:`."""
    if re.match(r"[A-Za-z][\w+.-]*:(/|$)", str(path)):
        url = str(path).replace(":/", "://", 1)
        raise Refused(f"{url} is a URL; give a path, on this machine or on a file system that it mounts")
