"""Run a command and measure it: wall-clock seconds and the peak memory of all its processes together.

    python benchmarks/measure.py das run params data out

Memory is the sum of the proportional set sizes (PSS) of the process tree, sampled; pages that processes share count
once. The last line is JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import psutil

INTERVAL = 0.2  # seconds between samples


def measure(command: list[str], **options: object) -> dict[str, float | int]:
    """Run `command` to its end; returns seconds, peak_bytes (summed PSS) and returncode."""
    start = time.perf_counter()
    process = subprocess.Popen(command, **options)  # type: ignore[call-overload]
    peak = 0
    while process.poll() is None:
        peak = max(peak, _pss(process.pid))
        time.sleep(INTERVAL)
    return {"seconds": time.perf_counter() - start, "peak_bytes": peak, "returncode": process.returncode}


def _pss(pid: int) -> int:
    total = 0
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for member in family:
        try:
            total += member.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1:])))
