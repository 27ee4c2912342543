"""config.json: budgets, thresholds and switches of a run, exact (docs/spec/files.md#configjson)."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, ValidationInfo, field_validator

from privacy.accounting.states import STATES_PR, STATES_US
from privacy.noise.laws import Definition
from spine.settings import Jurisdiction
from tasks.inputs.exact_numbers import exact_number
from tasks.inputs.findings import Finding

REGION_TYPES: dict[Jurisdiction, tuple[str, ...]] = {
    "us": ("USA", "STATE", "COUNTY", "TRACT", "PLACE", "AIANNH"),
    "pr": ("PR-STATE", "PR-COUNTY", "PR-TRACT", "PR-PLACE"),
}
NATION_STATE = frozenset({"USA", "STATE", "PR-STATE"})
ITERATION_LEVELS = (1, 2)
REGION_NAMES = {"USA": "Nation", "AIANNH": "AIANNH"}  # other region types are their own words
ITERATION_LEVEL_NAMES = {1: "Regional", 2: "Detailed"}


class Level(NamedTuple):
    """A population group level: a geographic summary level x an iteration level (1 Regional, 2 Detailed)."""

    region_type: str
    iteration_level: int

    @property
    def nation_or_state(self) -> bool:
        """The granularity: nation and states tabulate different iterations from the levels below."""
        return self.region_type in NATION_STATE

    @property
    def jurisdiction(self) -> Jurisdiction:
        """The jurisdiction that tabulates it: US and Puerto Rico have no region type in common."""
        return "pr" if self.region_type.startswith("PR-") else "us"

    @property
    def name(self) -> str:
        """The level for people, `County, Detailed` or `PR-County, Detailed`; `str` gives its key in files."""
        return f"{self.geography}, {self.iterations}"

    @property
    def iterations(self) -> str:
        """The iteration level for people, `Regional` or `Detailed`."""
        return ITERATION_LEVEL_NAMES[self.iteration_level]

    @property
    def geography(self) -> str:
        """The region type for people, `County` or `PR-County`."""
        bare = self.region_type.removeprefix("PR-")
        return ("PR-" if self.jurisdiction == "pr" else "") + REGION_NAMES.get(bare, bare.capitalize())

    @property
    def slug(self) -> str:
        """The level as a file name, `county-2`."""
        return f"{self.region_type.lower()}-{self.iteration_level}"

    def __str__(self) -> str:
        """Return the level's key in config.json and manifest.json, `(COUNTY, 2)`."""
        return f"({self.region_type}, {self.iteration_level})"


ALL_LEVELS = tuple(
    Level(region_type, iteration_level)
    for region_types in REGION_TYPES.values()
    for region_type in region_types
    for iteration_level in ITERATION_LEVELS
)
Infinite = Literal["Infinity"]
Budget = Fraction | Infinite
NEVER = 2**62  # an infinite threshold: no noisy total reaches it


def budget_key(level: Level) -> str:
    """Return the key of config.json that holds a level's budget."""
    return f"privacy_budget_p_level_{level.iteration_level}_{level.region_type.lower().replace('-', '_')}"


BUDGET_KEYS = {budget_key(level): level for level in ALL_LEVELS}


class _Number(str):
    """A JSON number, as the text it was written in."""


class Configuration(BaseModel):
    """A valid config.json.

    Budgets are exact fractions of rho or epsilon (by `privacy_defn`); an infinite one means no noise, and only
    `das truth` takes it. Thresholds are integers: a noisy total, being one, reaches t iff it reaches ceil(t).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    max_race_codes: int = Field(ge=1, le=8)
    budgets: dict[Level, Budget]
    stage_1_fraction: Fraction = Field(alias="privacy_budget_p_stage_1_fraction", gt=0, lt=1)
    thresholds: dict[Level, tuple[int, int, int]] = Field(alias="thresholds_p")
    allow_negative_counts: StrictBool
    run_us: StrictBool
    run_pr: StrictBool
    reader: Literal["csv", "cef"]
    state_filter_us: tuple[str, ...]
    privacy_defn: Definition
    zero_suppression_chance: Fraction | None = Field(default=None, ge=0, lt=1)

    @field_validator("max_race_codes", mode="before")
    @classmethod
    def _whole(cls, value: Any) -> int:
        if not isinstance(value, _Number) or not value.isdigit():
            raise ValueError("must be a whole number from 1 to 8")
        return int(value)

    @field_validator("stage_1_fraction", "zero_suppression_chance", mode="before")
    @classmethod
    def _exact(cls, value: Any) -> Fraction:
        number = _number(value)
        if number == "Infinity":
            raise ValueError("must be a finite number")
        return number

    @field_validator("budgets", mode="before")
    @classmethod
    def _budgets(cls, value: dict[str, Any]) -> dict[Level, Budget]:
        budgets = {}
        for key, text in value.items():
            try:
                budget = _number(text)
            except ValueError as error:
                raise ValueError(f"{key} {error}") from None
            if budget != "Infinity" and budget < 0:
                raise ValueError(f"{key} must not be negative")
            budgets[BUDGET_KEYS[key]] = budget
        return budgets

    @field_validator("thresholds", mode="before")
    @classmethod
    def _thresholds(cls, value: Any, info: ValidationInfo) -> dict[Level, tuple[int, ...]]:
        names = {str(level): level for level in ALL_LEVELS}
        if not isinstance(value, dict):
            raise ValueError('must map "(USA, 1)" and so on to three numbers')
        if unknown := sorted(set(value) - set(names)):
            raise ValueError(f"has unknown levels {unknown}")
        return {names[name]: _three(name, numbers) for name, numbers in value.items()}

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
        return tuple(level for level in ALL_LEVELS if level.jurisdiction == jurisdiction and self.budgets[level] != 0)

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
        """True where some budget is infinite: no such run is private."""
        return "Infinity" in self.budgets.values()

    def budget(self, level: Level) -> Fraction:
        """Return the finite budget of a level.

        Raises
        ------
        ValueError
            where the budget is infinite.
        """
        budget = self.budgets[level]
        if budget == "Infinity":
            raise ValueError(f"the budget of {level.name} is infinite: only `das truth` takes infinite budgets")
        return budget


def _number(value: Any) -> Budget:
    if not isinstance(value, _Number):
        raise ValueError("must be a number")
    if value == "Infinity":
        return "Infinity"
    if value in ("NaN", "-Infinity"):
        raise ValueError(f"must not be {value}")
    return exact_number(value)


def _three(name: str, numbers: Any) -> tuple[int, ...]:
    if not isinstance(numbers, list) or len(numbers) != 3:
        raise ValueError(f"{name} must hold exactly three numbers")
    try:
        exact = [_number(number) for number in numbers]
    except ValueError as error:
        raise ValueError(f"{name} {error}") from None
    whole = tuple(NEVER if number == "Infinity" else math.ceil(number) for number in exact)
    finite = [math.inf if number == "Infinity" else number for number in exact]
    if finite != sorted(finite):
        raise ValueError(f"{name} must not decrease")
    return whole


def parse_configuration(text: str) -> tuple[Configuration | None, list[Finding]]:
    """Parse and check a config.json; every fault is a finding.

    Returns the configuration, or None where a finding is an error.
    """
    try:
        raw = json.loads(
            text, parse_float=_Number, parse_int=_Number, parse_constant=_Number, object_pairs_hook=_distinct
        )
        if not isinstance(raw, dict):
            raise ValueError("the document is not an object")
    except (ValueError, RecursionError) as error:
        return None, [_finding(f"is not JSON as expected: {error}")]
    required = {field.alias or name for name, field in Configuration.model_fields.items() if field.is_required()}
    required = required - {"budgets"} | set(BUDGET_KEYS)
    faults = []
    if missing := sorted(required - set(raw)):
        faults.append(_finding(f"Invalid config: missing required keys {missing}"))
    if unknown := sorted(set(raw) - required - {"zero_suppression_chance"}):
        faults.append(_finding(f"unknown keys {unknown}"))
    budgets = {key: raw.pop(key) for key in BUDGET_KEYS if key in raw}
    known = {key: value for key, value in raw.items() if key not in unknown}
    try:
        configuration = Configuration.model_validate({**known, "budgets": budgets})
    except ValidationError as error:
        faults += [
            _finding(_say(item["msg"]), str(item["loc"][0])) for item in error.errors() if item["type"] != "missing"
        ]
        return None, faults
    if not configuration.jurisdictions:
        faults.append(_finding("At least one of 'run_us', 'run_pr' must be True.", "run_us"))
    for jurisdiction in configuration.jurisdictions:
        names = {level for level in ALL_LEVELS if level.region_type in REGION_TYPES[jurisdiction]}
        if lacking := sorted(str(level) for level in names - set(configuration.thresholds)):
            faults.append(_finding(f"has no thresholds for {lacking}", "thresholds_p"))
    return (None if faults else configuration), faults


def _finding(rule: str, column: str = "") -> Finding:
    return Finding(file="config.json", rule=rule, column=column)


def _say(message: str) -> str:
    return message.removeprefix("Value error, ")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise ValueError(f"keys given twice {twice}")
    return dict(pairs)
