"""The process from which this machine's workers are forked; it imports their common modules once."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from multiprocessing import forkserver, get_context, resource_tracker, util
from multiprocessing.util import get_temp_dir
from typing import Any

from flows import LIBRARIES, importing
from flows.reports.terminal import removed_when_stopped
from tasks.errors import Refused

METHOD = "forkserver"  # for multiprocessing, and Dask's setting distributed.worker.multiprocessing-method
# Modules of all workers; pyarrow imports pandas for its first array from Python values.
COMMON = ("distributed.nanny", "pandas", "pyarrow.parquet", "tasks.lifecycle.workers")
TASKS = "/proc/self/task"  # a folder for each thread, native ones too
SHORT_FOLDERS = ("/tmp", "/var/tmp")  # for sockets, whose addresses have 107 bytes at most (unix(7))
LONGEST_FOLDER = 107 - len("/pymp-12345678/listener-12345678")
# Dask makes workers return freed memory at once (64 KiB); arrays of a few MiB then cost more in page faults than in
# arithmetic. On the spine of Wisconsin a pass takes 1.2 to 1.7 s with Dask's value and 0.5 s with this one. A thread's
# own arena (glibc) holds 64 MiB at most and maps larger arrays anew each time, so there must be a single arena.
# The names are those that glibc reads when a process starts; the numbers are those of mallopt(3).
MALLOC = {
    "MALLOC_TRIM_THRESHOLD_": (-1, 256 * 2**20),
    "MALLOC_MMAP_THRESHOLD_": (-3, 256 * 2**20),
    "MALLOC_ARENA_MAX": (-8, 1),
}
ENVIRONMENT = {
    **LIBRARIES,
    **{name: str(value) for name, (_, value) in MALLOC.items()},
    "PYTHONSAFEPATH": "1",  # import das-flows' packages, not others in the folder where `das` is called
}


def start_fork_server(*modules: str) -> None:
    """Start the process, unless it is running; it imports these modules besides the workers' common ones.

    It is forked from this process, after its imports, if no thread is running and the libraries have read LIBRARIES;
    else it starts anew. It ends with this process.
    """
    context = get_context(METHOD)
    context.set_forkserver_preload(["flows.execution.preloaded", *modules])
    _choose_socket_folder()
    spawn = util.spawnv_passfds  # by which multiprocessing starts the process
    with variables(ENVIRONMENT) as before, ignoring_interrupts():
        resource_tracker.ensure_running()
        if LIBRARIES.items() <= before.items() and len(os.listdir(TASKS)) == 1:
            with importing():
                for name in (*COMMON, *modules):
                    import_module(name)
            util.spawnv_passfds = _fork
        try:
            forkserver.ensure_running()
        finally:
            util.spawnv_passfds = spawn
    removed_when_stopped(partial(shutil.rmtree, get_temp_dir(), ignore_errors=True))  # this folder holds a socket


def _fork(path: bytes, args: Sequence[Any], passfds: Sequence[int]) -> int:
    """Run a program of Python, the last of `args`, in a fork of this process with these files open; return its id."""
    if process := os.fork():
        return process
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        kept = sorted({0, 1, 2, *passfds})
        for file, following in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
            os.closerange(file + 1, following)
        glibc = ctypes.CDLL(None)
        for number, value in MALLOC.values():
            glibc.mallopt(number, value)
        exec(args[-1], {})  # multiprocessing's own
    finally:
        shutil.rmtree(get_temp_dir(), ignore_errors=True)  # the parent's, which cannot remove it after a SIGKILL
        os._exit(0)  # leave the parent's exit handlers alone


def _choose_socket_folder() -> None:
    """Make multiprocessing keep its sockets in one of SHORT_FOLDERS if their paths in TMPDIR would be too long.

    It makes one folder for them, open to its owner only, and uses it from then on. Raises Refused if it cannot.
    """
    given = tempfile.gettempdir()
    if len(os.fsencode(given)) <= LONGEST_FOLDER:
        return
    try:
        for tempfile.tempdir in SHORT_FOLDERS:
            with suppress(OSError):
                get_temp_dir()
                return
    finally:
        tempfile.tempdir = given
    raise Refused(
        f"TMPDIR is too long for a socket ({len(os.fsencode(given))} bytes, {LONGEST_FOLDER} at most), and "
        f"{' and '.join(SHORT_FOLDERS)} cannot be written: set a shorter TMPDIR"
    )


@contextmanager
def variables(names: Mapping[str, str]) -> Iterator[dict[str, str | None]]:
    """Set environment variables within this block, for code that reads them and processes that start in it.

    Yields their earlier values.
    """
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield before
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, which a terminal sends to all: the run stops them, without tracebacks."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
