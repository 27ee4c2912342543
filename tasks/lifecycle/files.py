"""Write files of a run's confidential directory atomically, and store small objects and arrays in such files.

A file or folder is written under a temporary name and renamed when complete. So every file that exists is complete.
"""

from __future__ import annotations

import errno
import filecmp
import json
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from mmap import ACCESS_COPY, ACCESS_READ, mmap
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from tasks.lifecycle.typed_json import Arrays, decode, encode

T = TypeVar("T")
# The header that numpy writes before an array of numbers or text. numpy itself reads it with `ast`, which takes longer
# than to map the array, and before Python 3.11.8 raises SystemError if two threads use it at once, as stages do.
HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|][biufSU]\d+)', 'fortran_order': (True|False), "
    rb"'shape': \(([\d, ]*)\), \} *\n",
    re.DOTALL,
)
ALIGNED, MAPPED = 64, 1 << 16  # bytes: where arrays begin in an object's file, and from which size on they are mapped
RUNS_HERE = ".run-directories"  # marks the folder that holds run directories


@contextmanager
def atomic_path(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path next to `path`; rename it to `path` if the block succeeds, else remove it.

    Whatever was at `path` is replaced. `durable` flushes a file and its entry in the folder, so that it survives a
    crash of the machine too. Raises FileExistsError if another folder appeared at `path` meanwhile.
    """
    _make_folder(path.parent)
    temporary, earlier = path.parent / f".{path.name}.{uuid4().hex}", path.exists()
    try:
        yield temporary
        if durable:
            fsync(temporary)
        try:
            os.replace(temporary, path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if not _same_files(temporary, path):  # if they are the same, a duplicate of this task was faster
                if not earlier:
                    raise FileExistsError(errno.EEXIST, "another folder is there", str(path)) from None
                remove(path)
                os.replace(temporary, path)
        if durable:
            fsync(path.parent)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)


def _same_files(one: Path, other: Path) -> bool:
    """Return whether two folders hold the same files."""
    names = [{path.relative_to(folder) for path in folder.rglob("*") if path.is_file()} for folder in (one, other)]
    return names[0] == names[1] and all(filecmp.cmp(one / name, other / name, shallow=False) for name in names[0])


def complete(folder: Path) -> list[Path]:
    """Return the complete entries of a folder, by name, without the temporary files of writers that were killed."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _make_folder(folder: Path) -> None:
    """Make a folder and its parents, but never a run directory: a worker that outlives its run must not."""
    if not folder.exists():
        if (folder.parent / RUNS_HERE).exists():
            raise FileNotFoundError(f"run {folder.name} has ended")
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)


def remove(*folders: Path) -> None:
    """Remove existing folders. Each is renamed first, so a half-deleted folder is never taken for a complete one.

    Files that cannot be deleted stay under a temporary name until the run directory is removed. Raises OSError if
    renaming fails.
    """
    for path in folders:
        aside = path.with_name(f".{path.name}.{uuid4().hex}")
        with suppress(FileNotFoundError):
            os.rename(path, aside)
        shutil.rmtree(aside, ignore_errors=True)


def fsync(path: Path) -> None:
    """Flush a file, or the entries of a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_up(folder: Path) -> None:
    """Flush the entries of a folder and of all folders above it, some of which may be new."""
    for above in (folder, *folder.parents):
        with suppress(PermissionError):  # another owner's folder existed before
            fsync(above)


def fsync_tree(folder: Path) -> None:
    """Make a folder and its contents durable."""
    for path in [folder, *folder.rglob("*")]:
        fsync(path)


def save_arrays(folder: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a folder of .npy files, whole or not at all."""
    with atomic_path(folder) as temporary:
        temporary.mkdir()
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", array)


def narrowest(numbers: NDArray[np.int64]) -> NDArray[np.signedinteger]:
    """Return whole numbers in the narrowest signed type that holds them all."""
    least, most = numbers.min(initial=0), numbers.max(initial=0)
    kinds = (kind for kind in (np.int16, np.int32) if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)
    return numbers.astype(next(kinds, np.int64))


def open_array(folder: Path, name: str) -> NDArray[Any]:
    """Map one array of such a folder into memory, read-only."""
    with open(f"{folder}/{name}.npy", "rb", buffering=0) as file:
        mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
    return array_at(mapped, 0)[0]


def array_at(buffer: mmap, at: int) -> tuple[NDArray[Any], int]:
    """Return the array whose header begins at this place of a buffer, as a view of it, and where it ends.

    Raises ValueError if there is no array of numbers or text.
    """
    header = HEADER.match(buffer, at)
    if header is None:
        raise ValueError("no array of numbers or text")
    shape = [int(length) for length in header[3].split(b",") if length.strip()]
    array = np.frombuffer(buffer, header[1].decode(), math.prod(shape), header.end())
    return array.reshape(shape, order="F" if header[2] == b"True" else "C"), header.end() + array.nbytes


def save_object(path: Path, value: Any) -> None:
    """Write a value for later stages: a line of JSON, then its arrays in .npy format, each at a multiple of ALIGNED."""
    arrays: Arrays = []
    text = json.dumps(encode(value, arrays), separators=(",", ":")).encode()
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        file.write(text + b" " * (-(len(text) + 1) % ALIGNED) + b"\n")
        for array in arrays:
            np.lib.format.write_array(file, array, allow_pickle=False)
            file.write(b"\0" * (-file.tell() % ALIGNED))


def load_object(path: Path, kind: type[T]) -> T:
    """Read what `save_object` wrote, as the declared type. The result is cached: callers must not change it.

    Raises BadValue if the file does not hold a value of that type.
    """
    declared: Any = kind
    value: T = _load(path, declared, stamp(path))
    return value


def stamp(path: str | Path) -> tuple[int, int]:
    """Return a key that differs from that of an earlier file at the same path: long-lived workers cache by it."""
    status = os.stat(path)
    return status.st_ino, status.st_mtime_ns


@lru_cache(maxsize=64)
def _load(path: Path, kind: Any, _stamp: tuple[int, int]) -> Any:
    return read_object(path, kind)


def read_object(path: Path, kind: type[T]) -> T:
    """Read what `save_object` wrote without caching, for large or rarely read values. Raises BadValue.

    Large arrays are mapped into memory, so that a process holds what it reads of them.
    """
    arrays: Arrays = []
    with open(path, "rb", buffering=0) as file:
        # Copied on write, since kernels are compiled for arrays that may be written.
        mapped = mmap(file.fileno(), 0, access=ACCESS_COPY)
    text, at = mapped.readline(), mapped.tell()
    while at < len(mapped):
        array, end = array_at(mapped, at)
        arrays.append(array if array.nbytes >= MAPPED else array.copy())
        at = end + -end % ALIGNED
    value: T = decode(kind, json.loads(text), arrays)
    return value
