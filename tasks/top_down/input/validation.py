"""Validate the input: every row of every file, and the records against the declared invariants; count the records.

All findings are gathered before the run is refused; nothing is spent on a refused input.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256

from tasks.errors import PUT_BACK, Refused
from tasks.geography.public_regions import keep_regions
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.files import load_object, remove, save_object
from tasks.lifecycle.reservation import Charging, Claim, check_account, precheck
from tasks.lifecycle.run_directory import VALIDATED
from tasks.lifecycle.workers import Workers
from tasks.records.files import exists, file_name, unchanged
from tasks.records.findings import MISSING, Finding, has_errors, keep_findings, refuse
from tasks.records.marks import Mark, mark_files, name_if_covered, read_mark
from tasks.records.record_digests import digests as state_digests
from tasks.records.records import STATE, digest_by_workers, open_records
from tasks.top_down.blocks import Blocks, TopDownRun, save_blocks
from tasks.top_down.input.histograms import findings_path, validate_state
from tasks.top_down.input.public_input import read_public
from tasks.top_down.input.records import COLUMNS, count_chunk, save_codes
from tasks.top_down.run_plan import Design, ProductName, Tables, public_digests
from tasks.top_down.source import Validated
from tasks.top_down.spend import planned_spend, planned_spends


def check_public(run: TopDownRun, tables: Tables, charging: Charging, design: Design, states: tuple[str, ...]) -> None:
    """Refuse missing files and an account that cannot pay, before any worker or geography is needed.

    A validated run is not checked again, and marked data needs no account. Raises Refused as `validate` does.
    """
    if (run / VALIDATED).exists():
        return
    missing = [
        path
        for path in (*tables.records.values(), tables.quarters, tables.totals, tables.geography)
        if not exists(path)
    ]
    if missing:
        refuse(run, [Finding(file_name(path), MISSING) for path in missing])
    if read_mark(tables.marks) is None and not is_truth(run):
        check_account(run, charging, planned_spends(design).values(), states)


def validate(run: TopDownRun, workers: Workers, tables: Tables, design: Design, charging: Charging | None) -> Validated:
    """Validate the whole input and count its records by block and cell into the run directory.

    charging: the account, so that it can refuse the run at once; None where nothing will be charged.

    Raises Refused where a finding is an error, a file changes while it is read, or the account would refuse the run.
    The findings are in the run's findings.json, not in the message.
    """
    if (run / VALIDATED).exists():
        return _validated_before(run, workers, tables, design)
    # of an unfinished try: files may have been corrected since
    remove(run / "prepared", run / "persons", run / "counts")
    save_object(run / "prepared/design", design)
    save_object(run / "prepared/tables", tables)
    keep_regions(run, tables.geography)
    with unchanged([tables.quarters, tables.totals, *mark_files(tables.marks), *tables.records.values()]):
        mark = read_mark(tables.marks)
        blocks, codes, findings = read_public(tables, design)
        if blocks is not None and mark is None and charging is not None and not is_truth(run):
            spend = planned_spend(design, nation=design.with_nation(blocks.states))
            precheck(charging, Claim(run, blocks.states, spend))
        if blocks is not None:
            save_blocks(run, blocks)
            save_codes(run, codes, blocks)
        validated = _validate_records(run, workers, blocks, findings, mark)
    save_object(run / VALIDATED, validated)
    return validated


def _validate_records(
    run: TopDownRun, workers: Workers, blocks: Blocks | None, findings: list[Finding], mark: Mark | None
) -> Validated:
    """Validate and count the records, chunk by chunk and then state by state, and digest the input."""
    tables, design = run.tables, run.design
    digests: dict[ProductName, str] = {}
    of_states: list[str] = []
    for product in design.products:
        file, faults = open_records(tables.records[product], COLUMNS[product], more=True)
        findings += faults
        if file is None:
            continue
        read = run.count_records(workers, "validate", product, file, count_chunk)
        digests[product] = read.digest
        of_states += state_digests(f"{product} of the TopDown Algorithm", read.sums)
        findings += read.findings
        if read.left_out and blocks is not None:
            rule = "records of other states, left out"
            findings.append(Finding(file.name, rule, STATE, read.left_out, warning=True))
    if blocks is not None and not has_errors(findings):
        pairs = [(product, state) for product in design.products for state in blocks.states]
        workers.map("invariants", run, validate_state, pairs)
        findings += [finding for pair in pairs for finding in load_object(findings_path(run, *pair), list[Finding])]
    if blocks is None or has_errors(findings):
        remove(run / "persons", run / "counts")
        refuse(run, findings)
    keep_findings(run, findings)
    public = public_digests(tables)
    covered = {file_name(tables.records[product]): digest for product, digest in digests.items()}
    beside = [path for path in (tables.quarters, tables.totals) if path.rpartition("/")[0] == tables.marks]
    covered |= {file_name(path): public[file_name(path)] for path in beside}
    return Validated(
        input_digest=_input_digest(digests, public),
        records_digests=(*digests.values(), *of_states),
        mark=name_if_covered(mark, covered),
        states=blocks.states,
        nation=design.with_nation(blocks.states),
        digests=public,
    )


def _input_digest(records: Mapping[ProductName, str], public: dict[str, str]) -> str:
    lines = [f"{name} {digest}\n" for name, digest in sorted([*records.items(), *public.items()])]
    return sha256("".join(lines).encode()).hexdigest()


def _validated_before(run: TopDownRun, workers: Workers, tables: Tables, design: Design) -> Validated:
    """Resume a validated run from its own counts, if its input is unchanged or gone."""
    if run.tables != tables or run.design.digest() != design.digest():
        raise Refused(f"run {run.id} began with other files or another design; {PUT_BACK}")
    validated = run.validated
    with suppress(FileNotFoundError):
        records: dict[ProductName, str] = {}
        for product in design.products:
            records[product] = digest_by_workers(run, workers, run.records(product).path)
        if _input_digest(records, public_digests(tables)) != validated.input_digest:
            raise Refused(f"the input of run {run.id} has changed; {PUT_BACK}")
    return validated
