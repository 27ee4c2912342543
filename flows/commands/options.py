"""Options shared by several commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.commands.fields import Settings, Values, option_of
from flows.execution.fork_server import start_fork_server
from flows.execution.progress import bars, report
from flows.execution.settings import ClusterSettings, RunSettings
from flows.reports.curator import show_findings
from flows.reports.terminal import interruptible
from tasks.errors import Refused
from tasks.lifecycle.commit import end_truth
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.run_directory import RunDirectory, locked, state_home
from tasks.lifecycle.workers import Workers
from tasks.records.findings import IN_REPORT, has_errors, load_findings

Charged = Annotated[Values, Settings(RunSettings, ("account", "second_account", "sign"))]
Curator = Annotated[bool, typer.Option("--i-am-the-curator", help="Allow data that is not marked synthetic.")]


@dataclass(frozen=True)
class FolderOptions:
    """The folder of the confidential run directories."""

    runs_folder: Annotated[Path | None, option_of(RunSettings, "runs_folder")] = None

    @property
    def home(self) -> Path:
        """The runs folder."""
        return self.runs_folder or state_home()

    def shared_settings(self) -> dict[str, Any]:
        """Return the settings from these options."""
        return {"runs_folder": str(self.home)}


@dataclass(frozen=True)
class LedgerOptions(FolderOptions):
    """The folder of the run directories, and the ledger."""

    ledger: Annotated[Path | None, option_of(RunSettings, "ledger")] = None

    @property
    def ledger_file(self) -> Path:
        """The ledger's file."""
        return self.ledger or self.home / "ledger.sqlite"

    def shared_settings(self) -> dict[str, Any]:
        """Return the settings from these options."""
        return super().shared_settings() | {"ledger": str(self.ledger_file)}


@dataclass(frozen=True)
class WorkOptions(FolderOptions):
    """The options of a command that computes on this machine, in a run directory that it removes."""

    workers: Annotated[int | None, option_of(ClusterSettings, "workers")] = None
    memory_limit: Annotated[str, option_of(ClusterSettings, "memory_limit")] = "auto"

    @contextmanager
    def working(self, title: str, *runs: RunDirectory) -> Iterator[Workers]:
        """Lock run directories, start workers in the first, and show their progress under a title."""
        from flows.execution.cluster import open_cluster

        cluster = ClusterSettings(workers=self.workers, memory_limit=self.memory_limit)
        with ExitStack() as stack:
            for run in runs:
                stack.enter_context(locked(run))
            client = stack.enter_context(open_cluster(cluster, runs[0] / "dask"))
            stack.enter_context(bars(title))
            yield Workers(client, report)

    @contextmanager
    def leaving_nothing(
        self, title: str, *runs: RunDirectory, end: Callable[[], None] | None = None
    ) -> Iterator[Workers]:
        """Do what `working` does, and remove the run directories; show the findings if the input is refused.

        end: removes them; by default it removes a truth's directory with its staged files.
        """
        end = end or partial(end_truth, *runs)
        try:
            with interruptible("interrupted; nothing is left", end), self.working(title, *runs) as workers:
                yield workers
        except Refused as error:
            for findings in filter(has_errors, map(load_findings, runs)):
                show_findings(findings)
            raise Refused(str(error).partition(IN_REPORT)[0]) from None  # the report goes with its directory
        finally:
            end()


@dataclass(frozen=True)
class ExactOptions(WorkOptions, LedgerOptions):
    """The options of a command that writes exact counts, or errors against them, and asks the ledger about the data."""


@dataclass(frozen=True)
class RunOptions(LedgerOptions):
    """The options of every command that runs a flow of any system."""

    charged: Charged = field(default_factory=dict)
    run_id: Annotated[str | None, option_of(RunSettings, "run_id")] = None
    resume: Annotated[str | None, typer.Option(metavar="ID", help="Continue a run that stopped.")] = None
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before data that was charged is charged again.")] = (
        False
    )
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the input and the account and show the charge; charge nothing.")
    ] = False
    cluster: ClusterSettings = field(default_factory=ClusterSettings)

    def start_ahead(self, *stages: str) -> None:
        """Start the fork server, for which a run waits, before this process imports heavy modules.

        `stages` are the modules of the run's stages, which its workers import.
        """
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")  # bars take the place of its log
        if not self.cluster.scheduler:
            if "spine.compiled" in stages:
                use_kernels(self.home)  # first: numba reads the folder of kernels once, when it is imported
            start_fork_server(*stages)

    def shared_settings(self) -> dict[str, Any]:
        """Return the settings from these options."""
        return super().shared_settings() | self.charged | {"cluster": self.cluster}
