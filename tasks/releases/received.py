"""Read a release that somebody else may have made: what it may name, and how its files are opened.

A release names files by plain relative names, and holds regular files of bounded size; a link, a pipe or a device in it
is a fault. Whatever reads a release goes through here and knows no other rule, so that no name and no link leads out of
it, nothing waits for ever, and no size takes the memory.
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
LARGEST = 64 << 30  # bytes of any other file, a table that is read in pieces
LARGEST_READ = 64 * MIB  # bytes of a file that is read at once, as the list of the nation's 120,000 regions
PART = re.compile(r"\w[\w.,+= -]*")  # of a name, between slashes: no pattern, no control character, no .. in it


class NotOfRelease(Refused):
    """A release names, or holds, what no release may; the message is one line."""


def path_in(release: Path, name: str, most: int = LARGEST) -> Path:
    """Return the path of a file of a release, by a relative name that leads nowhere but into the release.

    Raises NotOfRelease unless it is a regular file inside the release of at most `most` bytes and its kind's limit.
    """
    path = os.fspath(release)
    if not (isinstance(name, str) and all(PART.fullmatch(part) for part in name.split("/"))):
        raise NotOfRelease(f"{ascii(name)[:200]} is outside of the release")
    *folders, file = name.split("/")
    try:
        for part in folders:
            path = os.path.join(path, part)
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise NotOfRelease(f"{name} is missing: {part} is a link or no folder")
        status = os.lstat(os.path.join(path, file))
    except OSError:
        raise NotOfRelease(f"{name} is missing") from None
    _check(name, status, min(most, LIMITS.get(os.path.splitext(file)[1], LARGEST)))
    return release / name


def read_in(release: Path, name: str) -> bytes:
    """Return the content of a small file of a release. Raises NotOfRelease as `path_in`, and for a large file."""
    path = path_in(release, name, LARGEST_READ)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # it may be another by now
    except OSError as error:
        raise NotOfRelease(f"{name} cannot be read: {error.strerror}") from None
    with open(handle, "rb") as file:
        _check(name, os.fstat(handle), LARGEST_READ)
        return file.read(LARGEST_READ)


def read_json(release: Path, name: str) -> Any:
    """Return a JSON file of a release. Raises NotOfRelease as `read_in`, and for what is not JSON."""
    try:
        return json.loads(read_in(release, name))
    except (ValueError, RecursionError) as error:  # also a number of too many digits, and brackets without end
        raise NotOfRelease(f"{name} is not JSON: {str(error)[:100]}") from None


def entries(release: Path) -> Iterator[tuple[str, bool]]:
    """Yield the name of all in a release except its folders, and whether it is a regular file. No link is followed."""
    for folder, below, names in os.walk(release):
        for name in [*names, *(each for each in below if os.path.islink(os.path.join(folder, each)))]:
            path = os.path.join(folder, name)
            yield os.path.relpath(path, release), stat.S_ISREG(os.lstat(path).st_mode)


def reason_of(error: Exception) -> str:
    """Return the kind of an error and the first words of its message, for one line."""
    return f"{type(error).__name__} {str(error).strip().partition(chr(10))[0][:200]}".rstrip()


def _check(name: str, status: os.stat_result, limit: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotOfRelease(f"{name} is a link, a folder or a device, not a file")
    if status.st_size > limit:
        raise NotOfRelease(f"{name} has {status.st_size:,} bytes, more than the {limit:,} that it may have")
