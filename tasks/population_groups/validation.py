"""Validate: check every row of every file, encode the records, digest the input (paper 5.1).

All findings are gathered before the run is refused. They go to the curator's report in the confidential directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from spine.settings import Jurisdiction
from tasks.inputs.fast_grf_c import ParsedBlocks, parse_blocks
from tasks.inputs.files import digest_file, unchanged, why
from tasks.inputs.findings import Finding, has_errors, keep_findings, refuse
from tasks.inputs.grf_c import RegionMap, read_region_map, save_region_map
from tasks.inputs.marks import GRF_FILE, read_mark
from tasks.inputs.public_regions import keep_regions
from tasks.inputs.record_digests import digests
from tasks.inputs.records import STATE, digest_by_workers, digest_records, join_reports
from tasks.inputs.tables import empty
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import remove, save_object
from tasks.lifecycle.workers import Workers
from tasks.population_groups.encode import encode_chunk, read_report
from tasks.population_groups.iterations import PARAMETER_FILES
from tasks.population_groups.parameters import Parameters, digest_parameters, read_parameters
from tasks.population_groups.record_kind import GroupRecords, RecordKind
from tasks.population_groups.run import PublicInput, SafeTabRun, Validated
from tasks.population_groups.shared_reading import NextRun, cached_findings, data_files, locked_next_run, note_prepared

PUBLIC = (*PARAMETER_FILES, GRF_FILE)  # files whose faults a refusal names
_validated_here: set[Path] = set()  # directories validated in this process before their own run has begun


def validated_for_another(run: SafeTabRun) -> None:
    """Note that a run was validated by its sibling run: its own, in this process, need not read the input again."""
    _validated_here.add(run.path)


def validate(
    run: SafeTabRun,
    workers: Workers,
    params: str,
    data: str,
    jurisdiction: Jurisdiction,
    next_run: NextRun | None = None,
    others: Sequence[PublicInput] = (),
) -> Validated | None:
    """Validate the input of one jurisdiction and encode its records into the run directory.

    Returns None where config.json switches the jurisdiction off or it has no block: such a run is skipped. The records
    of `next_run`, over another jurisdiction of the same files, are encoded in the same reading. `others` are checked
    and digested too.

    Raises Refused where a finding is an error, or a file changes while it is read. The findings are in the run's
    findings.json, the message holds none of them.
    """
    if (run.validated_path).exists():
        return _validated_before(run, workers, params, data, others)
    parameters, findings = read_parameters(params, run.CONFIGURATION)
    cached = cached_findings(run, parameters, data) if parameters else None
    if cached is None:  # left by an interrupted try: the files may have been corrected since
        _clear(run)
    if parameters is None:
        refuse(run, findings + check_data_alone(run.KIND, data), PUBLIC)
    if jurisdiction not in parameters.configuration.jurisdictions:  # nothing vouches for its levels
        keep_findings(run, findings)
        return None
    files = [*data_files(run, data), *(file for other in others for file in other.files)]
    with unchanged(files), locked_next_run(next_run) as waiting:
        validated = _validate_data(run, workers, parameters, findings, data, jurisdiction, cached, waiting, others)
    if validated is not None:
        save_object(run.validated_path, validated)
    return validated


def _clear(run: SafeTabRun) -> None:
    for name in ("prepared", "records"):
        remove(run / name)


def _validate_data(
    run: SafeTabRun,
    workers: Workers,
    parameters: Parameters[Any],
    findings: list[Finding],
    data: str,
    jurisdiction: Jurisdiction,
    cached: list[Finding] | None,
    next_run: NextRun | None,
    others: Sequence[PublicInput],
) -> Validated | None:
    """Check and encode the data files, and digest them.

    `findings` are those in the parameters; `cached` are those in the geography, where another run has prepared it.
    """
    parsed = parse_blocks(run, workers, f"{data.rstrip('/')}/{GRF_FILE}") if cached is None else None
    if cached is None:
        geography, faults = _read_geography(data, jurisdiction, parameters, parsed)
    else:
        geography, faults = run.geography, cached
    findings = findings + faults
    records, faults = _open_records(run.KIND, data, jurisdiction, parameters)
    findings += faults
    if geography is not None and not len(geography.blocks):
        keep_findings(run, findings)
        return None
    if records is None:
        refuse(run, findings, PUBLIC)
    if cached is None:
        _save(run, parameters, geography, records, data)
    findings += [fault for other in others if geography for fault in other.read(run, parameters, geography)]
    chunks = records.chunks
    also = (next_run.run,) if next_run and _prepare(next_run, parameters, data, parsed) else ()
    geography_digest = parsed.digest if parsed else None
    del parsed  # it is large
    workers.map("validate", run, encode_chunk, [(number, *also) for number in range(chunks)])
    records_digest, of_states, faults = _collect(run, workers, records, chunks, jurisdiction)
    findings += faults
    if geography is None or has_errors(findings):
        remove(run / "records")
        refuse(run, findings, (*PUBLIC, *(other.name for other in others)))
    keep_findings(run, findings)
    geography_digest = geography_digest or digest_file(f"{data.rstrip('/')}/{GRF_FILE}")
    mark = read_mark(data)
    if mark is not None:
        mark.check({records.name: records_digest, GRF_FILE: geography_digest})
    return Validated(
        input_digest=_input_digest(run, records_digest, geography_digest),
        records_digests=(records_digest, *of_states),
        geography_digest=geography_digest,
        mark=mark.name if mark else None,
        blocks=len(geography.blocks),
        other_digests={other.name: other.digest for other in others},
    )


def _read_geography(
    data: str, jurisdiction: Jurisdiction, parameters: Parameters[Any], parsed: ParsedBlocks | None
) -> tuple[RegionMap | None, list[Finding]]:
    return read_region_map(
        data, jurisdiction, parameters.configuration.states(jurisdiction), parsed.codes if parsed else None
    )


def _prepare(next_run: NextRun, parameters: Parameters[Any], data: str, parsed: ParsedBlocks | None) -> bool:
    """Prepare the next run for its records; False where there is nothing to encode, or something to refuse it for."""
    run, jurisdiction = next_run.run, next_run.jurisdiction
    if jurisdiction not in parameters.configuration.jurisdictions:
        return False
    geography, findings = _read_geography(data, jurisdiction, parameters, parsed)
    records, _ = _open_records(run.KIND, data, jurisdiction, parameters)
    if geography is None or records is None:
        return False
    _clear(run)
    _save(run, parameters, geography, records, data)
    note_prepared(run, parameters, data, findings)
    return len(geography.blocks) > 0


def _input_digest(run: SafeTabRun, records: str, geography: str) -> str:
    return sha256(f"{run.KIND.noun} {records}\ngeography {geography}\n".encode()).hexdigest()


def _validated_before(
    run: SafeTabRun, workers: Workers, params: str, data: str, others: Sequence[PublicInput]
) -> Validated:
    """Return what an earlier try validated, if the input is unchanged or gone: the run has its own encoded copy."""
    validated: Validated = run.validated
    if run.path in _validated_here:
        _validated_here.remove(run.path)
        return validated
    path = run.records.path
    try:
        with suppress(FileNotFoundError):
            if digest_parameters(params, run.CONFIGURATION) != run.parameters.digests:
                raise Refused(f"the parameters of run {run.id} have changed; a new run spends budget again")
            digests_now = {other.name: other.digest for other in others}
            if digests_now != validated.other_digests:
                raise Refused(f"{', '.join(digests_now)} of run {run.id} changed; a new run spends budget again")
        records = digest_by_workers(run, workers, run.KIND.find(data))
        geography = digest_file(f"{data.rstrip('/')}/{GRF_FILE}")
    except FileNotFoundError:
        return validated
    except OSError as error:
        raise Refused(f"the input of run {run.id} cannot be read: {why(error)}") from None
    if run.KIND.find(data) != path or _input_digest(run, records, geography) != validated.input_digest:
        raise Refused(f"the input of run {run.id} has changed; a new run spends budget again")
    return validated


def check_public(run: SafeTabRun, params: str, data: str, jurisdiction: Jurisdiction) -> bool:
    """Refuse faulty parameters and missing data files before workers are started.

    Return whether config.json asks for the jurisdiction. A validated run is past this. Raises Refused as `validate`
    does.
    """
    if run.validated_path.exists():
        return True
    parameters, findings = read_parameters(params, run.CONFIGURATION)
    if parameters is None:
        refuse(run, findings + check_data_alone(run.KIND, data), PUBLIC)
    asked = jurisdiction in parameters.configuration.jurisdictions
    if asked and run.KIND.missing_data(data):
        refuse(run, findings + check_data_alone(run.KIND, data), PUBLIC)
    return asked


def check_data_alone(kind: RecordKind, data: str) -> list[Finding]:
    """Check the data files where faulty parameters leave nothing to check their rows against.

    They must exist and have the right columns, and GRF-C must be a table. No row is checked: the state filter is not
    known.
    """
    _, findings = read_region_map(data, "us", states=())
    return findings + kind.open(data)[1]


def _open_records(
    kind: RecordKind, data: str, jurisdiction: Jurisdiction, parameters: Parameters[Any]
) -> tuple[GroupRecords | None, list[Finding]]:
    file, findings = kind.open(data)
    if file is None:
        return None, findings
    configuration = parameters.configuration
    records = GroupRecords(
        **vars(file),
        states=configuration.states(jurisdiction),
        code_numbers=parameters.iterations.numbers,
        max_race_codes=configuration.max_race_codes,
    )
    return records, []


def _save(
    run: SafeTabRun, parameters: Parameters[Any], geography: RegionMap | None, records: GroupRecords, data: str
) -> None:
    save_object(run.parameters_path, parameters)
    save_object(run.records_path, replace(records, blocks_known=geography is not None))
    if geography is not None:
        keep_regions(run, data)
        save_region_map(run.geography_folder, geography)


def _collect(
    run: SafeTabRun, workers: Workers, file: GroupRecords, chunks: int, jurisdiction: Jurisdiction
) -> tuple[str, tuple[str, ...], list[Finding]]:
    """Join the chunks' reports: the digests of the file and of each state's records, and the findings by line."""
    reports = [read_report(run, number) for number in range(chunks)]
    joined = join_reports(file, reports)
    findings = joined.findings
    if not findings and not joined.rows:
        findings.append(empty(file.name))
    if joined.left_out:
        rule = f"{run.KIND.noun} outside the states of {jurisdiction.upper()}, left out"
        findings.append(Finding(file.name, rule, STATE, joined.left_out, warning=True))
    of_states = digests(f"{run.KIND.noun} of the {run.KIND.product}", [report.sums for report in reports])
    return digest_records(run, workers, file, reports), of_states, findings
