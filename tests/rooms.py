"""Run the tests in a process for each of ROOMS, forked from one that has imported what most of them import.

    python tests/rooms.py [OPTIONS OF PYTEST]

Each process runs the files of its own room, so that what takes seconds to start, make or compile is there once.
Nothing is imported but in functions, because workers that tests start import this file.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryFile
from typing import BinaryIO, NoReturn

JEMALLOC = "JE_ARROW_MALLOC_CONF"
RESULTS = ("failed", "passed", "skipped", "errors", "error")
IMPORTED = (  # by tests of most rooms, in seconds
    *("distributed", "duckdb", "frictionless", "hypothesis.strategies", "jsonschema", "matplotlib.pyplot", "openpyxl"),
    *("pandas", "prefect.flow_engine", "prefect.task_engine", "pyarrow.dataset", "pytest", "scipy.optimize"),
    *("clarabel", "piqp", "pyogrio", "scipy.sparse.csgraph", "scipy.stats", "selenium.webdriver", "shapely"),
    *("starlette.applications", "uvicorn", "xlsxwriter"),
    *("flows.cli", "flows.prefect_flows", "flows.commands.check", "flows.commands.show", "flows.commands.tda.areas"),
)
OURS = ("privacy", "spine", "tasks")


def main() -> NoReturn:
    """Run all rooms at once; print their lines, each with the number of its room, and their results added up.

    Exit with the worst code.
    """
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.conftest import ROOM, ROOMS  # first: it sets the environment that all others read

    fork_environment = import_module("flows.execution.fork_server").ENVIRONMENT
    os.environ[JEMALLOC] = fork_environment[JEMALLOC]  # Arrow starts no thread when it is imported
    ours = (module.name for package in OURS for module in walk_packages([package], f"{package}."))
    for name in (*IMPORTED, *ours):
        import_module(name)
    target = import_module("numba.core.registry").cpu_target
    target.typing_context.refresh()  # or each room imports all that kernels may call
    target.target_context.refresh()
    gc.collect()
    gc.freeze()  # or the collections of each room walk through all that was imported, and copy it
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads must not be forked"
    codes: dict[int, int] = {}
    with ExitStack() as stack:
        outputs = [stack.enter_context(TemporaryFile()) for _ in ROOMS]
        for room, output in enumerate(outputs):
            if not os.fork():
                os.environ[ROOM] = str(room)
                run(output)
        shown = [0] * len(ROOMS)
        while len(codes) < len(ROOMS):
            time.sleep(0.5)
            while len(codes) < len(ROOMS) and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                codes[ended[0]] = abs(os.waitstatus_to_exitcode(ended[1]))
            shown = [
                print_lines(room, output, at) for room, (output, at) in enumerate(zip(outputs, shown, strict=True))
            ]
        print(summary([output.seek(0) or output.read().decode() for output in outputs]))
    leave(max(codes.values()))


def summary(outputs: Iterable[str]) -> str:
    """Return the results of all rooms in the words of pytest's last line, from what each printed."""
    results: Counter[str] = Counter()
    for output in outputs:
        last = output.rstrip().rpartition("\n")[2]
        for number, result in re.findall(r"(\d+) ([a-z]+)", last):
            results[result] += int(number)
    return ", ".join(f"{number} {result}" for result, number in results.items() if result in RESULTS)


def print_lines(room: int, output: BinaryIO, start: int) -> int:
    """Print the whole lines of a room's output from a byte on; return the byte behind them."""
    new = os.pread(output.fileno(), 1 << 20, start)
    lines = new[: new.rfind(b"\n") + 1]
    for line in lines.decode().splitlines():
        print(f"{room + 1}: {line}", flush=True)
    return start + len(lines)


def run(output: BinaryIO) -> NoReturn:
    """Run the tests of a room in this process, a fork; exit with pytest's code."""
    import pytest

    atexit.unregister(shutil.rmtree)  # of the home of Prefect, which all rooms share
    for number in (1, 2):
        os.dup2(output.fileno(), number)
    leave(pytest.main(["-W", "ignore::pytest.PytestAssertRewriteWarning", *sys.argv[1:]]))  # of what is imported


def leave(code: int) -> NoReturn:
    """Exit without freeing millions of objects one by one, which copies the pages that the rooms share."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
