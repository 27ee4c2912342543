"""Input files by path or fsspec URL: their bytes, lines and digests, and whether they change while they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import fsspec
import numpy as np

from tasks.lifecycle.digests import CHUNK_BYTES, chunk_digest, combine
from tasks.lifecycle.errors import Refused


def locate(path: str) -> tuple[Any, str]:
    """The file system of a path or fsspec URL, and the path on it. Raises Refused where no library here serves it."""
    try:
        found: tuple[Any, str] = fsspec.url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise Refused(f"{path}: {error}") from None
    return found


def read_bytes(path: str, start: int | None = None, stop: int | None = None) -> bytes:
    """Read a byte range of a file by path or fsspec URL, no more of it than the file has.

    Raises
    ------
    Refused
        where another number of bytes comes: a web server may answer a range with the whole file, and fsspec takes it.
    """
    filesystem, name = locate(path)
    data: bytes = filesystem.cat_file(name, start=start, end=stop)
    begin = start or 0
    if (begin or stop is not None) and (stop is None or len(data) != stop - begin):
        size = filesystem.size(name)
        if size is None:
            raise Refused(f"{path}: its server does not tell its size")
        wanted = max(0, (size if stop is None else min(stop, size)) - begin)
        if len(data) > wanted:
            raise Refused(f"{path}: more came than the part that was asked for; its server must serve byte ranges")
        if len(data) < wanted:
            raise Refused(f"{path}: fewer bytes came than the file has; it was cut short")
    return data


def digest_file(path: str) -> str:
    """The digest of a file by path or URL, one chunk in memory at a time."""
    filesystem, name = locate(path)
    with filesystem.open(name, "rb") as stream:
        return combine(chunk_digest(chunk) for chunk in iter(lambda: stream.read(CHUNK_BYTES), b""))


def identity(path: str) -> dict[str, Any] | None:
    """What tells a file from another that takes its place, None where there is none.

    It is what its file system says of it without reading it: size, inode and times of a local file, size and tag or
    time of one elsewhere. A server that tells the size alone leaves no more to compare.
    """
    filesystem, name = locate(path)
    filesystem.invalidate_cache()
    try:
        told: dict[str, Any] = filesystem.info(name)
    except OSError:  # the reader of the file says so
        return None
    return {key: value for key, value in told.items() if key != "url"}  # a signed address is new each time


@contextmanager
def unchanged(paths: Iterable[str]) -> Iterator[None]:
    """Hold files to what they are while the block reads them, several times or in parts.

    Raises
    ------
    Refused
        where one is changed, replaced, added or gone when the block ends well: what was read is of no one version.
    """
    before = {path: identity(path) for path in paths}
    yield
    for path, known in before.items():
        if identity(path) != known:
            raise Refused(f"{path} changed while it was read")


@dataclass(frozen=True)
class Lines:
    """The lines of a text file that begin in a chunk, less the header; `digest` is of the chunk's own bytes."""

    body: bytes
    count: int
    digest: str


def read_lines(path: str, number: int, chunk_bytes: int) -> Lines:
    """Read the lines that begin in a chunk, to their ends: every line of a file is in one chunk."""
    start = number * chunk_bytes
    before = read_bytes(path, start - 1, start) if start else b""
    own = read_bytes(path, start, start + chunk_bytes)
    digest = chunk_digest(own).hex()
    end = start + len(own)
    body = own[0 if before == b"\n" else own.find(b"\n") + 1 or len(own) :]  # less a header, or an earlier line's end
    del own
    while body and not body.endswith(b"\n") and (more := read_bytes(path, end, end + 65536)):
        cut = more.find(b"\n") + 1 or len(more)
        body, end = body + more[:cut], end + cut
    return Lines(body, count_newlines(body) + (not body.endswith(b"\n") if body else 0), digest)


def count_newlines(body: bytes) -> int:
    """The number of newlines; in pieces that a processor's cache holds, several times faster than bytes.count."""
    letters = np.frombuffer(body, np.uint8)
    pieces = range(0, len(letters), 1 << 18)
    return sum(int(np.count_nonzero(letters[start : start + pieces.step] == ord("\n"))) for start in pieces)
