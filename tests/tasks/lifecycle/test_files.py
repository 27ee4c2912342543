"""Files of a run's directory are read by several threads at once."""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tasks.lifecycle.files import open_array, read_object, save_arrays, save_object

READS = 500  # of each of 3 threads; by numpy's reader of headers, one in some 100 failed


class Yields:
    """Garbage whose finalizer gives way to another thread, as those of Prefect and asyncio may."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        time.sleep(0)


@pytest.fixture
def restless() -> Iterator[None]:
    """Collect garbage and change threads as often as may be."""
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(7, 2, 2)
    sys.setswitchinterval(1e-6)
    yield
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)


def test_large_arrays_of_an_object_are_mapped_and_stay_as_they_are(tmp_path: Path) -> None:
    kinds, sizes = ("u1", "<U7", "i8"), (3, 99_999, 0, 70_001)
    arrays = {f"{size}{kind}": np.arange(size).astype(kind) for size in sizes for kind in kinds}
    save_object(tmp_path / "object", arrays)
    tracemalloc.start()
    read = read_object(tmp_path / "object", dict[str, NDArray[Any]])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1 << 16 < sum(own.nbytes for own in arrays.values())
    for name, own in arrays.items():
        assert (read[name].dtype, read[name].tolist()) == (own.dtype, own.tolist())
    read["99999i8"] += 1  # a kernel may be compiled for arrays that it could change
    assert (read_object(tmp_path / "object", dict[str, NDArray[Any]])["99999i8"] == arrays["99999i8"]).all()


@pytest.mark.ci
def test_threads_read_headers_at_once(tmp_path: Path, restless: None) -> None:
    array = np.arange(10)
    save_arrays(tmp_path / "arrays", {"a": array})
    save_object(tmp_path / "object", {"a": array})

    def read(_: int) -> bool:
        Yields()
        mapped = open_array(tmp_path / "arrays", "a")
        kept = read_object(tmp_path / "object", dict[str, NDArray[np.int64]])["a"]
        return bool((mapped == array).all() and (kept == array).all())

    with ThreadPoolExecutor(3) as threads:
        assert all(threads.map(read, range(3 * READS)))
