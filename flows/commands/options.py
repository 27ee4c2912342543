"""Options that several commands share, and those that every command has that runs a flow."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from flows.execution.unforeseen import given_state
from flows.reports.terminal import Json
from tasks.lifecycle.errors import Refused

if TYPE_CHECKING:
    from flows.execution.cluster import ClusterSettings

Command = TypeVar("Command", bound=Callable[..., None])


def folder(path: Path | None) -> Path | None:
    """Refuse a URL where a folder is asked for, as an argument's callback: it would name a folder `s3:` here."""
    if path is not None and (url := _url(path)):
        raise Refused(f"{url} is a URL; give a folder on this machine or on a file system that it mounts")
    return path


def _url(path: Path) -> str | None:
    """Return the URL that was typed where a path is asked for, None where a path was."""
    is_url = re.fullmatch(r"[A-Za-z][\w+.-]*:", next(iter(path.parts), ""))
    return str(path).replace(":/", "://", 1) if is_url else None


def with_local_paths(command: Command) -> Command:
    """Have a command refuse a URL for each of its parameters that is a path: `s3:` would be a folder here."""

    @wraps(command)
    def called(**values: Any) -> None:
        for value in values.values():
            for path in value if isinstance(value, list) else [value]:
                if isinstance(path, Path) and (url := _url(path)):
                    raise Refused(f"{url} is a URL; give a path, on this machine or on a file system that it mounts")
        command(**values)

    return called  # type: ignore[return-value]


def _state(path: Path | None) -> Path | None:
    """Refuse a URL for the state folder, and have what goes wrong from now on kept there."""
    return given_state(folder(path))


def _memory_limit(limit: str) -> str:
    """Refuse a limit that could not be kept, before a run is made."""
    if limit != "auto":
        from flows.execution.cluster import check_memory_limit

        check_memory_limit(limit)
    return limit


Params = Annotated[str, typer.Argument(help="Parameters directory (path or URL): config.json, four iteration files.")]
Data = Annotated[str, typer.Argument(help="Data directory (path or URL): person records and GRF-C.txt.")]
State = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the confidential run directories.",
        show_default="$XDG_STATE_HOME/das-flows",
        callback=_state,
    ),
]
LedgerFile = Annotated[
    Path | None, typer.Option("--ledger", help="The ledger's file.", show_default="STATE/ledger.sqlite")
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Worker processes on this machine.", show_default="cores")
]
MemoryLimit = Annotated[str, typer.Option(help="Memory of all processes together, as 6GiB.", callback=_memory_limit)]


@dataclass(frozen=True)
class ClusterOptions:
    """Where the stages of a flow run."""

    workers: WorkersOption = None
    memory_limit: MemoryLimit = "auto"
    scheduler: Annotated[str | None, typer.Option(help="Use the Dask scheduler at this address instead.")] = None
    tls_ca: Annotated[str | None, typer.Option(help="Certificate authority of the scheduler (PEM).")] = None
    tls_cert: Annotated[str | None, typer.Option(help="Our certificate (PEM).")] = None
    tls_key: Annotated[str | None, typer.Option(help="Our key (PEM).")] = None


CLUSTER = tuple(field.name for field in fields(ClusterOptions))


@dataclass(frozen=True)
class RunOptions(ClusterOptions):
    """What a command takes that runs a flow under a run id, whatever the flow computes."""

    account: Annotated[str | None, typer.Option(help="The account that is charged; none for synthetic data.")] = None
    second_account: Annotated[
        bool, typer.Option("--second-account", help="Charge persons whom another account was charged for: it is meant.")
    ] = False
    run_id: Annotated[str | None, typer.Option(help="Name the run; das run adds -us or -pr for each region.")] = None
    resume: Annotated[str | None, typer.Option(metavar="ID", help="Go on with a run that stopped.")] = None
    ledger: LedgerFile = None
    state: State = None
    as_json: Json = False

    @property
    def home(self) -> Path:
        """The state folder."""
        from flows.execution.settings import state_home

        return self.state or state_home()

    @property
    def ledger_file(self) -> Path:
        """The ledger that a new run is charged in."""
        return self.ledger or self.home / "ledger.sqlite"

    @property
    def cluster(self) -> ClusterSettings:
        """The cluster of a new run."""
        from flows.execution.cluster import ClusterSettings

        return ClusterSettings(**{name: getattr(self, name) for name in CLUSTER})

    def settings(self, run_id: str) -> dict[str, Any]:
        """The settings that a new run of any system has, but where its release goes."""
        return {
            "account": self.account,
            "second_account": self.second_account,
            "ledger": str(self.ledger_file),
            "state": str(self.home),
            "run_id": run_id,
            "cluster": self.cluster,
        }


def with_run_options(command: Command) -> Command:
    """Give a command whose last parameter is `options: RunOptions` an option for each of their fields."""
    own = list(inspect.signature(command).parameters.values())[:-1]
    shared = [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default)
        for field in sorted(fields(RunOptions), key=lambda field: field.name in CLUSTER)
    ]
    hints = get_type_hints(command, include_extras=True) | get_type_hints(RunOptions, include_extras=True)

    @wraps(command)
    def called(**values: Any) -> None:
        chosen = {parameter.name: values.pop(parameter.name) for parameter in shared}
        command(**values, options=RunOptions(**chosen))

    parameters = [parameter.replace(annotation=hints[parameter.name]) for parameter in (*own, *shared)]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called  # type: ignore[return-value]
