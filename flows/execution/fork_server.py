"""The process from which this machine's workers are forked; it imports their common modules once."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import forkserver, get_context
from multiprocessing.util import get_temp_dir

from flows.reports.terminal import removed_when_stopped
from tasks.errors import Refused

METHOD = "forkserver"  # for multiprocessing, and Dask's setting distributed.worker.multiprocessing-method
SHORT_FOLDERS = ("/tmp", "/var/tmp")  # for sockets, whose addresses have 107 bytes at most (unix(7))
LONGEST_FOLDER = 107 - len("/pymp-12345678/listener-12345678")
# These are read when a process starts or imports, so the fork server sets them and its workers inherit them.
ENVIRONMENT = {
    # Dask makes workers return freed memory at once (64 KiB); arrays of a few MiB then cost more in page faults than in
    # arithmetic. On the spine of Wisconsin a pass takes 1.2 to 1.7 s with Dask's value and 0.5 s with this one. A
    # thread's own arena (glibc) holds 64 MiB at most and maps larger arrays anew each time, so there must be a single
    # arena.
    "MALLOC_TRIM_THRESHOLD_": str(256 * 2**20),
    "MALLOC_MMAP_THRESHOLD_": str(256 * 2**20),
    "MALLOC_ARENA_MAX": "1",
    # A worker has one thread for the run. A process with threads must not be forked, and numpy and Arrow start some
    # when they are imported, unless this forbids it.
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MIMALLOC_PURGE_DELAY": "10000",  # ms: Arrow keeps the memory of a chunk of records for the next one
    "PYTHONSAFEPATH": "1",  # import das-flows' packages, not others in the folder where `das` is called
}


def start_fork_server(*modules: str) -> None:
    """Start the process, unless it is running; it imports these modules besides the workers' common ones.

    Started early, it imports while this process imports modules that only a flow needs. It ends with this process.
    """
    context = get_context(METHOD)
    context.set_forkserver_preload(["flows.execution.preloaded", *modules])
    _choose_socket_folder()
    with variables(ENVIRONMENT), ignoring_interrupts():
        forkserver.ensure_running()
    removed_when_stopped(partial(shutil.rmtree, get_temp_dir(), ignore_errors=True))  # this folder holds a socket


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
def variables(names: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within this block, for code that reads them and processes that start in it."""
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
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
