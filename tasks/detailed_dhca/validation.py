"""Stage 1, validate: check every row of every file, encode the persons, digest the input (paper 5.1).

All findings are gathered before the run is refused. They go to the curator's report in the confidential directory.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NoReturn
from uuid import uuid4

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from privacy.accounting.composition import query_budgets
from privacy.noise.laws import law
from privacy.noise.sampler import check_width
from tasks.detailed_dhca.persons import COLUMNS, PersonFile, chunk_count, digest_chunk, encode_chunk, read_report
from tasks.inputs.configuration import Configuration, Region, budget_key, parse_configuration
from tasks.inputs.findings import Finding, gather, has_errors, write_findings
from tasks.inputs.geography import GRF_FILE, Geography, read_geography, save_geography
from tasks.inputs.iterations import MAPPING_FILE, PARAMETER_FILES, Iterations, read_iterations
from tasks.inputs.synthetic_mark import MARK_FILE, PERSON_FILES, Mark, parse_mark
from tasks.inputs.tables import check_header, locate, read_bytes, split_header, unchanged
from tasks.lifecycle.digests import CHUNK_BYTES, chunk_digest, combine
from tasks.lifecycle.errors import Failed, Refused
from tasks.lifecycle.run_directory import RunDirectory, load_public, remove, save_public
from tasks.lifecycle.workers import Workers


@dataclass(frozen=True)
class Parameters:
    """A checked parameters directory; public."""

    configuration: Configuration
    iterations: Iterations
    digests: dict[str, str]


@dataclass(frozen=True)
class Validated:
    """What later stages need to know of a valid input.

    `input_digest` is confidential: it goes to the ledger and into key derivation and is never shown or stored outside
    the confidential directory. The rest is public.
    """

    input_digest: str
    geography_digest: str
    synthetic: bool
    blocks: int


def read_parameters(params: str) -> tuple[Parameters | None, list[Finding]]:
    """Read config.json and the iteration files; None and findings where they have errors.

    Raises
    ------
    Refused
        where one of them changes meanwhile: the digests are those of the files that were parsed.
    """
    with unchanged(f"{params.rstrip('/')}/{file}" for file in PARAMETER_FILES):
        return _read_parameters(params)


def _read_parameters(params: str) -> tuple[Parameters | None, list[Finding]]:
    try:
        configuration, found = parse_configuration(read_bytes(f"{params.rstrip('/')}/config.json").decode("utf-8-sig"))
    except FileNotFoundError:
        configuration, found = None, [Finding("config.json", "the file does not exist")]
    except OSError as error:
        configuration, found = None, [Finding("config.json", f"the file cannot be read: {error.strerror}")]
    except UnicodeDecodeError:
        configuration, found = None, [Finding("config.json", "is not UTF-8 text")]
    iterations, faults = read_iterations(params)
    found += faults
    if configuration and iterations:
        found += _check_levels(configuration, iterations)
    if has_errors(found) or configuration is None or iterations is None:
        return None, found
    digests = digest_parameters(params)
    return Parameters(configuration, iterations, digests), found


def _check_levels(configuration: Configuration, iterations: Iterations) -> list[Finding]:
    """Find the levels whose stability or noise the run could not vouch for, before anything is spent on them."""
    found = []
    for level in (level for region in configuration.regions for level in configuration.levels(region)):
        try:
            stability = iterations.stability(level, configuration.max_race_codes)
        except ValueError as error:
            found.append(Finding(MAPPING_FILE, f"{level}: {error}"))
            continue
        if configuration.budgets[level] == "Infinity":
            continue
        budgets = query_budgets(configuration.budget(level), configuration.stage_1_fraction)
        try:
            for budget in (budgets.total_only, budgets.stage_1, budgets.stage_2):
                check_width(law(configuration.privacy_defn, budget, stability))
        except ValueError as error:
            found.append(Finding("config.json", f"{level}: {error}", budget_key(level)))
    return found


def digest_file(path: str) -> str:
    """The digest of a file by path or URL, one chunk in memory at a time."""
    filesystem, name = locate(path)
    with filesystem.open(name, "rb") as stream:
        return combine(chunk_digest(chunk) for chunk in iter(lambda: stream.read(CHUNK_BYTES), b""))


def find_person_file(data: str) -> str:
    """The path of the person records, text or Parquet. Raises FileNotFoundError."""
    filesystem, name = locate(data)
    for file in PERSON_FILES:
        if filesystem.exists(f"{name.rstrip('/')}/{file}"):
            return f"{data.rstrip('/')}/{file}"
    raise FileNotFoundError(f"{data}: neither {' nor '.join(PERSON_FILES)}")


def validate(run: RunDirectory, workers: Workers, params: str, data: str, region: Region) -> Validated | None:
    """Validate the input of one region and encode its persons into the run directory.

    Returns None where config.json switches the region off or it has no block: such a run is skipped.

    Raises
    ------
    Refused
        where a finding is an error, or a file changes while it is read. The findings are in the run's findings.json,
        the message holds none of them.
    """
    if (run / "public/validated").exists():
        return _validated_before(run, workers, params, data)
    for name in ("public", "persons"):  # of a try that came to no end: the files may have been corrected since
        remove(run / name)
    parameters, found = read_parameters(params)
    if parameters is None:
        _refuse(run, found + check_data_alone(data))
    if region not in parameters.configuration.regions:  # nothing vouches for its levels
        write_findings(run / "findings.json", gather(found))
        return None
    with unchanged(f"{data.rstrip('/')}/{file}" for file in (GRF_FILE, *PERSON_FILES, MARK_FILE)):
        validated = _validate_data(run, workers, parameters, found, data, region)
    if validated is not None:
        save_public(run / "public/validated", validated)
    return validated


def _validate_data(
    run: RunDirectory, workers: Workers, parameters: Parameters, found: list[Finding], data: str, region: Region
) -> Validated | None:
    """Check and encode the data files, and digest them; `found` are the findings in the parameters."""
    geography, faults = read_geography(data, region, parameters.configuration.states(region))
    found = found + faults
    person_file, faults = _person_file(data, region, parameters)
    found += faults
    if geography is not None and not len(geography.blocks):
        write_findings(run / "findings.json", gather(found))
        return None
    if person_file is None:
        _refuse(run, found)
    _save(run, parameters, geography, person_file)
    chunks = chunk_count(person_file)
    workers.map("validate", run, encode_chunk, [(number,) for number in range(chunks)])
    person_digest, faults = _collect(run, workers, person_file, chunks, region)
    found += faults
    if geography is None or has_errors(found):
        shutil.rmtree(run / "persons")
        _refuse(run, found)
    write_findings(run / "findings.json", gather(found))
    geography_digest = digest_file(f"{data.rstrip('/')}/{GRF_FILE}")
    mark = read_data_mark(data)
    if mark is not None:
        mark.check({person_file.name: person_digest, GRF_FILE: geography_digest})
    return Validated(
        input_digest=_input_digest(person_digest, geography_digest),
        geography_digest=geography_digest,
        synthetic=mark is not None,
        blocks=len(geography.blocks),
    )


def _input_digest(persons: str, geography: str) -> str:
    return sha256(f"persons {persons}\ngeography {geography}\n".encode()).hexdigest()


def _validated_before(run: RunDirectory, workers: Workers, params: str, data: str) -> Validated:
    """Take up a validated run: it goes on from its own encoded copy, if its input is what it was or is gone."""
    validated: Validated = load_public(run / "public/validated")
    file: PersonFile = load_public(run / "public/person_file")
    if digest_parameters(params) != load_parameters(run).digests:
        raise Refused(f"the parameters of run {run.id} have changed; a new run is a new spend")
    try:
        persons = digest_persons(run, workers, find_person_file(data))
        geography = digest_file(f"{data.rstrip('/')}/{GRF_FILE}")
    except FileNotFoundError:
        return validated
    if find_person_file(data) != file.path or _input_digest(persons, geography) != validated.input_digest:
        raise Refused(f"the input of run {run.id} has changed; a new run is a new spend")
    return validated


def digest_persons(run: RunDirectory, workers: Workers, path: str) -> str:
    """The digest of the person records, their chunks read by the workers. Confidential."""
    filesystem, name = locate(path)
    folder = f"digests-{uuid4().hex}"
    chunks = range(-(-int(filesystem.size(name)) // CHUNK_BYTES))
    workers.map("digest", run, digest_chunk, [(folder, path, number) for number in chunks])
    digest = combine((run / f"{folder}/{number:05d}").read_bytes() for number in chunks)
    shutil.rmtree(run / folder, ignore_errors=True)
    return digest


def _refuse(run: RunDirectory, found: Sequence[Finding]) -> NoReturn:
    write_findings(run / "findings.json", gather(found))
    raise Refused(f"the input does not pass validation; the findings are in the curator's report of {run.id}")


def missing_data(data: str) -> bool:
    """True where one of the data files does not exist."""
    try:
        find_person_file(data)
    except FileNotFoundError:
        return True
    filesystem, name = locate(f"{data.rstrip('/')}/{GRF_FILE}")
    return not filesystem.exists(name)


def check_data_alone(data: str) -> list[Finding]:
    """What the data files show where faulty parameters leave nothing to check their rows against.

    They are there, have the right columns, and GRF-C is a table; which of its rows count is the state filter's to say.
    """
    _, found = read_geography(data, "us", states=())
    return found + _person_header(data)[2]


def _person_file(data: str, region: Region, parameters: Parameters) -> tuple[PersonFile | None, list[Finding]]:
    path, header, found = _person_header(data)
    if found:
        return None, found
    configuration = parameters.configuration
    file = PersonFile(
        path=path,
        header=tuple(header),
        states=configuration.states(region),
        code_numbers=parameters.iterations.numbers,
        max_race_codes=configuration.max_race_codes,
    )
    return file, []


def _person_header(data: str) -> tuple[str, list[str], list[Finding]]:
    """The path of the person records and their columns; the rest is void where there are findings."""
    try:
        path = find_person_file(data)
        name = path.rsplit("/", 1)[-1]
        header = _header(path)
    except FileNotFoundError:
        return "", [], [Finding(PERSON_FILES[0], "the file does not exist")]
    except OSError as error:
        return "", [], [Finding(PERSON_FILES[0], f"the file cannot be read: {error.strerror}")]
    except pa.ArrowException:
        return "", [], [Finding(name, "is not a Parquet file")]
    return path, header, check_header(name, header, COLUMNS, show=False) if header else [_empty(name)]


def _empty(name: str) -> Finding:
    return Finding(name, f"{name} is empty. This fails validation as records are expected.")


def _header(path: str) -> list[str]:
    """The column names of the person records; none where the file holds no byte."""
    if path.endswith(".parquet"):
        with fsspec.open(path) as stream:
            return list(pq.read_schema(stream).names)
    start = read_bytes(path, 0, 65536)
    return split_header(start.partition(b"\n")[0]) if start else []


def _save(run: RunDirectory, parameters: Parameters, geography: Geography | None, person_file: PersonFile) -> None:
    save_public(run / "public/parameters", parameters)
    save_public(run / "public/person_file", replace(person_file, blocks_known=geography is not None))
    if geography is not None:
        save_geography(run / "public/geography", geography)


def _collect(
    run: RunDirectory, workers: Workers, file: PersonFile, chunks: int, region: Region
) -> tuple[str, list[Finding]]:
    """Join the chunks' reports: the digest of the person records and the findings, by lines of the whole file."""
    reports = [read_report(run, number) for number in range(chunks)]
    found = []
    line = 0 if file.parquet else 1  # the header
    for report in reports:
        found += [
            Finding(**{**finding.__dict__, "first": finding.first + line if finding.first else None})
            for finding in report.findings
        ]
        line += report.lines
    if not found and not sum(report.rows for report in reports):
        found.append(_empty(file.name))
    if left_out := sum(report.left_out for report in reports):
        found.append(
            Finding(
                file.name,
                f"persons outside the states of {region.upper()}, left out",
                "TABBLKST",
                left_out,
                warning=True,
            )
        )
    if file.parquet:
        return digest_persons(run, workers, file.path), found
    return combine(bytes.fromhex(report.digest) for report in reports), found


def read_data_mark(data: str) -> Mark | None:
    """The mark of a data directory by path or URL, None where there is none. Raises Refused when it is damaged."""
    try:
        return parse_mark(read_bytes(f"{data.rstrip('/')}/{MARK_FILE}").decode("utf-8", "replace"))
    except FileNotFoundError:
        return None


def digest_parameters(params: str) -> dict[str, str]:
    """The digest of each file of a parameters directory, by path or URL."""
    return {file: digest_file(f"{params.rstrip('/')}/{file}") for file in PARAMETER_FILES}


def configuration_digest(parameter_files: Mapping[str, str], options: Mapping[str, object]) -> str:
    """One digest of all that shapes a release besides the data: parameter files, by their digests, and options."""
    text = json.dumps({"files": parameter_files, "options": options}, sort_keys=True)
    return sha256(text.encode()).hexdigest()


def load_parameters(run: RunDirectory) -> Parameters:
    """The parameters that validation saved. Raises Failed where it has not."""
    try:
        parameters: Parameters = load_public(run / "public/parameters")
    except FileNotFoundError:
        raise Failed("validate: the run was not validated") from None
    return parameters
