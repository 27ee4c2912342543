"""Validate the input: every row of every file, and the records against the declared figures; count the records.

All findings are gathered before the run is refused; nothing is spent on a refused input. All of it is confidential.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from spine.top_down.histogram import TrueHistograms, from_entries
from tasks.errors import PUT_BACK, Refused
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.files import load_object, remove, save_object
from tasks.lifecycle.reservation import Charging
from tasks.lifecycle.run_directory import VALIDATED
from tasks.lifecycle.workers import Workers
from tasks.records import counted_records
from tasks.records.files import exists, file_name, unchanged
from tasks.records.findings import MISSING, Finding, has_errors, keep_findings, refuse
from tasks.records.marks import Mark, mark_files, name_if_covered, read_mark
from tasks.records.record_digests import digests as state_digests
from tasks.records.records import STATE, digest_by_workers, join_reports
from tasks.top_down.measure import RECORDS, TABLES, MeasuredRun
from tasks.top_down.run_plan import Tables
from tasks.top_down.source import Branch, Validated, save_histograms


def check_input(run: MeasuredRun, tables: Tables) -> None:
    """Refuse missing files, before any worker or geography is needed. A validated run is not checked again."""
    if not (run / VALIDATED).exists() and (missing := [path for path in tables.paths if not exists(path)]):
        refuse(run, [Finding(file_name(path), MISSING) for path in missing])


def validate(
    run: MeasuredRun, workers: Workers, tables: Tables, design: Any, charging: Charging | None = None
) -> Validated:
    """Validate the whole input and count its records by leaf and cell into the run directory.

    charging: the account, so that it can refuse the run at once; None where nothing will be charged.

    Raises Refused where a finding is an error, a file changes while it is read, or the account would refuse the run.
    The findings are in the run's findings.json, not in the message.
    """
    if (run / VALIDATED).exists():
        return _validated_before(run, workers, tables, design)
    # left by an unfinished try: files may have been corrected since
    remove(run / "prepared", run / "persons", run / "counts")
    run.keep_design(design)
    save_object(run / TABLES, tables)
    with unchanged([*tables.figures, *mark_files(tables.marks), *tables.records.values()]):
        mark = read_mark(tables.marks)
        findings = run.read_public(workers, charging if mark is None and not is_truth(run) else None)
        validated = _validate_records(run, workers, findings, mark)
    save_object(run / VALIDATED, validated)
    return validated


def _validate_records(run: MeasuredRun, workers: Workers, findings: list[Finding], mark: Mark | None) -> Validated:
    """Validate and count the records, chunk by chunk and then branch by branch, and digest the input."""
    tables, known = run.tables, not has_errors(findings)  # the leaves
    digests: dict[str, str] = {}
    of_states: list[str] = []
    for product in tables.records:
        file, faults = run.open(product)
        findings += faults
        if file is None:
            continue
        save_object(run / RECORDS.format(product), file)
        workers.map("validate", run, count_chunk, [(product, number) for number in range(file.chunks)])
        read = join_reports(run, workers, file, run.counted_folder(product))
        digests[product] = read.digest
        of_states += state_digests(run.record_kind.format(product), read.sums)
        findings += read.findings
        if read.left_out and known:
            some = read.left_out < read.rows
            rule = "records of other states, left out" if some else "all records are of other states"
            findings.append(Finding(file.name, rule, STATE, read.left_out, warning=some))
    if not has_errors(findings):
        calls = [(branch, *ends) for branch in run.branches for ends in run.pieces(branch)]
        workers.map("invariants", run, compare_piece, calls)
        paths = [findings_path(run, *each[:2]) for each in calls]
        findings += [finding for path in paths for finding in load_object(path, list[Finding])]
    if has_errors(findings):
        remove(run / "persons", run / "counts")
        refuse(run, findings)
    keep_findings(run, findings)
    public, states = tables.digests(), tuple(dict.fromkeys(branch.name for branch in run.branches))
    covered = {file_name(tables.records[product]): digest for product, digest in digests.items()}
    beside = [path for path in tables.figures if path.rpartition("/")[0] == tables.marks]
    covered |= {file_name(path): public[file_name(path)] for path in beside}
    return Validated(
        input_digest=_input_digest(digests, public),
        records_digests=(*digests.values(), *of_states),
        mark=name_if_covered(mark, covered),
        states=states,
        nation=run.design.with_nation(states),
        digests=public,
    )


def _input_digest(records: Mapping[str, str], public: Mapping[str, str]) -> str:
    lines = [f"{name} {digest}\n" for name, digest in sorted([*records.items(), *public.items()])]
    return sha256("".join(lines).encode()).hexdigest()


def _validated_before(run: MeasuredRun, workers: Workers, tables: Tables, design: Any) -> Validated:
    """Resume a validated run from its own counts, if its input is unchanged or gone."""
    if run.tables != tables or run.design.digest() != design.digest():
        raise Refused(f"run {run.id} began with other files or another design; {PUT_BACK}")
    validated = run.validated
    with suppress(FileNotFoundError):
        records = {product: digest_by_workers(run, workers, run.records(product).path) for product in tables.records}
        if _input_digest(records, tables.digests()) != validated.input_digest:
            raise Refused(f"the input of run {run.id} has changed; {PUT_BACK}")
    return validated


def count_chunk(run: MeasuredRun, product: str, number: int) -> None:
    """Validate a chunk of records, and count it by leaf and cell."""
    counted_records.count_chunk(run.counted_folder(product), run.records(product), number, *run.counting(product))


def findings_path(run: MeasuredRun, branch: Branch, first: int) -> Path:
    """Return the file of the declared figures that the records of a piece of a branch's leaves contradict."""
    return run / f"counts/{branch}.findings/{first:07d}"


def compare_piece(run: MeasuredRun, branch: Branch, first: int, last: int) -> None:
    """Save the histograms of the leaves first ... last - 1, added up from the chunks, and what they contradict."""
    path = findings_path(run, branch, first)
    if path.exists():
        return
    (keys, cells), none = run.keys(branch.product), np.zeros(0, np.int64)
    begin, end = ((run.offsets(branch)[-1] + each) * keys for each in (first, last))
    chunks = counted_records.load_counted(run.counted_folder(branch.product), begin, end)
    key, count = (np.concatenate(each) for each in zip((none, none), *chunks, strict=True))
    leaf, cell = np.divmod(key - begin, keys)
    findings = [*run.contradictions(branch, first, last, leaf, cell, count)]
    inside, levels = cell < cells, run.spine(branch).levels  # other keys are of records that are not counted
    entries = leaf[inside], cell[inside], count[inside]
    histograms = from_entries(TrueHistograms, len(levels) - 1, first, *entries, last - first)
    save_histograms(run.counts_folder(branch, levels[-1]) / f"{first:07d}", histograms)
    save_object(path, findings)
