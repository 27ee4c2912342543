"""Run a command and measure it: seconds, processor seconds, the peak memory of all its processes, and its scratch.

    python benchmarks/measure.py [--scratch DIR] das run params data out

The other benchmarks use this file for their command lines, for runs of `das`, and for how they say what was measured.

Processor seconds are those of all its processes, also of those that outlive the command: they are waited for. Other
users of the machine lengthen these little. Memory is the sum of the proportional set sizes (PSS) of the process tree,
sampled; pages that processes share count once. Scratch is what the files below DIR hold at their most, sampled less
often. The last line is JSON.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

DATA = Path(os.environ.get("DAS_DATA") or Path(__file__).resolve().parents[2] / "shared/data")  # as the tests'
DAS = str(Path(sys.executable).with_name("das"))
INTERVAL = 0.5  # seconds between samples of memory
SPARING = 30  # times as long as a sample takes: one of a large run takes tens of milliseconds of the kernel's
SCRATCH_EACH = 8  # samples of memory to one of the disk
PR_SET_CHILD_SUBREAPER = 36  # prctl(2): what a command leaves behind becomes a child of this process


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Return the parser of a benchmark's command line; the help is the script's docstring."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def machine() -> str:
    """Return what this runs on."""
    return f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release()}"


def describe(measured: Mapping[str, float | int]) -> str:
    """Return what `measure` measured, for a reader."""
    scratch = f", {measured['peak_scratch_bytes'] / 1e9:.1f} GB of scratch" if "peak_scratch_bytes" in measured else ""
    return (
        f"{measured['seconds']:.1f} s, {measured['processor_seconds']:.1f} processor s, "
        f"{measured['peak_bytes'] / 2**30:.2f} GiB of memory{scratch}"
    )


def bytes_below(folder: Path) -> int:
    """Return the bytes of the files below a folder; some may go while this looks."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(f"{at}/{name}").st_size
    return total


def seconds_of(command: list[str], **options: object) -> tuple[float, float]:
    """Run a command quietly; return its seconds and its processor seconds. Raises CalledProcessError."""
    adopt()
    start, used = time.perf_counter(), processor_seconds()
    subprocess.run(command, check=True, capture_output=True, **options)  # type: ignore[call-overload]
    seconds = time.perf_counter() - start
    await_orphans()  # what ends by itself after the command is counted as well
    return seconds, processor_seconds() - used


def measure_das(*words: object, scratch: Path | None = None) -> tuple[dict[str, float | int], Any]:
    """Run `das WORDS --json`; returns what `measure` does and what the command printed. A failure ends the program."""
    with tempfile.TemporaryFile("w+") as printed:
        measured = measure([DAS, *map(str, words), "--json"], scratch, stdout=printed)
        printed.seek(0)
        text = printed.read()
    if measured["returncode"]:
        raise SystemExit(f"das {' '.join(map(str, words))} failed: {text}")
    return measured, json.loads(text)


def measure(command: list[str], scratch: Path | None = None, **options: object) -> dict[str, float | int]:
    """Run `command`; returns seconds, processor_seconds, peak_bytes (summed PSS), peak_scratch_bytes, returncode."""
    adopt()
    start, used = time.perf_counter(), processor_seconds()
    process = subprocess.Popen(command, **options)  # type: ignore[call-overload]
    peak = peak_scratch = samples = 0
    while process.poll() is None:
        began = time.process_time()
        peak = max(peak, _pss(process.pid))
        taken = time.process_time() - began
        if scratch and samples % SCRATCH_EACH == 0:
            peak_scratch = max(peak_scratch, bytes_below(scratch))
        samples += 1
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(INTERVAL, SPARING * taken))
    seconds = time.perf_counter() - start
    await_orphans()
    result = {
        "seconds": seconds,
        "processor_seconds": processor_seconds() - used,
        "peak_bytes": peak,
        "returncode": process.returncode,
    }
    return result | ({"peak_scratch_bytes": peak_scratch} if scratch else {})


def adopt() -> None:
    """Become the parent of processes whose own has ended: workers are the fork server's, which a command leaves."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def await_orphans() -> None:
    """Return when every process below this one has ended."""
    with suppress(ChildProcessError):
        while True:
            os.wait()


def processor_seconds() -> float:
    """Return the processor seconds of all processes below this one that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _pss(pid: int) -> int:
    total = 0
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for member in family:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            total += member.memory_full_info().pss
    return total


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    chosen = parser.parse_args()
    print(json.dumps(measure(chosen.command, chosen.scratch)))
