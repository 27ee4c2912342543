"""Validate: check every row of every file, encode the records, digest the input (paper 5.1).

All findings are gathered before a run is refused; they go to the curator's report in the confidential directory. For a
run over US and Puerto Rico, one reading validates both jurisdictions before either is charged: if one is refused, both
are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any, NoReturn

from spine.settings import Jurisdiction
from tasks.errors import PUT_BACK, Refused, all_or_none
from tasks.geography.grf_c import BlockCodes, RegionMap, parse_blocks, read_region_map, save_region_map
from tasks.lifecycle.files import remove, save_object
from tasks.lifecycle.run_directory import VALIDATED
from tasks.lifecycle.workers import Workers
from tasks.records.files import digest_file, unchanged, why
from tasks.records.findings import Finding, has_errors, keep_findings, refuse
from tasks.records.marks import GRF_FILE, MARK_FILES, name_if_covered, read_mark
from tasks.records.record_digests import digests
from tasks.records.records import STATE, digest_by_workers, join_reports
from tasks.safetab.encode import encode_chunk
from tasks.safetab.iterations import PARAMETER_FILES
from tasks.safetab.parameters import Parameters, digest_parameters, read_parameters
from tasks.safetab.record_kind import GroupRecords, RecordKind
from tasks.safetab.run import GEOGRAPHY, RECORDS, PublicInput, SafeTabRun, ValidatedSafeTab

PUBLIC = (*PARAMETER_FILES, GRF_FILE)  # files whose faults a refusal may name


@dataclass(frozen=True)
class RunPart:
    """A run whose input is validated: its jurisdiction, and its public inputs besides parameters and GRF-C."""

    run: SafeTabRun
    jurisdiction: Jurisdiction
    others: Sequence[PublicInput] = ()

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.jurisdiction.upper()


@dataclass(frozen=True)
class _Opened:
    """A part while its records are read. Geography or records are None if they have faults, which `findings` has."""

    part: RunPart
    findings: list[Finding]
    geography: RegionMap | None
    records: GroupRecords | None

    @property
    def has_no_block(self) -> bool:
        return self.geography is not None and not len(self.geography.blocks)


def validate(
    parts: Sequence[RunPart], workers: Workers, params: str, data: str
) -> dict[Jurisdiction, ValidatedSafeTab | None]:
    """Validate the input of each part in one reading of the same files, and encode its records into its run directory.

    Returns None for a part that is skipped because config.json switches it off or it has no block. Its public inputs
    are checked and digested too.

    Raises Refused if a finding is an error, or if a file changes meanwhile. The findings are in each run's
    findings.json, never in the message.
    """
    new = [part for part in parts if not (part.run / VALIDATED).exists()]
    known = {part.jurisdiction: _validated_before(part, workers, params, data) for part in parts if part not in new}
    return {**known, **(_validate(new, workers, params, data) if new else {})}


def _validate(
    parts: Sequence[RunPart], workers: Workers, params: str, data: str
) -> dict[Jurisdiction, ValidatedSafeTab | None]:
    run = parts[0].run
    parameters, findings = read_parameters(params, run.CONFIGURATION)
    for part in parts:  # an interrupted try left them; the files may have been corrected since
        remove(part.run / "prepared", part.run / "records")
    if parameters is None:
        findings += check_data_alone(run.KIND, data)
        refusals: dict[str, Callable[[], NoReturn]]
        refusals = {part.name: partial(refuse, part.run, findings, PUBLIC) for part in parts}
        all_or_none(refusals)
    assert parameters is not None
    results: dict[Jurisdiction, ValidatedSafeTab | None] = dict.fromkeys(part.jurisdiction for part in parts)
    asked = [part for part in parts if part.jurisdiction in parameters.configuration.jurisdictions]
    for part in parts:
        if part not in asked:  # its levels are not checked
            keep_findings(part.run, findings)
    if not asked:
        return results
    files = run.KIND.files
    read = [f"{data.rstrip('/')}/{file}" for file in (*files.needs, *files.records, *MARK_FILES.values())]
    with unchanged([*read, *(file for part in asked for other in part.others for file in other.files)]):
        validated = all_or_none(_read(asked, workers, parameters, findings, data))
    for part, facts in zip(asked, validated, strict=True):
        results[part.jurisdiction] = facts
        if facts is not None:
            save_object(part.run / VALIDATED, facts)
    return results


def _read(
    parts: Sequence[RunPart], workers: Workers, parameters: Parameters[Any], findings: Sequence[Finding], data: str
) -> dict[str, Callable[[], ValidatedSafeTab | None]]:
    """Read the data files once for all parts; return a function for each part's result. findings: the parameters'."""
    grf_c = f"{data.rstrip('/')}/{GRF_FILE}"
    parsed = parse_blocks(parts[0].run, workers, grf_c)
    opened = [_open(part, parameters, findings, data, parsed) for part in parts]
    digest = parsed.digest if parsed else None
    del parsed  # it is large
    to_encode = [each for each in opened if each.records]
    if to_encode:
        first, *others = (each.part.run for each in to_encode)
        chunks = first.records.chunks
        with ThreadPoolExecutor(1) as beside:  # meanwhile the workers read the records
            public = beside.submit(_read_others, to_encode)
            workers.map("validate", first, encode_chunk, [(number, *others) for number in range(chunks)])
        public.result()
    return {each.part.name: partial(_conclude, each, workers, data, digest) for each in opened}


def _open(
    part: RunPart, parameters: Parameters[Any], findings: Sequence[Finding], data: str, parsed: BlockCodes | None
) -> _Opened:
    """Read the geography of a part, and save in its run what its records are encoded with."""
    run, states = part.run, parameters.configuration.states(part.jurisdiction)
    geography, faults = read_region_map(data, part.jurisdiction, states, parsed)
    file, faults_of_records = run.KIND.open(data)
    opened = _Opened(part, [*findings, *faults, *faults_of_records], geography, None)
    if file is None or opened.has_no_block:
        return opened
    records = GroupRecords(
        **vars(file),
        states=states,
        code_numbers=parameters.iterations.numbers,
        max_race_codes=parameters.configuration.max_race_codes,
        blocks_known=geography is not None,
    )
    save_object(run.parameters_path, parameters)
    save_object(run / RECORDS, records)
    if geography is not None:
        save_region_map(run / GEOGRAPHY, geography)
    return replace(opened, records=records)


def _read_others(opened: Sequence[_Opened]) -> None:
    """Read the public inputs of parts besides parameters and GRF-C; add their findings to the part's."""
    for each in opened:
        if each.geography is not None:
            for other in each.part.others:
                each.findings.extend(other.read(each.part.run, each.geography))


def _conclude(opened: _Opened, workers: Workers, data: str, geography_digest: str | None) -> ValidatedSafeTab | None:
    """Return the facts about a part whose records were read. Raises Refused for an error."""
    part, geography, records, findings = opened.part, opened.geography, opened.records, opened.findings
    run = part.run
    if opened.has_no_block:
        keep_findings(run, findings)
        return None
    if records is None:
        refuse(run, findings, PUBLIC)
    records_digest, of_states, faults = _collect(run, workers, records, part.jurisdiction)
    findings += faults
    if geography is None or has_errors(findings):
        remove(run / "records")
        refuse(run, findings, (*PUBLIC, *(other.name for other in part.others)))
    keep_findings(run, findings)
    geography_digest = geography_digest or digest_file(f"{data.rstrip('/')}/{GRF_FILE}")
    covered = {records.name: records_digest, GRF_FILE: geography_digest}
    return ValidatedSafeTab(
        input_digest=_input_digest(run, records_digest, geography_digest),
        records_digests=(records_digest, *of_states),
        geography_digest=geography_digest,
        mark=name_if_covered(read_mark(data), covered),
        blocks=len(geography.blocks),
        other_digests={other.name: other.digest for other in part.others},
    )


def _input_digest(run: SafeTabRun, records: str, geography: str) -> str:
    return sha256(f"{run.KIND.noun} {records}\ngeography {geography}\n".encode()).hexdigest()


def _validated_before(part: RunPart, workers: Workers, params: str, data: str) -> ValidatedSafeTab:
    """Return what an earlier try validated, if the input is unchanged or gone (the run has its own encoded copy)."""
    run = part.run
    validated: ValidatedSafeTab = run.validated
    path = run.records.path
    try:
        with suppress(FileNotFoundError):
            if digest_parameters(params, run.CONFIGURATION) != run.parameters.digests:
                raise Refused(f"the parameters of run {run.id} have changed; {PUT_BACK}")
            digests_now = {other.name: other.digest for other in part.others}
            if digests_now != validated.other_digests:
                raise Refused(f"{', '.join(digests_now)} of run {run.id} changed; {PUT_BACK}")
        records = digest_by_workers(run, workers, run.KIND.find(data))
        geography = digest_file(f"{data.rstrip('/')}/{GRF_FILE}")
    except FileNotFoundError:
        return validated
    except OSError as error:
        raise Refused(f"the input of run {run.id} cannot be read: {why(error)}") from None
    if run.KIND.find(data) != path or _input_digest(run, records, geography) != validated.input_digest:
        raise Refused(f"the input of run {run.id} has changed; {PUT_BACK}")
    return validated


def check_public(run: SafeTabRun, params: str, data: str, jurisdiction: Jurisdiction) -> bool:
    """Refuse faulty parameters and missing data files before workers are started. Raises Refused as `validate` does.

    Returns whether config.json asks for the jurisdiction. A validated run is not checked again.
    """
    parameters, findings = read_parameters(params, run.CONFIGURATION)
    asked = parameters is not None and jurisdiction in parameters.configuration.jurisdictions
    validated = (run / VALIDATED).exists()
    if not validated and (parameters is None or (asked and run.KIND.missing_data(data))):
        refuse(run, findings + check_data_alone(run.KIND, data), PUBLIC)
    return asked or validated


def check_data_alone(kind: RecordKind, data: str) -> list[Finding]:
    """Check the data files when faulty parameters prevent checking their rows.

    They must exist and have the right columns, and GRF-C must be a table. Rows are not checked because the state filter
    is unknown.
    """
    _, findings = read_region_map(data, "us", states=())
    return findings + kind.open(data)[1]


def _collect(
    run: SafeTabRun, workers: Workers, file: GroupRecords, jurisdiction: Jurisdiction
) -> tuple[str, tuple[str, ...], list[Finding]]:
    """Join the chunks' reports: the digests of the file and of each state's records, and the findings by line."""
    read = join_reports(run, workers, file, run / "records")
    if read.left_out:
        rule = f"{run.KIND.noun} outside the states of {jurisdiction.upper()}, left out"
        read.findings.append(Finding(file.name, rule, STATE, read.left_out, warning=True))
    of_states = digests(f"{run.KIND.noun} of the {run.KIND.product}", read.sums)
    return read.digest, of_states, read.findings
