"""How many workers a memory limit allows for."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.cluster import COORDINATOR, WORKER, ClusterSettings, fit, open_cluster
from tasks.errors import Refused

GIB = 2**30


@pytest.mark.parametrize(
    ("limit", "wanted", "workers"), [("1GiB", 4, 1), ("3GiB", 4, 1), ("4GiB", 4, 2), ("6GiB", 4, 4), ("64GiB", 4, 4)]
)
def test_less_memory_means_fewer_workers(limit: str, wanted: int, workers: int) -> None:
    found, each = fit(ClusterSettings(memory_limit=limit, workers=wanted))
    assert found == workers
    assert each >= WORKER
    if found * each + COORDINATOR > int(limit.removesuffix("GiB")) * GIB:
        assert found == 1  # the least that runs at all


def test_workers_with_threads_hold_a_piece_each() -> None:
    assert fit(ClusterSettings(memory_limit="6GiB", workers=4, threads_per_worker=2)) == (2, 2 * GIB)


def test_a_limit_that_is_no_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="not a size"), open_cluster(ClusterSettings(memory_limit="much"), tmp_path):
        pass
