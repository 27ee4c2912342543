"""Tabulate: check every record against the declaration, count it by leaf and cell, and compare with declared figures.

All of it is confidential, and so are the findings.

```
prepared/public, prepared/validated     what was declared, the input's digests
persons/records/NUMBER                  records of a chunk, counted by leaf and cell     confidential
persons/findings                        declared figures that are not true of them       confidential
counts/NAME/all/LEVEL                   exact histograms of a level, in spine order      confidential
```
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from hashlib import sha256

import numpy as np

from privacy.accounting.states import EVERYWHERE
from spine.declaration.hierarchy import JOIN
from spine.declaration.product import coordinates
from spine.geography import IntArray
from spine.top_down.histogram import TrueHistograms, from_entries, summed
from tasks.errors import PUT_BACK, Refused
from tasks.lifecycle.files import load_object, remove, save_object
from tasks.lifecycle.reservation import Charging, Claim, precheck
from tasks.lifecycle.run_directory import VALIDATED
from tasks.lifecycle.workers import Workers
from tasks.records import counted_records
from tasks.records.files import exists, file_name, unchanged
from tasks.records.findings import Finding, has_errors, keep_findings, kept, refuse
from tasks.records.marks import mark_files, mark_folder, name_if_covered, read_mark
from tasks.records.parquet import words_of
from tasks.records.record_digests import TABLE, digests
from tasks.records.records import RecordFile, RowChecks, digest_by_workers, open_records
from tasks.top_down.choices import Estimator
from tasks.top_down.declared.public_tables import PUBLIC, Declared, PublicTables
from tasks.top_down.declared.source import ALL, DeclaredRun
from tasks.top_down.input.declared_counts import broken_counts
from tasks.top_down.source import Validated, save_histograms

RECORDS = "records"  # in place of a product
CONTRADICTIONS = "persons/findings"


def precheck_budget(run: DeclaredRun, declared: Declared, data: str, charging: Charging) -> None:
    """Refuse, before a record is read, data without the declared columns and an account that cannot be charged.

    Charges nothing. Marked data needs no account. A run that has tabulated is past this.
    """
    if (run / VALIDATED).exists():
        return
    _, findings = open_data(data, declared)
    if findings:
        raise Refused(f"{findings[0].file}: {findings[0].rule}")
    if read_mark(mark_folder(data)) is None:
        precheck(charging, Claim(run, EVERYWHERE, declared.spend))


def tabulate(
    run: DeclaredRun, workers: Workers, data: str, public: PublicTables, estimator: Estimator = "topdown"
) -> Validated:
    """Check every record, count it, and compare the counts with all declared figures.

    A run that has counted continues from its own counts, if its records are unchanged or gone.

    Raises
    ------
    Refused
        where a record has an unknown leaf or value, is in a cell declared a zero, or contradicts a declared figure. The
        findings are in the run's findings.json, the message holds none of them.
    """
    if (run / VALIDATED).exists():
        file, validated = run.records(RECORDS), run.validated
        if file.path != data or run.public != public:
            raise Refused(f"run {run.id} began with other records or another declaration; {PUT_BACK}")
        if exists(data) and digest_by_workers(run, workers, file.path) != validated.records_digests[0]:
            raise Refused(f"the records of run {run.id} have changed; {PUT_BACK}")
        return validated
    remove(run / "persons", run / "counts")
    save_object(run / PUBLIC, public)
    run.choose(estimator)
    with unchanged([data, *mark_files(mark_folder(data))]):
        validated = _tabulate(run, workers, data)
    save_object(run / VALIDATED, validated)
    return validated


def record_columns(declared: Declared) -> list[str]:
    """Return the columns of records that are read."""
    form = declared.declaration.form
    return list(dict.fromkeys([*form.record_key, *(axis.column for axis in form.axes.values())]))


def open_data(data: str, declared: Declared) -> tuple[RecordFile | None, list[Finding]]:
    """Open the records with the columns of a declaration."""
    form = declared.declaration.form
    words = {axis.column: words_of(coordinates(axis)) for axis in form.axes.values()}
    columns = record_columns(declared)
    return open_records(data, columns, more=True, own=True, delimiter=form.delimiter, words=words)


def _tabulate(run: DeclaredRun, workers: Workers, data: str) -> Validated:
    file, findings = open_data(data, run.declared)
    if file is not None:
        read = run.count_records(workers, "tabulate", RECORDS, file, count_chunk)
        findings += read.findings
        if not has_errors(findings):
            workers.map("histograms", run, sum_chunks, [()])
            findings += load_object(run / CONTRADICTIONS, list[Finding])
    if file is None or has_errors(findings):
        remove(run / "persons", run / "counts")
        refuse(run, findings, what="table of records")
    keep_findings(run, findings)
    mark = name_if_covered(read_mark(mark_folder(data)), {file.name: read.digest})
    input_digest = sha256(f"records {read.digest}\n".encode()).hexdigest()
    return Validated(input_digest, (read.digest, *digests(TABLE, read.sums)), mark, (ALL,), False, {})


def count_chunk(run: DeclaredRun, product: str, number: int) -> None:
    """Check a chunk, and count it by leaf and cell."""
    file = run.records(product)
    counted_records.count_chunk(run.counted_folder(product), file, number, partial(encode, run.declared))


def encode(declared: Declared, checks: RowChecks) -> tuple[IntArray, None]:
    """Check records, and return the keys of those without a fault: leaf * cells + cell."""
    form, product = declared.declaration.form, declared.declaration.product
    cell = checks.cells(product, {name: coordinates(axis) for name, axis in form.axes.items()})
    leaf = _leaf_of_records(declared, checks)
    last = {key.rpartition(JOIN)[2] for key in declared.hierarchy.by_key}
    checks.unknown("leaves that are not in the table of leaves", form.record_key[-1], leaf < 0, last)
    return (leaf * product.cells + cell)[checks.good], None


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


def sum_chunks(run: DeclaredRun) -> None:
    """Sum the chunks to exact histograms of every level, and find what contradicts a declared figure."""
    declared, name = run.declared, run.name
    entries = run.counted(RECORDS, declared.declaration.product.cells, 0, len(declared.hierarchy.keys))
    save_object(run / CONTRADICTIONS, [*contradictions(declared, *entries)])
    for level, of_level in zip(declared.hierarchy.spine.levels, histograms(declared, *entries), strict=True):
        save_histograms(run.counts_folder(name, ALL, level), of_level)


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
            text = f"totals of {file_name(form.totals[at].file)} that are not the numbers of the records"
            yield Finding(file, text, f"totals.{at}.file", len(wrong), (), kept(names[each] for each in wrong.tolist()))
    for at, counted in enumerate(form.counts):
        counts = figures.counts[at]
        for rule, bad in broken_counts(declared.declaration.product, counted, counts, leaf, cell, count):
            if len(rows := np.flatnonzero(bad)):
                yield Finding(file, f"leaves with {rule}", f"counts.{at}", len(rows), (), kept(keys[rows].tolist()))
