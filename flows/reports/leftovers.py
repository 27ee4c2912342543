"""What a command makes outside its own folders, for where a signal ends it without its exit handlers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

_removers: list[Callable[[], None]] = []


def removed_when_stopped(remove: Callable[[], None]) -> None:
    """Have `remove_leftovers` call a function, which an exit handler calls otherwise."""
    _removers.append(remove)


def remove_leftovers() -> None:
    """Remove what is left, in a process that is about to leave at once."""
    for remove in _removers:
        with suppress(OSError):
            remove()
