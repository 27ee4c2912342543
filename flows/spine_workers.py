"""Dask workers for the spine: states one after the other in this process, or spread over a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tasks.spine import in_turn, on_client
from tasks.spine_finish import Each

if TYPE_CHECKING:
    from flows.cluster import ClusterSettings

# Dask has its workers hand freed memory back at once (64 KiB); arrays of a few MiB then cost more in page faults than
# in arithmetic. Measured on Wisconsin: 1.2 to 1.7 s a pass with Dask's value, 0.5 s with this one, as in one process.
KEEP_MEMORY = {
    f"distributed.nanny.pre-spawn-environ.MALLOC_{what}_THRESHOLD_": str(256 * 2**20) for what in ("TRIM", "MMAP")
}


@contextmanager
def spine_workers(cluster: ClusterSettings | None) -> Iterator[Each]:
    """How to map over states: on the cluster that is given, or in this process."""
    if cluster is None:
        yield in_turn
        return
    import dask

    from flows.cluster import open_cluster
    from flows.settings import state_home

    with dask.config.set(KEEP_MEMORY), open_cluster(cluster, state_home() / "dask") as client:
        yield on_client(client)
