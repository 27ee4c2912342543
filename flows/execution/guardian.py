"""Whatever ends this process, also SIGKILL, ends the processes that it started: workers and Prefect's temporary server.

A small process of its own waits until this one is gone: the kernel then closes the pipe between them. Whoever was
started since has the guardian's mark in its environment; that is how it is found, whoever its parent has become.
"""

from __future__ import annotations

import os
import secrets
import sys
from functools import cache

MARK = "DAS_FLOWS_GUARDED"
PROGRAM = """
import os, signal, sys, time
sys.stdin.buffer.read()
mark, quiet = sys.argv[1].encode(), 0
while quiet < 5:
    quiet += 1
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            process = os.pidfd_open(int(entry))
        except OSError:
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as environment:
                if mark in environment.read().split(b"\\0"):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                    quiet = 0
        except OSError:
            pass
        os.close(process)
    time.sleep(0.2)
"""


@cache
def guard_children() -> int:
    """Have the processes that this one starts from now on killed within a second of its end; return the guardian's id.

    It is no worker: whoever kills the children of this process spares it.
    """
    value = secrets.token_hex(16)
    reading, _writing = os.pipe()  # this process alone holds the writing end, until its own
    guardian = os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-c", PROGRAM, f"{MARK}={value}"],
        {name: known for name, known in os.environ.items() if name != MARK},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, reading, 0),
            *((os.POSIX_SPAWN_OPEN, said, os.devnull, os.O_WRONLY, 0) for said in (1, 2)),  # hold nobody's pipe open
        ],
        setsid=True,  # a terminal's Ctrl-C is not for it
    )
    os.close(reading)
    os.environ[MARK] = value
    return guardian
