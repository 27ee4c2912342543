"""However a process ends, those that it started end with it, and nobody else's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

PROGRAM = """
import subprocess, sys, time
from flows.execution.guardian import guard_children
before = subprocess.Popen(["sleep", "600"])
guard_children(), guard_children()
own = [subprocess.Popen(["sleep", "600"], start_new_session=alone).pid for alone in (False, True)]
print(before.pid, *own, flush=True)
time.sleep({seconds})
"""


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "ended"])
def test_children_end_with_their_parent(killed: bool) -> None:
    program = PROGRAM.format(seconds=600 if killed else 0)
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    before, *own = map(int, parent.stdout.readline().split())
    try:
        if killed:
            parent.kill()
        parent.wait(60)
        until = time.monotonic() + 60
        while any(map(alive, own)):
            assert time.monotonic() < until, "a child outlives its parent"
            time.sleep(0.05)
        assert alive(before), "what was there before it was asked for is not its"
    finally:
        os.kill(before, signal.SIGKILL)
        parent.stdout.close()


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
