"""Unexpected errors in the command itself: one line for the terminal, the traceback for the curator."""

from __future__ import annotations

import os
import traceback
from datetime import datetime
from pathlib import Path
from tempfile import mkstemp

from flows.execution.option import refuse_url
from tasks.errors import Failed, Refused, not_imported
from tasks.lifecycle.private_folder import make_private
from tasks.lifecycle.run_directory import state_home

_state: Path | None = None


def set_crash_folder(state: Path | None) -> Path | None:
    """Remember the command's --runs-folder (an option's callback): errors from now on are kept there. Refuses a URL."""
    global _state
    if state:
        refuse_url(state)
    _state = state.absolute() if state else None  # workers have other working directories
    return _state


def is_of_the_server(error: Exception) -> bool:
    """Return whether a request to Prefect's server failed, or got an answer that is an error."""
    of_the_web = any(kind.__module__.startswith("httpx") for kind in type(error).__mro__)
    return of_the_web or str(error).startswith("Failed to reach API")


def report_crash(error: Exception) -> Failed:
    """Keep the traceback of an unexpected error where only the curator reads: it may hold a person's value."""
    if isinstance(error, OSError) and error.errno:  # the system's reason, and the path
        return Failed(f"{error.filename or 'the system says'}: {os.strerror(error.errno)}")
    if is_of_the_server(error):
        kind = type(error).__name__
        return Failed(
            f"a request to the Prefect server at PREFECT_API_URL failed ({kind}): see that it is up and reached"
        )
    if isinstance(error, ImportError) and error.name:
        return Failed(not_imported(error))
    folder = (_state or state_home()) / "errors"
    try:
        make_private(folder.parent, may_be_link=True)
        make_private(folder)
        handle, path = mkstemp(".txt", f"{datetime.now():%Y%m%d-%H%M%S}-", folder)  # its owner's alone
        with open(handle, "w", encoding="utf-8") as copy:
            copy.write("".join(traceback.format_exception(error)))
    except (OSError, Refused):
        return Failed(f"an unexpected {type(error).__name__}, of which no copy could be kept in {folder}")
    return Failed(f"an unexpected {type(error).__name__}; the curator's copy is {path}")
