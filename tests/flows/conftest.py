"""What the tests of commands share: `das` in this process, and the session's cluster in place of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flows.cli import main

Das = Callable[..., tuple[int, str, str]]


@pytest.fixture
def das(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Das:
    """Call `das` in this process; returns exit code, standard output, standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["das", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capfd.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return int(ended.value.code or 0), captured.out, captured.err

    return call


@pytest.fixture
def shared_cluster(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that start a cluster of their own use the session's: two real worker processes."""

    @contextmanager
    def opened(*_: object) -> Iterator[Any]:
        yield client

    monkeypatch.setattr("flows.execution.cluster.open_cluster", opened)
    monkeypatch.setattr("flows.execution.run.open_cluster", opened)
