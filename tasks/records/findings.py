"""Findings of validation: one per file, rule and column, gathered over all files before a run is refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NoReturn

from tasks.errors import Refused
from tasks.lifecycle.files import read_object, save_object
from tasks.lifecycle.run_directory import RunDirectory

SHOWN_VALUES = 1000  # the most distinct values a finding keeps, as the Bureau's program does
LONGEST_VALUE = 100  # characters of each
KEPT_LINES = 10  # the first of those where a rule was broken
REPORT = "findings.json"  # the curator's report, in the run's directory
MISSING = "the file does not exist"
IN_REPORT = "; the findings are in the curator's report of "  # in a refusal, before the run's id
NAMED = 3  # findings in public files that a refusal names


@dataclass(frozen=True)
class Finding:
    """One rule broken in one column of one file.

    `rows`, `lines` (the first ten, the header being line 1) and `values` describe person records and are confidential:
    a finding is written to the confidential directory and printed to the curator's terminal, with the first line alone
    and without values unless they are asked for, and goes nowhere else.
    """

    file: str
    rule: str
    column: str = ""
    rows: int = 1
    lines: tuple[int, ...] = ()
    values: tuple[str, ...] = ()
    warning: bool = False

    @property
    def first(self) -> int | None:
        """The first line; None where the finding is of no line."""
        return min(self.lines, default=None)

    def at(self, line_of: Callable[[int], int]) -> Finding:
        """Return the finding with `line_of(line)` in place of each line."""
        return replace(self, lines=tuple(map(line_of, self.lines)))

    def below(self, lines: int) -> Finding:
        """Return the finding with its lines moved down by `lines`: those of the file above the part it was found in."""
        return self.at(lambda line: line + lines)

    def merge(self, other: Finding) -> Finding:
        """Join with the same rule and column in another part of the same file."""
        lines = tuple(sorted({*self.lines, *other.lines}))[:KEPT_LINES]
        values = tuple(sorted({*self.values, *other.values}))[:SHOWN_VALUES]
        return replace(self, rows=self.rows + other.rows, lines=lines, values=values)


class NotValid(Refused):
    """An input is refused before a run has a directory: its findings are not the data's."""

    def __init__(self, message: str, findings: Sequence[Finding]) -> None:
        super().__init__(message)
        self.findings = findings


def kept(values: Iterable[str]) -> tuple[str, ...]:
    """Return the values that a finding keeps: the first of them, long ones cut."""
    return tuple(_cut(value) for value in islice(values, SHOWN_VALUES))


def shown(values: Sequence[str]) -> str:
    """Return public values as a rule names them: ten, long ones cut."""
    return f"{[_cut(value) for value in values[:10]]}" + (" and more" if len(values) > 10 else "")


def _cut(value: str) -> str:
    return value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}..."


def gather(findings: Iterable[Finding]) -> list[Finding]:
    """Merge findings of the same file, rule and column; errors come before warnings."""
    merged: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        key = (finding.file, finding.rule, finding.column)
        merged[key] = merged[key].merge(finding) if key in merged else finding
    return sorted(merged.values(), key=lambda finding: finding.warning)


def in_public(findings: Iterable[Finding], public: Collection[str]) -> str:
    """Return the part of a refusal's message that names findings: those in public files, and missing files."""
    errors = [finding for finding in findings if not finding.warning]
    named = [finding for finding in errors if finding.file in public or finding.rule == MISSING]
    text = "".join(f"; {finding.file} {finding.column}".rstrip() + f": {finding.rule}" for finding in named[:NAMED])
    return text + (f"; {len(named) - NAMED} more in public files" if len(named) > NAMED else "")


def has_errors(findings: Iterable[Finding]) -> bool:
    """Return whether at least one finding is not a warning."""
    return any(not finding.warning for finding in findings)


def keep_findings(run: RunDirectory, findings: Iterable[Finding]) -> None:
    """Write the curator's report of a run: its findings, with their values."""
    save_object(run / REPORT, gather(findings))


def refuse(
    run: RunDirectory, findings: Sequence[Finding], public: Collection[str] = (), what: str = "input"
) -> NoReturn:
    """Refuse a run for its findings, and keep them; the message names only those in public files, and missing files."""
    keep_findings(run, findings)
    named = in_public(gather(findings), public)
    raise Refused(f"the {what} does not pass validation{named}{IN_REPORT}{run.id}")


def load_findings(run: RunDirectory) -> list[Finding]:
    """Return the findings in the curator's report of a run; none without a report."""
    return read_object(run / REPORT, list[Finding]) if (run / REPORT).exists() else []
