"""Input files by path or fsspec URL: their bytes, lines and digests, and whether they change while they are read.

Every input is opened here. Only regular files and URLs are accepted: reading a named pipe or a terminal would wait
for ever, and reading a device would never end. Anything else raises an OSError, as a missing file does, so that callers
have one kind of error to catch.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from gzip import BadGzipFile
from lzma import LZMAError
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import fsspec
import numpy as np
from fsspec.implementations.local import LocalFileSystem

from tasks.errors import Refused
from tasks.records.object_storage import register
from tasks.releases.digests import chunk_digest, stream_digest
from tasks.releases.manifest import check_not_exact

FILE_TYPES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
LEFT_BY_SYSTEMS = {"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r"}
WINDOW = 1 << 16  # bytes that are read to find the end of a line
LONGEST_LINE = 1 << 20  # bytes; a longer line does not belong to a table and would take a worker's memory
register()


def file_name(path: str) -> str:
    """Return the name of a file or folder by path or URL, without the rest of a URL, which may be a signature."""
    return (re.split("[?#]", path)[0] if "://" in path else path).rstrip("/").rpartition("/")[2]


def locate(path: str) -> tuple[Any, str]:
    """Return the file system of a path or URL, and the path on it. Raises Refused where no library here serves it."""
    try:
        located: tuple[Any, str] = fsspec.url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise Refused(f"{path}: {error}") from None
    return located


def exists(path: str) -> bool:
    """Return whether there is something at a path or URL. Raises Refused as `locate` does."""
    filesystem, name = locate(path)
    return bool(filesystem.exists(name))


def locate_file(path: str) -> tuple[Any, str]:
    """Return the file system and path of an input, as `locate`.

    Raises OSError where the path names no file; Refused for exact counts of confidential records (`das truth`).
    """
    if "::" in path:  # a file in an archive
        locate_file(path.rpartition("::")[2])
    filesystem, name = locate(path)
    if isinstance(filesystem, LocalFileSystem):
        kind = stat.S_IFMT(os.stat(name).st_mode)
        if kind != stat.S_IFREG:
            number = errno.EISDIR if kind == stat.S_IFDIR else errno.EINVAL
            raise OSError(number, f"it is {FILE_TYPES.get(kind, 'something else')}, not a file", path)
        check_not_exact(Path(name))
    return filesystem, name


@contextmanager
def open_file(path: str | os.PathLike[str], *, compression: str | None = None) -> Iterator[IO[bytes]]:
    """Open an input for reading; `compression` "infer" goes by the ending of its name. Raises OSError, Refused."""
    path = os.fspath(path)
    locate_file(path)
    try:
        with fsspec.open(path, "rb", compression=compression) as stream:
            yield stream
    except (EOFError, zlib.error, BadGzipFile, BadZipFile, LZMAError) as error:
        raise OSError(errno.EBADMSG, f"it cannot be decompressed: {error}", path) from None


def is_passed_over(name: str) -> bool:
    """Return whether a file in a folder or an archive, by its path within, is of a machine and not of a person.

    Systems, editors and Hadoop leave such files: `__MACOSX/`, `.DS_Store`, `Thumbs.db`, `~$plan.xlsx`, `_SUCCESS`.
    """
    parts = name.replace("\\", "/").lower().split("/")
    return any(part.startswith(("_", ".", "~$")) or part in LEFT_BY_SYSTEMS for part in parts)


def members(archive: str) -> list[str]:
    """Return the files in a zip archive that are not passed over, as paths that `open_file` takes. Raises Refused."""
    locate_file(archive)
    try:
        names = fsspec.filesystem("zip", fo=archive).find("")
    except BadZipFile as error:
        raise Refused(f"{archive} is not a zip archive: {error}") from error
    if led_out := [name for name in names if "::" in name]:  # fsspec would look for the file there, or on the web
        raise Refused(f"{archive} holds a file {led_out[0][:200]!a}, whose name leads out of it")
    return [f"zip://{name}::{archive}" for name in names if not is_passed_over(name)]


def read_bytes(path: str | os.PathLike[str], start: int | None = None, stop: int | None = None) -> bytes:
    """Read a byte range of an input, no more of it than the file has.

    Raises OSError where it cannot be read; Refused where another number of bytes comes: a web server may answer a range
    with the whole file, and fsspec takes it.
    """
    path = os.fspath(path)
    filesystem, name = locate_file(path)
    data: bytes = filesystem.cat_file(name, start=start, end=stop)
    begin = start or 0
    if (begin or stop is not None) and (stop is None or len(data) != stop - begin):
        size = size_of(path)
        wanted = max(0, (size if stop is None else min(stop, size)) - begin)
        if len(data) > wanted:
            raise Refused(f"{path}: its server sent more bytes than were requested; it must support byte ranges")
        if len(data) < wanted:
            raise Refused(f"{path}: its server sent fewer bytes than the file has")
    return data


@contextmanager
def refuse_unreadable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Have an input that cannot be read raise Refused, with the reason."""
    try:
        yield
    except OSError as error:
        raise Refused(f"{path} cannot be read: {why(error)}") from None


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a small input of UTF-8 text, with or without a byte order mark. Raises Refused."""
    try:
        with refuse_unreadable(path):
            return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refused(f"{path} is not UTF-8 text") from None


def why(error: OSError) -> str:
    """Return the reason why an input cannot be read, for a message."""
    return error.strerror or type(error).__name__


def digest_file(path: str) -> str:
    """Return the digest of an input. Raises OSError, Refused."""
    with open_file(path) as stream:
        return stream_digest(stream)


def digests_by_name(paths: Iterable[str]) -> dict[str, str]:
    """Return the digests of inputs by the names of their files. Raises OSError; Refused where two have one name."""
    named: dict[str, str] = {}
    for path in paths:
        if named.setdefault(file_name(path), path) != path:
            raise Refused(f"two inputs are named {file_name(path)}: give one of them another name")
    return {name: digest_file(path) for name, path in named.items()}


def identity(path: str) -> dict[str, Any] | None:
    """Return what distinguishes a file from another that replaces it; None for a missing file.

    It is what the file system reports without reading it: size, inode and times of a local file, size and tag or
    time of one elsewhere. If a server reports only the size, only the size is compared.
    """
    filesystem, name = locate(path)
    filesystem.invalidate_cache()
    try:
        info: dict[str, Any] = filesystem.info(name)
    except OSError:  # the file's reader reports it
        return None
    return {key: value for key, value in info.items() if key != "url"}  # a signed address is new each time


@contextmanager
def unchanged(paths: Iterable[str]) -> Iterator[None]:
    """Require that files stay unchanged while the block reads them, several times or in parts.

    Raises Refused where one was changed, replaced, added or removed when the block ends well: two versions may have
    been read.
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
    digest: str

    @cached_property
    def count(self) -> int:
        """The number of lines, including a last one without a newline."""
        return count_newlines(self.body) + (not self.body.endswith(b"\n") if self.body else 0)


def read_lines(path: str, number: int, chunk_bytes: int) -> Lines:
    """Read the lines that begin in a chunk, to their ends: every line of a file is in one chunk.

    A last line is read for at most LONGEST_LINE beyond the chunk, and one byte more if it is longer. The ends of the
    lines are found first, so that all lines are read in one piece and never copied.
    """
    size = size_of(path)
    start, stop = number * chunk_bytes, min((number + 1) * chunk_bytes, size)
    begin = max(start - 1, 0)  # a line begins at `start` if the byte before ends one
    before = _through_newline(path, begin, stop)  # less a header, or an earlier line's end
    first = begin + len(before) if before.endswith(b"\n") else stop
    rest = b""
    if first < stop < size:
        rest = _through_newline(path, stop - 1, min(size, stop + LONGEST_LINE + 1))[1:]
    seldom = len(rest) > WINDOW
    body = read_bytes(path, first, stop if seldom else stop + len(rest)) if first < stop else b""
    own = memoryview(body)[: stop - first]
    digest = chunk_digest(before[start - begin :], own).hex()
    return Lines(body + rest if seldom else body, digest)


def size_of(path: str) -> int:
    """Return the number of bytes of an input. Raises OSError, and Refused where its server does not report it."""
    filesystem, name = locate_file(path)
    size = filesystem.size(name)
    if size is None:
        raise Refused(f"{path}: its server does not report its size")
    return int(size)


def _through_newline(path: str, start: int, stop: int) -> bytes:
    """Read from `start` to the end of the line, or to `stop` where that comes first."""
    read = bytearray()
    while start + len(read) < stop:
        at = start + len(read)
        more = read_bytes(path, at, min(at + WINDOW, stop))
        cut = more.find(b"\n") + 1
        read += more[: cut or len(more)]
        if cut or not more:
            break
    return bytes(read)


def count_newlines(body: bytes) -> int:
    """Count newlines, in pieces that fit a processor's cache: several times faster than bytes.count."""
    letters = np.frombuffer(body, np.uint8)
    pieces = range(0, len(letters), 1 << 18)
    return sum(int(np.count_nonzero(letters[start : start + pieces.step] == ord("\n"))) for start in pieces)


def distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, as an `object_pairs_hook`. Raises ValueError where a key is given twice."""
    keys = [key for key, _ in pairs]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise ValueError(f"keys given twice {twice}")
    return dict(pairs)
