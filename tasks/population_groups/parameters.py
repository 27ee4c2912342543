"""A parameters directory of a SafeTab: config.json, the codes and the iterations, read and checked. Public."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Generic, TypeVar

from tasks.inputs.files import digest_file, read_bytes, unchanged, why
from tasks.inputs.findings import MISSING, Finding, has_errors
from tasks.population_groups.iterations import PARAMETER_FILES, Iterations, read_iterations

Configuration = TypeVar("Configuration")  # each SafeTab has its own


@dataclass(frozen=True)
class Parameters(Generic[Configuration]):
    """A checked parameters directory; public."""

    configuration: Configuration
    iterations: Iterations
    digests: dict[str, str]


def read_parameters(
    params: str,
    parse: Callable[[str], tuple[Configuration | None, list[Finding]]],
    check_levels: Callable[[Configuration, Iterations], list[Finding]],
) -> tuple[Parameters[Configuration] | None, list[Finding]]:
    """Read config.json and the iteration files; None and findings where they have errors.

    `parse` reads the text of config.json; `check_levels` finds the levels whose stability or noise cannot be
    guaranteed, before anything is spent on them.

    Raises
    ------
    Refused
        where one of them changes meanwhile: the digests are those of the files that were parsed.
    """
    folder = params.rstrip("/")
    with unchanged(f"{folder}/{file}" for file in PARAMETER_FILES):
        configuration, findings = _read_configuration(f"{folder}/config.json", parse)
        iterations, faults = read_iterations(params)
        findings += faults
        if configuration and iterations:
            findings += check_levels(configuration, iterations)
        if has_errors(findings) or configuration is None or iterations is None:
            return None, findings
        return Parameters(configuration, iterations, digest_parameters(params)), findings


def _read_configuration(
    file: str, parse: Callable[[str], tuple[Configuration | None, list[Finding]]]
) -> tuple[Configuration | None, list[Finding]]:
    try:
        return parse(read_bytes(file).decode("utf-8-sig"))
    except FileNotFoundError:
        return None, [Finding("config.json", MISSING)]
    except OSError as error:
        return None, [Finding("config.json", f"the file cannot be read: {why(error)}")]
    except UnicodeDecodeError:
        return None, [Finding("config.json", "is not UTF-8 text")]


def digest_parameters(params: str) -> dict[str, str]:
    """Return the digest of each file of a parameters directory, a path or URL."""
    return {file: digest_file(f"{params.rstrip('/')}/{file}") for file in PARAMETER_FILES}


def configuration_digest(parameter_files: Mapping[str, str], options: Mapping[str, object]) -> str:
    """Return one digest of all that shapes a release besides the data: digests of parameter files, and options."""
    text = json.dumps({"files": parameter_files, "options": options}, sort_keys=True)
    return sha256(text.encode()).hexdigest()
