"""Tabulate: one pass over a large table, partition by partition, to exact counts and a digest.

A partition is 64 MiB of text or a row group of Parquet; a worker holds one. Each distinct value of a column is looked
up once. A partition's counts are pairs (cell, steps), so memory does not grow with the number of cells. Everything here
is confidential, findings included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from privacy.noise.exact import exact_number
from spine.declaration.form import Weight
from tasks.bottom_up.declared_histogram import DeclaredHistogram
from tasks.errors import PUT_BACK, Refused
from tasks.lifecycle.files import load_object, remove, save_object
from tasks.lifecycle.reservation import Input
from tasks.lifecycle.run_directory import VALIDATED, RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.records import counted_records
from tasks.records.files import exists, unchanged
from tasks.records.findings import has_errors, keep_findings, refuse
from tasks.records.marks import mark_files, mark_folder, name_if_covered, read_mark
from tasks.records.parquet import words_of
from tasks.records.records import RecordFile, RowChecks, digest_by_workers, join_reports, open_records

SOURCE = "prepared/source"
COUNTS = "counts"  # by partition: its cells, and their steps
NO_WEIGHT = -1


@dataclass(frozen=True, kw_only=True)
class DeclaredTable(RecordFile):
    """The table of a run and what it is checked against; public."""

    declared: DeclaredHistogram


def tabulate(run: RunDirectory, workers: Workers, table: str, declared: DeclaredHistogram) -> Input:
    """Check every record of the table and count it into the histogram.

    A run that has tabulated continues from its own copy if its table is unchanged or gone.

    Raises Refused if a record has an undeclared value, is in a structural zero or has an invalid weight, or if the
    table cannot be read or changes meanwhile. The findings are in the run's findings.json, never in the message.
    """
    if (run / VALIDATED).exists():
        source, tabulated = load_object(run / SOURCE, DeclaredTable), load_object(run / VALIDATED, Input)
        now = open_source(table, declared) if exists(table) else replace(source, path=table, declared=declared)
        if source != now:
            raise Refused(f"run {run.id} began with another table or declaration; {PUT_BACK}")
        if exists(table) and (digest_by_workers(run, workers, table),) != tabulated.records_digests:
            raise Refused(f"the input of run {run.id} has changed; {PUT_BACK}")
        return tabulated
    remove(run / COUNTS)  # left by an interrupted try; the table may have changed since
    with unchanged([table, *mark_files(mark_folder(table))]):
        tabulated = _tabulate(run, workers, open_source(table, declared))
    save_object(run / VALIDATED, tabulated)
    return tabulated


def _tabulate(run: RunDirectory, workers: Workers, source: DeclaredTable) -> Input:
    save_object(run / SOURCE, source)
    workers.map("tabulate", run, tabulate_partition, [(number,) for number in range(source.chunks)])
    read = join_reports(run, workers, source, run / COUNTS, may_be_empty=True)
    if has_errors(read.findings):
        refuse(run, read.findings, what="table")
    keep_findings(run, read.findings)
    mark = name_if_covered(read_mark(mark_folder(source.path)), {source.name: read.digest})
    return Input(sha256(f"table {read.digest}\n".encode()).hexdigest(), (read.digest,), mark)


def open_source(table: str, declared: DeclaredHistogram) -> DeclaredTable:
    """Return the table of a run, by its header. Raises Refused if it cannot be read or lacks a declared column."""
    words = {axis.column: words_of(declared.coordinates[axis.name]) for axis in declared.histogram.axes}
    file, findings = open_records(
        table, declared.columns, more=True, own=True, delimiter=declared.form.delimiter, words=words
    )
    if file is None:
        raise Refused(f"{table}: {findings[0].rule}")
    return DeclaredTable(**vars(file), declared=declared)


def tabulate_partition(run: RunDirectory, number: int) -> None:
    """Count one partition: its cells, and their steps."""
    source = load_object(run / SOURCE, DeclaredTable)
    counted_records.count_chunk(run / COUNTS, source, number, partial(encode, source.declared))


def encode(declared: DeclaredHistogram, checks: RowChecks) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Check records; return the cells of those without a fault, and their steps, None where each has one."""
    weight, cell = declared.form.weight, checks.cells(declared.histogram, declared.coordinates)
    if weight is None:
        return cell[checks.good], None
    steps = checks.columns[weight.column].where(partial(weight_steps, weight), np.int64)
    checks.fault("weights that are not numbers from 0 to the declared most", weight.column, steps < 0)
    return cell[checks.good], steps[checks.good]


def weight_steps(weight: Weight, text: str) -> int:
    """Return a weight in steps of the grid, ties rounded to even; NO_WEIGHT unless it is a number from 0 to `most`."""
    try:
        value = exact_number(text)
    except ValueError:
        return NO_WEIGHT
    return round(value / weight.grid) if 0 <= value <= weight.most else NO_WEIGHT
