"""The runs of a command over US and Puerto Rico read the same person records: one reading serves both.

The run that comes first prepares the later one's directory and encodes the persons of both. What it leaves there is
what the later run would write itself, and counts for as long as the input files and parameters are what they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from spine.settings import Jurisdiction
from tasks.detailed_dhca.parameters import Parameters
from tasks.detailed_dhca.run import DetailedRun
from tasks.inputs.files import identity
from tasks.inputs.findings import Finding
from tasks.inputs.geography import GRF_FILE
from tasks.inputs.synthetic_mark import MARK_FILE, PERSON_FILES
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.run_directory import locked

PREPARED = "prepared/by_another_run"


@dataclass(frozen=True)
class Later:
    """A run that comes after this one, over another jurisdiction of the same parameters and data."""

    run: DetailedRun
    jurisdiction: Jurisdiction


@dataclass(frozen=True)
class _Prepared:
    """Of which files a run's directory was prepared, and the findings in its geography; confidential."""

    files: dict[str, dict[str, Any] | None]
    parameters: dict[str, str]
    findings: list[Finding]


def data_files(data: str) -> list[str]:
    """Return the paths of the files that a run may read in its data directory."""
    return [f"{data.rstrip('/')}/{file}" for file in (GRF_FILE, *PERSON_FILES, MARK_FILE)]


@contextmanager
def held(later: Later | None) -> Iterator[Later | None]:
    """Hold the later run's lock; None where it does not exist, is in use or is validated already."""
    with ExitStack() as stack:
        waiting = None
        if later and later.run.path.exists():
            with suppress(Refused):
                stack.enter_context(locked(later.run))
                waiting = None if later.run.validated_path.exists() else later
        yield waiting


def note_prepared(run: DetailedRun, parameters: Parameters, data: str, findings: Sequence[Finding]) -> None:
    """Note of which files a run's directory was prepared; call it before they are read."""
    files = {path: identity(path) for path in data_files(data)}
    save_object(run / PREPARED, _Prepared(files, dict(parameters.digests), list(findings)))


def found_before(run: DetailedRun, parameters: Parameters, data: str) -> list[Finding] | None:
    """Return the findings in the geography that another run prepared for this one; None where none did.

    None as well where it did so from files that are not what they were. A server may tell no more of a file than its
    size; so what lies there is read anew.
    """
    if not (run / PREPARED).exists():
        return None
    prepared: _Prepared = load_object(run / PREPARED)
    now = {path: identity(path) for path in data_files(data)}
    if "://" in data or prepared.files != now or prepared.parameters != dict(parameters.digests):
        return None
    return prepared.findings
