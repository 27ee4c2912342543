"""The Dask cluster of a flow: on this machine, at a scheduler's address, or of a configured class."""

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

# Data never leaves the workers' memory except into the run's own files.
QUIET: dict[str, Any] = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.version-check": False,
    # Dask samples the stacks of a worker's threads a hundred times a second. In Python 3.11 that can corrupt running
    # threads (python/cpython#106883, dask/distributed#8163); Dask itself turns it off there, but for its event loops
    # only.
    "distributed.worker.profile.enabled": False,
    # Dask checks fifty times a second whether an event loop is late: half the cost of five waiting processes.
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.limit": "1h",
    # Twice a second it measures every process for a dashboard, which no cluster here has.
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.comm.timeouts.connect": "60s",
    # After this time a local cluster gives up on a worker that died, unless a new one has started. Dask's default of
    # 15 s is too short if workers start slowly, or if the new one has just died too.
    "distributed.deploy.lost-worker-timeout": "1h",
    # Even without a dashboard Dask serves pages with call stacks and exceptions; this removes them.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
# Local workers are forked from one process that has imported their modules, and inherit its environment.
FORKED = {
    "distributed.worker.multiprocessing-method": METHOD,
    **{f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in ENVIRONMENT.items()},
}


def fit(settings: ClusterSettings) -> tuple[int, int]:
    """Return the number of worker processes that the memory limit allows, and the bytes of each.

    A piece of any stage fits a worker of WORKER bytes, whatever the size of the country: with less memory, fewer pieces
    run at once, and the run takes longer.
    """
    limit = MEMORY_LIMIT if settings.memory_limit == "auto" else parse_bytes(settings.memory_limit)
    wanted = settings.workers or os.cpu_count() or 1
    workers = max(1, min(wanted, (limit - COORDINATOR) // (WORKER * settings.threads_per_worker)))
    return workers, max(WORKER, (limit - COORDINATOR) // workers)


class OneCluster:
    """A cluster shared by the runs of a command, one after the other; the first run that needs it starts it."""

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
        """Stop the cluster, if one is running."""
        self._opened = None
        self._stack.close()

    def client(self, settings: ClusterSettings) -> Client:
        """Return a client of the cluster, or of a new one if the last was lost or the settings differ."""
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
    """Yield a client of the cluster in the settings. A cluster started here stops here, or when OneCluster ends.

    Raises Refused if the settings name a TLS scheduler without certificates; a scheduler, existing or of the cluster
    class, that other machines can reach without TLS; or an invalid or too small memory limit. Raises Failed if no
    cluster can be reached or started.
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
        except BaseException:  # pieces that are still running for a failed run must stop
            _one.stop()
            raise
    else:
        with _start(settings, scratch) as client:
            yield client


@contextmanager
def _start(settings: ClusterSettings, scratch: Path) -> Iterator[Client]:
    """Start a cluster or connect to one, and stop what was started. Raises Refused, Failed."""
    logging.getLogger("distributed").setLevel(logging.ERROR)
    logging.getLogger("distributed.diskutils").setLevel(logging.CRITICAL)  # a commit removes its scratch first
    own = {"temporary-directory": str(scratch)}  # for the scheduler as well as the workers
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
    """Stop what was started; whatever does not stop in time ends with this process."""
    cluster = client.cluster
    with suppress(TimeoutError):
        client.close(timeout=5)
    if cluster is not None:
        with suppress(TimeoutError):
            cluster.close(timeout=10)


@contextmanager
def open_cluster_if(settings: ClusterSettings | None, paths: Paths = ()) -> Iterator[Workers | None]:
    """Yield the workers in the settings, or None without settings: the work is then done in this process.

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
    """Return whether only this machine, or holders of a certificate, can reach an address."""
    scheme, place = parse_address(address)
    if scheme != "tcp":
        return scheme in ("tls", "inproc")
    try:
        host, _ = parse_host_port(place, default_port=0)
    except ValueError:
        return False
    return is_loopback(host)


def _security(settings: ClusterSettings) -> Security | None:
    """Return the certificates that client, scheduler and workers share, or None."""
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
        client.wait_for_workers(1)  # without a limit: the class may have a queue
        return client
    workers, bytes_each = fit(settings)
    start_fork_server()
    cluster = LocalCluster(
        n_workers=workers,
        threads_per_worker=settings.threads_per_worker,
        memory_limit=bytes_each,
        local_directory=str(scratch),
        security=Security.temporary(),  # a scheduler obeys anyone who can reach its port
        dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
        silence_logs=logging.CRITICAL,
    )
    return Client(cluster, set_as_default=False)
