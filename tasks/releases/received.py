"""Read a release that may come from anyone: the names that it may use, and how its files are opened.

A release names files by plain relative names and holds regular files of limited size; a link, pipe or device is a
fault. Everything that reads a release goes through this module, so no name or link leads outside, no read blocks, and
no size exhausts memory.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.errors import Refused

MIB = 1 << 20
LIMITS = {".json": 32 * MIB, ".html": 64 * MIB}  # bytes; the manifest of the nation with all levels has about 2 MiB
LARGEST = 64 << 30  # bytes of any other file; tables are read in pieces
LARGEST_READ = 64 * MIB  # bytes of a file that is read at once, such as the list of the nation's 120,000 regions
PART = re.compile(r"\w[\w.,+= -]*")  # what may stand between slashes: no pattern, no control character, no ..


class NotOfRelease(Refused):
    """A release names or holds something that it must not; the message is one line."""


def path_in(release: Path, name: str, most: int = LARGEST) -> Path:
    """Return the path of a file of a release, by a relative name that must not lead outside.

    Raises NotOfRelease unless it is a regular file in the release of at most `most` bytes and its kind's limit.
    """
    path = os.fspath(release)
    if not (isinstance(name, str) and all(PART.fullmatch(part) for part in name.split("/"))):
        raise NotOfRelease(f"{ascii(name)[:200]} is outside of the release")
    *folders, file = name.split("/")
    try:
        for part in folders:
            path = os.path.join(path, part)
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise NotOfRelease(f"{name} is missing: {part} is a link, or not a folder")
        status = os.lstat(os.path.join(path, file))
    except OSError:
        raise NotOfRelease(f"{name} is missing") from None
    _check(name, status, min(most, LIMITS.get(os.path.splitext(file)[1], LARGEST)))
    return release / name


def read_in(release: Path, name: str) -> bytes:
    """Return the content of a small file of a release. Raises NotOfRelease as `path_in`, and for a large file."""
    path = path_in(release, name, LARGEST_READ)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # it may have been replaced by now
    except OSError as error:
        raise NotOfRelease(f"{name} cannot be read: {error.strerror}") from None
    with open(handle, "rb") as file:
        _check(name, os.fstat(handle), LARGEST_READ)
        return file.read(LARGEST_READ)


def read_json(release: Path, name: str) -> Any:
    """Return a JSON file of a release.

    Raises NotOfRelease as `read_in`, for what is not JSON in UTF-8, and for a name that an object has twice: readers
    differ in the one that they take.
    """
    try:
        return json.loads(read_in(release, name).decode(), object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:  # also numbers with too many digits, and endless brackets
        raise NotOfRelease(f"{name} is not JSON: {str(error)[:100]}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Raises ValueError for a name that it has twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise ValueError(f"{twice!a:.60} stands twice in one object")
    return found


def entries(release: Path) -> Iterator[tuple[str, bool]]:
    """Yield the name of each entry of a release except folders, and whether it is a regular file; follow no link."""
    for folder, below, names in os.walk(release):
        for name in [*names, *(each for each in below if os.path.islink(os.path.join(folder, each)))]:
            path = os.path.join(folder, name)
            yield os.path.relpath(path, release), stat.S_ISREG(os.lstat(path).st_mode)


def reason_of(error: Exception) -> str:
    """Return an error's class and the first words of its message, in one line."""
    return f"{type(error).__name__} {str(error).strip().partition(chr(10))[0][:200]}".rstrip()


def _check(name: str, status: os.stat_result, limit: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotOfRelease(f"{name} is a link, a folder or a device, not a file")
    if status.st_size > limit:
        raise NotOfRelease(f"{name} has {status.st_size:,} bytes, more than the {limit:,} that it may have")
