"""A parameters directory of SafeTab-P: config.json, the codes and the iterations, read and checked. Public."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from privacy.accounting.composition import query_budgets
from privacy.noise.laws import law
from privacy.noise.sampler import check_law
from tasks.inputs.configuration import Configuration, budget_key, parse_configuration
from tasks.inputs.files import digest_file, read_bytes, unchanged, why
from tasks.inputs.findings import MISSING, Finding, has_errors
from tasks.inputs.iterations import MAPPING_FILE, PARAMETER_FILES, Iterations, read_iterations


@dataclass(frozen=True)
class Parameters:
    """A checked parameters directory; public."""

    configuration: Configuration
    iterations: Iterations
    digests: dict[str, str]


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
        configuration, findings = parse_configuration(
            read_bytes(f"{params.rstrip('/')}/config.json").decode("utf-8-sig")
        )
    except FileNotFoundError:
        configuration, findings = None, [Finding("config.json", MISSING)]
    except OSError as error:
        configuration, findings = None, [Finding("config.json", f"the file cannot be read: {why(error)}")]
    except UnicodeDecodeError:
        configuration, findings = None, [Finding("config.json", "is not UTF-8 text")]
    iterations, faults = read_iterations(params)
    findings += faults
    if configuration and iterations:
        findings += _check_levels(configuration, iterations)
    if has_errors(findings) or configuration is None or iterations is None:
        return None, findings
    digests = digest_parameters(params)
    return Parameters(configuration, iterations, digests), findings


def _check_levels(configuration: Configuration, iterations: Iterations) -> list[Finding]:
    """Find the levels whose stability or noise cannot be guaranteed, before anything is spent on them."""
    findings = []
    asked = configuration.jurisdictions
    for level in (level for jurisdiction in asked for level in configuration.levels(jurisdiction)):
        try:
            stability = iterations.stability(level, configuration.max_race_codes)
        except ValueError as error:
            findings.append(Finding(MAPPING_FILE, f"{level}: {error}"))
            continue
        if configuration.budgets[level] == "Infinity":
            continue
        budgets = query_budgets(configuration.budget(level), configuration.stage_1_fraction)
        try:
            for budget in (budgets.total_only, budgets.stage_1, budgets.stage_2):
                check_law(law(configuration.privacy_defn, budget, stability))
        except ValueError as error:
            findings.append(Finding("config.json", f"{level}: {error}", budget_key(level)))
    return findings


def digest_parameters(params: str) -> dict[str, str]:
    """Return the digest of each file of a parameters directory, given by path or URL."""
    return {file: digest_file(f"{params.rstrip('/')}/{file}") for file in PARAMETER_FILES}


def configuration_digest(parameter_files: Mapping[str, str], options: Mapping[str, object]) -> str:
    """Return one digest of what shapes a release besides the data: digests of parameter files, and options."""
    text = json.dumps({"files": parameter_files, "options": options}, sort_keys=True)
    return sha256(text.encode()).hexdigest()
