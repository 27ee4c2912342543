"""A temporary Prefect server for a command that has none: started first of all, awaited when its flow begins.

Prefect starts one too, but only once everything is imported, from the process that then waits for it. Run as a program,
this file is the server.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection, HTTPException
from tempfile import TemporaryFile
from typing import IO

PATIENCE = 120.0  # seconds that a server may take to start on a machine that is at work
# No pages, no automations, no stream of events to watchers, no blocks: nobody but the flow talks to this server.
NOT_NEEDED = {
    "PREFECT_UI_ENABLED": "false",
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
    "PREFECT_API_EVENTS_STREAM_OUT_ENABLED": "false",
    "PREFECT_SERVER_LOGS_STREAM_OUT_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
}
EPHEMERAL = {"PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}  # as Prefect marks its own
PR_SET_PDEATHSIG = 1  # prctl(2)


class TemporaryServer:
    """A server process with the socket that it answers on, which listens before the process can answer."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
            self._port = int(listening.getsockname()[1])
            self.url = f"http://127.0.0.1:{self._port}/api"
            self._said: IO[bytes] = TemporaryFile()  # noqa: SIM115  as long as the server
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(listening.fileno()), str(os.getpid())],
                pass_fds=[listening.fileno()],
                env=os.environ | NOT_NEEDED | EPHEMERAL,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
            )
        atexit.register(self.stop)

    def wait(self) -> None:
        """Return when the server answers. Raises Failed where it does not."""
        from tasks.lifecycle.errors import Failed  # not in the server, which is Prefect's alone

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
        """Tell the server to end; it writes down what it was told and ends by itself."""
        self._process.terminate()


_server: TemporaryServer | None = None


def start_server() -> None:
    """Start a server unless the environment names one, so that it starts while prefect and Dask are imported here."""
    global _server
    if _server is None and not os.environ.get("PREFECT_API_URL") and "prefect" not in sys.modules:
        _server = TemporaryServer()


def use_server() -> None:
    """Have the flows of this process use the server that is configured, else a temporary one once it answers.

    Only Prefect can tell what its profiles and files configure, once it is imported.

    Raises
    ------
    Failed
        where the temporary server does not answer.
    """
    global _server
    from prefect.context import refresh_global_settings_context
    from prefect.settings import get_current_settings

    configured = get_current_settings()
    if _server and configured.api.url == _server.url:
        return
    if configured.api.url or not configured.server.ephemeral.enabled:
        if _server:
            _server.stop()
            _server = None
        return
    _server = _server or TemporaryServer()
    _server.wait()
    os.environ["PREFECT_API_URL"] = _server.url
    refresh_global_settings_context()


def serve(handle: int, parent: int) -> None:
    """Answer on a socket until told to end, or until the process that started this one has ended."""
    import ctypes
    import gc

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        return
    gc.disable()  # imports make a million objects, all of which stay
    import uvicorn

    config = uvicorn.Config("prefect.server.api.server:create_app", factory=True, log_level="error", lifespan="on")
    config.load()
    gc.freeze()
    gc.enable()
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=handle)])


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
