"""The settings of a run and of its cluster: paths and public numbers, no data. Prefect shows and stores them."""

from __future__ import annotations

import json
import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from glob import escape, glob
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from flows.execution.crash_report import set_crash_folder
from flows.execution.option import argument, option, validated
from flows.execution.systems import SYSTEMS, System
from privacy.accounting.composition import Spend
from privacy.accounting.ledger import Ledger, LedgerError
from privacy.accounting.states import EVERYWHERE
from spine.fault_words import first_fault
from tasks.errors import Refused
from tasks.lifecycle.authorization import may_draw
from tasks.lifecycle.commit import check_out, end_run, is_of_other, is_released
from tasks.lifecycle.files import atomic_path
from tasks.lifecycle.reservation import Charging, check_account
from tasks.lifecycle.run_directory import SETTINGS, VALIDATED, RunDirectory, state_home
from tasks.lifecycle.staging import staging
from tasks.records.files import is_passed_over
from tasks.records.findings import has_errors, load_findings
from tasks.records.marks import read_mark

RESERVATION = "reserve budget"  # the stage that reserves what a run spends
DATE = r"\d{4}-\d\d-\d\d"
RUN_ID = "[A-Za-z0-9][A-Za-z0-9._-]*"


def new_run_id(*parts: str) -> str:
    """Return a run id that is easy to type: these parts, the time, and four random digits."""
    return "-".join([*parts, f"{datetime.now():%Y%m%d-%H%M%S}", secrets.token_hex(2)])


def run_directory(home: Path, run_id: str) -> RunDirectory:
    """Return the directory of a run by its id. Raises Refused for text that is not a run id, such as a path."""
    if not re.fullmatch(RUN_ID, run_id):
        raise Refused(f"{run_id!r} is not a run id: use letters, digits, dots, dashes and underscores")
    return RunDirectory(home / "runs" / run_id)


def _absolute(path: str) -> str:
    """Make paths absolute, because workers have other working directories; leave URLs as they are."""
    return path if "://" in path else str(Path(path).absolute())


def _folder(path: str) -> str:
    """Refuse a URL as output, because a release is renamed into its place; and a second {date}."""
    if "://" in path:
        raise ValueError(f"{path} is a URL; give a folder on this machine or on a file system that it mounts")
    if path.count("{date}") > 1:
        raise ValueError(f"{path} has {{date}} twice: write it once")
    return path


def _regular(path: Path | None) -> Path | None:
    """Refuse a ledger that is a folder, a pipe or a device, before anything is read."""
    if path is not None and path.exists() and not path.is_file():
        raise Refused(f"--ledger {path} is not a regular file: name the ledger's file")
    return path


PATH = AfterValidator(_absolute)
Location = Annotated[str, PATH]
Folder = Annotated[Location, AfterValidator(_folder)]


def is_path(about: FieldInfo, value: str) -> bool:
    """Return whether a setting's value is a path: its field is for paths alone, or the value has a file's ending."""
    inner = (each for part in get_args(about.annotation) for each in getattr(part, "__metadata__", ()))
    return PATH in (*about.metadata, *inner) or value.endswith((".toml", ".json"))


# Measured in docs/scale.md for the whole nation, rounded up: the flow with Prefect's server and the geography; a worker
# with its largest piece, 64 MiB of text being parsed into integers.
COORDINATOR = 2 * 2**30
WORKER = 2**30


def check_memory_limit(limit: str) -> str:
    """Return a memory limit. Raises Refused for an invalid one, or one that a run could not keep."""
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
    """The Dask cluster of a flow: on this machine, at a scheduler's address, or of a cluster class."""

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
        """Whether workers may be on other machines, which may not see this machine's files."""
        return bool(self.scheduler or self.cluster_class)

    @property
    def place(self) -> str:
        """The cluster in words: its scheduler's address, its class, or this machine."""
        return self.scheduler or self.cluster_class or "this machine"


class RunSettings(BaseModel, ABC):
    """The paths, accounts and cluster of a run of any system; a system adds its own settings.

    They are kept in the run's directory, so that the run can be resumed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    SYSTEM: ClassVar[str]  # the name of its record in flows/execution/systems.py
    # Settings that may change when a run is resumed, because no release depends on them.
    MAY_CHANGE: ClassVar[frozenset[str]] = frozenset({"cluster", "approval", "agreed", "sign"})
    DATA: ClassVar[tuple[str, ...]] = ("data",)  # the settings that name files for workers to read
    IS_TABLE: ClassVar[bool] = False  # whether the first of DATA is a file, not a folder of files
    VALIDATED: ClassVar[str] = RESERVATION  # the stage before which the whole input is checked
    SHOWN: ClassVar[tuple[str, ...]] = ()  # settings that a manifest has by name, or omits at their default
    OF_TRUTH: ClassVar[dict[str, Any]] = {}  # settings for exact tables
    SEVERAL: ClassVar[bool] = False  # whether a run may have several parts
    READS: ClassVar[tuple[str, ...]] = ()  # the systems whose releases a run may read

    out: Folder = argument(
        "OUT",
        "Where the release goes, into a folder in OUT; {date}, {product} and {run} stand for day, system and run id.",
        typed=Path,
    )
    account: str | None = option(None, "The account to charge; none for synthetic data.")
    second_account: bool = option(False, "Charge persons whom another account was charged for: it is intended.")
    sign: Location | None = option(
        None, "Sign the release with this private key of the publisher (Ed25519, PEM).", typed=Path
    )
    ledger: Location = option(
        lambda: str(state_home() / "ledger.sqlite"),
        "The ledger's file.",
        typed=Path,
        show_default="RUNS/ledger.sqlite",
        callback=_regular,
    )
    runs_folder: Location = option(
        lambda: str(state_home()),
        "Folder of the confidential run directories and of the ledger.",
        typed=Path,
        show_default="$XDG_STATE_HOME/das-flows",
        callback=set_crash_folder,
    )
    approval: bool = Field(default=False, description="Charge only what a person approves, by Resume in Prefect's UI.")
    agreed: dict[str, str] | None = Field(
        default=None, description="The only charge that each part, by run id, may make: set by a census."
    )
    run_id: str | None = option(None, "Name the run; das run adds -us or -pr.", pattern=rf"^{RUN_ID}$")
    cluster: ClusterSettings = Field(default_factory=ClusterSettings)

    @model_validator(mode="wrap")
    @classmethod
    def _in_our_words(cls, values: Any, handler: Any) -> Any:
        """Rewrite pydantic's errors in plain words: Prefect shows them to whoever starts a deployment."""
        try:
            return handler(values)
        except ValidationError as error:
            raise PydanticCustomError("settings", "{fault}", {"fault": first_fault(error)}) from None

    @classmethod
    def new_id(cls, *parts: str) -> str:
        """Return a new run id, made of the words of the system's commands and these parts."""
        return new_run_id(*SYSTEMS[cls.SYSTEM].command.split()[1:-1], *parts)

    @classmethod
    def new_run(cls, run_id: str, values: Mapping[str, Any]) -> Self:
        """Return the settings of the run that a command starts, from typed values.

        Raises Refused; NotValid for parameters that have findings.
        """
        return cls.new(**values, run_id=run_id)

    @property
    def parts(self) -> tuple[Self, ...]:
        """The settings of each part, which has a directory, a charge and a release; all are charged together."""
        return (self,)

    @property
    def title(self) -> str:
        """The name of the release, in words."""
        return " and ".join(part.folder.upper() for part in self.parts)

    def without_ended(self) -> Self:
        """Return the settings of a run that is resumed, without a part that is released or discarded."""
        return self

    def spends(self) -> dict[str, Spend]:
        """Return the spend of the run, by the name of its release; several entries if it depends on the data."""
        return {}

    def foreseen_spends(self) -> dict[str, Spend]:
        """Return the spends before the releases that the run reads are there."""
        return self.spends()

    def releases(self) -> tuple[str, ...]:
        """Return the places of the releases of other runs that the run reads."""
        return ()

    def check_without(self) -> None:
        """Refuse what can be refused before the releases that the run reads are there. Raises NotValid, Refused."""

    def charged_states(self) -> tuple[str, ...]:
        """Return the states that the run charges: all by default; empty if its data decides."""
        return EVERYWHERE

    def published(self) -> str:
        """Return in words what else the run publishes, for an approval; empty if there is no choice."""
        return ""

    def geography_read(self) -> str:
        """Return in words the public geography that the run has read, or "". It never counts records."""
        return ""

    def remarks(self, _manifest: Mapping[str, Any]) -> list[str]:
        """Return the lines that the terminal shows about a release besides its spend and its place."""
        return []

    def check(self) -> bool:
        """Refuse settings, data and an account with which a run could not end; False for a part that is switched off.

        Marked data needs no account. A run that has validated its data is not checked again.
        """
        switched_on = not self.system.check or bool(self.system.part("check")(self))
        if switched_on and not (self.directory / VALIDATED).exists():
            spends = self.spends().values()
            if read_mark(self.marks) is None:
                check_account(self.directory, self.charging, spends, self.charged_states())
        return switched_on

    def check_out(self) -> None:
        """Raise Refused for an output folder that cannot be written or that holds other files."""
        check_out(self.directory, Path(self.out), self.folder)

    def end_refused(self) -> None:
        """Remove the directory of a run that was refused, and what it staged, unless it has findings or may draw.

        What is staged under its id stays if it may be of a run of another runs folder.
        """
        run = self.directory
        if has_errors(load_findings(run)):
            return
        try:
            other = is_of_other(run, Ledger(Path(self.ledger)))
        except LedgerError:
            other = True
        with suppress(Refused):  # it may draw
            end_run(run, *([] if other else [(Path(self.out), self.folder)]))

    @property
    def folder(self) -> str:
        """The folder of the release in OUT: its jurisdiction or, for systems without one, the system's name."""
        return str(getattr(self, "jurisdiction", self.SYSTEM))

    def differences(self, manifest: Mapping[str, Any]) -> list[str]:
        """Return in words the settings of SHOWN in which a release, by its manifest, differs from these."""
        made, fields = manifest.get("options", manifest), type(self).model_fields
        pairs = {name: (made.get(name, fields[name].default), getattr(self, name)) for name in self.SHOWN}
        return [f"{name} {was!s:.40}, not {asked}" for name, (was, asked) in pairs.items() if was != asked]

    @abstractmethod
    def configuration_digest(self) -> str:
        """Return the digest of everything that shapes the release besides the data. Raises Refused."""

    def files_of_data(self) -> list[Path]:
        """Return the local files that workers read, by the settings DATA; for a folder, the files in it."""
        places = [Path(place) for name in self.DATA if (place := getattr(self, name)) and "://" not in place]
        files = [file for place in places for file in (sorted(place.iterdir()) if place.is_dir() else [place])]
        return [file for file in files if not is_passed_over(file.name)]

    @property
    def marks(self) -> str:
        """The folder, a path or URL, for a mark of the data: the first of DATA, or the folder of that table."""
        data = str(getattr(self, self.DATA[0]))
        return data.rpartition("/")[0] or "/" if self.IS_TABLE else data

    @property
    def system(self) -> System:
        """The record of the system."""
        return SYSTEMS[self.SYSTEM]

    @property
    def charging(self) -> Charging:
        """The account and ledger of the spend."""
        return Charging(self.account, Path(self.ledger), self.second_account, Path(self.sign) if self.sign else None)

    @property
    def runs(self) -> Path:
        """The folder of the confidential run directories."""
        return Path(self.runs_folder) / "runs"

    @property
    def directory(self) -> RunDirectory:
        """The confidential directory of the run, which must have its id."""
        return RunDirectory(self.runs / str(self.run_id))

    @property
    def resume(self) -> str:
        """The command that resumes the run."""
        ledger = Path(self.ledger)
        elsewhere = f" --ledger {ledger}" if ledger != Path(self.runs_folder) / "ledger.sqlite" else ""
        return f"{self.system.command} --resume {self.run_id} --runs-folder {self.runs_folder}{elsewhere}"

    def named(self, run_id: str) -> Self:
        """Return the settings with a run id: their own or, without one, the given one."""
        run_id = self.run_id or run_id
        named = self.model_copy(update={"run_id": run_id})
        return named.model_copy(update={"out": named._place()})

    def _place(self) -> str:
        """Return OUT with the run's id for {run}, its system for {product}, and for {date} the day on which it began.

        The run's kept settings have that day. The release removes them; then its own folder has it, as does the staging
        folder of a run whose directory is lost. Folders of other runs do not count.
        """
        out = self.out.replace("{run}", str(self.run_id)).replace("{product}", self.SYSTEM)
        if "{date}" not in out:
            return out
        before, after = out.split("{date}", 1)
        place = re.compile(re.escape(before) + DATE + re.escape(after))
        for part in self.parts:
            with suppress(OSError, ValueError, KeyError):
                kept = str(json.loads((part.directory / SETTINGS).read_text("utf-8"))["settings"]["out"])
                if place.fullmatch(kept):
                    return kept
        for there in filter(place.fullmatch, glob(f"{escape(before)}????-??-??{escape(after)}")):
            for part in self.parts:
                run, folder = part.directory, part.folder
                if is_released(run, Path(there), folder) or os.path.exists(staging(run, Path(there), folder)):
                    return there
        return out.replace("{date}", f"{datetime.now():%Y-%m-%d}")

    def differ_from(self, other: RunSettings) -> list[str]:
        """Return the names of the settings that differ from those of another run of the system, and must not."""
        names = type(self).model_fields.keys() - self.MAY_CHANGE
        return sorted(name for name in names if getattr(other, name) != getattr(self, name))

    @classmethod
    def new(cls, **values: Any) -> Self:
        """Return settings from typed values; None keeps a default. Raises Refused with the first fault."""
        return validated(cls, values)


def load_settings(run: RunDirectory) -> RunSettings | None:
    """Return the settings of a run of any system; None for a validation or a truth, which cannot be resumed.

    Raises Refused if they belong to another run id or runs folder, if others could have changed them, or if this
    version does not have all of them.
    """
    run.check()
    if not (run / SETTINGS).exists():
        return None
    kept = json.loads((run / SETTINGS).read_text("utf-8"))
    try:
        settings: RunSettings = SYSTEMS[kept["system"]].part("settings_class").model_validate(kept["settings"])
    except ValidationError:  # its text contains the values
        raise Refused(
            f"{run / SETTINGS} has other settings than this version of das-flows: resume or discard run {run.id} with "
            "the version that began it"
        ) from None
    if settings.run_id != run.id or settings.directory.path.resolve() != run.path.resolve():
        raise Refused(
            f"{run / SETTINGS} is of run {settings.run_id} in the runs folder {settings.runs_folder}: move it "
            f"back there, or remove {run.path}"
        )
    return settings


def keep_settings(run: RunDirectory, settings: RunSettings) -> None:
    """Write the settings with which a run can be resumed.

    Raises Refused if the directory belongs to a run of another system, or if the run may draw noise and began with
    other settings.
    """
    earlier = load_settings(run)
    if earlier and earlier.SYSTEM != settings.SYSTEM:
        raise Refused(f"{run.id} is a run of another system: give another run id")
    differs = settings.differ_from(earlier) if earlier else []
    if earlier and differs and may_draw(run):
        raise Refused(f"run {run.id} began with another {', '.join(differs)}: continue with {earlier.resume}")
    try:
        text = json.dumps({"system": settings.SYSTEM, "settings": json.loads(settings.model_dump_json())})
    except ValueError:  # the command line has a byte that is not UTF-8
        raise Refused("an option is not UTF-8 text: rename the file that it names") from None
    if differs:  # nothing was drawn, so the run starts over
        run.drop_stages()
    with atomic_path(run / SETTINGS, durable=True) as temporary:
        temporary.write_text(text, "utf-8")
