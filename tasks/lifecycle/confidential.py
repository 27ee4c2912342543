"""The confidential wall: how much of a worker's error may leave the run's directory.

Prefect stores exception messages and a Dask worker sends them over the wire. An exception may hold a person's value, so
its text stays in the run's `errors/`, and only (stage, rule) leaves
(docs/decisions.md#confidentiality).
"""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4

from privacy.accounting.ledger import LedgerError
from tasks.errors import Failed, Refused, not_imported
from tasks.lifecycle.process import no_core_dumps, use_kernels
from tasks.lifecycle.run_directory import RunDirectory


def guard(stage: str, run: RunDirectory, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call `function(run, *arguments)`; any exception becomes `Failed(stage and rule)`.

    The arguments are paths and indices, because Dask logs the arguments of a call that fails. `Refused` and `Failed`
    pass with their messages, which are public by contract. Dask sends an exception together with its context, even a
    context that `from None` hides. So a new exception is raised, outside of any handler.

    From this call on, the process leaves no core dump, and has the folder of compiled kernels.
    """
    no_core_dumps()
    try:
        use_kernels(run.runs_folder)
        return function(run, *arguments)
    except (Refused, Failed) as error:
        outgoing = type(error)(*error.args)
    except Exception as error:
        outgoing = Failed(f"{stage}: {_rule(error)}")
        with suppress(OSError):  # a full disk must not hide the failure itself
            errors = run / "errors"
            errors.mkdir(mode=0o700, exist_ok=True)
            (errors / f"{stage.replace(' ', '-')}-{uuid4().hex[:8]}.txt").write_text(traceback.format_exc(), "utf-8")
    raise outgoing


def _rule(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "the disk is full"
    if isinstance(error, OSError) and error.errno:
        return f"{os.strerror(error.errno)}; the run's errors/ says where"
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, ImportError) and error.name:
        return not_imported(error)
    if isinstance(error, LedgerError):  # its message is public by contract
        return str(error)
    return f"a {type(error).__name__} was raised; its text is in the run's errors/"
