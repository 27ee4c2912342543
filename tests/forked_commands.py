"""`das` commands in processes of their own, forked from one that has imported what they need.

Starting one then costs a third of what it costs from nothing, and what runs is the same: a session of its own, with its
own workers and the process that these are forked from. Run as a program, this file is the process that forks.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PATIENCE = 600  # seconds after which a command says where each of its threads is, and is killed


class Ended(NamedTuple):
    """How a command ended: its exit code (negative: the signal), both its outputs, its process and session."""

    code: int
    output: str
    process: int


class ForkedCommands:
    """The process that commands are forked from; they use the Prefect server at this URL."""

    def __init__(self, output: Path, server: str) -> None:
        from flows.execution.fork_server import ENVIRONMENT

        self._output = output
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | ENVIRONMENT | {"PREFECT_API_URL": server},
        )

    def das(self, *words: object, first: str = "") -> Ended:
        """Run a command after some lines of Python, and wait for its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([list(map(str, words)), first, str(self._output)]) + "\n")
        self._process.stdin.flush()
        process, code = json.loads(self._process.stdout.readline())
        return Ended(code, self._output.read_text(), process)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def main() -> None:
    """Fork a command for each line of the input; answer with its process and its exit code."""
    import flows.bottom_up  # noqa: F401
    import flows.cli
    import flows.detailed_dhca  # noqa: F401
    import flows.prefect_flows  # noqa: F401
    import flows.top_down  # noqa: F401

    gc.collect()
    gc.freeze()  # as in tests/rooms.py
    for line in sys.stdin:
        words, first, output = json.loads(line)
        if not (process := os.fork()):
            os.setsid()
            result = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for number, to in ((os.open(os.devnull, os.O_RDONLY), 0), (result, 1), (result, 2)):
                os.dup2(number, to)
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            sys.argv = ["das", *words]
            exec(first, {})
            flows.cli.main()
            sys.exit()
        print(json.dumps([process, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])]), flush=True)


if __name__ == "__main__":
    main()
