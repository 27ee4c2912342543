"""Flows without a Prefect server: if none is configured, the command answers the few requests of a flow itself.

Prefect's engine runs no flow without an API, on which it records the flow run and its states. Nobody would read these
records: the ledger and OUT hold how a run ended. So they stay in this process; a server would take a fifth of a small
run's processor time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4

import httpx

from flows.execution.fork_server import variables
from flows.execution.loopback import reach_loopback_directly

ACCEPTED = {"status": "ACCEPT", "details": {"type": "accept_details"}}
CLIENT = {
    "PREFECT_API_URL": "http://prefect.invalid/api",  # a name that no network resolves (RFC 6761)
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
    "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
}

_without = False


class Records(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """The part of Prefect's REST API that flows of flows and their tasks use: each record by its id, for the process.

    Raises NotImplementedError for any other request.
    """

    def __init__(self) -> None:
        self._records: dict[str, dict[str, Any]] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request of Prefect's synchronous client."""
        path = request.url.path.removeprefix("/api").strip("/").split("/")
        return httpx.Response(200, json=self._answer(request.method, path, json.loads(request.read() or "{}")))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request of Prefect's asynchronous client."""
        return self.handle_request(request)

    def _answer(self, method: str, path: list[str], body: dict[str, Any]) -> Any:
        match method, path:
            case "POST", ["flows" | "flow_runs" | "task_runs"]:
                new = {"id": str(uuid4()), "expected_start_time": datetime.now(UTC).isoformat()}
                self._records[new["id"]] = record = new | {name: value for name, value in body.items() if value}
                return record
            case "POST", ["flow_runs", "filter"]:  # for an earlier run of a subflow
                return []
            case "POST", ["flow_runs", key, "set_state"]:
                self._records[key]["state"] = body["state"]
                return ACCEPTED | {"state": body["state"]}
            case "PATCH", ["flow_runs", key]:
                return self._records[key].update(body)
            case "GET", ["flow_runs", key]:
                return self._records[key]
            case "GET", ["admin", "storage"]:
                return {"default_result_storage_block_id": None}
        raise NotImplementedError(f"{method} {'/'.join(path)}: Prefect asks what it did not before")


def is_without_server() -> bool:
    """Return whether flows run without a server."""
    return _without


@contextmanager
def without_server() -> Iterator[None]:
    """Let the flows within this block run without a server, unless Prefect is configured for one."""
    global _without
    from prefect.client import orchestration
    from prefect.context import refresh_global_settings_context
    from prefect.events.clients import NullEventsClient
    from prefect.events.worker import EventsWorker
    from prefect.settings import get_current_settings, temporary_settings

    reach_loopback_directly()
    settings = get_current_settings()  # from environment, profiles and files
    if settings.api.url or not settings.server.ephemeral.enabled:
        yield
        return
    records, names = Records(), ("PrefectHttpxSyncClient", "PrefectHttpxAsyncClient")
    clients = {name: getattr(orchestration, name) for name in names}
    try:
        with variables(CLIENT):
            refresh_global_settings_context()
            for name, client in clients.items():
                setattr(orchestration, name, partial(client, transport=records))
            EventsWorker.set_client_override(NullEventsClient)
            _without = True
            with temporary_settings({"flows.heartbeat_frequency": None}):  # otherwise a flow waits a second for its end
                yield
    finally:
        _without = False
        EventsWorker.set_client_override(None)
        for name, client in clients.items():
            setattr(orchestration, name, client)
        refresh_global_settings_context()
