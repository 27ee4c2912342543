"""Levels, budgets and stabilities of the Detailed DHC-B for attribute loss: of a configuration, or of a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from flows.reports.tuning.households import PRODUCTION, read_households
from privacy.analyses.attribute_loss_dhca import GroupLevel, Record
from privacy.noise.exact import parse_exact
from privacy.noise.laws import Definition
from spine.settings import Jurisdiction
from tasks.attribute_loss.population_groups import Parameters
from tasks.detailed_dhcb.configuration import Configuration
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import MANIFEST, read_manifest, require_release
from tasks.lifecycle.received import NotOfRelease
from tasks.population_groups.levels import Level, named_level, one_jurisdiction
from tasks.population_groups.parameters import stability_parts

TITLE = "Detailed DHC-B by SafeTab-H"


@dataclass(frozen=True)
class Households:
    """The tables of every level, by name, with their budgets and the most groups that a household is in.

    parameters: of a configuration, by which householders are described; None of a release.
    """

    source: str
    definition: Definition
    levels: Mapping[Jurisdiction, Mapping[Level, Mapping[str, GroupLevel]]]
    parameters: Parameters[Configuration] | None

    def record(self, values: Mapping[str, str], level: Level) -> Record:
        """Return a described householder at a level. Raises Refused as `Parameters.record` does."""
        if self.parameters is None:
            raise Refused("a release does not describe householders: give its configuration in place of --run")
        return self.parameters.record(values, level)


def households_of_configuration(path: Path | None) -> Households:
    """Read a config.json, its directory, or, without a path, the production's. Raises Refused for a fault."""
    configuration, iterations = read_households(path)

    def tables(level: Level) -> dict[str, GroupLevel]:
        parts = stability_parts(configuration, iterations, level)
        return {
            table.name: GroupLevel(*level, configuration.table_budget(table.key, level), *parts)
            for table in configuration.tables(level)
        }

    levels = {
        jurisdiction: {level: tables(level) for level in configuration.levels(jurisdiction)}
        for jurisdiction in configuration.jurisdictions
    }
    parameters = Parameters(configuration, iterations)
    return Households(str(path or PRODUCTION), configuration.privacy_defn, levels, parameters)


def households_of_release(release: Path) -> Households:
    """Read the budgets and stabilities in a release's manifest. Raises Refused where it is no Detailed DHC-B."""
    require_release(release)
    try:
        manifest: dict[str, Any] = read_manifest(release)
        if manifest["release"] != TITLE:
            raise Refused(f"{release} is a release of {manifest['release']!r:.80}, not of the {TITLE}")
        if manifest["spent"] is None:
            raise Refused(f"{release}: a release of exact counts (`das ddhcb truth`) has no budgets")
        levels = {
            named_level(name): {
                table: GroupLevel(*named_level(name), parse_exact(query["budget"]), parts["race"], parts["ethnicity"])
                for table, query in level["queries"].items()
            }
            for name, level in manifest["levels"].items()
            for parts in [level["stability_parts"]]
        }
        definition = cast(Definition, manifest["spent"]["definition"])
    except (NotOfRelease, KeyError, ValueError, TypeError, AttributeError):
        raise Refused(f"{release}/{MANIFEST} is not the manifest of a release") from None
    return Households(str(release), definition, {one_jurisdiction(levels): levels}, None)
