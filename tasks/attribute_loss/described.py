"""Persons described by hand, on the command line or in a file, for the attribute-loss analyses. Nothing is looked up.

On the command line a person is `name=Bob, age=16, relation=biological child, size=3, family=yes`; a file is a CSV with
the same keys as its header, one person a row.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from privacy.analyses.attribute_loss_s_dhc import OWN_CHILD, RELATIVES, Person
from tasks.inputs.files import read_text, why
from tasks.lifecycle.errors import Refused

_TRUTHS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False, "": False}


def descriptions(texts: Iterable[str], file: Path | None) -> Iterator[dict[str, str]]:
    """Yield the keys and values of every person described: first those of the command line, then those of the file.

    Raises Refused where a text is not of the form key=value, or the file cannot be read.
    """
    for text in texts:
        pairs = [part.split("=", 1) for part in text.split(",") if part.strip()]
        if any(len(pair) != 2 for pair in pairs):
            raise Refused(f"a person is described by key=value, key=value, ...; not by {text!r}")
        yield {key.strip().casefold(): value.strip() for key, value in pairs}
    if file is None:
        return
    try:
        for row in csv.DictReader(read_text(file).splitlines(keepends=True), skipinitialspace=True):
            if None in row or None in row.values():
                raise Refused(f"{file}: a row does not have as many values as the header has names")
            yield {key.strip().casefold(): value.strip() for key, value in row.items()}
    except OSError as error:
        raise Refused(f"{file} cannot be read: {why(error)}") from None
    except csv.Error as error:
        raise Refused(f"{file} is not a CSV table: {error}") from None


def person(values: Mapping[str, str]) -> Person:
    """Return a person for the S-DHC: name, age, relation, size.

    Family and own_children where the relation leaves them open.

    Raises Refused where a key is missing or unknown, a value is not valid, or the values contradict each other.
    """
    check_keys(values, required=("name", "age", "relation", "size"), optional=("family", "own_children"))
    age, size = whole(values, "age"), whole(values, "size")
    relation = values["relation"].casefold()
    own = flag(values, "own_children", relation in OWN_CHILD and age < 18)
    try:
        return Person(values["name"], age, relation, size, flag(values, "family", relation in RELATIVES or own), own)
    except ValueError as error:
        raise Refused(str(error)) from None


def check_keys(values: Mapping[str, str], required: Iterable[str], optional: Iterable[str]) -> None:
    """Refuse a description with missing or unknown keys."""
    required, optional = list(required), list(optional)
    who = values.get("name", "a person")
    if missing := [key for key in required if key not in values]:
        raise Refused(f"{who}: {', '.join(missing)} is missing; a person has {', '.join(required + optional)}")
    if unknown := [key for key in values if key not in required + optional]:
        raise Refused(f"{who}: unknown {', '.join(unknown)}; a person has {', '.join(required + optional)}")


def whole(values: Mapping[str, str], key: str) -> int:
    """Return the whole number under a key."""
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
