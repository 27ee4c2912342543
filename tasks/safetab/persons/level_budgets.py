"""Levels, budgets and stabilities of a configuration or of a finished release, for the analyses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from privacy.accounting.composition import LevelBudget
from privacy.noise.exact import parse_exact
from privacy.noise.laws import Definition
from spine.settings import Jurisdiction
from tasks.errors import Refused
from tasks.releases.manifest import MANIFEST
from tasks.releases.received import NotOfRelease, read_json
from tasks.safetab.levels import Level, named_level, one_jurisdiction
from tasks.safetab.parameters import read_parameter_files, stability_parts
from tasks.safetab.persons.details import BY_AGE
from tasks.safetab.persons.run import PERSONS, SafeTabPConfiguration

TITLE = "Detailed DHC-A by SafeTab-P"


@dataclass(frozen=True)
class Setting:
    """The measured levels of one jurisdiction, with budgets and stabilities.

    thresholds: by level, the noisy totals from which a group has a table by age; NEVER for a table that no group has.
    """

    source: str
    jurisdiction: Jurisdiction
    definition: Definition
    gamma: Fraction
    race_codes: int
    chance: Fraction | None
    levels: Mapping[Level, LevelBudget]
    thresholds: Mapping[Level, tuple[int, ...]]


def read_settings(path: Path) -> list[Setting]:
    """Read a config.json or its directory, or a release or its manifest.json; return a setting per jurisdiction.

    Raises Refused with the first fault, in one line.
    """
    folder = path if path.is_dir() else path.parent
    manifest = folder / MANIFEST
    if path == manifest or (path.is_dir() and manifest.exists()):
        return [_of_release(manifest)]
    config, iterations = read_parameter_files(path, SafeTabPConfiguration)
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
            {level: _by_age(config.thresholds[PERSONS][level]) for level in config.levels(jurisdiction)},
        )
        for jurisdiction in config.jurisdictions
    ]


def _by_age(thresholds: Sequence[int]) -> tuple[int, ...]:
    """Return the thresholds of the tables by age. Raises ValueError or TypeError for invalid ones."""
    return tuple(int(threshold) for threshold, _ in zip(thresholds, BY_AGE, strict=True))


def _of_release(path: Path) -> Setting:
    try:
        manifest: dict[str, Any] = read_json(path.parent, MANIFEST)
        if (title := manifest.get("release", TITLE)) != TITLE:
            hint = (
                "; das tda explain has margins of declarations, as pl94-persons-us" if "TopDown" in str(title) else ""
            )
            raise Refused(f"{path} is of a release of {title!r:.80}, not of the {TITLE}{hint}")
        if manifest["spent"] is None:
            raise Refused(f"{path}: a release of exact counts (`das truth`) has no budgets")
        config = manifest["configuration"]
        chance = config["zero_suppression_chance"]
        levels = {
            named_level(name): LevelBudget(parse_exact(level["queries"]["total_only"]["budget"]), level["stability"])
            for name, level in manifest["levels"].items()
        }
        definition = cast(Definition, manifest["spent"]["definition"])
        gamma = parse_exact(config["stage_1_fraction"])
        if not 0 < gamma < 1:
            raise ValueError("the share of step 1 is not between 0 and 1")
        return Setting(
            str(path),
            one_jurisdiction(levels),
            definition,
            gamma,
            config["max_race_codes"],
            None if chance is None else parse_exact(chance),
            levels,
            {named_level(name): _by_age(level["thresholds"]) for name, level in manifest["levels"].items()},
        )
    except NotOfRelease as fault:
        raise Refused(f"{path.parent}: {fault}") from None
    except KeyError as error:
        raise Refused(f"{path}: the key {error} is missing") from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise Refused(f"{path} is not the manifest of a release") from None
