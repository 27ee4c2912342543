"""Where the stages of a flow run: the settings of its Dask cluster, paths and numbers that Prefect stores and shows."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from flows.execution.option import option
from tasks.lifecycle.errors import Refused

# What docs/scale.md measures for the whole nation, rounded up: the flow with Prefect's server and the geography in it;
# a worker with its largest piece, 64 MiB of text on its way to integers.
COORDINATOR = 2 * 2**30
WORKER = 2**30


def check_memory_limit(limit: str) -> str:
    """Return a limit. Raises Refused for one that is no size, or that a run could not keep."""
    from dask.utils import format_bytes, parse_bytes

    least = COORDINATOR + WORKER
    try:
        enough = limit == "auto" or parse_bytes(limit) >= least
    except (ValueError, OverflowError):
        raise Refused(f"--memory-limit {limit} is not a size such as 6GiB") from None
    if not enough:
        raise Refused(
            f"a memory limit of {limit} is too small: a run with one worker needs {format_bytes(least)} "
            "(--memory-limit, or memory_limit of a deployment's cluster)"
        )
    return limit


class ClusterSettings(BaseModel):
    """The Dask cluster of a flow: on this machine, at a scheduler's address, or of a class."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workers: int | None = option(None, "Worker processes on this machine.", show_default="cores", ge=1)
    threads_per_worker: int = Field(default=1, ge=1)
    memory_limit: str = option(
        "auto", "Memory of all processes on this machine together, for example 6GiB.", callback=check_memory_limit
    )
    scheduler: str | None = option(None, "Use the Dask scheduler at this address instead, as `tls://host:8786`.")
    patience: float = option(120.0, "Seconds without a worker after which a run stops, to be resumed.", min=1, gt=0)
    tls_ca: str | None = option(None, "Certificate authority of the scheduler (PEM).")
    tls_cert: str | None = option(None, "Our certificate (PEM).")
    tls_key: str | None = option(None, "Our key (PEM).")
    cluster_class: str | None = Field(default=None, description="A cluster class, as `dask_jobqueue:SLURMCluster`.")
    cluster_options: dict[str, Any] = Field(default_factory=dict, description="Arguments of the cluster class.")

    @property
    def elsewhere(self) -> bool:
        """Whether workers may be on other machines, which need not see what this one sees."""
        return bool(self.scheduler or self.cluster_class)
