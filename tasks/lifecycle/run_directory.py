"""The confidential directory of a run: what lies where, and how a file gets there whole.

```
RUN/            0700
  run.json        the settings it was started with; of a bottom-up run, bottom-up.json
  secret          0600, made with the ledger's row, gone when the release is committed
  authorization   what the noise depends on besides the secret
  lock            one process a run
  boot, code      the boot of the machine and the code (tasks/lifecycle/code.py) that wrote what follows
  public/         geography and iterations, encoded
  persons/        encoded person records           confidential
  counts/         exact counts                     confidential
  noisy/          noisy counts of each level, before and after suppression
  findings.json   the curator's report             confidential
  errors/         what went wrong inside a stage   confidential
```
A file or folder is written under a temporary name and renamed when whole, so that what exists is complete and a
resumed run may skip it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from tasks.lifecycle.code import code_digest
from tasks.lifecycle.errors import Refused

SETTINGS = "run.json"
BOTTOM_UP_SETTINGS = "bottom-up.json"
STAGES = ("public", "persons", "counts", "noisy")  # what stages write, and can write again
RUNS_HERE = ".run-directories"  # marks the folder that holds run directories
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class RunDirectory:
    """A handle on a run's confidential directory: only its path, so that it may be shown and stored."""

    path: Path

    @property
    def id(self) -> str:
        """The run id is the directory's name."""
        return self.path.name

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def create(self) -> None:
        """Make the directory, open to its owner only."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.path.parent / RUNS_HERE).touch()
        self.path.mkdir(mode=0o700, exist_ok=True)

    def drop_stale(self) -> None:
        """Remove what stages have written, unless it is known to be of this boot of the machine and of this code.

        What stages have written is renamed but not flushed, so it outlives a killed process but not a crashed machine;
        and two versions of the code may understand it differently. It is made again, with the same secret. Call it
        under the run's lock.
        """
        now = {"boot": BOOT_ID.read_text() if BOOT_ID.exists() else "", "code": code_digest()}
        if any(not (self / name).exists() or (self / name).read_text() != of for name, of in now.items()):
            self.drop_stages()
        for name, of in now.items():
            (self / name).write_text(of)

    def drop_stages(self) -> None:
        """Remove what stages have written; they write it again."""
        for name in STAGES:
            remove(self / name)


@contextmanager
def locked(run: RunDirectory) -> Iterator[None]:
    """Hold the run's lock, making its directory first. Raises Refused where another process holds it."""
    run.create()
    with open(run / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"run {run.id} is being worked on by another process") from None
        run.drop_stale()
        yield


@contextmanager
def whole(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it to `path` when the block ends well, else remove it.

    `durable` flushes a file and its entry in the folder, so that it outlives a crash of the machine too.
    """
    _make_folder(path.parent)
    temporary = path.parent / f".{path.name}.{uuid4().hex}"
    try:
        yield temporary
        if durable:
            fsync(temporary)
        try:
            os.replace(temporary, path)
        except OSError as error:  # a folder that a twin of this task has put there already holds the same
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        if durable:
            fsync(path.parent)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)


def _make_folder(folder: Path) -> None:
    """Make a folder and its parents, but never a run directory: a worker that outlives its run must not."""
    if not folder.exists():
        if (folder.parent / RUNS_HERE).exists():
            raise FileNotFoundError(f"{folder.name} has ended")
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)


def remove(path: Path) -> None:
    """Remove a folder, if it is there: it loses its name first, so that no rest of it is ever taken for the whole.

    What cannot be deleted stays under a temporary name, to go with the run directory. Raises OSError where even the
    name cannot be taken from it.
    """
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
    """Flush the entries of a folder and of all above it, some of which were perhaps made just now."""
    for above in (folder, *folder.parents):
        with suppress(PermissionError):  # one that is not ours was there before
            fsync(above)


def save_arrays(folder: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a folder of .npy files, whole or not at all."""
    with whole(folder) as temporary:
        temporary.mkdir()
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", array)


def open_array(folder: Path, name: str) -> NDArray[Any]:
    """Map one array of such a folder into memory, read-only."""
    array: NDArray[Any] = np.load(folder / f"{name}.npy", mmap_mode="r")
    return array


def save_public(path: Path, value: Any, *, durable: bool = False) -> None:
    """Write a small public object for the workers."""
    with whole(path, durable=durable) as temporary:
        temporary.write_bytes(pickle.dumps(value))


def load_public(path: Path) -> Any:
    """Read what `save_public` wrote; the directory belongs to the curator, so a pickle is as safe as the code."""
    return _load(path, stamp(path))


def stamp(path: Path) -> tuple[int, int]:
    """What tells a file from an earlier one at its path; long-lived workers keep what they read under it."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


@lru_cache(maxsize=64)
def _load(path: Path, _stamp: tuple[int, int]) -> Any:
    return pickle.loads(path.read_bytes())


def once(path: Path, make: Callable[[], None]) -> None:
    """Make `path` unless an earlier try of the same run has."""
    if not path.exists():
        make()
