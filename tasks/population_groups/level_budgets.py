"""Levels, budgets and stabilities of a configuration or of a finished release, for the analyses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from privacy.accounting.composition import LevelBudget
from privacy.noise.laws import Definition
from spine.settings import Jurisdiction
from tasks.inputs.configuration import ALL_LEVELS, Configuration, Level, parse_configuration
from tasks.inputs.files import read_text, why
from tasks.inputs.findings import has_errors
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import parse_exact
from tasks.lifecycle.received import NotOfRelease, read_json
from tasks.population_groups.iterations import Iterations, read_iterations

MANIFEST = "manifest.json"  # as in tasks.detailed_dhca.manifest, whose import takes half a second


@dataclass(frozen=True)
class Setting:
    """The measured levels of one jurisdiction, with budgets and stabilities."""

    source: str
    jurisdiction: Jurisdiction
    definition: Definition
    gamma: Fraction
    race_codes: int
    chance: Fraction | None
    levels: Mapping[Level, LevelBudget]


_NAMES = {
    "".join(name.casefold().split()).strip("()"): level
    for level in ALL_LEVELS
    for name in (level.name, str(level), level.slug)
}


def named_level(text: str) -> Level:
    """Return the level of a name: `Nation, Detailed`, `(USA, 2)` as config.json has it, or `usa-2`.

    Raises
    ------
    Refused
        for any other text.
    """
    level = _NAMES.get("".join(text.casefold().split()).strip("()"))
    if level is None:
        names = "; ".join(level.name for level in ALL_LEVELS)
        raise Refused(f"unknown population group level {text.strip()!r}: one of {names}")
    return level


def one_jurisdiction(levels: Iterable[Level]) -> Jurisdiction:
    """Return the jurisdiction of all these levels.

    Raises
    ------
    Refused
        where there is none, or some are of the US and some of Puerto Rico: those are runs of their own.
    """
    jurisdictions = {level.jurisdiction for level in levels}
    if len(jurisdictions) != 1:
        raise Refused(
            "levels of the US and of Puerto Rico belong to separate runs" if jurisdictions else "there is no level"
        )
    return jurisdictions.pop()


def read_parameter_files(path: Path) -> tuple[Configuration, Iterations | None]:
    """Read a config.json, alone (then without iterations), or a directory with one and the iteration files beside it.

    Raises
    ------
    Refused
        with the first fault, in one line.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        text = read_text(file)
    except OSError as error:
        raise Refused(f"{file} cannot be read: {why(error)}") from None
    configuration, findings = parse_configuration(text)
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


def stability_parts(configuration: Configuration, iterations: Iterations | None, level: Level) -> tuple[int, int]:
    """Return the two parts of a level's stability: of races, max(h_alone, h_comb) max(2, r), and of ethnicity, h_e.

    Without iterations h_alone = h_comb = h_e = 1, as in every valid production file: s = max(2, r) + 1.
    """
    most = max(2, configuration.max_race_codes)
    if iterations is None:
        return most, 1
    counts = iterations.granularity(level).counts(level.iteration_level)
    return max(counts.alone, counts.combination) * most, counts.ethnicity


def read_settings(path: Path) -> list[Setting]:
    """Read a config.json or its directory, or a release or its manifest.json; a setting for each jurisdiction.

    Raises
    ------
    Refused
        with the first fault, in one line.
    """
    folder = path if path.is_dir() else path.parent
    manifest = folder / MANIFEST
    if path == manifest or (path.is_dir() and manifest.exists()):
        return [_of_release(manifest)]
    config, iterations = read_parameter_files(path)
    if idle := [jurisdiction.upper() for jurisdiction in config.jurisdictions if not config.levels(jurisdiction)]:
        raise Refused(f"{path}: no population group level of {idle[0]} has a budget")
    return [
        Setting(
            str(path),
            jurisdiction,
            config.privacy_defn,
            config.stage_1_fraction,
            config.max_race_codes,
            config.zero_suppression_chance,
            {
                level: LevelBudget(config.budget(level), sum(stability_parts(config, iterations, level)))
                for level in config.levels(jurisdiction)
            },
        )
        for jurisdiction in config.jurisdictions
    ]


def _of_release(path: Path) -> Setting:
    try:
        manifest: dict[str, Any] = read_json(path.parent, MANIFEST)
        if manifest["spent"] is None:
            raise Refused(f"{path}: a release of exact counts (`das truth`) has no budgets")
        config = manifest["configuration"]
        chance = config["zero_suppression_chance"]
        levels = {
            named_level(name): LevelBudget(parse_exact(level["queries"]["total_only"]["budget"]), level["stability"])
            for name, level in manifest["levels"].items()
        }
        definition = cast(Definition, manifest["spent"]["definition"])
        return Setting(
            str(path),
            one_jurisdiction(levels),
            definition,
            parse_exact(config["stage_1_fraction"]),
            config["max_race_codes"],
            None if chance is None else parse_exact(chance),
            levels,
        )
    except NotOfRelease as fault:
        raise Refused(f"{path.parent}: {fault}") from None
    except KeyError as error:
        raise Refused(f"{path}: the key {error} is missing") from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise Refused(f"{path} is not the manifest of a release") from None
