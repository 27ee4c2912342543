"""Options that several commands share."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from flows.execution.crash_report import set_crash_folder
from flows.execution.fork_server import start_fork_server
from flows.execution.prefect_server import start_server
from flows.reports.terminal import Json, interruptible
from tasks.lifecycle.errors import Refused

if TYPE_CHECKING:
    from flows.execution.settings import RunSettings
    from tasks.lifecycle.run_directory import RunDirectory
    from tasks.lifecycle.workers import Workers

KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
Command = TypeVar("Command", bound=Callable[..., None])
S = TypeVar("S", bound="RunSettings")


def refuse_url(path: Path) -> None:
    """Refuse a URL in place of a path: `s3://x` would make a folder `s3:`."""
    if re.match(r"[A-Za-z][\w+.-]*:(/|$)", str(path)):
        url = str(path).replace(":/", "://", 1)
        raise Refused(f"{url} is a URL; give a path, on this machine or on a file system that it mounts")


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


def state_directory(path: Path | None) -> Path | None:
    """Refuse a URL for the state folder; from now on reports of crashes go there."""
    if path is not None:
        refuse_url(path)
    return set_crash_folder(path)


def regular_ledger(path: Path | None) -> Path | None:
    """Refuse a ledger that is a folder, a pipe or a device, before anything is read."""
    if path is not None and path.exists() and not path.is_file():
        raise Refused(f"--ledger {path}: it is no file")
    return path


def _memory_limit(limit: str) -> str:
    """Refuse a limit that cannot be met, before a run is made."""
    if limit != "auto":
        from flows.execution.cluster import check_memory_limit

        check_memory_limit(limit)
    return limit


Params = Annotated[str, typer.Argument(help="Parameters directory (path or URL): config.json, four iteration files.")]
Data = Annotated[str, typer.Argument(help="Data directory (path or URL): person records and GRF-C.txt.")]
OUT = typer.Argument(metavar="OUT", help="Where the release goes, as OUT/us, OUT/pr.")
Curator = Annotated[bool, typer.Option("--i-am-the-curator", help="Allow data that is not marked synthetic.")]
StateDirectory = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the confidential run directories.",
        show_default="$XDG_STATE_HOME/das-flows",
        callback=state_directory,
    ),
]
LedgerFile = Annotated[
    Path | None,
    typer.Option("--ledger", help="The ledger's file.", show_default="STATE/ledger.sqlite", callback=regular_ledger),
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Worker processes on this machine.", show_default="cores")
]
MemoryLimit = Annotated[
    str, typer.Option(help="Memory of all processes together, for example 6GiB.", callback=_memory_limit)
]


@dataclass(frozen=True)
class ClusterOptions:
    """Where the stages of a flow run."""

    workers: WorkersOption = None
    memory_limit: MemoryLimit = "auto"
    scheduler: Annotated[str | None, typer.Option(help="Use the Dask scheduler at this address instead.")] = None
    patience: Annotated[float, typer.Option(min=1, help="Seconds without a worker after which a run stops.")] = 120.0
    tls_ca: Annotated[str | None, typer.Option(help="Certificate authority of the scheduler (PEM).")] = None
    tls_cert: Annotated[str | None, typer.Option(help="Our certificate (PEM).")] = None
    tls_key: Annotated[str | None, typer.Option(help="Our key (PEM).")] = None


CLUSTER = tuple(field.name for field in fields(ClusterOptions))


@dataclass(frozen=True)
class StateOptions:
    """Where confidential run directories are."""

    state: StateDirectory = None

    @property
    def home(self) -> Path:
        """The state directory."""
        from tasks.lifecycle.run_directory import state_home

        return self.state or state_home()


@dataclass(frozen=True)
class LedgerOptions(StateOptions):
    """Where run directories and the ledger are."""

    ledger: LedgerFile = None

    @property
    def ledger_file(self) -> Path:
        """The ledger's file."""
        return self.ledger or self.home / "ledger.sqlite"

    def new_settings(self, kind: type[S], run_id: str, out: Path, **chosen: Any) -> S:
        """Return the settings of a run: these options, and what its own command chose. Raises Refused."""
        return kind.new(**self.shared_settings(), run_id=run_id, out=str(out), **chosen)

    def shared_settings(self) -> dict[str, Any]:
        """Return the settings that these options make."""
        return {"ledger": str(self.ledger_file), "state": str(self.home)}


@dataclass(frozen=True)
class WorkOptions(StateOptions):
    """The options of a command that computes on this machine, in a run directory that it removes."""

    workers: WorkersOption = None
    memory_limit: MemoryLimit = "auto"
    as_json: Json = False

    @contextmanager
    def working(self, run: RunDirectory, title: str) -> Iterator[Workers]:
        """Lock a run directory, start workers, and show their progress under a title."""
        from flows.execution.cluster import ClusterSettings, open_cluster
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
        from tasks.lifecycle.truth import end_truth

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
class RunOptions(ClusterOptions, LedgerOptions):
    """The options of every command that runs a flow, whatever the flow computes."""

    account: Annotated[str | None, typer.Option(help="The account to charge; none for synthetic data.")] = None
    second_account: Annotated[
        bool,
        typer.Option("--second-account", help="Charge persons whom another account was charged for: it is intended."),
    ] = False
    sign: Annotated[
        Path | None, typer.Option(help="Sign the release with this private key of the publisher (Ed25519, PEM).")
    ] = None
    run_id: Annotated[str | None, typer.Option(help="Name the run; das run adds -us or -pr.")] = None
    resume: Annotated[str | None, typer.Option(metavar="ID", help="Continue a run that stopped.")] = None
    timings: Annotated[bool, typer.Option("--timings", help="Show at the end where the time of each stage went.")] = (
        False
    )
    as_json: Json = False

    def start_ahead(self, *stages: str) -> None:
        """Start the fork server and Prefect's server, which a run waits for, before anything heavy is imported here.

        `stages` are the modules of the run's stages, which its workers import.
        """
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")  # bars are shown instead of its log
        if not self.scheduler:
            start_fork_server(*stages)
        start_server(self.home)

    def shared_settings(self) -> dict[str, Any]:
        """Return the settings that these options make."""
        charged = {"account": self.account, "second_account": self.second_account}
        charged |= {"sign": str(self.sign) if self.sign else None}
        return super().shared_settings() | charged | {"cluster": {name: getattr(self, name) for name in CLUSTER}}


def with_options(command: Command) -> Command:
    """Give a command, instead of each parameter that is a dataclass of options, an option for each of its fields."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[type, list[str]]] = {}
    for parameter in inspect.signature(command).parameters.values():
        if is_dataclass(group := hints[parameter.name]):
            own = get_type_hints(group, include_extras=True)
            shared = sorted(fields(group), key=lambda field: field.name in CLUSTER)
            groups[parameter.name] = group, [field.name for field in shared]  # type: ignore[assignment]
            parameters += [
                inspect.Parameter(field.name, KEYWORD_ONLY, default=field.default, annotation=own[field.name])
                for field in shared
            ]
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))

    @wraps(command)
    def called(**values: Any) -> None:
        chosen = {
            name: group(**{field: values.pop(field) for field in names}) for name, (group, names) in groups.items()
        }
        command(**values, **chosen)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called  # type: ignore[return-value]
