"""config.json of the S-DHC program (docs/s-dhc.md#input), with two additional keys; exact and public."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any, Literal, get_args

from privacy.accounting.composition import Spend
from privacy.accounting.states import STATES_PR, STATES_US
from privacy.noise.exact import exact_number, parse_exact
from privacy.noise.laws import UNITS, Definition
from privacy.noise.sampler import check_law
from privacy.s_dhc.stability import Query, Stability, spend
from spine.settings import Jurisdiction
from tasks.errors import Refused, refusing
from tasks.records.files import distinct_keys, read_text
from tasks.s_dhc.tables import LEVELS, MEASURED, PERSON_TABLES, REGION_KEYS, MeasuredTable

HouseholdRules = Literal["error", "warn"]
Budget = Fraction | None  # None: infinite, no noise
REQUIRED = ("privacy_budget", "tau", "state_filter", "reader", "privacy_defn")
CHOICES: dict[str, Sequence[str]] = {
    "reader": ("csv", "cef"),
    "privacy_defn": tuple(UNITS),
    "stability": get_args(Stability),
    "household_rules": get_args(HouseholdRules),
}


@dataclass(frozen=True)
class TableQuery:
    """A query of the run: a table over one type of region and one iteration level, with its budget and tau."""

    table: MeasuredTable
    region_type: str
    level: str
    query: Query

    @property
    def codes(self) -> str:
        """Its iteration codes."""
        return LEVELS[self.level]

    @property
    def key(self) -> str:
        """Its key in config.json, as `state_A-G`."""
        return self.query.name.rpartition("/")[2]


@dataclass(frozen=True)
class SDhcConfiguration:
    """A valid config.json. budgets: by table and key, 0 for what is not tabulated. tau: by table of persons."""

    definition: Definition
    stability: Stability
    household_rules: HouseholdRules
    states: tuple[str, ...]
    budgets: dict[str, dict[str, Budget]]
    tau: dict[str, int]

    @property
    def jurisdiction(self) -> Jurisdiction:
        """The jurisdiction: Puerto Rico, or states of the US."""
        return "pr" if self.states == STATES_PR else "us"

    @property
    def all_states(self) -> tuple[str, ...]:
        """All states of the jurisdiction: a state's place among them is its row in every query."""
        return STATES_PR if self.jurisdiction == "pr" else STATES_US

    @property
    def noiseless(self) -> bool:
        """Whether a budget is infinite: such a run is not private."""
        return any(budget is None for by_key in self.budgets.values() for budget in by_key.values())

    def queries(self) -> tuple[TableQuery, ...]:
        """Return the queries with a budget, in the order of the tables. An infinite budget becomes 1."""
        return tuple(
            TableQuery(
                table,
                REGION_KEYS[region],
                level,
                Query(f"sdhc/{table.name}/{key}", self.tau.get(table.name), Fraction(1) if budget is None else budget),
            )
            for table in MEASURED
            for key in table.keys
            if (budget := self.budgets[table.name][key]) != 0
            for region, _, level in [key.partition("_")]
        )

    def spend(self) -> Spend:
        """Return the spend of a run. Raises Refused for an infinite budget."""
        if self.noiseless:
            raise Refused("a budget is infinite: only das sdhc truth takes infinite budgets")
        return spend(self.definition, self.stability, [each.query for each in self.queries()])

    def check_laws(self) -> None:
        """Raise Refused for noise that cannot be drawn."""
        with refusing("config.json"):
            for each in self.queries():
                check_law(each.query.law(self.definition, self.stability))

    def described(self) -> dict[str, Any]:
        """Return the configuration for a manifest, exact numbers as text; `read_described` reads it."""
        return {
            "privacy_budget": {
                table: {key: "Infinity" if budget is None else str(budget) for key, budget in of.items()}
                for table, of in self.budgets.items()
            },
            "tau": dict(self.tau),
            "state_filter": list(self.states),
            "privacy_defn": self.definition,
            "stability": self.stability,
            "household_rules": self.household_rules,
        }

    def digest(self, options: Mapping[str, object]) -> str:
        """Return the digest of everything besides the data that shapes a release."""
        return sha256(json.dumps(asdict(self) | dict(options), sort_keys=True, default=str).encode()).hexdigest()


def read_configuration(path: Path, run: Mapping[str, Any] | None = None) -> SDhcConfiguration:
    """Read a config.json. run: keys that it lacks. Raises Refused with every fault, in one line."""
    try:
        raw = json.loads(
            read_text(path),
            parse_float=exact_number,
            parse_int=exact_number,
            parse_constant=_constant,
            object_pairs_hook=distinct_keys,
        )
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path} is not JSON as expected: {error}") from None
    if not isinstance(raw, dict):
        raise Refused(f"{path} is not JSON as expected: the document is not an object")
    raw = {**(run or {}), **raw}
    if faults := list(_faults(raw)):
        raise Refused(f"{path}: {'; '.join(faults)}")
    return _configuration(raw)


def read_described(stated: Mapping[str, Any]) -> SDhcConfiguration:
    """Return the configuration in a manifest. Raises ValueError, TypeError or KeyError if it has no valid one."""
    budgets = {
        table: {key: inf if text == "Infinity" else parse_exact(text) for key, text in of.items()}
        for table, of in stated["privacy_budget"].items()
    }
    tau = {table: Fraction(int(most)) for table, most in stated["tau"].items()}
    raw = {**stated, "privacy_budget": budgets, "tau": tau, "reader": "csv"}
    if faults := list(_faults(raw)):
        raise ValueError(faults[0])
    configuration = _configuration(raw)
    if configuration.described() != stated:
        raise ValueError("it is not a configuration as a run describes it")
    return configuration


def _configuration(raw: Mapping[str, Any]) -> SDhcConfiguration:
    return SDhcConfiguration(
        definition=raw["privacy_defn"],
        stability=raw.get("stability", "program"),
        household_rules=raw.get("household_rules", "error"),
        states=tuple(sorted(raw["state_filter"])),
        budgets={
            table.name: {
                key: None if (budget := raw["privacy_budget"][table.name][key]) == inf else budget for key in table.keys
            }
            for table in MEASURED
        },
        tau={table.name: int(raw["tau"][table.name]) for table in PERSON_TABLES},
    )


def _constant(text: str) -> float:
    if text == "Infinity":
        return inf
    raise ValueError(f"{text} is not a budget")


def _faults(raw: Mapping[str, Any]) -> Iterator[str]:
    if missing := [key for key in REQUIRED if key not in raw]:
        yield f"missing required keys {missing}"
    if unknown := sorted(set(raw) - {*REQUIRED, *CHOICES}):
        yield f"unknown keys {unknown}"
    for key, words in CHOICES.items():
        if key in raw and raw[key] not in words:
            yield f"{key} must be {' or '.join(words)}, not {raw[key]!r:.40}"
    if "state_filter" in raw:
        yield from _faults_of_states(raw["state_filter"])
    if "tau" in raw:
        yield from _faults_of_table("tau", raw["tau"], [table.name for table in PERSON_TABLES], _fault_of_tau)
    if "privacy_budget" in raw:
        of_tables = raw["privacy_budget"]
        yield from _faults_of_table("privacy_budget", of_tables, [table.name for table in MEASURED], lambda _: None)
        for table in MEASURED if isinstance(of_tables, dict) else ():
            if table.name in of_tables:
                name = f"privacy_budget of {table.name}"
                yield from _faults_of_table(name, of_tables[table.name], table.keys, _fault_of_budget)
        yield from _faults_of_nation(of_tables, raw.get("state_filter"))


def _faults_of_table(name: str, values: Any, keys: Sequence[str], fault: Callable[[Any], str | None]) -> Iterator[str]:
    """Yield the faults of an object that must have exactly these keys."""
    if not isinstance(values, dict):
        yield f"{name} must be an object with the keys {list(keys)}"
        return
    if missing := [key for key in keys if key not in values]:
        yield f"{name} lacks {missing}"
    if extra := sorted(set(values) - set(keys)):
        yield f"{name} has unknown keys {extra}"
    for key in keys:
        if key in values and (found := fault(values[key])):
            yield f"{name}, {key}, {found}"


def _fault_of_tau(value: Any) -> str | None:
    whole = isinstance(value, Fraction) and value.denominator == 1 and 0 < value < 1 << 31
    return None if whole else f"must be a whole number from 1, not {value!s:.40}"


def _fault_of_budget(value: Any) -> str | None:
    number = value == inf or (isinstance(value, Fraction) and value >= 0)
    return None if number else f"must be a number from 0, not {value!s:.40}"


def _faults_of_states(states: Any) -> Iterator[str]:
    known = {*STATES_US, *STATES_PR}
    if not isinstance(states, list) or not states or not all(isinstance(code, str) for code in states):
        yield "state_filter must be a list of state codes as text, such as 44"
    elif len(set(states)) < len(states):
        yield "state_filter must not hold a state twice"
    elif invalid := sorted(set(states) - known):
        yield f"state_filter holds invalid state codes {invalid}"
    elif "72" in states and len(states) > 1:
        yield "state_filter must not mix Puerto Rico, 72, with other states: it is released separately"


def _faults_of_nation(budgets: Any, states: Any) -> Iterator[str]:
    """Yield the faults of the nation's budgets: they must be 0 for Puerto Rico, and some budget must not be 0."""
    if not isinstance(budgets, dict):
        return
    each = [(key, value) for by_key in budgets.values() if isinstance(by_key, dict) for key, value in by_key.items()]
    if states == list(STATES_PR) and any(key.startswith("usa_") and value != 0 for key, value in each):
        yield "usa_ budgets must be 0 for Puerto Rico"
    if each and all(value == 0 for _, value in each):
        yield "every budget is 0: there is nothing to release"
