"""What a piece of work costs: processor seconds, memory and the compiling of kernels, measured where it runs.

Confidential: all of it depends on the data. It is kept for the curator alone (flows/execution/timings.py).
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROCESS = Path("/proc/self")
KERNELS = "spine.compiled"  # imported before any kernel is


@dataclass(frozen=True)
class Cost:
    """processor: seconds of the thread. memory: the most bytes that its process held. compiled: seconds of it."""

    processor: float
    memory: int
    compiled: float


def _drop(_cost: Cost) -> None:
    """Keep no account of costs."""


# Who hears of the costs of the pieces that this thread waits for.
account: ContextVar[Callable[[Cost], None]] = ContextVar("account", default=_drop)


def measured(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Cost]:
    """Call a function; return its result and what it cost."""
    with suppress(OSError):  # the peak of memory starts anew (proc(5), clear_refs)
        (PROCESS / "clear_refs").write_text("5")
    begin, compiled = time.thread_time(), compile_seconds()
    result = function(*arguments)
    return result, Cost(time.thread_time() - begin, peak_memory(), compile_seconds() - compiled)


def peak_memory() -> int:
    """Return the most bytes that this process has held, since it was last asked to forget them."""
    with suppress(OSError):
        for line in (PROCESS / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def compile_seconds() -> float:
    """Return the seconds that this process has spent compiling kernels; those from the cache take none."""
    clock = getattr(sys.modules.get(KERNELS), "COMPILING", None)
    return float(clock.duration) if clock is not None and clock.done else 0.0
