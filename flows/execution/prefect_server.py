"""A temporary Prefect server for a command that has none, with a database, a home and settings of its own.

Prefect starts one too, but only when a flow begins, as a program that imports everything once more, and on whatever
database is configured: the user's own, or an office's. This one is forked off as soon as a command has imported
prefect: it has half of its imports then, and makes the others while the command imports Dask and arrays.

The server's settings are its own, whatever the environment, the profiles and the files (.env, prefect.toml,
pyproject.toml) of its command say: they may name a user's database or an office's. So is its home, which is removed
when it ends. Its database begins as a copy of a template, empty and migrated, since migrations take as long as a small
run; there is a template for each version of Prefect.
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

PATIENCE = 300.0  # seconds that a server may take to start on a machine that is at work
END_SECONDS = 1.0  # how long after its last connection closed a server's process may still be there
LAST_LINES = 5  # of the server's output that a failure shows
LISTENING = 3  # the number of the file that the server answers on
DATABASE = "prefect.db"  # where Prefect has it in its home
TEMPLATES = "prefect"  # the folder with the installation, or below the runs folder
# No automations, no stream of events to watchers, no blocks, no record of tasks: nobody but the flow talks to this
# server, and that asks for nothing but the states of the flow run.
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
# The client sends the states of the flow run alone; the server is of its own version, and has no pages that another
# site could forge.
CLIENT = {
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
    "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
    "PREFECT_CLIENT_MAX_RETRIES": "2",  # a server of this process that has ended does not come back
}


class TemporaryServer:
    """A server, forked off this process, which must have a single thread; its socket listens before it can answer.

    state: the runs folder, whose template is used where the installation's cannot be.
    """

    def __init__(self, state: Path) -> None:
        # asyncio sends what it answers at once only through a socket that names TCP; else an answer waits 40 ms.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen(128)
            self._port = int(listening.getsockname()[1])
            self.url = f"http://127.0.0.1:{self._port}/api"
            self.password = f"das:{token_hex(16)}"  # loopback is open to every user of the machine
            self.home = Path(mkdtemp(prefix="das-prefect-"))  # its owner's alone
            self._output: IO[bytes] = TemporaryFile()  # noqa: SIM115  as long as the server
            self.pid = self._fork(listening.fileno(), state.absolute())
        atexit.register(self.stop)
        removed_when_stopped(partial(shutil.rmtree, self.home, ignore_errors=True))

    def _fork(self, listening: int, state: Path) -> int:
        """Fork the server off, which answers on a file and writes its output to another; return its process."""
        parent, output = os.getpid(), self._output.fileno()
        if process := os.fork():
            return process
        try:
            os.setpgid(0, 0)  # Ctrl-C at a terminal goes to the command, which still has to say how it ended
            nothing = os.open(os.devnull, os.O_RDONLY)
            for file, number in ((nothing, 0), (output, 1), (output, 2), (listening, LISTENING)):
                os.dup2(file, number)
            os.closerange(LISTENING + 1, os.sysconf("SC_OPEN_MAX"))
            serve(parent, self.home, self.password, state)
        finally:
            os._exit(1)  # the rest is the parent's: its files, and what it does at its end

    def wait(self) -> None:
        """Return when the server answers. Raises Failed where it does not, or no longer."""
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
        with suppress(ChildProcessError):  # its end was seen before
            return os.waitpid(self.pid, os.WNOHANG) != (0, 0)
        return True

    def failure(self, error: Exception) -> Failed:
        """Return what is known after a request failed: whether the server has ended, and what it printed."""
        deadline = time.monotonic() + END_SECONDS
        while not (ended := self.ended()) and not isinstance(error, TimeoutError) and time.monotonic() < deadline:
            time.sleep(0.05)
        what = "the temporary Prefect server ended"
        if not ended:
            what = f"a request to the temporary Prefect server failed ({type(error).__name__})"
        return Failed(f"{what}; {self.last_lines()}")

    def last_lines(self) -> str:
        """Return what the server printed last; without output, how much space its files have."""
        self._output.seek(0)
        lines = [line.strip() for line in self._output.read().decode(errors="replace").splitlines()]
        printed = " / ".join([line for line in lines if line][-LAST_LINES:])
        if printed:
            return f"it printed: {printed}"
        free = shutil.disk_usage(self.home.parent).free // 2**20
        return f"it printed nothing; {free:,} MiB are free in {self.home.parent}"

    def stop(self) -> None:
        """Send SIGTERM; the server removes its home and exits. Where it was killed, its home is removed here."""
        if self.ended():
            shutil.rmtree(self.home, ignore_errors=True)
        else:
            os.kill(self.pid, signal.SIGTERM)


_server: TemporaryServer | None = None
_temporary = False


def start_server(state: Path) -> None:
    """Import prefect, and fork a server off unless one is configured: for a process that has just begun.

    One that has imported prefect already, or has threads, leaves the server to Prefect.
    """
    global _server
    if os.environ.get("PREFECT_API_URL") or "prefect" in sys.modules or threading.active_count() > 1:
        return
    from prefect.settings import get_current_settings

    settings = get_current_settings()  # of environment, profiles and files
    if not settings.api.url and settings.server.ephemeral.enabled:
        _server = TemporaryServer(state)


def is_temporary() -> bool:
    """Return whether flows use a temporary server, without pages."""
    return _temporary


@contextmanager
def served() -> Iterator[None]:
    """Have the flows within this use the temporary server, where one was started.

    Raises Failed where it does not answer, or ends before the flows do.
    """
    global _temporary
    reach_loopback_directly()
    if _server is None:
        yield
        return
    # A flow would import the first three as it begins; here the server is not ready yet.
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
            with temporary_settings({"flows.heartbeat_frequency": None}):  # a flow waits a second for its end
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
    """Be the server until a signal or the end of the parent process, then remove its home and exit.

    home: an empty folder, open to its owner only. state: the runs folder, where the database's template is kept unless
    it is with the installation.
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
        os._exit(0)  # without waiting for threads


def _end(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one, at the parent's death, is not to keep its home
    sys.exit()


def _take_own_settings(home: Path, password: str) -> None:
    """Forget what the command's environment and its folder say of Prefect."""
    for name in [name for name in os.environ if name.upper().startswith("PREFECT_")]:
        del os.environ[name]
    os.environ |= SERVER | {"PREFECT_HOME": str(home), "PREFECT_SERVER_API_AUTH_STRING": password}
    os.chdir(home)
    from prefect.context import refresh_global_settings_context

    refresh_global_settings_context()  # a forked process has read the command's


def _answer() -> None:
    gc.disable()  # imports make a million objects, all of which stay
    import uvicorn
    from prefect.server.api.server import create_app

    config = uvicorn.Config(partial(create_app, ephemeral=True), factory=True, log_level="error", lifespan="on")
    config.load()
    gc.freeze()
    gc.enable()
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=LISTENING)])


def _prepare_database(database: Path, state: Path) -> None:
    """Make an empty, migrated database from a template; where there is none, migrate, and keep one if possible."""
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
    if database.with_name(f"{DATABASE}-wal").exists():  # a write-ahead log: the file is not all
        return
    for template in templates:
        with suppress(OSError, Refused):
            if template.parent == state / TEMPLATES:
                make_private(state, may_be_link=True)
            with atomic_path(template, durable=True) as copy:
                shutil.copyfile(database, copy)
            return
