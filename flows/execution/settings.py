"""The parameters of a run, as Prefect shows and stores them: paths and public numbers, never a value of the data."""

from __future__ import annotations

import os
import re
import secrets
from datetime import datetime
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from flows.execution.cluster import ClusterSettings
from tasks.inputs.configuration import Region
from tasks.inputs.files import digest_file
from tasks.lifecycle.authorization import SECRET
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import whole
from tasks.lifecycle.reservation import Charging
from tasks.lifecycle.run_directory import SETTINGS, RunDirectory

RUN_ID = "[A-Za-z0-9][A-Za-z0-9._-]*"


def state_home() -> Path:
    """Where runs and the ledger live unless told otherwise: `$XDG_STATE_HOME/das-flows`."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "das-flows"


def new_run_id(*parts: str) -> str:
    """A run id for a person to type: what it is, when it began, and four digits against twins."""
    return "-".join([*parts, f"{datetime.now():%Y%m%d-%H%M%S}", secrets.token_hex(2)])


def _absolute(path: str) -> str:
    """Workers have other working directories; a URL stays what it is."""
    return path if "://" in path else str(Path(path).absolute())


def _folder(path: str) -> str:
    """A release is renamed into its place: that takes a file system."""
    if "://" in path:
        raise ValueError("a URL; a release goes to a folder, on this machine or on a file system it mounts")
    return path


Location = Annotated[str, AfterValidator(_absolute)]
Folder = Annotated[Location, AfterValidator(_folder)]


class Settings(BaseModel):
    """The settings of a run of any kind, as they are kept in its directory for whoever takes it up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    FILE: ClassVar[str]
    COMMAND: ClassVar[str]

    @classmethod
    def load(cls, run: RunDirectory) -> Self | None:
        """The settings a run was started with, None where it is of another kind, or no run (a validation, a truth)."""
        path = run / cls.FILE
        return cls.model_validate_json(path.read_text()) if path.exists() else None


class RunSettings(Settings):
    """What one run of the Detailed DHC-A reads, writes and may spend."""

    FILE = SETTINGS
    COMMAND = "das run"

    params: Location = Field(description="Parameters directory: config.json and the four iteration files.")
    data: Location = Field(description="Data directory: person-records.txt or .parquet, GRF-C.txt.")
    out: Folder = Field(description="Where the release goes, as OUT/us or OUT/pr; {run} in it is the run id.")
    region: Region = Field(description="us or pr.")
    account: str | None = Field(default=None, description="The ledger's account that is charged.")
    ledger: Location = Field(default_factory=lambda: str(state_home() / "ledger.sqlite"))
    state: Location = Field(default_factory=lambda: str(state_home()), description="Confidential run directories.")
    run_id: str | None = Field(default=None, pattern=rf"^{RUN_ID}$")
    coterminous: bool = Field(default=True, description="Equate coterminous geographies (Algorithm 4).")
    coterminous_list: Location | None = Field(default=None, description="Further coterminous sets, a table.")
    spine: bool = Field(default=True, description="Optimize the geographic spine beside the release.")
    blocks_each: int | None = Field(default=None, ge=1, description="Blocks in a partition; no effect on results.")
    cluster: ClusterSettings = Field(default_factory=ClusterSettings)

    @property
    def folder(self) -> str:
        """The folder of OUT that the release goes to."""
        return self.region

    @property
    def charging(self) -> Charging:
        """Where the spend is charged."""
        return Charging(self.account, Path(self.ledger))

    @property
    def runs(self) -> Path:
        """The folder of the confidential run directories."""
        return Path(self.state) / "runs"

    @property
    def shaping_options(self) -> dict[str, object]:
        """The options that shape a release; with the parameter files they make the configuration digest."""
        listed = self.coterminous_list
        try:
            digest = digest_file(listed) if listed else None
        except OSError as error:
            raise Refused(f"{listed}: {error.strerror or 'the file cannot be read'}") from None
        return {
            "region": self.region,
            "coterminous": self.coterminous,
            "coterminous_list": digest,
        }


WHERE_IT_RUNS = {"cluster", "blocks_each"}  # what may change while a run goes on: no release depends on it


def run_directory(home: Path, run_id: str) -> RunDirectory:
    """The directory of a run that a person names. Raises Refused where that is no run id, but perhaps a path."""
    if not re.fullmatch(RUN_ID, run_id):
        raise Refused(f"{run_id!r} is not a run id: it has letters, digits, dots, dashes and underscores")
    return RunDirectory(home / "runs" / run_id)


def keep_settings(run: RunDirectory, settings: Settings) -> None:
    """Write the settings that a run is resumed with. Raises Refused where it has a secret and began with others."""
    earlier = settings.load(run)
    names = type(settings).model_fields.keys() - WHERE_IT_RUNS
    differs = sorted(name for name in names if earlier and getattr(earlier, name) != getattr(settings, name))
    if differs and (run / SECRET).exists():
        again = f"{settings.COMMAND} --resume {run.id}"
        raise Refused(f"run {run.id} began with another {', '.join(differs)}: {again} goes on")
    if differs:  # nothing was drawn: it begins anew, and takes nothing over from what it was
        run.drop_stages()
    with whole(run / settings.FILE, durable=True) as temporary:
        temporary.write_text(settings.model_dump_json())
