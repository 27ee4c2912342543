"""Folders that belong to the user who runs das and are open to nobody else (0700): the runs folder and all in it.

Whoever may write such a folder could replace what a run reads back from it. So one is checked before anything in it is
read, and is never opened or closed to others after it was made.
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
    """Raise Refused for a folder that another user owns or may open, or that is no folder; accept one not yet there.

    may_be_link: follow a link, as for a runs folder that a person names.
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
            f"{folder} belongs to another user (uid {status.st_uid}): run das as that user, or choose another state "
            f"folder (--runs-folder)"
        )
    if mode & 0o077:
        raise Refused(
            f"{folder} is open to other users (mode {mode:04o}), who could read or replace what is in it: close it "
            f"(chmod 700 {folder}), or choose another runs folder (--runs-folder)"
        )


def is_own(place: Path) -> bool:
    """Return whether there is nothing at a place in OUT but what this user made: no link and nothing of another's.

    Others may be allowed to write in OUT, as in /tmp. Its owner's is taken for ours: some file systems know one owner.
    """
    try:
        status = place.lstat()
    except FileNotFoundError:
        return True
    return not stat.S_ISLNK(status.st_mode) and status.st_uid in (os.geteuid(), place.parent.stat().st_uid)


def check_own(*places: Path) -> None:
    """Raise Refused where a place in OUT is not our own: a run would remove what is behind a link, or release it."""
    for place in places:
        if not is_own(place):
            raise Refused(f"{place} is a link or another user's: remove it, or choose another output folder")


def is_as_safe_as(base: Path, folder: Path) -> bool:
    """Return whether nobody can have changed what is in a folder who could not change `base`, a folder above it.

    Caches with the program are as safe as the program: each file belongs to us or to the owner of `base`, and gives
    others no right to write that `base` does not. In a folder that only its owner may enter, owners count alone.
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
        link = stat.S_ISLNK(status.st_mode)  # its mode means nothing, and its target was not examined
        if status.st_uid not in owners or link or status.st_mode & 0o022 & ~allowed:
            return False
    return True
