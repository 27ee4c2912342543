"""A temporary Prefect server for a command that has none, with a database, a home and settings of its own.

Prefect starts one too, but only when a flow begins, as a program that imports everything once more, and on whatever
database is configured: the user's own, or an office's. This one is forked off as soon as a command has imported
prefect: it has half of its imports then, and makes the others while the command imports Dask and arrays.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryFile, mkdtemp
from typing import IO

from flows.execution.fork_server import variables
from flows.execution.server_process import LISTENING, PASSWORD, serve
from flows.reports.terminal import removed_when_stopped
from tasks.lifecycle.errors import Failed, Refused

PATIENCE = 300.0  # seconds that a server may take to start on a machine that is at work
LAST_LINES = 5  # of the server's output that a failure shows
# The client sends the states of the flow run alone (server_process.py); the server is of its own version, and has no
# pages that another site could forge.
CLIENT = {
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
    "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
    "PREFECT_CLIENT_MAX_RETRIES": "2",  # a server of this process that has ended does not come back
}


class TemporaryServer:
    """A server, forked off this process, which must have a single thread; its socket listens before it can answer.

    state: the state folder, whose template is used where the installation's cannot be.
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
            arguments = [str(os.getpid()), str(self.home), str(state.absolute())]
            self.pid = _fork(listening.fileno(), self._output.fileno(), self.password, arguments)
            self._answered = False
        atexit.register(self.stop)
        removed_when_stopped(partial(shutil.rmtree, self.home, ignore_errors=True))

    def wait(self) -> None:
        """Return when the server answers. Raises Failed where it does not, or no longer."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            connection.request("GET", "/api/health")
            connection.getresponse()
            self._answered = True
        except (OSError, HTTPException):
            self.stop()
            how = "ended" if self._answered else "did not start"
            raise Failed(f"the temporary Prefect server {how}: {self.last_lines()}") from None
        finally:
            connection.close()

    def ended(self) -> bool:
        """Return whether the process has ended."""
        with suppress(ChildProcessError):  # its end was seen before
            return os.waitpid(self.pid, os.WNOHANG) != (0, 0)
        return True

    def last_lines(self) -> str:
        """Return the end of the server's output."""
        self._output.seek(0)
        lines = [line.strip() for line in self._output.read().decode(errors="replace").splitlines()]
        return " / ".join([line for line in lines if line][-LAST_LINES:]) or "it printed nothing"

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

    Raises
    ------
    Failed
        where the temporary server does not answer, or ends before the flows do.
    """
    if _server is None:
        yield
        return
    # A flow would import the first three as it begins; here the server is not ready yet.
    import fastapi  # noqa: F401
    import prefect.flow_engine
    import prefect.utilities.visualization  # noqa: F401

    _server.wait()
    try:
        with _using(CLIENT | {"PREFECT_API_URL": _server.url, "PREFECT_API_AUTH_STRING": _server.password}):
            yield
    except (Refused, Failed):
        raise
    except Exception as error:
        if _server.ended():
            raise Failed(f"the temporary Prefect server ended: {_server.last_lines()}") from error
        raise


@contextmanager
def _using(environment: Mapping[str, str]) -> Iterator[None]:
    """Have Prefect use the temporary server that these variables name, whatever is configured."""
    global _temporary
    from prefect.context import refresh_global_settings_context
    from prefect.events.clients import NullEventsClient
    from prefect.events.worker import EventsWorker
    from prefect.settings import temporary_settings

    try:
        with variables(environment):
            refresh_global_settings_context()
            EventsWorker.set_client_override(NullEventsClient)
            _temporary = True
            with temporary_settings({"flows.heartbeat_frequency": None}):  # a flow waits a second for its end
                yield
    finally:
        _temporary = False
        EventsWorker.set_client_override(None)
        refresh_global_settings_context()


def _fork(listening: int, output: int, password: str, arguments: Sequence[str]) -> int:
    """Fork a server off, which answers on one file and writes its output to another; return its process."""
    if process := os.fork():
        return process
    try:
        os.setpgid(0, 0)  # Ctrl-C at a terminal goes to the command, which still has to say how it ended
        for file, number in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (output, 2), (listening, LISTENING)):
            os.dup2(file, number)
        os.closerange(LISTENING + 1, os.sysconf("SC_OPEN_MAX"))
        os.environ[PASSWORD] = password
        serve(*arguments)
    finally:
        os._exit(1)  # the rest is the parent's: its files, and what it does at its end
