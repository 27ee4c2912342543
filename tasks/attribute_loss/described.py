"""Parse persons described by hand for the attribute-loss analyses. No data is read.

A person is `name=Bob, age=16, relation=biological child, size=3, family=yes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from privacy.analyses.attribute_loss_dhca import Record, race_groups_of_codes
from privacy.analyses.attribute_loss_s_dhc import OWN_CHILD, RELATIVES, Person
from tasks.errors import Refused, refusing
from tasks.safetab.iterations import RACE_CODES, Iterations
from tasks.safetab.levels import Level

_TRUTHS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False, "": False}


def descriptions(texts: Iterable[str]) -> list[dict[str, str]]:
    """Return the keys and values of every person. Raises Refused for text that is not of the form key=value."""
    found = []
    for text in texts:
        pairs = [part.split("=", 1) for part in text.split(",") if part.strip()]
        if any(len(pair) != 2 for pair in pairs):
            raise Refused(f"a person is described by key=value, key=value, ...; not by {text!r}")
        found.append({key.strip().casefold(): value.strip() for key, value in pairs})
    return found


def person(values: Mapping[str, str]) -> Person:
    """Return a person for the S-DHC: name, age, relation, size; family and own_children if the relation allows both.

    Raises Refused if a key is missing or unknown, a value is not valid, or the values contradict each other.
    """
    check_keys(values, required=("name", "age", "relation", "size"), optional=("family", "own_children"))
    age, size = whole(values, "age"), whole(values, "size")
    relation = values["relation"].casefold()
    own = flag(values, "own_children", relation in OWN_CHILD and age < 18)
    with refusing():
        return Person(values["name"], age, relation, size, flag(values, "family", relation in RELATIVES or own), own)


def check_keys(values: Mapping[str, str], required: tuple[str, ...], optional: tuple[str, ...]) -> None:
    """Raise Refused for a description with missing or unknown keys."""
    who = values.get("name", "a person")
    if missing := [key for key in required if key not in values]:
        raise Refused(f"{who}: {', '.join(missing)} is missing; a person has {', '.join(required + optional)}")
    if unknown := [key for key in values if key not in required + optional]:
        raise Refused(f"{who}: unknown {', '.join(unknown)}; a person has {', '.join(required + optional)}")


def whole(values: Mapping[str, str], key: str) -> int:
    """Return the integer under a key."""
    try:
        return int(values[key])
    except ValueError:
        raise Refused(f"{values['name']}: {key} is a whole number, not {values[key]!r}") from None


def flag(values: Mapping[str, str], key: str, default: bool) -> bool:
    """Return the yes or no under a key."""
    if not values.get(key):
        return default
    if values[key].casefold() not in _TRUTHS:
        raise Refused(f"{values['name']}: {key} is yes or no, not {values[key]!r}")
    return _TRUTHS[values[key].casefold()]


def describe(values: Mapping[str, str], level: Level, race_codes: int, iterations: Iterations | None) -> Record:
    """Return a described person or householder at a population group level.

    `races` counts the race codes, or `codes` and `ethnicity` name all of them; race_codes: their largest number.

    Raises Refused if a key is missing or unknown, or a value is not valid; `codes` need the iteration files.
    """
    check_keys(values, required=("name",), optional=("races", "codes", "ethnicity", "place", "aiannh"))
    name, place, aiannh = values["name"], flag(values, "place", True), flag(values, "aiannh", True)
    if ("races" in values) == ("codes" in values):
        raise Refused(f"{name}: give either races, a number of race codes, or codes, the codes themselves")
    count = whole(values, "races") if "races" in values else len(values["codes"].split())
    if not 1 <= count <= race_codes:
        raise Refused(f"{name}: races or codes are from 1 to max_race_codes, {race_codes}")
    if "races" in values:
        return Record(name, race_groups_of_codes(count), place=place, aiannh=aiannh)
    return Record(name, *_groups(values, level, iterations), place, aiannh)


def _groups(values: Mapping[str, str], level: Level, iterations: Iterations | None) -> tuple[int, int, int]:
    """Return the race groups and ethnicity groups of codes, and the number of race groups that are TotalOnly."""
    if iterations is None:
        raise Refused(f"{values['name']}: codes need the directory with the iteration files, not a config.json alone")
    check_keys(values, required=("name", "codes", "ethnicity"), optional=("place", "aiannh"))
    numbers, codes = iterations.numbers, values["codes"].split()
    if unknown := [code for code in [*codes, values["ethnicity"]] if code not in numbers or code == "Null"]:
        raise Refused(f"{values['name']}: unknown race or ethnicity codes {', '.join(unknown)}")
    races = [numbers[code] for code in codes] + [0] * (RACE_CODES - len(codes))
    granularity = iterations.granularity(level)
    groups = granularity.flatmap(np.array([[*races, numbers[values["ethnicity"]]]], np.uint16)).indices
    groups = groups[granularity.level[groups] == level.iteration_level]
    ethnicity = granularity.maps["ethnicity", level.iteration_level][numbers[values["ethnicity"]]]
    race = groups[groups != ethnicity]
    return len(race), len(groups) - len(race), int(granularity.total_only[race].sum())
