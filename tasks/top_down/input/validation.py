"""Validate: every row of every file is checked and counted, and the records are held against the declared invariants.

All findings are gathered before the run is refused; nothing is spent on a refused input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import NoReturn

import numpy as np

from privacy.accounting.ledger import Request
from privacy.noise.randomness import NOISE_SCHEME_VERSION
from spine.geography import Geography, IntArray, gq_pattern
from spine.top_down.histogram import TYPES
from tasks.inputs.blocks.geography import read_geography
from tasks.inputs.files import exists, unchanged
from tasks.inputs.findings import MISSING, Finding, gather, has_errors, in_public, write_findings
from tasks.inputs.records import (
    STATE,
    RecordFile,
    digest_by_workers,
    digest_records,
    empty,
    join_reports,
    open_records,
)
from tasks.inputs.synthetic_mark import Mark, read_mark_file
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import load_object, remove, save_object
from tasks.lifecycle.reservation import Charging, check_open, precheck
from tasks.lifecycle.workers import Workers
from tasks.top_down.input.histograms import check_state
from tasks.top_down.input.invariants_input import read_quarters, read_totals
from tasks.top_down.input.records import COLUMNS, count_chunk, read_report, records_name, save_codes, short_codes
from tasks.top_down.run import Blocks, TopDownRun, Validated, save_blocks
from tasks.top_down.run_plan import Design, ProductName
from tasks.top_down.tables import Tables, public_digests


def check_input(run: TopDownRun, workers: Workers, tables: Tables, design: Design) -> None:
    """Check the whole input as a run does, without an account. Raises Refused as `validate` does."""
    validate(run, workers, tables, design, None)


def check_public(run: TopDownRun, tables: Tables, design: Design, charging: Charging) -> None:
    """Refuse files that are not there and an account that is not open: what takes no worker and no geography to find.

    A validated run is past this, and marked data needs no account. Raises Refused as `validate` does.
    """
    if (run / "prepared/validated").exists():
        return
    records = [str(tables.records(product)) for product in design.products]
    missing = [path for path in (*records, tables.quarters, tables.totals, tables.geography) if not exists(path)]
    if missing:
        found = [Finding(_name(path.rstrip("/")), MISSING) for path in missing]
        write_findings(run / "findings.json", found)
        raise Refused(f"the input does not pass validation{in_public(found, ())}")
    if read_mark_file(tables.mark) is None and not is_truth(run):
        check_open(charging)


def validate(run: TopDownRun, workers: Workers, tables: Tables, design: Design, charging: Charging | None) -> Validated:
    """Check the whole input and count its records by block and cell into the run directory.

    charging: what the account would refuse is refused at once; None where nothing will be charged.

    Raises
    ------
    Refused
        where a finding is an error, a file changes while it is read, or the account would refuse the run. The findings
        are in the run's findings.json, the message holds none of them.
    """
    if (run / "prepared/validated").exists():
        return _validated_before(run, workers, tables, design)
    for name in ("prepared", "persons", "counts"):  # of a try that came to no end: files may have been corrected since
        remove(run / name)
    save_object(run / "prepared/design", design)
    save_object(run / "prepared/tables", tables)
    records = [path for product in design.products if (path := tables.records(product))]
    with unchanged([tables.quarters, tables.totals, tables.mark, *records]):
        mark = read_mark_file(tables.mark)
        blocks, codes, findings = read_public(tables, design)
        if blocks is not None and mark is None and charging is not None and not is_truth(run):
            precheck(run, charging, request(run, design, charging, blocks.states))
        validated = _validate_records(run, workers, tables, design, blocks, codes, findings, mark)
    save_object(run / "prepared/validated", validated)
    return validated


def request(
    run: TopDownRun,
    design: Design,
    charging: Charging,
    states: tuple[str, ...],
    validated: Validated | None = None,
    configuration: str = "",
) -> Request:
    """Return what a run asks of the ledger: one reservation for persons and units together.

    Before its records are read it has no digests of them.
    """
    return Request(
        run=run.id,
        account=charging.account or "",
        states=states,
        definition=design.definition,
        amount=design.total(design.with_nation(states)),
        input_digest=validated.input_digest if validated else "",
        configuration_digest=configuration,
        noise_scheme=NOISE_SCHEME_VERSION,
        records_digest=validated.records_digest if validated else "",
        second_account=charging.second_account,
    )


def read_public(tables: Tables, design: Design) -> tuple[Blocks | None, IntArray, list[Finding]]:
    """The blocks of the universe, the codes of all blocks of the geography, and findings in the public files."""
    code, quarters, findings = read_quarters(tables.quarters)
    totals, faults = read_totals(tables.totals)
    findings += faults
    geography, faults = _read_geography(tables.geography, design)
    findings += faults
    if geography is None or has_errors(findings):
        return None, np.zeros(0, np.int64), findings
    codes = short_codes(geography)
    declared = np.zeros((len(codes), TYPES), np.int64)
    at = np.searchsorted(code, codes)
    at = np.minimum(at, len(code) - 1)
    known = code[at] == codes
    declared[known] = quarters[at[known]]
    file = tables.quarters.rsplit("/", 1)[-1]
    if other := len(code) - int(known.sum()):
        findings.append(
            Finding(file, "blocks that are not of the run's geography, left out", "tabblk", other, warning=True)
        )
    universe = declared.sum(axis=1) > 0
    if not universe.any():
        findings.append(Finding(file, "no block of the geography has living quarters", "tabblk"))
        return None, codes, findings
    geography = replace(
        geography, gq=gq_pattern([declared[:, kind] > 0 for kind in range(1, TYPES)]), universe=universe
    )
    blocks = Blocks(geography.take(universe), declared[universe], totals)
    missing = [state for state in blocks.states if int(state) not in totals]
    if missing:
        rule = f"states without a declared population: {', '.join(missing)}"
        findings.append(Finding(tables.totals.rsplit("/", 1)[-1], rule, "state", len(missing)))
        return None, codes, findings
    return blocks, codes, findings


def _read_geography(source: str, design: Design) -> tuple[Geography | None, list[Finding]]:
    """The run's blocks, occupied or not; what makes them unreadable is a finding that names the block."""
    settings = replace(design.settings[design.products[0]], occupied_only=False)
    try:
        geography, _ = read_geography(source, settings, states=design.states)
    except Refused as refused:
        return None, [Finding(source.rstrip("/").rsplit("/", 1)[-1], str(refused))]
    return replace(geography, population=None), []


def _validate_records(
    run: TopDownRun,
    workers: Workers,
    tables: Tables,
    design: Design,
    blocks: Blocks | None,
    codes: IntArray,
    findings: list[Finding],
    mark: Mark | None,
) -> Validated:
    """Check and count the records, chunk by chunk and then state by state, and digest the input."""
    if blocks is not None:
        save_blocks(run, blocks)
        save_codes(run, codes, blocks)
    digests: dict[ProductName, str] = {}
    for product in design.products:
        digest, faults = _count(run, workers, tables, product, blocks is not None)
        digests[product] = digest
        findings += faults
    if blocks is not None and not has_errors(findings):
        each = [(product, state) for product in design.products for state in blocks.states]
        workers.map("invariants", run, check_state, each)
        findings += list(_state_findings(run, each))
    write_findings(run / "findings.json", gather(findings))
    if blocks is None or has_errors(findings):
        for name in ("persons", "counts"):
            remove(run / name)
        _refuse(run)
    public = public_digests(tables)
    if mark is not None:
        mark.check({_file(tables, product): digest for product, digest in digests.items()} | _marked(tables, public))
    return Validated(
        input_digest=_input_digest(digests, public),
        records_digest=" ".join(digests[product] for product in sorted(digests)),
        synthetic=mark is not None,
        states=blocks.states,
        nation=design.with_nation(blocks.states),
        digests=public,
    )


def _count(
    run: TopDownRun, workers: Workers, tables: Tables, product: ProductName, known: bool
) -> tuple[str, list[Finding]]:
    """Count the records of a product chunk by chunk; the digest of their file, and findings by line of it.

    known: whether the blocks are, so that records can be held against them.
    """
    path = tables.records(product)
    if path is None:
        return "", [Finding(f"{product}.txt", MISSING)]
    file, findings = open_records(path, COLUMNS[product], more=True)
    if file is None:
        return "", findings
    save_object(run / records_name(product), file)
    workers.map("validate", run, count_chunk, [(product, number) for number in range(file.chunks)])
    reports = [read_report(run, product, number) for number in range(file.chunks)]
    joined = join_reports(file, reports)
    findings += joined.findings
    if not joined.rows and not findings:
        findings.append(empty(file.name))
    if joined.left_out and known:
        rule = "records of other states, left out"
        findings.append(Finding(file.name, rule, STATE, joined.left_out, warning=True))
    return digest_records(run, workers, file, reports), findings


def _state_findings(run: TopDownRun, each: list[tuple[ProductName, str]]) -> Iterator[Finding]:
    for product, state in each:
        yield from load_object(run / f"persons/{product}/{state}.findings")


def _file(tables: Tables, product: ProductName) -> str:
    return str(tables.records(product)).rsplit("/", 1)[-1]


def _marked(tables: Tables, public: dict[str, str]) -> dict[str, str]:
    """The public files that lie beside the mark, which it must cover."""
    beside = tables.mark.rpartition("/")[0]
    files = (tables.quarters, tables.totals)
    return {name: public[name] for path in files if path.rpartition("/")[0] == beside for name in [_name(path)]}


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _input_digest(records: Mapping[ProductName, str], public: dict[str, str]) -> str:
    lines = [f"{name} {digest}\n" for name, digest in sorted([*records.items(), *public.items()])]
    return sha256("".join(lines).encode()).hexdigest()


def _validated_before(run: TopDownRun, workers: Workers, tables: Tables, design: Design) -> Validated:
    """Take up a validated run: it goes on from its own counts, if its input is what it was or is gone."""
    if run.tables != tables or run.design.digest() != design.digest():
        raise Refused(f"run {run.id} began with other files or another design; a new run spends budget again")
    validated = run.validated
    with suppress(FileNotFoundError):
        records: dict[ProductName, str] = {}
        for product in design.products:
            file: RecordFile = load_object(run / records_name(product))
            records[product] = digest_by_workers(run, workers, file.path)
        if _input_digest(records, public_digests(tables)) != validated.input_digest:
            raise Refused(f"the input of run {run.id} has changed; a new run spends budget again")
    return validated


def _refuse(run: TopDownRun) -> NoReturn:
    raise Refused(f"the input does not pass validation; the findings are in the curator's report of {run.id}")
