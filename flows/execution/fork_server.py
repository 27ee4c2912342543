"""The process that this machine's workers are forked from: it has imported what they all need, once."""

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

METHOD = "forkserver"  # of multiprocessing, and of Dask's setting distributed.worker.multiprocessing-method
SHORT_FOLDERS = ("/tmp", "/var/tmp")  # for sockets, whose addresses have 107 bytes (unix(7))
LONGEST_FOLDER = 107 - len("/pymp-12345678/listener-12345678")
# Read when a process starts or imports, so the fork server has them and its workers inherit them.
ENVIRONMENT = {
    # Dask has its workers hand freed memory back at once (64 KiB); arrays of a few MiB then cost more in page faults
    # than in arithmetic. Measured on the spine of Wisconsin: 1.2 to 1.7 s a pass with Dask's value, 0.5 s with this
    # one. A thread's own arena (glibc) holds 64 MiB at most and maps larger arrays anew each time, so there is to be
    # one arena.
    "MALLOC_TRIM_THRESHOLD_": str(256 * 2**20),
    "MALLOC_MMAP_THRESHOLD_": str(256 * 2**20),
    "MALLOC_ARENA_MAX": "1",
    # A worker is one thread of the run's. And a process that has threads must not be forked: numpy and Arrow start
    # some when they are imported, unless this forbids it.
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "PYTHONSAFEPATH": "1",  # what it imports is das-flows', whatever lies in the folder that `das` is called in
}


def start_fork_server(*modules: str) -> None:
    """Start the process, unless it runs; it imports these modules besides what the workers of every run need.

    Started early, it does so while this process imports what only a flow needs. It ends with this process.
    """
    context = get_context(METHOD)
    context.set_forkserver_preload(["flows.execution.preloaded", *modules])
    _choose_socket_folder()
    with variables(ENVIRONMENT), ignoring_interrupts():
        forkserver.ensure_running()
    removed_when_stopped(partial(shutil.rmtree, get_temp_dir(), ignore_errors=True))  # holds a socket


def _choose_socket_folder() -> None:
    """Have multiprocessing keep its sockets in one of SHORT_FOLDERS where their paths in TMPDIR would be too long.

    It makes one folder for them, its owner's alone, and keeps to it. Raises Refused where it can make none.
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
    """Have variables of the environment within this: for what reads them then, and the processes started then."""
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
    """Start processes that ignore Ctrl-C, which a terminal sends to all: the run ends them, without tracebacks."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread hears of signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
