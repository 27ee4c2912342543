"""The staging folder of a run: a temporary sibling of its release, where the release is made until it is complete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.files import atomic_path, remove
from tasks.lifecycle.private_folder import check_own
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.releases.text_twin import write_twins
from tasks.releases.tidy import TidyFile
from tasks.releases.tidy_rows import write_tidy

SPINE, SEE_SPINE = "spine", "see spine/"  # the folder of the spine, and the end of its line if it was made
PIPES = pa.csv.WriteOptions(delimiter="|", quoting_style="none", quoting_header="none")  # format of released text


def staging(run: RunDirectory, out: Path, folder: str) -> Path:
    """Return the temporary sibling in which a run makes its release."""
    return out / f".{folder}-{run.id}.partial"


def drafts(staged: Path) -> Path:
    """Return the folder where files of a staged release are written until they are complete."""
    return staged.with_name(f"{staged.name}.drafts")


@contextmanager
def marker_folder(staged: Path) -> Iterator[Path]:
    """Make a folder next to a staged release, by which other machines recognize their OUT as this one; then remove it.

    An empty folder under OUT's path on a machine that does not mount it lacks this folder. OUT is made if missing.
    """
    mark = _mark(staged)
    new = [folder for folder in (mark, *mark.parents) if not folder.exists()]
    mark.mkdir(parents=True, exist_ok=True)
    try:
        yield mark
    finally:
        for folder in {mark: None, **dict.fromkeys(new)}:
            with suppress(OSError):  # a folder with a release stays
                folder.rmdir()


def _mark(staged: Path) -> Path:
    return staged.with_name(f"{staged.name}.seen")


def longest_name(staged: Path) -> str:
    """Return a name as long as the longest that a run gives to a folder next to its release."""
    return f".{staged.name}.{uuid4().hex}"


def clear_staging(run: RunDirectory, out: Path, folder: str, *, except_for: Collection[str] = ()) -> None:
    """Remove what a run has staged but not released, except for these files and folders.

    Raises Refused as `check_own`.
    """
    staged = staging(run, out, folder)
    check_own(*own_folders(staged))
    shutil.rmtree(drafts(staged), ignore_errors=True)
    for path in list(staged.iterdir()) if staged.is_dir() else []:
        if path.is_dir() and path.name not in except_for:
            shutil.rmtree(path)
        elif path.name not in except_for:
            path.unlink()
    if not except_for:
        shutil.rmtree(staged, ignore_errors=True)


def open_staging(run: RunDirectory, out: Path, folder: str, *, except_for: Collection[str] = ()) -> Path:
    """Return an empty staging folder, except for `except_for`; only its owner may open a truth's."""
    staged = staging(run, out, folder)
    clear_staging(run, out, folder, except_for=except_for)
    if is_truth(run):
        for place in (staged, drafts(staged)):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            check_own(place)
    return staged


def stage_in_one_piece(
    run: RunDirectory, workers: Workers, staged: Path, write: Callable[[RunDirectory, Path], None]
) -> None:
    """Have one worker write a complete release into its staging folder; `write(run, folder)` writes it.

    Only its owner may open a folder of exact counts. A lost worker writes into a folder of its own and cannot change
    this one.
    """
    remove(staged)  # from a killed attempt, which sealed nothing
    for left in staged.parent.glob(f".{staged.name}.*"):
        shutil.rmtree(left, ignore_errors=True)
    workers.map("release", run, _write_whole, [(staged, write)])


def _write_whole(run: RunDirectory, staged: Path, write: Callable[[RunDirectory, Path], None]) -> None:
    with atomic_path(staged) as folder:
        folder.mkdir(mode=0o700 if is_truth(run) else 0o777)
        write(run, folder)


def own_folders(staged: Path) -> set[Path]:
    """Return the folders that a run may have in OUT before its release is there."""
    return {staged, drafts(staged), _mark(staged)}


@contextmanager
def release_file(out: Path, name: str) -> Iterator[Path]:
    """Yield a path outside of OUT for a file, and move it to OUT/name when it is complete.

    A worker that the cluster has lost may still be writing when the retry of its piece is done. Its output never
    becomes part of the release.
    """
    path, draft = out / name, drafts(out) / uuid4().hex
    for folder in (path.parent, draft.parent):
        folder.mkdir(parents=True, exist_ok=True)
    yield draft
    os.replace(draft, path)


def write_all_tidy(run: RunDirectory, workers: Workers, staged: Path, files: Sequence[TidyFile]) -> None:
    """Write tables/ of a staged release on workers, from its other files."""
    workers.map("tables", run, _write_tidy, [(staged, each) for each in files])


def _write_tidy(run: RunDirectory, staged: Path, made: TidyFile) -> None:
    with release_file(staged, made.parquet) as parquet, release_file(staged, made.text) as text:
        write_tidy(staged, made, parquet, text)


def write_table(staged: Path, name: str, table: pa.Table) -> None:
    """Write a table as one Parquet file of the release."""
    with release_file(staged, name) as draft:
        pq.write_table(table, draft, compression="zstd")


def write_tables(
    staged: Path, tables: Iterable[pa.Table], parquet: str, text: str = "", *, left_out: Collection[str] = ()
) -> None:
    """Write one or more tables of one schema as a Parquet file of the release and, if `text` is given, as a text file.

    left_out: columns that the text lacks. Lists hold noisy whole numbers, written as differences in the fewest bits:
    a quarter less space than dictionaries and zstd, in little more than half the time.
    """
    rest = iter(tables)
    first = next(rest)
    with ExitStack() as stack:
        drafts = [stack.enter_context(release_file(staged, name)) for name in (parquet, text) if name]
        if text:
            write_twins(first.schema, chain([first], rest), *drafts, left_out=left_out)
            return
        lists = {f"{field.name}.list.element" for field in first.schema if pa.types.is_list(field.type)}
        others = [field.name for field in first.schema if not pa.types.is_list(field.type)]
        compression = dict.fromkeys(lists, "none") | dict.fromkeys(others, "zstd")
        options: dict[str, Any] = {
            "use_dictionary": others,
            "column_encoding": dict.fromkeys(lists, "DELTA_BINARY_PACKED"),
        }
        with pq.ParquetWriter(drafts[0], first.schema, compression=compression, **options) as writer:
            for table in chain([first], rest):
                writer.write_table(table)
