"""The directory of a `das truth`: marked from its first moment, never one that can draw noise, removed at the end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tasks.lifecycle.authorization import AUTHORIZATION, SECRET, TRUTH
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import atomic_path
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.staging import clear_staging


def mark_truth(run: RunDirectory, out: Path, folder: str) -> None:
    """Mark a run's directory as a truth's, with where it will release. Raises Refused where the run may draw noise."""
    if (run / SECRET).exists() or (run / AUTHORIZATION).exists():
        raise Refused(f"{run.id} is a run that may draw noise: give das truth another run id")
    with atomic_path(run / TRUTH) as temporary:
        temporary.write_text(json.dumps({"out": str(out), "region": folder}))


def end_truth(run: RunDirectory) -> None:
    """Remove a truth's confidential directory and what it staged in OUT: exact counts stay where they were asked for.

    Of a directory that is none of a truth's, remove only the directory.
    """
    if (run / TRUTH).exists():
        noted = json.loads((run / TRUTH).read_text() or "{}")
        if noted:
            clear_staging(run, Path(noted["out"]), noted["region"])
    shutil.rmtree(run.path, ignore_errors=True)
