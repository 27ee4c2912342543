"""The confidential directory of a run: its layout, its lock and its stale files.

```
RUN/            0700
  settings.json   its system, and the settings it was started with
  secret          0600, made with the ledger's row, removed when the release is committed
  authorization   what the noise depends on besides the secret, as JSON
  lock            allows one process per run
  boot, code, libraries   the boot of the machine, the code and its libraries (process.py) that wrote the following
  prepared/       the output of validation for the stages: parameters, geography, the digest of the input
  records/        encoded records                  confidential
  counts/         exact counts                     confidential
  noisy/          noisy counts of each level, before and after suppression
  findings.json   the curator's report             confidential
  errors/         error texts of stages            confidential
```
Files appear there whole (tasks/lifecycle/files.py), so a resumed run may skip those that exist. Reading them runs no
code.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tasks.errors import Refused
from tasks.lifecycle.files import RUNS_HERE, remove
from tasks.lifecycle.private_folder import check_private, make_private
from tasks.lifecycle.process import code_digest, versions

SETTINGS = "settings.json"
VALIDATED = (
    "prepared/validated"  # the result of validation, or of counting with it; written once the whole input passed
)
STAGES = ("prepared", "records", "counts", "noisy")  # folders that stages write, and can write again
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def state_home() -> Path:
    """Return `$XDG_STATE_HOME/das-flows`, the default place of runs and of the ledger."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "das-flows"


@dataclass(frozen=True)
class RunDirectory:
    """A handle on a run's confidential directory. It is only a path, so it may be shown and stored."""

    path: Path

    @property
    def id(self) -> str:
        """The run id is the directory's name."""
        return self.path.name

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def runs_folder(self) -> Path:
        """The folder that holds the run directories, and files that runs share."""
        return self.path.parent.parent

    def create(self) -> None:
        """Make the directory and those above it, open to their owner only. Raises Refused as `check_private`."""
        self.check()
        make_private(self.runs_folder, may_be_link=True)
        make_private(self.path.parent)
        (self.path.parent / RUNS_HERE).touch()
        make_private(self.path)

    def check(self) -> None:
        """Raise Refused if another user owns or may open the directory or those above it. Call it before reading."""
        check_private(self.runs_folder, may_be_link=True)
        check_private(self.path.parent)
        check_private(self.path)

    def drop_stale(self) -> None:
        """Remove the stages' output, unless it is known to come from this boot of the machine and this code.

        Stages rename their output but do not flush it, so it survives a killed process but not a crashed machine; and
        two versions of the code, or of the libraries, may interpret it differently. It is made again, with the same
        secret. Call this under the run's lock.
        """
        boot = BOOT_ID.read_text("utf-8") if BOOT_ID.exists() else ""
        now = {"boot": boot, "code": code_digest(), "libraries": json.dumps(versions())}
        if any(not (self / name).exists() or (self / name).read_text("utf-8") != text for name, text in now.items()):
            self.drop_stages()
        for name, text in now.items():
            (self / name).write_text(text, "utf-8")

    def drop_stages(self) -> None:
        """Remove the stages' output; they write it again."""
        remove(*(self / name for name in STAGES))


@contextmanager
def exclusive(path: Path, name: str) -> Iterator[None]:
    """Hold the lock of a file, which is made. Raises Refused, with the name, if another process holds it."""
    with open(path, "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.path.samestat(os.stat(path), os.fstat(lock.fileno()))  # its last holder may have removed it
        except (BlockingIOError, FileNotFoundError):
            held = False
        if not held:
            raise Refused(f"{name} is in use by another process: wait until it ends, or stop it")
        yield


@contextmanager
def locked(run: RunDirectory) -> Iterator[None]:
    """Hold the run's lock; make its directory first. Raises Refused if another process holds the lock."""
    run.create()
    with exclusive(run / "lock", f"run {run.id}"):
        run.drop_stale()
        yield
