"""The Dask cluster of a flow: on this machine, at a scheduler's address, or of a class named in configuration."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import dask
from dask.utils import parse_bytes
from distributed import Client, LocalCluster
from distributed.comm.addressing import parse_address, parse_host_port
from distributed.security import Security
from distributed.system import MEMORY_LIMIT

from flows.execution.fork_server import ENVIRONMENT, METHOD, ignoring_interrupts, start_fork_server
from flows.execution.loopback import is_loopback
from flows.execution.settings import COORDINATOR, WORKER, ClusterSettings, check_memory_limit
from tasks.errors import Failed, Refused
from tasks.lifecycle.private_folder import make_private
from tasks.lifecycle.run_directory import state_home
from tasks.lifecycle.workers import Paths, Workers

# No data leaves the workers' memory except into the run's own files.
QUIET: dict[str, Any] = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.version-check": False,
    # Dask looks at the stacks of a worker's threads a hundred times a second. In Python 3.11 that may corrupt what runs
    # in them (python/cpython#106883, dask/distributed#8163); Dask itself leaves it out there of its event loops alone.
    "distributed.worker.profile.enabled": False,
    # Dask asks fifty times a second whether an event loop is late: of five processes that wait, half of what they cost.
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.limit": "1h",
    "distributed.comm.timeouts.connect": "60s",
    # After this time a local cluster gives up the place of a worker that died, unless a new one has started. Dask's
    # 15 s are too short where workers start slowly, or where the new one has just died too.
    "distributed.deploy.lost-worker-timeout": "1h",
    # Even without a dashboard Dask serves pages of call stacks and exceptions; this removes them.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
# Local workers are forked from one process that has imported what they need, and start with its environment.
FORKED = {
    "distributed.worker.multiprocessing-method": METHOD,
    **{f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in ENVIRONMENT.items()},
}


def fit(settings: ClusterSettings) -> tuple[int, int]:
    """Return how many worker processes the memory limit allows for, and the bytes of each.

    A piece of any stage fits a worker of WORKER bytes, whatever the size of the country: with less memory fewer pieces
    run at once, and the run gets slower, not larger.
    """
    limit = MEMORY_LIMIT if settings.memory_limit == "auto" else parse_bytes(settings.memory_limit)
    wanted = settings.workers or os.cpu_count() or 1
    workers = max(1, min(wanted, (limit - COORDINATOR) // (WORKER * settings.threads_per_worker)))
    return workers, max(WORKER, (limit - COORDINATOR) // workers)


class OneCluster:
    """A cluster for the runs of a command, one after the other: the first that asks for it has it started."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._opened: tuple[ClusterSettings, Client] | None = None
        self._stack = ExitStack()

    def __enter__(self) -> None:
        global _one
        _one = self

    def __exit__(self, *_: object) -> None:
        global _one
        _one = None
        self.stop()

    def stop(self) -> None:
        """Stop the cluster, if there is one."""
        self._opened = None
        self._stack.close()

    def client(self, settings: ClusterSettings) -> Client:
        """Return a client of the cluster, or of a new one where the last was lost or is not what the settings name."""
        if self._opened:
            opened, client = self._opened
            if opened == settings and client.status == "running" and client.nthreads():
                return client
        self.stop()
        client = self._stack.enter_context(_start(settings, self._scratch))
        self._opened = settings, client
        return client


_one: OneCluster | None = None


@contextmanager
def open_cluster(settings: ClusterSettings, scratch: Path) -> Iterator[Client]:
    """Give a client of the cluster that the settings name; what this starts, it stops, or OneCluster at its end.

    Raises Refused where the settings name a TLS scheduler without certificates, a scheduler that others than this
    machine reach without TLS (one that is there, or the cluster class's), or a memory limit that is no size or could
    not be kept; Failed where no cluster can be reached or started.
    """
    if settings.scheduler and settings.scheduler.startswith("tls:") and not settings.tls_ca:
        raise Refused("a tls:// scheduler needs certificates: give --tls-ca, --tls-cert and --tls-key")
    if settings.scheduler and not _is_closed(settings.scheduler):
        raise Refused(
            "a scheduler on another machine needs TLS, since anyone who reaches its port can run code there: use tls://"
        )
    check_memory_limit(settings.memory_limit)
    if _one:
        try:
            yield _one.client(settings)
        except BaseException:  # what is still at work for a run that failed must not go on
            _one.stop()
            raise
    else:
        with _start(settings, scratch) as client:
            yield client


@contextmanager
def _start(settings: ClusterSettings, scratch: Path) -> Iterator[Client]:
    """Start a cluster or connect to one, and stop what was started. Raises Refused, Failed."""
    logging.getLogger("distributed").setLevel(logging.ERROR)
    logging.getLogger("distributed.diskutils").setLevel(logging.CRITICAL)  # a commit removes its scratch before it does
    own = {"temporary-directory": str(scratch)}  # the scheduler's folder as well as the workers'
    with dask.config.set(QUIET | FORKED | own):
        try:
            with ignoring_interrupts():
                client = _connect(settings, scratch)
        except (Refused, Failed):
            raise
        except Exception as error:
            raise Failed(f"cluster: no workers could be started or reached ({type(error).__name__})") from None
        try:
            Workers(client).check()
            yield client
        finally:
            _close(client)


def _close(client: Client) -> None:
    """Stop what was started; what does not stop in time ends with this process, and the run is as it was."""
    cluster = client.cluster
    with suppress(TimeoutError):
        client.close(timeout=5)
    if cluster is not None:
        with suppress(TimeoutError):
            cluster.close(timeout=10)


@contextmanager
def open_cluster_if(settings: ClusterSettings | None, paths: Paths = ()) -> Iterator[Workers | None]:
    """Give the workers that the settings name, None without settings: the work is done in this process.

    For work on public data, which has no run directory: the cluster's scratch is in the runs folder.
    """
    if settings is None:
        yield None
    else:
        make_private(state_home(), may_be_link=True)
        with open_cluster(settings, state_home() / "dask") as client:
            workers = Workers(client, paths=paths if settings.elsewhere else (), patience=settings.patience)
            workers.check()
            yield workers


def _is_closed(address: str) -> bool:
    """Return whether this is an address that only this machine or the holder of a certificate reaches."""
    scheme, place = parse_address(address)
    if scheme != "tcp":
        return scheme in ("tls", "inproc")
    try:
        host, _ = parse_host_port(place, default_port=0)
    except ValueError:
        return False
    return is_loopback(host)


def _security(settings: ClusterSettings) -> Security | None:
    """Return the certificates that client, scheduler and workers share."""
    if not settings.tls_ca:
        return None
    roles = ("client", "scheduler", "worker")
    return Security(
        tls_ca_file=settings.tls_ca,
        require_encryption=True,
        **{f"tls_{role}_cert": settings.tls_cert for role in roles},
        **{f"tls_{role}_key": settings.tls_key for role in roles},
    )


def _connect(settings: ClusterSettings, scratch: Path) -> Client:
    security = _security(settings)
    if settings.scheduler:
        client = Client(settings.scheduler, security=security, set_as_default=False)
        try:
            client.wait_for_workers(1, timeout=settings.patience)
        except TimeoutError:
            client.close(timeout=5)
            raise Failed(
                f"cluster: no worker came to {settings.scheduler} within {settings.patience:g} seconds"
            ) from None
        return client
    if settings.cluster_class:
        module, _, name = settings.cluster_class.partition(":")
        secured = {"security": security} if security else {}
        cluster = getattr(importlib.import_module(module), name)(**settings.cluster_options | secured)
        if not _is_closed(cluster.scheduler_address):
            cluster.close(timeout=10)
            raise Refused(
                f"{name} started a scheduler without TLS on the network: give --tls-ca, --tls-cert, --tls-key"
            )
        client = Client(cluster, set_as_default=False)
        client.wait_for_workers(1)  # as long as its queue takes
        return client
    workers, bytes_each = fit(settings)
    start_fork_server()
    cluster = LocalCluster(
        n_workers=workers,
        threads_per_worker=settings.threads_per_worker,
        memory_limit=bytes_each,
        local_directory=str(scratch),
        security=Security.temporary(),  # a scheduler obeys whoever reaches its port
        dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
        silence_logs=logging.CRITICAL,
    )
    return Client(cluster, set_as_default=False)
