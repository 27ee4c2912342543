"""The runs of a command over US and Puerto Rico read the same records: one reading serves both.

The first run prepares the second one's directory and encodes the records of both. It writes exactly what the second
run would write; the second run uses it only if inputs and parameters are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from spine.settings import Jurisdiction
from tasks.inputs.files import identity
from tasks.inputs.findings import Finding
from tasks.inputs.marks import MARK_FILES
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.run_directory import locked
from tasks.population_groups.parameters import Parameters
from tasks.population_groups.run import SafeTabRun

PREPARED = "prepared/by_another_run"


@dataclass(frozen=True)
class NextRun:
    """A run that comes after this one, over another jurisdiction of the same parameters and data."""

    run: SafeTabRun
    jurisdiction: Jurisdiction


@dataclass(frozen=True)
class _Prepared:
    """The files that a run's directory was prepared from, and the findings in its geography; confidential."""

    files: dict[str, dict[str, Any] | None]
    parameters: dict[str, str]
    findings: list[Finding]


def data_files(run: SafeTabRun, data: str) -> list[str]:
    """Return the paths of the files that a run may read in its data directory."""
    files = run.KIND.files
    return [f"{data.rstrip('/')}/{file}" for file in (*files.needs, *files.records, *MARK_FILES.values())]


@contextmanager
def locked_next_run(next_run: NextRun | None) -> Iterator[NextRun | None]:
    """Hold the next run's lock; None where it does not exist, is in use or is validated already."""
    with ExitStack() as stack:
        waiting = None
        if next_run and next_run.run.path.exists():
            with suppress(Refused):
                stack.enter_context(locked(next_run.run))
                waiting = None if next_run.run.validated_path.exists() else next_run
        yield waiting


def note_prepared(run: SafeTabRun, parameters: Parameters[Any], data: str, findings: Sequence[Finding]) -> None:
    """Note which files a run's directory is prepared from; call it before they are read."""
    files = {path: identity(path) for path in data_files(run, data)}
    save_object(run / PREPARED, _Prepared(files, dict(parameters.digests), list(findings)))


def cached_findings(run: SafeTabRun, parameters: Parameters[Any], data: str) -> list[Finding] | None:
    """Return the findings in the geography that another run prepared for this one; None where none did.

    None as well where the files have changed since. A server may report only a file's size, so files at a URL are
    always read again.
    """
    if not (run / PREPARED).exists():
        return None
    prepared = load_object(run / PREPARED, _Prepared)
    now = {path: identity(path) for path in data_files(run, data)}
    if "://" in data or prepared.files != now or prepared.parameters != dict(parameters.digests):
        return None
    return prepared.findings
