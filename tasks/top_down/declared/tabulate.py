"""Tabulate: check every record against the declaration, count it by leaf and cell, and compare with declared figures.

A chunk is 64 MiB of text or a row group of Parquet. All of it is confidential, and so are the findings.

```
prepared/public, prepared/tabulated, prepared/records    what was declared, the input's digests, its file
persons/records/NUMBER                  records of a chunk, counted by leaf and cell     confidential
persons/findings                        declared figures that are not true of them       confidential
counts/NAME/all/LEVEL                   exact histograms of a level, in spine order      confidential
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

import numpy as np

from privacy.accounting.journal import MarkName
from spine.declaration.figures import group_sums
from spine.declaration.hierarchy import JOIN
from spine.declaration.product import cell_values
from spine.geography import IntArray
from spine.top_down.histogram import TrueHistograms, from_entries, summed
from spine.top_down.queries import query_group
from tasks.inputs.files import exists, unchanged
from tasks.inputs.findings import Finding, has_errors, keep_findings, kept, refuse
from tasks.inputs.marks import mark_files, read_mark
from tasks.inputs.records import (
    ChunkReport,
    RecordFile,
    RowChecks,
    digest_by_workers,
    digest_records,
    join_reports,
    open_records,
    read_chunk,
    report_of,
)
from tasks.inputs.tables import empty
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import load_object, open_array, read_object, remove, save_arrays, save_object
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.top_down.declared.public_tables import PUBLIC, Declared, PublicTables, declared_of
from tasks.top_down.source import TopDownRun, save_histograms

TABULATED, RECORDS = "prepared/tabulated", "prepared/records"
CONTRADICTIONS = "persons/findings"
ALL = "all"  # in place of a state: a declaration's hierarchy is one


@dataclass(frozen=True)
class Tabulated:
    """The result that later stages need; the digests are confidential. mark: the one that covers the records."""

    input_digest: str
    records_digests: tuple[str, ...]
    mark: MarkName | None


def tabulate(run: RunDirectory, workers: Workers, data: str, public: PublicTables) -> Tabulated:
    """Check every record, count it, and compare the counts with all declared figures.

    A run that has counted continues from its own counts, if its records are unchanged or gone.

    Raises
    ------
    Refused
        where a record has an unknown leaf or value, is in a cell declared a zero, or contradicts a declared figure. The
        findings are in the run's findings.json, the message holds none of them.
    """
    if (run / TABULATED).exists():
        file = load_object(run / RECORDS, RecordFile)
        if file.path != data or load_object(run / PUBLIC, PublicTables) != public:
            raise Refused(f"run {run.id} began with other records or another declaration; start a new run")
        if (
            exists(data)
            and digest_by_workers(run, workers, file.path) != load_object(run / TABULATED, Tabulated).records_digests[0]
        ):
            raise Refused(f"the records of run {run.id} have changed; a new run spends budget again")
        return load_object(run / TABULATED, Tabulated)
    for name in ("persons", "counts"):
        remove(run / name)
    save_object(run / PUBLIC, public)
    folder = data.rpartition("/")[0] or "."
    with unchanged([data, *mark_files(folder)]):
        tabulated = _tabulate(run, workers, data, folder)
    save_object(run / TABULATED, tabulated)
    return tabulated


def record_columns(declared: Declared) -> list[str]:
    """Return the columns of records that are read."""
    form = declared.declaration.form
    return list(dict.fromkeys([*form.record_key, *(axis.column for axis in form.axes.values())]))


def open_data(data: str, declared: Declared) -> tuple[RecordFile | None, list[Finding]]:
    """Open the records with the columns of a declaration."""
    return open_records(data, record_columns(declared), more=True, delimiter=declared.declaration.form.delimiter)


def _tabulate(run: RunDirectory, workers: Workers, data: str, folder: str) -> Tabulated:
    file, findings = open_data(data, declared_of(run))
    reports: list[ChunkReport] = []
    if file is not None:
        save_object(run / RECORDS, file)
        workers.map("tabulate", run, count_chunk, [(number,) for number in range(file.chunks)])
        reports = [
            read_object(run / f"persons/records/{number:05d}.report", ChunkReport) for number in range(file.chunks)
        ]
        joined = join_reports(file, reports)
        findings += joined.findings or ([] if joined.rows else [empty(file.name)])
    if file is not None and not has_errors(findings):
        workers.map("histograms", run, sum_chunks, [(file.chunks,)])
        findings += load_object(run / CONTRADICTIONS, list[Finding])
    if file is None or has_errors(findings):
        for name in ("persons", "counts"):
            remove(run / name)
        refuse(run, findings, what="table of records")
    keep_findings(run, findings)
    digest = digest_records(run, workers, file, reports)
    mark = read_mark(folder)
    if mark is not None:
        mark.check({file.name: digest})
    return Tabulated(sha256(f"records {digest}\n".encode()).hexdigest(), (digest,), mark.name if mark else None)


def count_chunk(run: RunDirectory, number: int) -> None:
    """Check and count a chunk: `key` (leaf * cells + cell, ascending), `count`, and its report."""
    at = run / f"persons/records/{number:05d}.report"
    if at.exists():
        return
    declared, file = declared_of(run), load_object(run / RECORDS, RecordFile)
    chunk = read_chunk(file, number)
    table, _ = chunk.parse()
    findings: list[Finding] = []
    if table is not None:
        checks = RowChecks(file, table)
        keys, counts = np.unique(encode(declared, checks), return_counts=True)
        save_arrays(run / f"persons/records/{number:05d}", {"key": keys, "count": counts})
        findings = checks.findings
    save_object(at, report_of(chunk, 0 if table is None else len(table), 0, findings))


def encode(declared: Declared, checks: RowChecks) -> IntArray:
    """Check records, and return the keys of those without a fault: leaf * cells + cell."""
    form, product = declared.declaration.form, declared.declaration.product
    at = []
    for axis in product.axes:
        number = {value: cell for cell, values in enumerate(cell_values(form.axes[axis.name])) for value in values}
        own = checks.columns[axis.column].where(partial(_number, number), np.int64)
        checks.fault(f"values that the axis {axis.name} does not have", axis.column, own < 0)
        at.append(np.maximum(own, 0))
    cell = np.ravel_multi_index(tuple(at), product.shape)
    checks.fault("records in a cell that is declared a zero", "", ~product.possible[cell])
    leaf = _leaf_of_records(declared, checks)
    checks.fault("leaves that are not in the table of leaves", form.record_key[-1], leaf < 0)
    keys: IntArray = (leaf * product.cells + cell)[checks.good]
    return keys


def _number(numbers: Mapping[str, int], value: str) -> int:
    return numbers.get(value, -1)


def _leaf_of_records(declared: Declared, checks: RowChecks) -> IntArray:
    """Return the place of each record's leaf in spine order, -1 for an unknown one."""
    form, by_key = declared.declaration.form, declared.hierarchy.by_key
    first, *others = [checks.columns[name] for name in form.record_key]
    texts, number = first.values, first.numbers.astype(np.int64)
    for column in others:  # only the pairs that occur are joined
        pairs, number = np.unique(number * len(column.values) + column.numbers, return_inverse=True)
        heads, tails = np.divmod(pairs, len(column.values))
        ends = zip(heads.tolist(), tails.tolist(), strict=True)
        texts = [texts[head] + JOIN + column.values[tail] for head, tail in ends]
    return np.array([by_key.get(text, -1) for text in texts], np.int64)[number]


def sum_chunks(run: RunDirectory, chunks: int) -> None:
    """Sum the chunks to exact histograms of every level, and find what contradicts a declared figure."""
    declared = declared_of(run)
    folders = [run / f"persons/records/{number:05d}" for number in range(chunks)]
    parts = [
        (np.asarray(open_array(each, "key")), np.asarray(open_array(each, "count")))
        for each in folders
        if each.exists()
    ]
    keys, place = np.unique(np.concatenate([key for key, _ in parts]), return_inverse=True)
    counts = np.zeros(len(keys), np.int64)
    np.add.at(counts, place, np.concatenate([count for _, count in parts]))
    product = declared.declaration.product
    leaf, cell = np.divmod(keys, product.cells)
    save_object(run / CONTRADICTIONS, [*contradictions(declared, leaf, cell, counts)])
    levels = declared.hierarchy.spine.levels
    for level, of_level in zip(levels, histograms(declared, leaf, cell, counts), strict=True):
        save_histograms(TopDownRun(run.path).counts_folder(product.name, ALL, level), of_level)


def histograms(declared: Declared, leaf: IntArray, cell: IntArray, count: IntArray) -> tuple[TrueHistograms, ...]:
    """Return the exact histograms of every level, top first, of records counted by leaf and cell."""
    spine = declared.hierarchy.spine
    return summed(from_entries(TrueHistograms, len(spine.levels) - 1, 0, leaf, cell, count, spine.blocks), spine)


def contradictions(declared: Declared, leaf: IntArray, cell: IntArray, count: IntArray) -> Iterator[Finding]:
    """Yield the declared figures that are not true of the records."""
    hierarchy, form, figures = declared.hierarchy, declared.declaration.form, declared.figures
    file, keys = "declared figures", hierarchy.keys
    by_leaf = np.bincount(leaf, count, len(keys)).astype(np.int64)
    for at, (group, names, values) in enumerate(figures.totals):
        wrong = np.flatnonzero(np.bincount(group, by_leaf, len(values)) != values)
        if len(wrong):
            text = "declared totals that are not those of the records"
            yield Finding(file, text, f"totals.{at}.file", len(wrong), (), kept(names[each] for each in wrong.tolist()))
    for at, counted in enumerate(form.counts):
        parts, declared_counts = query_group(declared.declaration.product, counted.partition), figures.counts[at]
        records = group_sums(parts, len(keys), leaf, cell, count)
        has = np.array([bool(column) for column in counted.columns])
        least = np.array(counted.least or [0] * len(has))
        most = [each if isinstance(each, int) else np.inf for each in counted.most] or [np.inf] * len(has)
        for text, bad in (
            ("records in leaves whose declared count of their part is 0", (records > 0) & (declared_counts == 0)),
            ("fewer records than the declared counts need", records < declared_counts * least),
            (
                "more records than the declared counts allow",
                records > declared_counts * np.where(declared_counts, most, 0),
            ),
        ):
            rows = np.flatnonzero((bad & has).any(axis=1))
            if len(rows):
                yield Finding(file, text, f"counts.{at}", len(rows), (), kept(keys[rows].tolist()))
