"""Run the tests in a process for each of ROOMS, forked from one that has imported what most of them import.

    python tests/rooms.py [OPTIONS OF PYTEST]

Each process runs the files of its own room, so that what takes seconds to start, make or compile is there once.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from threading import active_count
from typing import BinaryIO

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.conftest import ROOM, ROOMS  # before all others: it sets the environment that they read

IMPORTED = (  # by tests of most rooms, in seconds
    *("distributed", "duckdb", "frictionless", "hypothesis.strategies", "jsonschema", "matplotlib.pyplot", "openpyxl"),
    *("pandas", "prefect.flow_engine", "prefect.task_engine", "pyarrow.dataset", "pytest", "scipy.optimize"),
    *("scipy.sparse.csgraph", "scipy.stats", "selenium.webdriver", "shapely", "uvicorn"),
    *("flows.cli", "flows.prefect_flows", "flows.commands.check", "flows.commands.show", "flows.commands.tda.areas"),
)


def main() -> int:
    """Run all rooms at once; print the output of each when it ends. Return the worst exit code."""
    for name in IMPORTED:
        import_module(name)
    assert active_count() == 1, "a process with threads must not be forked"
    codes, running = [], dict[int, int]()
    with ExitStack() as stack:
        outputs = [stack.enter_context(TemporaryFile()) for _ in ROOMS]
        for room, output in enumerate(outputs):
            if not (process := os.fork()):
                return run(room, output)
            running[process] = room
        while running:
            process, status = os.wait()
            room, code = running.pop(process), os.waitstatus_to_exitcode(status)
            outputs[room].seek(0)
            print(f"room {room + 1} of {len(ROOMS)}, exit code {code}\n{outputs[room].read().decode()}", flush=True)
            codes.append(abs(code))
    return max(codes)


def run(room: int, output: BinaryIO) -> int:
    """Run the tests of a room in this process, a fork; return pytest's exit code."""
    import pytest

    atexit.unregister(shutil.rmtree)  # of the home of Prefect, which all rooms share
    os.environ[ROOM] = str(room)
    for number in (1, 2):
        os.dup2(output.fileno(), number)
    return pytest.main(["-W", "ignore::pytest.PytestAssertRewriteWarning", *sys.argv[1:]])  # of what is imported


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
