"""The commit protocol: a release is whole or absent, charged once, and ends its run.

    staged, fsync -> row `sealed` -> rename, fsync parent -> row `released` -> secret unlinked -> run directory removed

A run that is killed between any two of these steps can be resumed: each step first checks whether it is done. A sealed
release is never written again. In its staging folder it is completed, signed if the run has a publisher's key, and
flushed; then it is moved from there.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from privacy.accounting.journal import MarkName
from privacy.accounting.ledger import Ledger, LedgerError, LedgerUnusable, Row
from privacy.noise.randomness import NOISE_SCHEME_VERSION
from tasks.errors import Failed, Refused
from tasks.lifecycle.authorization import SECRET, TRUTH, is_truth, may_draw, read_authorization
from tasks.lifecycle.files import atomic_path, fsync, fsync_tree, fsync_up
from tasks.lifecycle.private_folder import check_own, is_own
from tasks.lifecycle.process import code_names, versions
from tasks.lifecycle.reservation import Charging, ledger_errors
from tasks.lifecycle.run_directory import SETTINGS, RunDirectory
from tasks.lifecycle.staging import clear_staging, longest_name, own_folders, staging
from tasks.releases.manifest import (
    MANIFEST,
    SIGNATURE,
    drop_unnamed,
    is_whole,
    mark_of,
    marked,
    read_any_manifest,
    release_digest,
)
from tasks.releases.received import NotOfRelease
from tasks.releases.signature import signer


def holds_other(out: Path, runs: Mapping[str, RunDirectory]) -> bool:
    """Return whether an output folder holds anything that these runs, by release name, did not put there."""
    own: set[Path] = set()
    for folder, run in runs.items():
        staged = staging(run, out, folder)
        own |= own_folders(staged) | ({out / folder} if is_released(run, out, folder) else set())
    return not own.issuperset(out.iterdir())


def check_out(run: RunDirectory, out: Path, folder: str) -> None:
    """Raise Refused for an output folder that cannot be written or that holds other files."""
    place = out / folder
    if out.resolve().is_relative_to(run.path.parent.resolve()):  # a run directory is removed with its contents
        raise Refused(f"{out} is among the confidential run directories: choose another output folder")
    check_own(place, *own_folders(staging(run, out, folder)))  # no rename replaces a link at the place itself
    nearest = next(folder for folder in (out, *out.parents) if folder.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise Refused(f"{nearest} cannot be written: choose another output folder, or change its permissions")
    longest, most = longest_name(staging(run, out, folder)), os.pathconf(nearest, "PC_NAME_MAX")
    if len(os.fsencode(longest)) > most:
        raise Refused(
            f"the run id {run.id[:40]}… is too long: {nearest} takes names of {most} bytes; give a shorter one"
        )
    if os.path.ismount(place):  # no rename replaces it
        raise Refused(f"{place} is a mounted folder: choose an output folder in it, or another one")
    if place.exists() and not is_released(run, out, folder) and any(place.iterdir() if place.is_dir() else [place]):
        way_out = f"; das runs discard {run.id} gives up this run" if run.path.exists() else ""
        raise Refused(f"{place} is not empty: choose an output folder without {folder}/ in it{way_out}")


def is_released(run: RunDirectory, out: Path, folder: str) -> bool:
    """Return whether this run's own release is in place."""
    try:
        manifest = read_any_manifest(out / folder)
    except NotOfRelease:  # nothing, or a stranger's
        return False
    return is_own(out / folder) and manifest.get("run") == run.id and (is_truth(run) or "NOT_PRIVATE" not in manifest)


@ledger_errors("commit")
def commit(run: RunDirectory, out: Path, folder: str, charging: Charging, *, charged: bool) -> Path:
    """Move the staged release to its place, end the run and return the place.

    `charged`: whether the run has a row in the ledger; marked data and truth have no row.

    Raises Refused if the run was charged and its row is lost, what is in place is not its release, or the staged files
    are not its own; Failed if the staged release is incomplete, or the ledger cannot be written now. After either, the
    secret that can draw the same release again still exists.
    """
    if charged and is_truth(run):
        raise Failed("commit: a run that was charged must not be released without noise")
    place, staged = out / folder, staging(run, out, folder)
    ledger = charging.book
    row = ledger.row(run.id) if charged else None
    if charged and row is None:
        raise _row_lost(run, ledger)
    there = _is_in_place(run, place, row)
    if not there and not is_whole(staged):
        raise Failed("commit: the staged release is incomplete; resume the run to write it again")
    if not there:
        check_own(staged)
        if is_truth(run) != ("NOT_PRIVATE" in read_any_manifest(staged)):
            raise Failed("commit: the manifest must say NOT_PRIVATE for a release of exact counts, and for no other")
    digest = release_digest(place if there else staged)
    if not there:
        drop_unnamed(staged)
        if charging.sign and not is_truth(run):
            (staged / SIGNATURE).write_text(
                signer(charging.sign).sign((staged / MANIFEST).read_bytes()) + "\n", "utf-8"
            )
        fsync_tree(staged)
        fsync_up(out)
    if row and row.status != "released":
        ledger.seal(run.id, digest)
    if not there:
        move_into_place(staged, place)
    fsync(out)
    if row:
        ledger.release(run.id, digest)
    with suppress(Refused):  # another user's files are not ours to remove
        clear_staging(run, out, folder)
    destroy_run(run)
    return place


def _is_in_place(run: RunDirectory, place: Path, row: Row | None) -> bool:
    """Return whether this run's own release is in place, whole and, if the run was charged, the one that was sealed.

    Raises Refused for anything else that has its run id, such as the release of a run of another runs folder.
    """
    if not is_released(run, place.parent, place.name):
        return False
    fault = ""
    if not is_whole(place):
        fault = "is not whole"
    elif row and row.release_digest != release_digest(place):
        fault = "is not what the ledger sealed" if row.release_digest else "the ledger has sealed no release of it"
    if fault:
        way_out = "put back what it made" if row and row.status == "released" else "move it away and resume the run"
        raise Refused(f"{place} has the id of run {run.id}, but {fault}: {way_out}")
    return True


def _row_lost(run: RunDirectory, ledger: Ledger) -> Refused:
    """Return the error for a run whose charge is missing from the ledger."""
    return Refused(
        f"run {run.id} was charged, but the ledger {ledger.path} has no row of it. An older copy forgets what was "
        "spent: put back the ledger that has the row"
    )


def move_into_place(staged: Path, place: Path) -> None:
    """Rename the release to its place and flush the folder."""
    try:
        os.rename(staged, place)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise Failed(f"commit: {place} holds something that this run did not make; move it away and resume") from None
    fsync(place.parent)


def is_of_other(run: RunDirectory, ledger: Ledger) -> bool:
    """Return whether a run that the ledger knows by this id is of another runs folder: from this one nothing was drawn.

    What is staged under the id is then that run's. Raises LedgerError if the ledger cannot be read.
    """
    if may_draw(run) or not ledger.exists():
        return False
    books = ledger.books()
    return run.id in books.runs or run.id in books.marked


def end_run(run: RunDirectory, *releases: tuple[Path, str]) -> None:
    """Remove the confidential directory of a run that draws no noise, and its staged files in OUT/folder.

    releases: OUT and folder of each. Raises Refused, and removes nothing, if the run may draw noise: only a commit or
    `das runs discard` ends such a run.
    """
    if may_draw(run):
        raise Refused(
            f"run {run.id} has a secret or an authorization, so it may have been charged and its directory is kept: "
            f"resume it, or give it up with das runs discard {run.id}"
        )
    for out, folder in releases:
        clear_staging(run, out, folder)
    shutil.rmtree(run.path, ignore_errors=True)  # workers that were not stopped in time may still write there


def destroy_run(run: RunDirectory) -> None:
    """Destroy the secret, then the confidential directory; its settings last, so that a killed end can be resumed.

    Only a commit and `das runs discard` call it; other ends of a run call `end_run`.
    """
    (run / SECRET).unlink(missing_ok=True)
    if not run.path.exists():
        return
    fsync(run.path)
    for path in run.path.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in (SETTINGS, "lock"):
            path.unlink()
    shutil.rmtree(run.path)


def finish_released(
    run: RunDirectory,
    out: Path,
    folder: str,
    charging: Charging,
    configuration: Callable[[], str],
    differences: Callable[[Mapping[str, Any]], Sequence[str]] = lambda _manifest: (),
) -> Path | None:
    """Finish the commit of a run that was sealed or whose release is in place, and return its release; else None.

    `configuration` returns the digest of everything that shapes the requested release, except the data. It is called
    only if there is a release. The data is not read again. `differences` compares the request with its manifest.

    Raises Refused if the ledger calls the run released, but its release is not in its place; if what is there is not
    the sealed one; if the run was charged and its row is lost; if another configuration is requested. Failed if the
    ledger cannot be read now.
    """
    ledger = charging.book
    try:
        row = ledger.row(run.id)
    except LedgerUnusable as error:
        raise Failed(f"commit: {error}") from None
    except LedgerError as error:  # without a ledger, nothing was ever charged
        if charging.account and may_draw(run):
            raise Failed(f"commit: {error}") from None
        row = None
    if row is None and is_released(run, out, folder) and mark_of(read_any_manifest(out / folder)) is None:
        raise _row_lost(run, ledger)
    there, staged = _is_in_place(run, out / folder, row), staging(run, out, folder)
    if row is not None and row.status == "released" and not there:
        raise Refused(f"run {run.id} was released, but its release is not at {out / folder}: put it back there")
    sealed = row is not None and is_whole(staged) and release_digest(staged) == row.release_digest
    if not there and not sealed:
        return None
    made = read_any_manifest(out / folder if there else staged)
    if there:  # finish a run whose release has reached its place, whatever is requested now
        commit(run, out, folder, charging, charged=row is not None)
    if configuration() != made.get("configuration_digest"):
        differ = f" ({'; '.join(found)})" if (found := differences(made)) else ""
        raise Refused(f"run {run.id} was released with another configuration{differ}; a new run spends budget again")
    return out / folder if there else commit(run, out, folder, charging, charged=True)


def mark_truth(run: RunDirectory, out: Path, folder: str) -> None:
    """Mark a run's directory as a truth's, and record where it releases. Raises Refused if the run may draw noise."""
    if may_draw(run):
        raise Refused(f"{run.id} is a run that may draw noise: give das truth another run id")
    with atomic_path(run / TRUTH) as temporary:
        temporary.write_text(json.dumps({"out": str(out), "region": folder}), "utf-8")


def end_truth(run: RunDirectory) -> None:
    """Remove a truth's confidential directory and its staged files: exact counts remain only in a finished release.

    If the directory is not a truth's, remove only the directory. Raises Refused as `end_run` does.
    """
    noted = json.loads((run / TRUTH).read_text("utf-8") or "{}") if (run / TRUTH).exists() else {}
    end_run(run, *([(Path(noted["out"]), noted["region"])] if noted else []))


def manifest_of(run: RunDirectory, title: str, mark: MarkName | None, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of a run's release, except the digests of its files.

    It has the marks of the data and of exact counts; what made the release; and, if it was charged, the journal's head
    at its reservation, which resuming the run does not change. facts: what its system states, at least `spent` and
    `configuration_digest`.
    """
    authorization = read_authorization(run)
    journal = authorization.journal if authorization else None
    return {
        "release": title,
        "run": run.id,
        **marked(mark, exact=is_truth(run)),
        **facts,
        "noise_scheme": NOISE_SCHEME_VERSION,
        "versions": {"das-flows": version("das-flows"), **versions()},
        "code": code_names(),
        **({"journal": journal} if journal else {}),
    }
