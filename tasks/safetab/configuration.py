"""config.json of a SafeTab: exact budgets, thresholds and switches of a run (docs/spec/files.md#configjson)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, ValidationInfo, field_validator

from privacy.accounting.composition import UnitOfPrivacy
from privacy.accounting.states import STATES_PR, STATES_US
from privacy.noise.exact import exact_number
from privacy.noise.laws import Definition
from spine.fault_words import fault_words
from spine.settings import Jurisdiction
from tasks.geography.regions import REGION_TYPES
from tasks.records.files import distinct_keys
from tasks.records.findings import Finding
from tasks.safetab.levels import ALL_LEVELS, Level

Budget = Fraction | Literal["Infinity"]
NEVER = 2**62  # an infinite threshold: no noisy total reaches it
COUNTED = {1: "one number", 3: "three numbers"}
OF_SYSTEMS = {  # by the first characters of its budgets' keys
    "privacy_budget_p_": "Detailed DHC-A: das run reads it, and das tune without --households",
    "privacy_budget_h_": "Detailed DHC-B: das ddhcb reads it, and das tune with --households",
}
LEVELS = {str(level): level for level in ALL_LEVELS}


def budget_key(table: str, level: Level) -> str:
    """Return the key of config.json for the budget of a level of a table."""
    return f"privacy_budget_{table}_level_{level.iteration_level}_{level.region_type.lower().replace('-', '_')}"


class Number(str):
    """A JSON number, kept as text."""


class SafeTabConfiguration(BaseModel):
    """A valid config.json, as far as all SafeTabs share it.

    TABLES: how many thresholds a level of each table has, by the table's name in keys. UNIT: the unit of privacy, a
    record.
    FILES: the possible names of the file; the first that exists is read.

    Budgets are exact fractions of rho or epsilon (by `privacy_defn`). A level with budget 0 is not tabulated; an
    infinite budget means no noise and is accepted for exact counts only. The queries of a level share the budgets of
    its tables. Thresholds are integers: a noisy total, an integer, reaches t iff it reaches ceil(t).
    """

    TABLES: ClassVar[Mapping[str, int]]
    UNIT: ClassVar[UnitOfPrivacy] = "person"
    FILES: ClassVar[Sequence[str]] = ("config.json",)
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    max_race_codes: int = Field(ge=1, le=8)
    budgets: dict[str, dict[Level, Budget]]
    thresholds: dict[str, dict[Level, tuple[int, ...]]]
    allow_negative_counts: StrictBool
    run_us: StrictBool
    run_pr: StrictBool
    reader: Literal["csv", "cef"]
    state_filter_us: tuple[str, ...]
    privacy_defn: Definition

    @field_validator("max_race_codes", mode="before")
    @classmethod
    def _whole(cls, value: Any) -> int:
        if not isinstance(value, Number) or not value.isdigit():
            raise ValueError("must be a whole number from 1 to 8")
        return int(value)

    @field_validator("state_filter_us", mode="before")
    @classmethod
    def _states(cls, value: Any, info: ValidationInfo) -> tuple[str, ...]:
        if not info.data.get("run_us", True):
            return ()
        if not value:
            raise ValueError("must not be empty")
        if not isinstance(value, list):
            raise ValueError("must be a list of state codes")
        if not all(type(code) is str for code in value):
            raise ValueError("must hold state codes as text")
        if len(set(value)) < len(value):
            raise ValueError("must not hold a state twice")
        if invalid := sorted(set(value) - set(STATES_US)):
            raise ValueError(f"holds invalid state codes {invalid}")
        return tuple(sorted(value))

    def levels(self, jurisdiction: Jurisdiction) -> tuple[Level, ...]:
        """Return the population group levels that a jurisdiction tabulates: those with a budget above 0."""
        return tuple(
            level
            for level in ALL_LEVELS
            if level.jurisdiction == jurisdiction and any(of[level] != 0 for of in self.budgets.values())
        )

    def states(self, jurisdiction: Jurisdiction) -> tuple[str, ...]:
        """Return the state filter of a jurisdiction."""
        return self.state_filter_us if jurisdiction == "us" else STATES_PR

    @property
    def jurisdictions(self) -> tuple[Jurisdiction, ...]:
        """The jurisdictions that run, US first."""
        runs: dict[Jurisdiction, bool] = {"us": self.run_us, "pr": self.run_pr}
        return tuple(jurisdiction for jurisdiction in runs if runs[jurisdiction])

    @property
    def noiseless(self) -> bool:
        """Whether a budget is infinite: such a run is not private."""
        return any("Infinity" in by_level.values() for by_level in self.budgets.values())

    def budget(self, level: Level) -> Fraction:
        """Return the budget of a level, summed over its tables. Raises ValueError for an infinite budget."""
        return sum((self.table_budget(table, level) for table in self.TABLES), Fraction(0))

    def table_budget(self, table: str, level: Level) -> Fraction:
        """Return the budget of a level of a table. Raises ValueError for an infinite budget."""
        budget = self.budgets[table][level]
        if budget == "Infinity":
            raise ValueError(f"the budget of {level.name} is infinite: only `das truth` takes infinite budgets")
        return budget

    def needs_thresholds(self, table: str, level: Level) -> bool:
        """Return whether a table must have thresholds at a level."""
        return True

    def queries(self, table: str, level: Level) -> Mapping[str, Fraction]:
        """Return the budget of each query of a level of a table; a SafeTab with several queries splits it."""
        return {table: self.table_budget(table, level)}

    def described(self, jurisdiction: Jurisdiction) -> dict[str, Any]:
        """Return a jurisdiction's configuration for a manifest: tabulated levels only, exact numbers as text.

        `read_described` reads it.
        """
        levels = self.levels(jurisdiction)
        return {
            **self.model_dump(mode="json", exclude={"budgets", "thresholds"}),
            "budgets": {table: {str(level): str(of[level]) for level in levels} for table, of in self.budgets.items()},
            "thresholds": {
                table: {str(level): list(of[level]) for level in levels if level in of}
                for table, of in self.thresholds.items()
            },
        }


Config = TypeVar("Config", bound=SafeTabConfiguration)


def read_described(stated: Mapping[str, Any], kind: type[Config], jurisdiction: Jurisdiction) -> Config:
    """Read the configuration in a manifest. Raises ValueError if a run could not have it."""
    numbers = {name for name, field in kind.model_fields.items() if field.annotation not in (StrictBool, bool)}
    texts = ("reader", "privacy_defn", "state_filter_us")
    plain = {
        field.alias or name: Number(value) if name in numbers and name not in texts and value is not None else value
        for name, field in kind.model_fields.items()
        if name not in ("budgets", "thresholds") and (value := stated[name]) is not ...
    }
    budgets = {
        table: {level: _budget(Number(of.get(str(level), 0))) for level in ALL_LEVELS}
        for table, of in stated["budgets"].items()
    }
    thresholds = {
        table: {LEVELS[name]: tuple(map(int, each)) for name, each in of.items()}
        for table, of in stated["thresholds"].items()
    }
    if any(len(each) != kind.TABLES[table] for table, of in thresholds.items() for each in of.values()):
        raise ValueError("a level has too many thresholds, or too few")
    configuration = kind.model_validate({**plain, "budgets": budgets, "thresholds": thresholds})
    if configuration.described(jurisdiction) != stated:
        raise ValueError("it is not a configuration as a run describes it")
    return configuration


def parse_configuration(text: str, kind: type[Config]) -> tuple[Config | None, list[Finding]]:
    """Parse and check the config.json of a SafeTab; every fault is a finding.

    Returns the configuration, or None where a finding is an error.
    """
    try:
        raw = json.loads(
            text, parse_float=Number, parse_int=Number, parse_constant=Number, object_pairs_hook=distinct_keys
        )
        if not isinstance(raw, dict):
            raise ValueError("the document is not an object")
    except (ValueError, RecursionError) as error:
        return None, [_finding(f"is not JSON as expected: {error}")]
    keys = {budget_key(table, level): (table, level) for table in kind.TABLES for level in ALL_LEVELS}
    thresholds = {f"thresholds_{table}": table for table in kind.TABLES}
    plain = {field.alias or name: field for name, field in kind.model_fields.items()}
    del plain["budgets"], plain["thresholds"]
    required = {*keys, *thresholds, *(key for key, field in plain.items() if field.is_required())}
    if (found := {key[:17] for key in raw} & OF_SYSTEMS.keys()) and not keys.keys() & raw.keys():
        return None, [_finding(f"is a configuration of the {OF_SYSTEMS[min(found)]}")]
    faults = []
    if missing := sorted(required - set(raw)):
        faults.append(_finding(f"Invalid config: missing required keys {missing}"))
    if unknown := sorted(set(raw) - required - set(plain)):
        faults.append(_finding(f"unknown keys {unknown}"))
    values = {key: value for key, value in raw.items() if key in plain}
    values |= {"budgets": {table: {} for table in kind.TABLES}, "thresholds": {}}
    for key, (table, level) in keys.items():
        if key in raw:
            try:
                values["budgets"][table][level] = _budget(raw[key])
            except ValueError as error:
                faults.append(_finding(f"{key} {error}", "budgets"))
    for key, table in thresholds.items():
        if key in raw:
            try:
                values["thresholds"][table] = _thresholds(raw[key], kind.TABLES[table])
            except ValueError as error:
                faults.append(_finding(str(error), key))
    try:
        configuration = kind.model_validate(values)
    except ValidationError as error:
        invalid = [each for each in error.errors() if each["type"] != "missing"]
        faults += [_finding(fault_words(each), str(each["loc"][0])) for each in invalid]
        return None, faults
    faults += _across(configuration)
    return (None if faults else configuration), faults


def _across(configuration: SafeTabConfiguration) -> Iterator[Finding]:
    if not configuration.jurisdictions:
        yield _finding("At least one of 'run_us', 'run_pr' must be True.", "run_us")
    for jurisdiction in configuration.jurisdictions:
        levels = {level for level in ALL_LEVELS if level.region_type in REGION_TYPES[jurisdiction]}
        for table, thresholds in configuration.thresholds.items():
            needed = {level for level in levels if configuration.needs_thresholds(table, level)}
            if lacking := sorted(str(level) for level in needed - set(thresholds)):
                yield _finding(f"has no thresholds for {lacking}", f"thresholds_{table}")


def _budget(value: Any) -> Budget:
    budget = read_number(value)
    if budget != "Infinity" and budget < 0:
        raise ValueError("must not be negative")
    return budget


def read_number(value: Any) -> Budget:
    """Return the exact value of a JSON number. Raises ValueError; its message is the end of a sentence."""
    if not isinstance(value, Number):
        raise ValueError("must be a number")
    if value == "Infinity":
        return "Infinity"
    if value in ("NaN", "-Infinity"):
        raise ValueError(f"must not be {value}")
    return exact_number(value)


def _thresholds(value: Any, count: int) -> dict[Level, tuple[int, ...]]:
    if not isinstance(value, dict):
        raise ValueError(f'must map "(USA, 1)" and so on to {COUNTED[count]}')
    if unknown := sorted(set(value) - set(LEVELS)):
        raise ValueError(f"has unknown levels {unknown}")
    return {LEVELS[name]: _of_level(name, numbers, count) for name, numbers in value.items()}


def _of_level(name: str, numbers: Any, count: int) -> tuple[int, ...]:
    if not isinstance(numbers, list) or len(numbers) != count:
        raise ValueError(f"{name} must hold exactly {COUNTED[count]}")
    try:
        exact = [read_number(number) for number in numbers]
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None
    whole = tuple(NEVER if number == "Infinity" else math.ceil(number) for number in exact)
    finite = [math.inf if number == "Infinity" else number for number in exact]
    if finite != sorted(finite):
        raise ValueError(f"{name} must not decrease")
    return whole


def _finding(rule: str, column: str = "") -> Finding:
    return Finding(file="config.json", rule=rule, column=column)
