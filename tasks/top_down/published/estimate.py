"""Write estimates of published measurements, or the measurements in das-flows' own layout. Neither is a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar

from tasks.lifecycle.commit import check_out, end_run, move_into_place
from tasks.lifecycle.files import fsync_tree
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.staging import clear_staging, staging
from tasks.lifecycle.workers import Workers
from tasks.top_down.estimate.estimators import estimate_from
from tasks.top_down.source import Source

S = TypeVar("S", bound=Source)


def write_estimate(source: S, workers: Workers, staged: Path, *, write: Callable[[S, Workers, Path], None]) -> None:
    """Write the release of an estimate. write: writes that of the estimates of its kind of source."""
    estimate_from(source, workers)
    write(source, workers, staged)


def write_sources(
    sources: Sequence[S], workers: Workers, out: Path, write: Callable[[S, Workers, Path], None]
) -> list[Path]:
    """Write OUT/us and OUT/pr of published measurements, only after all of them are complete.

    write: `write_estimate` with its `write`, or `write_own_layout` for an import. Raises Refused if OUT is not empty.
    """
    places = {source: out / source.folder for source in sources}
    for source, place in places.items():
        check_out(source, out, place.name)
    out.mkdir(parents=True, exist_ok=True)
    for source, place in places.items():
        staged = staging(source, out, place.name)
        write(source, workers, staged)
        fsync_tree(staged)
    for source, place in places.items():
        move_into_place(staging(source, out, place.name), place)
        clear_staging(source, out, place.name)
    return list(places.values())


def end_sources(directories: Sequence[RunDirectory], out: Path, folders: Collection[str] = ("us", "pr")) -> None:
    """Remove the directories of sources, and their staged parts of OUT's folders. Raises as `end_run` does."""
    for directory in directories:
        end_run(directory, *((out, folder) for folder in folders))
