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


@pytest.mark.parametrize(("limit", "said"), [("much", "not a size"), ("2GiB", "could not be kept.*3.00 GiB")])
def test_a_limit_that_cannot_be_kept_is_refused(tmp_path: Path, limit: str, said: str) -> None:
    with pytest.raises(Refused, match=said), open_cluster(ClusterSettings(memory_limit=limit), tmp_path):
        pass
