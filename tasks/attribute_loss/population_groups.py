"""What attribute loss by population groups takes from the parameter files: levels, and a described person's groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

import numpy as np

from privacy.analyses.attribute_loss_dhca import GroupLevel, Record, race_groups_of_codes
from spine.settings import Jurisdiction
from tasks.attribute_loss.described import check_keys, flag, whole
from tasks.lifecycle.errors import Refused
from tasks.population_groups.configuration import Config
from tasks.population_groups.iterations import RACE_CODES, Iterations
from tasks.population_groups.levels import Level
from tasks.population_groups.parameters import read_parameter_files, stability_parts


@dataclass(frozen=True)
class Parameters(Generic[Config]):
    """A config.json and, where its directory has them, the iteration files, which make stability and groups exact."""

    configuration: Config
    iterations: Iterations | None

    def levels(self, jurisdiction: Jurisdiction) -> dict[Level, GroupLevel]:
        """Return the population group levels that a jurisdiction tabulates."""
        return {
            level: GroupLevel(
                level.region_type,
                level.iteration_level,
                self.configuration.budget(level),
                *stability_parts(self.configuration, self.iterations, level),
            )
            for level in self.configuration.levels(jurisdiction)
        }

    def record(self, values: Mapping[str, str], level: Level) -> Record:
        """Return a described person at one level.

        `races` counts the race codes, or `codes` and `ethnicity` name all of them.

        Raises Refused where a key is missing or unknown, or a value is not valid; `codes` need the iteration files.
        """
        check_keys(values, required=("name",), optional=("races", "codes", "ethnicity", "place", "aiannh"))
        name, place, aiannh = values["name"], flag(values, "place", True), flag(values, "aiannh", True)
        if ("races" in values) == ("codes" in values):
            raise Refused(f"{name}: give either races, a number of race codes, or codes, the codes themselves")
        if "races" in values:
            codes = whole(values, "races")
            if not 1 <= codes <= self.configuration.max_race_codes:
                raise Refused(f"{name}: races is from 1 to max_race_codes, {self.configuration.max_race_codes}")
            return Record(name, race_groups_of_codes(codes), place=place, aiannh=aiannh)
        race, ethnicity, total_only = self._groups(values, level)
        return Record(name, race, ethnicity, total_only, place, aiannh)

    def _groups(self, values: Mapping[str, str], level: Level) -> tuple[int, int, int]:
        if self.iterations is None:
            raise Refused(
                f"{values['name']}: codes need the directory with the iteration files, not a config.json alone"
            )
        check_keys(values, required=("name", "codes", "ethnicity"), optional=("place", "aiannh"))
        numbers = self.iterations.numbers
        codes = values["codes"].split()
        if unknown := [code for code in [*codes, values["ethnicity"]] if code not in numbers or code == "Null"]:
            raise Refused(f"{values['name']}: unknown race or ethnicity codes {', '.join(unknown)}")
        if not 1 <= len(codes) <= self.configuration.max_race_codes:
            raise Refused(f"{values['name']}: from 1 to max_race_codes, {self.configuration.max_race_codes}, codes")
        races = [numbers[code] for code in codes] + [0] * (RACE_CODES - len(codes))
        granularity = self.iterations.granularity(level)
        groups = granularity.flatmap(np.array([[*races, numbers[values["ethnicity"]]]], np.uint16)).indices
        groups = groups[granularity.level[groups] == level.iteration_level]
        ethnicity = granularity.maps["ethnicity", level.iteration_level][numbers[values["ethnicity"]]]
        race = groups[groups != ethnicity]
        return len(race), len(groups) - len(race), int(granularity.total_only[race].sum())


def read_parameters(path: Path, kind: type[Config]) -> Parameters[Config]:
    """Read a config.json of this kind, or a directory with one and the iteration files in it.

    Raises Refused with the first fault, in one line.
    """
    return Parameters(*read_parameter_files(path, kind))
