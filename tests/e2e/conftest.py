"""What the end-to-end tests share: the fork server, of Dask's workers and of the processes that tests kill."""

from __future__ import annotations

import pytest

from flows.commands.run import STAGES
from flows.execution.fork_server import start_fork_server


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> None:
    """Start it with what the processes of tests import, before a command starts it with less."""
    start_fork_server(
        "pytest", "hypothesis.strategies", "flows.execution.settings", "tasks.detailed_dhca.coterminous", *STAGES
    )
