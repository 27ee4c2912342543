"""Tabulate: one pass over a large table, partition by partition, to exact counts and a digest.

A partition is 64 MiB of text or a row group of Parquet; a worker holds one. Each distinct value of a column is looked
up once. Counts of a partition are kept as pairs (cell, steps), so that nothing grows with the number of cells. All of
it is confidential, and so are the findings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tasks.bottom_up.domain import Domain, Weight
from tasks.inputs.configuration import exact_number
from tasks.inputs.files import (
    InputTable,
    digest_file,
    exists,
    locate_file,
    open_file,
    read_bytes,
    read_lines,
    unchanged,
    why,
)
from tasks.inputs.findings import Finding, gather, has_errors, kept, write_findings
from tasks.inputs.parquet import NOT_PARQUET, read_row_group
from tasks.inputs.synthetic_mark import MARK_FILE, Mark, read_mark_file
from tasks.inputs.tables import STRAY_RETURN, Column, parse_rows, split_header
from tasks.lifecycle.digests import CHUNK_BYTES, combine
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import atomic_path, load_object, remove, save_arrays, save_object
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers

TABULATED = "prepared/tabulated"
SOURCE = "prepared/source"
NO_WEIGHT = -1


@dataclass(frozen=True)
class Source(InputTable):
    """The table of a run and what it is checked against; public."""

    domain: Domain
    header: tuple[str, ...]


@dataclass(frozen=True)
class Tabulated:
    """What later stages need to know; both digests are confidential. `synthetic` says that a mark covers the table."""

    input_digest: str
    records_digest: str
    synthetic: bool
    partitions: int


def tabulate(run: RunDirectory, workers: Workers, table: str, domain: Domain) -> Tabulated:
    """Check every record of the table and count it into the histogram.

    A run that has counted goes on from its own copy, if its table is what it was or is gone.

    Raises
    ------
    Refused
        where a record has an undeclared level, a structural zero's levels or a bad weight, or the table cannot be
        read or changes meanwhile. The findings are in the run's findings.json, the message holds none of them.
    """
    if (run / TABULATED).exists():
        source: Source = load_object(run / SOURCE)
        now = open_source(table, domain) if exists(table) else Source(table, domain, source.header)
        if source != now:
            raise Refused(f"run {run.id} began with another table or domain; start a new run")
        done: Tabulated = load_object(run / TABULATED)
        return done
    remove(run / "counts")  # of a try that came to no end: the table may be another since
    with unchanged([table, _mark_path(table)]):
        tabulated = _tabulate(run, workers, open_source(table, domain))
    save_object(run / TABULATED, tabulated)
    return tabulated


def _tabulate(run: RunDirectory, workers: Workers, source: Source) -> Tabulated:
    save_object(run / SOURCE, source)
    partitions = _partitions(source)
    workers.map("tabulate", run, tabulate_partition, [(number,) for number in range(partitions)])
    reports = [json.loads((run / f"counts/{number:05d}.json").read_text()) for number in range(partitions)]
    findings = gather(_findings(reports))
    write_findings(run / "findings.json", findings)
    if has_errors(findings):
        raise Refused(f"the table does not pass validation; the findings are in the curator's report of {run.id}")
    digest = digest_file(source.path) if source.parquet else combine(bytes.fromhex(each["digest"]) for each in reports)
    mark = read_table_mark(source.path)
    if mark is not None:
        mark.check({source.name: digest})
    return Tabulated(sha256(f"table {digest}\n".encode()).hexdigest(), digest, mark is not None, partitions)


def _findings(reports: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """The findings of all partitions, by lines of the whole file."""
    line = 1  # the header
    for report in reports:
        for item in report["findings"]:
            first = item["first"] and item["first"] + line
            yield Finding(**{**item, "first": first, "values": tuple(item["values"])})
        line += report["lines"]


def open_source(table: str, domain: Domain) -> Source:
    """Return the table of a run, by its header. Raises Refused where it cannot be read or lacks a declared column."""
    try:
        if table.endswith(".parquet"):
            with open_file(table) as stream:
                header = tuple(pq.read_schema(stream).names)
        else:
            first = read_bytes(table, 0, 1 << 20).partition(b"\n")[0]
            header = tuple(split_header(first, domain.delimiter))
    except OSError as error:
        if error.errno is None:  # Arrow's, of what it has read
            raise Refused(f"{table} {NOT_PARQUET}") from None
        raise Refused(f"{table} cannot be read: {why(error)}") from None
    except pa.ArrowException:
        raise Refused(f"{table} {NOT_PARQUET}") from None
    if any("\r" in name for name in header):
        raise Refused(f"{table}: {STRAY_RETURN}")
    if missing := [name for name in domain.columns if name not in header]:
        raise Refused(f"{table} has no column {', '.join(missing)}")
    if doubled := [name for name in domain.columns if header.count(name) > 1]:
        raise Refused(f"{table}: column {', '.join(doubled)} appears twice")
    return Source(table, domain, header)


def _partitions(source: Source) -> int:
    if source.parquet:
        with open_file(source.path) as stream:
            return int(pq.ParquetFile(stream).num_row_groups)
    filesystem, name = locate_file(source.path)
    return max(1, -(-int(filesystem.size(name)) // CHUNK_BYTES))


def _mark_path(table: str) -> str:
    """Where the mark of a table lies: beside it."""
    folder, slash, _ = table.rpartition("/")
    return f"{folder}{slash}{MARK_FILE}"


def read_table_mark(table: str) -> Mark | None:
    """Return the mark that lies beside a table, None where there is none. Raises Refused when it is damaged."""
    return read_mark_file(_mark_path(table))


def tabulate_partition(run: RunDirectory, number: int) -> None:
    """Count one partition: counts/NUMBER with `cell` (sorted) and `steps`, int64, and its report."""
    report = run / f"counts/{number:05d}.json"
    if report.exists():
        return
    source: Source = load_object(run / SOURCE)
    read = (_read_row_group if source.parquet else _read_text)(source, number)
    findings = read.findings
    if read.table is not None:
        cells, steps, faults = count(source, read.table)
        findings = findings + faults
        save_arrays(run / f"counts/{number:05d}", {"cell": cells, "steps": steps})
    with atomic_path(report) as temporary:
        told = {"digest": read.digest, "lines": read.lines, "findings": [asdict(finding) for finding in findings]}
        temporary.write_text(json.dumps(told))


def count(source: Source, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64], list[Finding]]:
    """Count records (text columns, dictionary-encoded) into cells: sorted cells that occur, their steps, findings."""
    domain, findings = source.domain, []
    good = np.ones(len(table), bool)

    def fault(rule: str, column: str, bad: NDArray[np.bool_], values: Sequence[str]) -> None:
        if bad.any():
            findings.append(Finding(source.name, rule, column, int(bad.sum()), None, kept(sorted(values))))
            np.logical_and(good, ~bad, out=good)

    levels = []
    for factor in domain.histogram.factors:
        column = Column(table[factor.name])
        number = column.where(partial(_number, factor.numbers), np.int64)
        undeclared = [value for value in column.values if value not in factor.numbers]
        fault("levels that are not declared", factor.name, number < 0, undeclared)
        levels.append(np.maximum(number, 0))
    cell = domain.histogram.cell(levels)
    if domain.structural_zeros:
        fault("records in a cell that is declared a structural zero", "", ~domain.histogram.possible(cell), ())
    steps = np.ones(len(table), np.int64)
    if domain.weight:
        column = Column(table[domain.weight.column])
        steps = column.where(partial(weight_steps, domain.weight), np.int64)
        wrong = [value for value in column.values if weight_steps(domain.weight, value) == NO_WEIGHT]
        fault("weights that are not numbers from 0 to the declared most", domain.weight.column, steps < 0, wrong)
    cells, place = np.unique(cell[good], return_inverse=True)
    totals = np.zeros(len(cells), np.int64)
    np.add.at(totals, place, steps[good])
    return cells, totals, findings


def _number(numbers: Mapping[str, int], level: str) -> int:
    return numbers.get(level, -1)


def weight_steps(weight: Weight, text: str) -> int:
    """A weight in steps of the grid, to the nearest, ties to even; NO_WEIGHT where it is no number from 0 to `most`."""
    try:
        value = exact_number(text)
    except ValueError:
        return NO_WEIGHT
    return round(value / weight.grid) if 0 <= value <= weight.most else NO_WEIGHT


@dataclass(frozen=True)
class Read:
    """A partition as read: no table where it has no row or cannot be parsed; no line and digest for Parquet."""

    table: pa.Table | None
    findings: list[Finding]
    lines: int = 0
    digest: str = ""


def _read_text(source: Source, number: int) -> Read:
    lines = read_lines(source.path, number, CHUNK_BYTES)
    table, findings = parse_rows(
        source.name,
        lines.body if lines.body.strip() else b"",
        source.header,
        source.domain.columns,
        dictionary=True,
        delimiter=source.domain.delimiter,
    )
    return Read(table, findings, lines.count, lines.digest)


def _read_row_group(source: Source, number: int) -> Read:
    with open_file(source.path) as stream:
        table, findings = read_row_group(stream, number, source.name, source.domain.columns)
    return Read(table, findings)
