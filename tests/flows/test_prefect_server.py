"""The temporary Prefect server, on a loopback that every user of the machine reaches, is its command's alone."""

from __future__ import annotations

import httpx

from flows.execution.prefect_server import PATIENCE, TemporaryServer


def test_only_who_started_the_server_is_answered() -> None:
    server = TemporaryServer()
    try:
        server.wait()
        user, _, password = server.password.partition(":")
        asked = f"{server.url}/flow_runs/filter"
        for auth, told in ((None, 401), (("das", "guess"), 401), ((user, password), 200)):
            assert httpx.post(asked, json={}, auth=auth, timeout=PATIENCE).status_code == told
    finally:
        server.stop()
