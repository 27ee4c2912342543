"""A parameters directory of a SafeTab: config.json, codes and iterations, and the noise that they guarantee. Public."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Generic

from privacy.accounting.composition import Spend, spend
from privacy.noise.laws import law
from privacy.noise.sampler import check_law
from spine.settings import Jurisdiction
from tasks.errors import Refused, refusing
from tasks.records.files import digest_file, exists, read_bytes, read_text, unchanged, why
from tasks.records.findings import MISSING, Finding, has_errors
from tasks.safetab.configuration import Config, SafeTabConfiguration, budget_key, parse_configuration
from tasks.safetab.iterations import MAPPING_FILE, PARAMETER_FILES, Iterations, read_iterations
from tasks.safetab.levels import Level

CONFIG = "config.json"


@dataclass(frozen=True)
class Parameters(Generic[Config]):
    """A checked parameters directory; public."""

    configuration: Config
    iterations: Iterations
    digests: dict[str, str]


def read_parameters(params: str, kind: type[Config]) -> tuple[Parameters[Config] | None, list[Finding]]:
    """Read config.json, of this kind, and the iteration files; return None and findings if they have errors.

    A level whose stability or noise cannot be guaranteed is an error, found before any budget is spent on it.

    Raises Refused if a file changes meanwhile: the digests are those of the files that were parsed.
    """
    folder = params.rstrip("/")
    with unchanged(_files(folder, kind).values()):
        configuration, findings = read_configuration(params, kind)
        iterations, faults = read_iterations(params)
        findings += faults
        if configuration and iterations:
            findings += _check_levels(configuration, iterations)
        if has_errors(findings) or configuration is None or iterations is None:
            return None, findings
        return Parameters(configuration, iterations, digest_parameters(params, kind)), findings


def read_configuration(params: str, kind: type[Config]) -> tuple[Config | None, list[Finding]]:
    """Read config.json alone; return None and findings if it has errors."""
    try:
        return parse_configuration(read_bytes(_files(params.rstrip("/"), kind)[CONFIG]).decode("utf-8-sig"), kind)
    except FileNotFoundError:
        return None, [Finding("config.json", MISSING)]
    except OSError as error:
        return None, [Finding("config.json", f"the file cannot be read: {why(error)}")]
    except UnicodeDecodeError:
        return None, [Finding("config.json", "is not UTF-8 text")]


def _check_levels(configuration: SafeTabConfiguration, iterations: Iterations) -> Iterator[Finding]:
    asked = configuration.jurisdictions
    for level in (level for jurisdiction in asked for level in configuration.levels(jurisdiction)):
        try:
            stability = iterations.stability(level, configuration.max_race_codes)
        except ValueError as error:
            yield Finding(MAPPING_FILE, f"{level.name}: {error}")
            continue
        for table, budgets in configuration.budgets.items():
            if budgets[level] not in (0, "Infinity"):
                try:
                    for budget in configuration.queries(table, level).values():
                        check_law(law(configuration.privacy_defn, budget, stability))
                except ValueError as error:
                    yield Finding("config.json", f"{level.name}: {error}", budget_key(table, level))


def read_parameter_files(path: Path, kind: type[Config]) -> tuple[Config, Iterations | None]:
    """Read a config.json, alone (without iterations) or in a directory with the iteration files.

    Raises Refused with the first fault, in one line.
    """
    file = Path(_files(str(path), kind)[CONFIG]) if path.is_dir() else path
    text = read_text(file)
    configuration, findings = parse_configuration(text, kind)
    iterations = None
    if configuration and path.is_dir():
        iterations, findings = read_iterations(str(path))
    faults = [finding for finding in findings if not finding.warning]
    if configuration is None or has_errors(findings):
        raise Refused(
            f"{file if configuration is None else path}: {faults[0].column} {faults[0].rule}".replace(":  ", ": ")
        )
    if configuration.noiseless:
        raise Refused(f"{file}: a budget is infinite, so every loss is infinite too")
    return configuration, iterations


def stability_parts(
    configuration: SafeTabConfiguration, iterations: Iterations | None, level: Level
) -> tuple[int, int]:
    """Return the two parts of a level's stability: races, max(h_alone, h_comb) max(2, r), and ethnicity, h_e.

    Without iterations h_alone = h_comb = h_e = 1, as in every valid production file: s = max(2, r) + 1.
    """
    most = max(2, configuration.max_race_codes)
    if iterations is None:
        return most, 1
    counts = iterations.granularity(level).counts(level.iteration_level)
    return max(counts.alone, counts.combination) * most, counts.ethnicity


def digest_parameters(params: str, kind: type[SafeTabConfiguration] = SafeTabConfiguration) -> dict[str, str]:
    """Return the digest of each file of a parameters directory, a path or URL; config.json may have another name."""
    return {file: digest_file(path) for file, path in _files(params.rstrip("/"), kind).items()}


def planned_spend(configuration: SafeTabConfiguration, jurisdiction: Jurisdiction) -> Spend:
    """Return the spend of a run over a jurisdiction. Raises Refused for an infinite budget."""
    levels = configuration.levels(jurisdiction)
    with refusing():
        budgets = [configuration.budget(level) for level in levels]
    if not budgets:
        raise Refused(
            f"no population group level of {jurisdiction.upper()} has a budget above 0: there is nothing to release"
        )
    return spend(configuration.privacy_defn, budgets, configuration.UNIT)


def _files(folder: str, kind: type[SafeTabConfiguration]) -> dict[str, str]:
    config = next((name for name in kind.FILES if exists(f"{folder}/{name}")), CONFIG)
    return {file: f"{folder}/{config if file == CONFIG else file}" for file in PARAMETER_FILES}


def configuration_digest(parameter_files: Mapping[str, str], options: Mapping[str, object]) -> str:
    """Return one digest of all that shapes a release besides the data: digests of parameter files, and options."""
    text = json.dumps({"files": parameter_files, "options": options}, sort_keys=True)
    return sha256(text.encode()).hexdigest()
