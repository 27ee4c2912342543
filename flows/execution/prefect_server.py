"""A temporary Prefect server for a command, if none is configured, with its own database, home and settings.

Prefect can start one too, but only when a flow begins, in a new process that imports everything again, and on whatever
database is configured: the user's own, or an office's. This server is forked as soon as a command has imported prefect:
by then it has half of its imports, and makes the rest while the command imports Dask and arrays.

The server ignores the settings of its command's environment, profiles and files (.env, prefect.toml, pyproject.toml),
which may name a user's database or an office's. It also has its own home, which is removed when it ends. Its database
starts as a copy of an empty, migrated template, because migrations take as long as a small run; there is a template for
each version of Prefect.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryFile, mkdtemp
from typing import IO, NoReturn

from flows.execution.fork_server import variables
from flows.execution.loopback import reach_loopback_directly
from flows.reports.terminal import removed_when_stopped
from tasks.errors import Failed, Refused
from tasks.lifecycle.process import end_with_parent

PATIENCE = 300.0  # seconds that a server may take to start on a busy machine
END_SECONDS = 1.0  # how long a server's process may still exist after its last connection closed
LAST_LINES = 5  # lines of the server's output in the message of a failure
LISTENING = 3  # the file descriptor on which the server answers
DATABASE = "prefect.db"  # Prefect's name for it, in its home
TEMPLATES = "prefect"  # the folder in the installation, or below the runs folder
# No automations, no stream of events to watchers, no blocks, no record of tasks: only the flow uses this server, and it
# needs only the states of the flow run.
SERVER = {
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
    "PREFECT_API_EVENTS_STREAM_OUT_ENABLED": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_DATABASE_MIGRATE_ON_START": "false",
    "PREFECT_SERVER_LOGS_STREAM_OUT_ENABLED": "false",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_ENABLED": "false",
}
# The client sends only the states of the flow run. The server has the client's version, and no pages that another site
# could forge.
CLIENT = {
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
    "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
    "PREFECT_CLIENT_MAX_RETRIES": "2",  # a temporary server that has ended does not come back
}


class TemporaryServer:
    """A server forked from this process, which must have a single thread. Its socket listens before it can answer.

    state: the runs folder, whose template is used if the installation's cannot be.
    """

    def __init__(self, state: Path) -> None:
        # asyncio sends answers at once only through a socket that names TCP; otherwise they wait 40 ms.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen(128)
            self._port = int(listening.getsockname()[1])
            self.url = f"http://127.0.0.1:{self._port}/api"
            self.password = f"das:{token_hex(16)}"  # every user of the machine can reach loopback
            self.home = Path(mkdtemp(prefix="das-prefect-"))  # open to its owner only
            self._output: IO[bytes] = TemporaryFile()  # noqa: SIM115  as long as the server
            self.pid = self._fork(listening.fileno(), state.absolute())
        atexit.register(self.stop)
        removed_when_stopped(partial(shutil.rmtree, self.home, ignore_errors=True))

    def _fork(self, listening: int, state: Path) -> int:
        """Fork the server, which answers on `listening` and writes its output to a file; return its process id."""
        parent, output = os.getpid(), self._output.fileno()
        if process := os.fork():
            return process
        try:
            os.setpgid(0, 0)  # Ctrl-C at a terminal goes to the command, which must still report how it ended
            nothing = os.open(os.devnull, os.O_RDONLY)
            for file, number in ((nothing, 0), (output, 1), (output, 2), (listening, LISTENING)):
                os.dup2(file, number)
            os.closerange(LISTENING + 1, os.sysconf("SC_OPEN_MAX"))
            serve(parent, self.home, self.password, state)
        finally:
            os._exit(1)  # leave the parent's files and exit handlers alone

    def wait(self) -> None:
        """Return once the server answers. Raises Failed if it does not answer, or has ended."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            connection.request("GET", "/api/health")
            connection.getresponse()
        except (OSError, HTTPException) as error:
            failure = self.failure(error)
            self.stop()
            raise failure from None
        finally:
            connection.close()

    def ended(self) -> bool:
        """Return whether the process has ended."""
        with suppress(ChildProcessError):  # its exit status was read before
            return os.waitpid(self.pid, os.WNOHANG) != (0, 0)
        return True

    def failure(self, error: Exception) -> Failed:
        """Return an error about a failed request: whether the server has ended, and what it printed."""
        deadline = time.monotonic() + END_SECONDS
        while not (ended := self.ended()) and not isinstance(error, TimeoutError) and time.monotonic() < deadline:
            time.sleep(0.05)
        what = "the temporary Prefect server ended"
        if not ended:
            what = f"a request to the temporary Prefect server failed ({type(error).__name__})"
        return Failed(f"{what}; {self.last_lines()}")

    def last_lines(self) -> str:
        """Return the server's last output or, without output, the free space of its disk."""
        self._output.seek(0)
        lines = [line.strip() for line in self._output.read().decode(errors="replace").splitlines()]
        printed = " / ".join([line for line in lines if line][-LAST_LINES:])
        if printed:
            return f"it printed: {printed}"
        free = shutil.disk_usage(self.home.parent).free // 2**20
        return f"it printed nothing; {free:,} MiB are free in {self.home.parent}"

    def stop(self) -> None:
        """Send SIGTERM; the server removes its home and exits. If it was killed, remove its home here."""
        if self.ended():
            shutil.rmtree(self.home, ignore_errors=True)
        else:
            os.kill(self.pid, signal.SIGTERM)


_server: TemporaryServer | None = None
_temporary = False


def start_server(state: Path) -> None:
    """Import prefect, and fork a server unless one is configured: for a process that has just started.

    If this process has imported prefect already, or has threads, Prefect starts the server itself.
    """
    global _server
    if os.environ.get("PREFECT_API_URL") or "prefect" in sys.modules or threading.active_count() > 1:
        return
    from prefect.settings import get_current_settings

    settings = get_current_settings()  # from environment, profiles and files
    if not settings.api.url and settings.server.ephemeral.enabled:
        _server = TemporaryServer(state)


def is_temporary() -> bool:
    """Return whether flows use a temporary server, which has no pages."""
    return _temporary


@contextmanager
def temporary_server() -> Iterator[None]:
    """Make the flows within this block use the temporary server, if one was started.

    Raises Failed if it does not answer, or ends before the flows do.
    """
    global _temporary
    reach_loopback_directly()
    if _server is None:
        yield
        return
    # A flow would import the first three when it begins; here the server is not ready yet.
    import fastapi  # noqa: F401
    import prefect.flow_engine  # noqa: F401
    import prefect.utilities.visualization  # noqa: F401
    from prefect.context import refresh_global_settings_context
    from prefect.events.clients import NullEventsClient
    from prefect.events.worker import EventsWorker
    from prefect.settings import temporary_settings

    _server.wait()
    try:
        with variables(CLIENT | {"PREFECT_API_URL": _server.url, "PREFECT_API_AUTH_STRING": _server.password}):
            refresh_global_settings_context()
            EventsWorker.set_client_override(NullEventsClient)
            _temporary = True
            with temporary_settings({"flows.heartbeat_frequency": None}):  # otherwise a flow waits a second for its end
                yield
    except (Refused, Failed):
        raise
    except Exception as error:
        from flows.execution.crash_report import is_of_the_server  # and numpy, before which the server is forked off

        if not _server.ended() and not is_of_the_server(error):
            raise
        raise _server.failure(error) from error
    finally:
        _temporary = False
        EventsWorker.set_client_override(None)
        refresh_global_settings_context()


def serve(parent: int, home: Path, password: str, state: Path) -> NoReturn:
    """Run the server until a signal or the end of the parent process, then remove its home and exit.

    home: an empty folder, open to its owner only. state: the runs folder, which holds the database's template unless
    the installation does.
    """
    try:
        signal.signal(signal.SIGTERM, _end)
        end_with_parent(signal.SIGTERM)
        if os.getppid() == parent:
            _take_own_settings(home, password)
            _prepare_database(home / DATABASE, state)
            _answer()
    except SystemExit:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        shutil.rmtree(home, ignore_errors=True)
        os._exit(0)  # do not wait for threads


def _end(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal, at the parent's death, must not stop the removal
    sys.exit()


def _take_own_settings(home: Path, password: str) -> None:
    """Discard the Prefect settings of the command's environment and folder."""
    for name in [name for name in os.environ if name.upper().startswith("PREFECT_")]:
        del os.environ[name]
    os.environ |= SERVER | {"PREFECT_HOME": str(home), "PREFECT_SERVER_API_AUTH_STRING": password}
    os.chdir(home)
    from prefect.context import refresh_global_settings_context

    refresh_global_settings_context()  # a forked process has the command's settings


def _answer() -> None:
    gc.disable()  # imports make a million objects, which are never freed
    import uvicorn
    from prefect.server.api.server import create_app

    config = uvicorn.Config(partial(create_app, ephemeral=True), factory=True, log_level="error", lifespan="on")
    config.load()
    gc.freeze()
    gc.enable()
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=LISTENING)])


def _prepare_database(database: Path, state: Path) -> None:
    """Make an empty, migrated database from a template; without a template, migrate, and save one if possible."""
    import prefect

    from tasks.lifecycle.files import atomic_path
    from tasks.lifecycle.private_folder import make_private
    from tasks.lifecycle.process import cache_folders

    templates = [folder / f"{prefect.__version__}.db" for folder in cache_folders(TEMPLATES, state)]
    for template in templates:
        with suppress(OSError):
            shutil.copyfile(template, database)
            return
    from prefect.server.database import provide_database_interface

    asyncio.run(provide_database_interface().create_db())
    if database.with_name(f"{DATABASE}-wal").exists():  # with a write-ahead log, the file is incomplete
        return
    for template in templates:
        with suppress(OSError, Refused):
            if template.parent == state / TEMPLATES:
                make_private(state, may_be_link=True)
            with atomic_path(template, durable=True) as copy:
                shutil.copyfile(database, copy)
            return
