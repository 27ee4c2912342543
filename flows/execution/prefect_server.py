"""A temporary Prefect server for a command that has none: forked off as soon as this process has imported prefect.

Prefect starts one too, but only when a flow begins, as a program that imports everything once more, and then waits for
it. A forked server has imported half of what it needs, and imports the rest while this process imports Dask and arrays.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from secrets import token_hex
from tempfile import TemporaryFile
from typing import IO, NoReturn

from tasks.lifecycle.errors import Failed

PATIENCE = 300.0  # seconds that a server may take to start on a machine that is at work
# No pages, no automations, no stream of events to watchers, no blocks, no record of tasks: nobody but the flow talks to
# this server, and that asks for nothing but the states of the flow run.
NOT_NEEDED = {
    "PREFECT_UI_ENABLED": "false",
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
    "PREFECT_API_EVENTS_STREAM_OUT_ENABLED": "false",
    "PREFECT_SERVER_LOGS_STREAM_OUT_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_ENABLED": "false",
}
EPHEMERAL = {"PREFECT__SERVER_EPHEMERAL": "1"}  # as Prefect marks its own
ROUTES = ("/flows", "/flow_runs", "/admin", "")  # what a flow asks for; each route takes time to be made
# The same for what the flow would tell it; it is of this very version, and has no pages that another site could forge.
NOT_TOLD = {
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
    "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
}
PR_SET_PDEATHSIG = 1  # prctl(2)


class TemporaryServer:
    """A server process with the socket that it answers on, which listens before the process can answer."""

    def __init__(self) -> None:
        # asyncio sends what it answers at once only through a socket that names TCP; else an answer waits 40 ms.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen(128)
            self._port = int(listening.getsockname()[1])
            self.url = f"http://127.0.0.1:{self._port}/api"
            self.password = f"das:{token_hex(16)}"  # loopback is open to every user of the machine
            self._said: IO[bytes] = TemporaryFile()  # noqa: SIM115  as long as the server
            parent = os.getpid()
            self.pid = os.fork()
            if self.pid == 0:
                os.environ |= NOT_NEEDED | EPHEMERAL | {"PREFECT_SERVER_API_AUTH_STRING": self.password}
                _serve(listening, self._said, parent)
        atexit.register(self.stop)

    def wait(self) -> None:
        """Return when the server answers. Raises Failed where it does not."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            connection.request("GET", "/api/health")
            connection.getresponse()
        except (OSError, HTTPException):
            self.stop()
            self._said.seek(0)
            last = self._said.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise Failed(f"the temporary Prefect server did not start: {last or 'it said nothing'}") from None
        finally:
            connection.close()

    def stop(self) -> None:
        """Send SIGTERM; the server commits its database and exits."""
        os.kill(self.pid, signal.SIGTERM)


_server: TemporaryServer | None = None
_temporary = False


def start_server() -> None:
    """Import prefect, and fork a server off unless one is configured: for a process that has just begun.

    One that has imported prefect already, or has threads, is a test's; flows then start what Prefect does.
    """
    global _server
    if os.environ.get("PREFECT_API_URL") or "prefect" in sys.modules or threading.active_count() > 1:
        return
    import prefect.main  # noqa: F401  the server needs it as well
    from prefect.settings import get_current_settings  # of the environment, profiles and files

    configured = get_current_settings()
    if not configured.api.url and configured.server.ephemeral.enabled:
        _server = TemporaryServer()


def is_temporary() -> bool:
    """Return whether flows use a temporary server, without pages."""
    return _temporary


@contextmanager
def served() -> Iterator[None]:
    """Have the flows within this use the temporary server where one was started, else what is configured.

    Raises
    ------
    Failed
        where the temporary server does not answer.
    """
    global _temporary
    if _server is None:
        yield
        return
    # A flow would import the first three as it begins; here the server is not ready yet.
    import fastapi  # noqa: F401
    import prefect.flow_engine
    import prefect.utilities.visualization  # noqa: F401
    from prefect.context import refresh_global_settings_context
    from prefect.events.clients import NullEventsClient
    from prefect.events.worker import EventsWorker
    from prefect.settings import temporary_settings

    os.environ |= NOT_TOLD | {"PREFECT_API_URL": _server.url, "PREFECT_API_AUTH_STRING": _server.password}
    refresh_global_settings_context()
    EventsWorker.set_client_override(NullEventsClient)
    _server.wait()
    _temporary = True
    with temporary_settings({"flows.heartbeat_frequency": None}):  # a flow waits a second for the end of its heartbeat
        yield


def _serve(listening: socket.socket, said: IO[bytes], parent: int) -> NoReturn:
    """Be the server, in a forked process: answer until told to end, or until the parent has ended."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        os.setpgid(0, 0)  # Ctrl-C at a terminal goes to the command, which still has to say how it ended
        if os.getppid() == parent:
            _keep_only(listening.fileno(), said.fileno())
            gc.disable()  # imports make a million objects, all of which stay
            import uvicorn
            from prefect.context import refresh_global_settings_context

            refresh_global_settings_context()
            from prefect.server.api import server

            needed = [router for router in server.API_ROUTERS if router.prefix in ROUTES]
            server.API_ROUTERS = needed  # type: ignore[assignment]
            config = uvicorn.Config(server.create_app, factory=True, log_level="error", lifespan="on")
            config.load()
            gc.freeze()
            gc.enable()
            uvicorn.Server(config).run(sockets=[listening])
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)  # the rest is the parent's: its files, and what it does at its end


def _keep_only(listening: int, said: int) -> None:
    """Close the files that a forked process has from its parent, but for its socket; what it says goes to a file."""
    null = os.open(os.devnull, os.O_RDWR)
    for own, file in ((0, null), (1, null), (2, said)):
        os.dup2(file, own)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (0, 1, 2, listening):
            with suppress(OSError):  # the listing's own
                os.close(int(name))
