"""What the end-to-end tests share: the fork server, of Dask's workers and of the processes that tests kill."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest
from forked_commands import ForkedCommands

from flows.execution.fork_server import start_fork_server
from flows.execution.systems import SYSTEMS

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000  # sched.h, sys/mount.h


def mounts_of_our_own() -> None:
    """Have what tests mount end with this process and those it starts, however they end; as root alone."""
    libc = ctypes.CDLL(None)
    if libc.unshare(CLONE_NEWNS) == 0:
        libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None)


mounts_of_our_own()  # before any thread or process is started that would not see them


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> None:
    """Start it with what the processes of tests import, before a command starts it with less."""
    start_fork_server(
        "pytest",
        "hypothesis.strategies",
        "flows.execution.settings",
        "tasks.safetab.coterminous",
        *SYSTEMS["detailed-dhca"].modules[""],
        *SYSTEMS["detailed-dhca"].modules["spine"],
    )


@pytest.fixture(scope="session")
def forked_commands(
    tmp_path_factory: pytest.TempPathFactory, server_settings: dict[str, Any]
) -> Iterator[ForkedCommands]:
    """`das` commands in processes of their own."""
    commands = ForkedCommands(tmp_path_factory.mktemp("forked") / "told.txt", str(server_settings["api.url"]))
    yield commands
    commands.close()
