"""The budgets of a PHSafe config.json, the program behind the S-DHC, as bounded rho per published table."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from privacy.analyses.attribute_loss_s_dhc import Table
from tasks.inputs.exact_numbers import exact_number
from tasks.inputs.files import read_text, why
from tasks.lifecycle.errors import Refused

# Published table -> (its person counts, its unit counts); the numerators of PH5 and PH8 are made from PH4 and PH7.
TABULATIONS = {
    "PH1": ("PH1_num", "PH1_denom"),
    "PH2": ("PH2", None),
    "PH3": ("PH3", None),
    "PH4": ("PH4", None),
    "PH5": (None, "PH5_denom"),
    "PH6": ("PH6", None),
    "PH7": ("PH7", None),
    "PH8": (None, "PH8_denom"),
}


def read_phsafe_budgets(path: Path) -> tuple[Table, ...]:
    """Return bounded rho of each table: twice the summed budgets of its person counts, once that of its unit counts.

    A unit count's stability of 2 covers the old and the new unit row already, so its budget is not doubled.

    Raises Refused where the file cannot be read, lacks a key, is not zCDP, or holds a budget that is not a number >= 0.
    """
    try:
        config = json.loads(read_text(path), parse_float=exact_number, parse_int=exact_number)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {why(error)}") from None
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path} is not JSON: {error}") from None
    if (definition := _key(config, path, "privacy_defn")) != "zcdp":
        raise Refused(f"{path}: attribute loss of the S-DHC is defined for privacy_defn zcdp, not {definition}")
    try:
        return tuple(_table(config, path, name, *parts) for name, parts in TABULATIONS.items())
    except ValueError as error:
        raise Refused(f"{path}: {error}") from None


def _table(config: Any, path: Path, name: str, persons: str | None, units: str | None) -> Table:
    join = 2 * _total(config, path, persons) if persons else Fraction(0)
    unit = _total(config, path, units) if units else Fraction(0)
    tau = _key(config, path, "tau", persons) if persons else None
    if tau is not None and (not isinstance(tau, Fraction) or tau.denominator != 1):
        raise ValueError(f"tau of {persons} is a whole number, not {tau}")
    return Table(name, join, unit, None if tau is None else int(tau))


def _total(config: Any, path: Path, tabulation: str) -> Fraction:
    budgets = _key(config, path, "privacy_budget", tabulation)
    if not isinstance(budgets, dict) or not budgets:
        raise ValueError(f"privacy_budget of {tabulation} is a budget for each geography and iteration level")
    for key, budget in budgets.items():
        if not isinstance(budget, Fraction) or budget < 0:
            raise ValueError(f"privacy_budget of {tabulation}, {key}, is a number and not negative; not {budget}")
    return sum(budgets.values(), Fraction(0))


def _key(config: Any, path: Path, *keys: str) -> Any:
    for depth, key in enumerate(keys, start=1):
        if not isinstance(config, dict) or key not in config:
            raise Refused(f"{path}: the key {'/'.join(keys[:depth])} is missing")
        config = config[key]
    return config
