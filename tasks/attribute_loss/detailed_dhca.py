"""What attribute loss of the Detailed DHC-A takes from the parameter files: levels, and a described person's groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from privacy.analyses.attribute_loss_dhca import GroupLevel, Record, race_groups_of_codes
from tasks.attribute_loss.described import check_keys, flag, whole
from tasks.inputs.configuration import Configuration, Level, Region, parse_configuration
from tasks.inputs.findings import has_errors
from tasks.inputs.iterations import RACE_CODES, Iterations, read_iterations
from tasks.lifecycle.errors import Refused


@dataclass(frozen=True)
class Parameters:
    """A config.json and, where its directory has them, the iteration files that tell stability and groups exactly."""

    configuration: Configuration
    iterations: Iterations | None

    def levels(self, region: Region) -> dict[Level, GroupLevel]:
        """The population group levels that a region tabulates.

        Without iteration files h_alone = h_comb = h_e = 1 as in every valid production file: s = max(2, r) + 1.
        """
        most = max(2, self.configuration.max_race_codes)
        levels = {}
        for level in self.configuration.levels(region):
            race, ethnicity = 1, 1
            if self.iterations:
                counts = self.iterations.granularity(level).counts(level.iteration_level)
                race, ethnicity = max(counts.alone, counts.combination), counts.ethnicity
            budget = self.configuration.budget(level)
            levels[level] = GroupLevel(level.region_type, level.iteration_level, budget, race * most, ethnicity)
        return levels

    def record(self, values: Mapping[str, str], level: Level) -> Record:
        """A described person at one level: `races` counts the race codes, or `codes` and `ethnicity` name all of them.

        Raises
        ------
        Refused
            where a key is missing or unknown, or a value is none; `codes` need the iteration files.
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


def read_parameters(path: Path) -> Parameters:
    """Read a config.json, or a directory with one and the iteration files beside it.

    Raises
    ------
    Refused
        with the first fault, in one line.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Refused(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Refused(f"{file} is not UTF-8 text") from None
    configuration, found = parse_configuration(text)
    iterations = None
    if configuration and path.is_dir():
        iterations, found = read_iterations(str(path))
    faults = [finding for finding in found if not finding.warning]
    if configuration is None or has_errors(found):
        raise Refused(
            f"{file if configuration is None else path}: {faults[0].column} {faults[0].rule}".replace(":  ", ": ")
        )
    if configuration.noiseless:
        raise Refused(f"{file}: a budget is infinite, so every loss is")
    return Parameters(configuration, iterations)
