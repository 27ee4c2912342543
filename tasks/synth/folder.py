"""The directory for synthetic data: it is new, has enough room, and appears complete or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.lifecycle.errors import Failed, Refused
from tasks.lifecycle.files import atomic_path
from tasks.synth.files import Format

BYTES_A_PERSON: dict[Format, int] = {"text": 79, "parquet": 5}
BYTES_A_BLOCK = 60


@contextmanager
def new_folder(out: Path, *, persons: int, blocks: int, form: Format) -> Iterator[Path]:
    """Yield a folder that is renamed to `out` when the block succeeds.

    Raises Refused if `out` holds something, cannot be made or has too little room, and Failed if writing stops; nothing
    is left then.
    """
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise Refused(f"{out} exists already and is left as it is: name a new directory")
    try:
        with atomic_path(out) as folder:
            folder.mkdir()
            need, free = persons * BYTES_A_PERSON[form] + blocks * BYTES_A_BLOCK, shutil.disk_usage(folder).free
            if need > free:
                raise Refused(f"{out} needs {need / 1e9:.1f} GB and its disk has {free / 1e9:.1f} GB left")
            yield folder
    except (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise Refused(f"{out} cannot be made: {error.strerror}") from error
    except OSError as error:
        raise Failed(f"{out} cannot be written: {error.strerror or error}; nothing was kept") from error
