"""The temporary Prefect server, on a loopback that every user of the machine reaches, is its command's alone."""

from __future__ import annotations

import subprocess
import sys


def test_only_who_started_the_server_is_answered() -> None:
    """In a process of its own, since the server is forked off, which a process with threads must not do."""
    program = (
        "from flows.execution.prefect_server import PATIENCE, TemporaryServer\n"
        "server = TemporaryServer()\n"
        "server.wait()\n"
        "import httpx\n"
        "user, _, password = server.password.partition(':')\n"
        "asked = f'{server.url}/flow_runs/filter'\n"
        "for auth in (None, ('das', 'guess'), (user, password)):\n"
        "    print(httpx.post(asked, json={}, auth=auth, timeout=PATIENCE).status_code)\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["401", "401", "200"]
