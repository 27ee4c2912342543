"""The directory of a `das truth`: marked from its first moment, never one that can draw noise, removed at the end."""

from __future__ import annotations

import json
from pathlib import Path

from tasks.lifecycle.authorization import TRUTH, may_draw
from tasks.lifecycle.commit import end_run
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import atomic_path
from tasks.lifecycle.run_directory import RunDirectory


def mark_truth(run: RunDirectory, out: Path, folder: str) -> None:
    """Mark a run's directory as a truth's, with where it will release. Raises Refused where the run may draw noise."""
    if may_draw(run):
        raise Refused(f"{run.id} is a run that may draw noise: give das truth another run id")
    with atomic_path(run / TRUTH) as temporary:
        temporary.write_text(json.dumps({"out": str(out), "region": folder}))


def end_truth(run: RunDirectory) -> None:
    """Remove a truth's confidential directory and what it staged in OUT: exact counts stay where they were asked for.

    Of a directory that is none of a truth's, remove only the directory. Raises Refused as `end_run` does.
    """
    noted = json.loads((run / TRUTH).read_text() or "{}") if (run / TRUTH).exists() else {}
    end_run(run, *([(Path(noted["out"]), noted["region"])] if noted else []))
