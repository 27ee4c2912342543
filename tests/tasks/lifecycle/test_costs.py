"""What a piece costs: its processor time, its own peak of memory, and kernels that it compiles, not those it finds."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from tasks.lifecycle.costs import measured

COMPILES = """
import json, os, sys
from pathlib import Path
from tasks.lifecycle.process import CACHE_VARIABLE
from tasks.lifecycle.costs import measured
os.environ[CACHE_VARIABLE] = sys.argv[1]
def piece(numbers):
    from spine.compiled import compiled
    sys.path.insert(0, sys.argv[1])
    import kernel
    return kernel.total(numbers)
result, cost = measured(piece, 3)
again = measured(piece, 3)[1]
print(json.dumps([result, cost.compiled, again.compiled]))
"""
KERNEL = """
from spine.compiled import compiled
@compiled
def total(numbers):
    return numbers + 1
"""


def test_memory_is_the_peak_of_the_piece_and_waiting_costs_no_processor() -> None:
    def takes(megabytes: int) -> None:
        time.sleep(0.2)
        np.ones(megabytes * 2**17)

    large = measured(takes, 400)[1]
    small = measured(takes, 1)[1]
    assert small.processor < 0.15
    assert large.memory - small.memory > 300 * 2**20


def test_only_what_is_compiled_counts_as_compiling(tmp_path: Path) -> None:
    """Kernels are imported at their first use, within a piece; from the cache they take no compiling."""
    (tmp_path / "kernel.py").write_text(KERNEL)
    words = [sys.executable, "-c", COMPILES, str(tmp_path)]
    first, second = (json.loads(subprocess.check_output(words)) for _ in range(2))
    assert first[0] == second[0] == 4
    assert first[1] > 0
    assert first[2] == second[1] == second[2] == 0
