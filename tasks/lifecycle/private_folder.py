"""Folders that only the user who runs das may open (0700): the runs folder and its contents.

Anybody who may write in such a folder could replace what a run reads back from it. So a folder is checked before it is
read, and its permissions never change after it is made.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from tasks.errors import Refused


def make_private(folder: Path, *, may_be_link: bool = False) -> None:
    """Make a folder 0700 unless it exists, and those above it as `mkdir` does. Raises Refused as `check_private`."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    check_private(folder, may_be_link=may_be_link)


def check_private(folder: Path, *, may_be_link: bool = False) -> None:
    """Raise Refused for a place that another user owns or may open, or that is not a folder; accept a missing one.

    may_be_link: follow a link, as for a runs folder that a user names.
    """
    try:
        status = folder.stat(follow_symlinks=may_be_link)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Refused(f"{folder}: {error.strerror}") from None
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISDIR(status.st_mode):
        raise Refused(f"{folder} is not a folder, or is a link to one: remove it, or choose another runs folder")
    if status.st_uid != os.geteuid():
        raise Refused(
            f"{folder} belongs to another user (uid {status.st_uid}): run das as that user, or choose another runs "
            f"folder (--runs-folder)"
        )
    if mode & 0o077:
        raise Refused(
            f"{folder} is open to other users (mode {mode:04o}), who could read or replace what is in it: close it "
            f"(chmod 700 {folder}), or choose another runs folder (--runs-folder)"
        )


def is_own(place: Path) -> bool:
    """Return whether this user made whatever is at a place in OUT: no link and no other user's file.

    Others may have permission to write in OUT, as in /tmp. The owner of OUT counts as this user, because some file
    systems have one owner for everything.
    """
    try:
        status = place.lstat()
    except FileNotFoundError:
        return True
    return not stat.S_ISLNK(status.st_mode) and status.st_uid in (os.geteuid(), place.parent.stat().st_uid)


def check_own(*places: Path) -> None:
    """Raise Refused if a place in OUT is not our own: a run would remove, or release, what a link points to."""
    for place in places:
        if not is_own(place):
            raise Refused(f"{place} is a link or another user's: remove it, or choose another output folder")


def is_as_safe_as(base: Path, folder: Path) -> bool:
    """Return whether only users who can change `base`, a folder above it, could have changed the contents of a folder.

    Caches with the program are as safe as the program if each file belongs to us or to the owner of `base`, and nobody
    may write to it who may not write to `base`. In a folder that only its owner may enter, only owners matter.
    """
    if not base.exists():
        return True
    above = base.stat()
    owners = {os.geteuid(), above.st_uid}
    allowed = 0o777 if not above.st_mode & 0o077 else above.st_mode
    between = [path for path in folder.parents if path.is_relative_to(base) and path != base]
    for path in [*between, folder, *folder.rglob("*")]:
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        link = stat.S_ISLNK(status.st_mode)  # its mode has no meaning, and its target was not examined
        if status.st_uid not in owners or link or status.st_mode & 0o022 & ~allowed:
            return False
    return True
