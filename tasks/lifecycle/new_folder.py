"""The output folder of a command that is not a run: it appears when complete, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tasks.errors import Failed, Refused


def check_empty(place: Path) -> None:
    """Refuse a place that is not empty."""
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise Refused(f"{place} is not empty: choose an empty or a new folder")


@contextmanager
def new_folder(place: Path, mode: int = 0o777) -> Iterator[Path]:
    """Yield a folder next to `place`; rename it to `place` if the block succeeds, else remove it.

    mode: its permissions.

    Raises Refused if `place` is not empty or cannot be made; Failed if writing fails.
    """
    from tasks.lifecycle.files import atomic_path  # numpy with it, which not every process wants

    check_empty(place)
    if place.exists() and (os.path.ismount(place) or place.samefile(".")):  # renaming cannot replace it
        raise Refused(f"{place} is a mounted or the working directory: name a new folder in it")
    above = [folder for folder in place.absolute().parents if not folder.exists()]
    made = False
    try:
        with atomic_path(place.resolve()) as folder:
            folder.mkdir(mode)
            made = True
            yield folder
    except BaseException as error:
        for new in above:
            with suppress(OSError):  # somebody else put files there
                new.rmdir()
        if not isinstance(error, OSError):
            raise
        if made:
            raise Failed(f"{place} cannot be written: {error.strerror or error}; nothing was kept") from error
        raise Refused(f"{place} cannot be made: {error.strerror}") from error
