"""Unexpected errors in the command itself: one line on the terminal, the traceback for the curator only."""

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
    """Set --runs-folder (as an option's callback) as the folder for tracebacks from now on. Refuses a URL."""
    global _state
    if state:
        refuse_url(state)
    _state = state.absolute() if state else None  # workers have other working directories
    return _state


def is_of_the_server(error: Exception) -> bool:
    """Return whether an error comes from a failed request to Prefect's server, or from its answer."""
    of_the_web = any(kind.__module__.startswith("httpx") for kind in type(error).__mro__)
    return of_the_web or str(error).startswith("Failed to reach API")


def report_crash(error: Exception) -> Failed:
    """Save the traceback of an unexpected error for the curator only, because it may hold a person's value."""
    if isinstance(error, OSError) and error.errno:  # show the system's reason, and the path
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
        return Failed(f"an unexpected {type(error).__name__}; its traceback could not be saved in {folder}")
    return Failed(f"an unexpected {type(error).__name__}; the curator's copy is {path}")
