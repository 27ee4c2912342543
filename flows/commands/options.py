"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from flows.execution.cluster_settings import ClusterSettings
from flows.execution.fork_server import start_fork_server
from flows.execution.option import refuse_url
from flows.execution.prefect_server import start_server
from flows.reports.terminal import Json, interruptible
from tasks.lifecycle.errors import Refused

if TYPE_CHECKING:
    from tasks.lifecycle.run_directory import RunDirectory
    from tasks.lifecycle.workers import Workers

Command = TypeVar("Command", bound=Callable[..., None])


def with_local_paths(command: Command) -> Command:
    """Make a command refuse URLs for each of its parameters that is a path."""

    @wraps(command)
    def called(**values: Any) -> None:
        for value in values.values():
            for path in value if isinstance(value, list) else [value]:
                if isinstance(path, Path):
                    refuse_url(path)
        command(**values)

    return called  # type: ignore[return-value]


Curator = Annotated[bool, typer.Option("--i-am-the-curator", help="Allow data that is not marked synthetic.")]


@dataclass(frozen=True)
class StateOptions:
    """Where confidential run directories are."""

    state: Path | None = None

    @property
    def home(self) -> Path:
        """The state directory."""
        from tasks.lifecycle.run_directory import state_home

        return self.state or state_home()

    def shared_settings(self) -> dict[str, Any]:
        """Return the settings that these options make."""
        return {"state": str(self.home)}


@dataclass(frozen=True)
class LedgerOptions(StateOptions):
    """Where run directories and the ledger are."""

    ledger: Path | None = None

    @property
    def ledger_file(self) -> Path:
        """The ledger's file."""
        return self.ledger or self.home / "ledger.sqlite"

    def shared_settings(self) -> dict[str, Any]:
        """Return the settings that these options make."""
        return super().shared_settings() | {"ledger": str(self.ledger_file)}


@dataclass(frozen=True)
class WorkOptions(StateOptions):
    """The options of a command that computes on this machine, in a run directory that it removes."""

    workers: int | None = None
    memory_limit: str = "auto"
    as_json: Json = False

    @contextmanager
    def working(self, run: RunDirectory, title: str) -> Iterator[Workers]:
        """Lock a run directory, start workers, and show their progress under a title."""
        from flows.execution.cluster import open_cluster
        from flows.execution.progress import bars, report
        from tasks.lifecycle.run_directory import locked
        from tasks.lifecycle.workers import Workers

        cluster = ClusterSettings(workers=self.workers, memory_limit=self.memory_limit)
        with locked(run), open_cluster(cluster, run / "dask") as client, bars(title):
            yield Workers(client, report)

    @contextmanager
    def leaving_nothing(self, run: RunDirectory, title: str) -> Iterator[Workers]:
        """Do what `working` does, and remove the run directory; show the findings where the input is refused."""
        from flows.commands.findings import show_findings_of
        from tasks.lifecycle.commit import end_truth

        end = partial(end_truth, run)
        try:
            with interruptible("interrupted; nothing is left", end), self.working(run, title) as workers:
                yield workers
        except Refused:
            show_findings_of(run, as_json=self.as_json)
            raise
        finally:
            end()


@dataclass(frozen=True)
class ExactOptions(WorkOptions, LedgerOptions):
    """The options of a command that writes exact counts, or errors against them, and asks the ledger about the data."""


@dataclass(frozen=True)
class RunOptions(LedgerOptions):
    """The options of every command that runs a flow, whatever the flow computes."""

    account: str | None = None
    second_account: bool = False
    sign: Path | None = None
    run_id: str | None = None
    resume: Annotated[str | None, typer.Option(metavar="ID", help="Continue a run that stopped.")] = None
    as_json: Json = False
    cluster: ClusterSettings = field(default_factory=ClusterSettings)

    def start_ahead(self, *stages: str) -> None:
        """Start the fork server and Prefect's server, which a run waits for, before anything heavy is imported here.

        `stages` are the modules of the run's stages, which its workers import.
        """
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")  # bars are shown instead of its log
        if not self.cluster.scheduler:
            start_fork_server(*stages)
        start_server(self.home)

    def shared_settings(self) -> dict[str, Any]:
        """Return the settings that these options make."""
        charged = {"account": self.account, "second_account": self.second_account, "cluster": self.cluster}
        return super().shared_settings() | charged | {"sign": str(self.sign) if self.sign else None}
