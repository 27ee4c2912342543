"""Dask workers for the spine: states one after the other in this process, or spread over a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tasks.spine.finish import Each
from tasks.spine.optimize import in_turn, on_client

if TYPE_CHECKING:
    from flows.execution.cluster import ClusterSettings


@contextmanager
def spine_workers(cluster: ClusterSettings | None) -> Iterator[Each]:
    """How to map over states: on the cluster that is given, or in this process."""
    if cluster is None:
        yield in_turn
        return
    from flows.execution.cluster import open_cluster
    from flows.execution.settings import state_home

    with open_cluster(cluster, state_home() / "dask") as client:
        yield on_client(client)
