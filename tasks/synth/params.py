"""The parameter files of synthetic data: the user's, with config.json adapted to the states in the data.

Next to it config-ddhcb.json and config-sdhc.json, of the user's parameter files or as in the 2020 production (NMFv5 of
the Detailed DHC-B, NMFv8 of the S-DHC).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tasks.inputs.files import read_text, why
from tasks.lifecycle.errors import Refused
from tasks.population_groups.configuration import budget_key
from tasks.population_groups.levels import ALL_LEVELS
from tasks.synth.origins import PARAMETER_FILES

PUERTO_RICO = "72"
HOUSEHOLDS_CONFIG, SDHC_CONFIG = "config-ddhcb.json", "config-sdhc.json"
# Of the Detailed DHC-B, by LEVEL of the iteration and kind of region; others 971, 4971, 19971.
THRESHOLDS = {(1, "wide"): [4971, 19971, 149971], (1, "other"): [4971, 19971, 149970], (2, "wide"): [471, 971, 6971]}


def read_config(params: Path, name: str = "config.json") -> dict[str, Any]:
    """Return a configuration as a plain dictionary; numbers with a point keep their text, as `@0.159@`.

    Raises Refused.
    """
    path = params / name
    try:
        config = json.loads(read_text(path), parse_float=lambda text: f"@{text}@")
    except OSError as error:
        raise Refused(f"{path} cannot be read: {why(error)}") from error
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path} is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise Refused(f"{path} is not a JSON object")
    codes = config.get("max_race_codes")
    if name != SDHC_CONFIG and (type(codes) is not int or not 1 <= codes <= 8):
        raise Refused(f"{path}: max_race_codes must be a whole number from 1 to 8")
    return config


def write_params(config: dict[str, Any], params: Path, out: Path, states: Iterable[str]) -> None:
    """Copy the parameter files into the new directory `out`, with configurations that run exactly these states.

    They run the jurisdictions in the data and read text or Parquet (`csv`); everything else stays, numbers digit for
    digit.
    """
    out.mkdir(parents=True)
    for name in PARAMETER_FILES:
        shutil.copyfile(params / name, out / name)
    us = sorted(set(states) - {PUERTO_RICO})
    runs = {"run_us": bool(us), "run_pr": PUERTO_RICO in states, "reader": "csv"}
    runs |= {"state_filter_us": us} if us else {}
    households = _given(params, HOUSEHOLDS_CONFIG) or households_config(config["max_race_codes"])
    sdhc = _given(params, SDHC_CONFIG) or _sdhc_config(us)
    sdhc |= {"state_filter": us or [PUERTO_RICO], "reader": "csv"}
    for name, fitted in (("config.json", config | runs), (HOUSEHOLDS_CONFIG, households | runs), (SDHC_CONFIG, sdhc)):
        text = re.sub(r'"@([^"@]+)@"', r"\1", json.dumps(fitted, indent=2))
        (out / name).write_text(text + "\n", "utf-8")


def _given(params: Path, name: str) -> dict[str, Any] | None:
    return read_config(params, name) if (params / name).exists() else None


def households_config(max_race_codes: int) -> dict[str, Any]:
    """Return NMFv5's budgets and thresholds of the Detailed DHC-B; numbers as in `read_config`."""
    budgets, thresholds = dict[str, str](), dict[str, list[int]]()
    for level in ALL_LEVELS:
        wide, area = level.nation_or_state, level.region_type == "AIANNH"
        regional = "@0@" if area else "@0.006915@"
        budget = regional if level.iteration_level == 1 else "@1.9208@" if wide else "@0.142869@"
        budgets |= {budget_key(f"h_{table}", level): budget for table in ("t3", "t4")}
        key = (level.iteration_level, "area" if area else "wide" if wide else "other")
        thresholds[str(level)] = THRESHOLDS.get(key, [971, 4971, 19971])
    return {
        "max_race_codes": max_race_codes,
        **budgets,
        "thresholds_h_t3": thresholds,
        "thresholds_h_t4": {level: three[:1] for level, three in thresholds.items()},
        "allow_negative_counts": True,
        "privacy_defn": "zcdp",
    }


def _sdhc_config(us: list[str]) -> dict[str, Any]:
    """Return NMFv8's budgets and truncation of the S-DHC; a run of Puerto Rico has no nation."""
    usa, state = (("@0.002619@", "@0.001061@", "@0.000022@"), ("@0.016371@", "@0.006630@", "@0.000135@"))
    state_race = ("@0.141622@", "@0.662976@", "@0.001170@")
    kinds = {"PH1_num": 0, "PH1_denom": 2, "PH2": 0, "PH3": 1, "PH4": 0, "PH5_denom": 2, "PH6": 1, "PH7": 0}
    budget = {}
    for table, kind in (kinds | {"PH8_denom": 2}).items():
        levels = ("*",) if table in ("PH2", "PH6") else ("A-G", "H,I", "*")
        budget[table] = {f"usa_{level}": usa[kind] if us else "@0@" for level in levels}
        budget[table] |= {f"state_{level}": (state_race if level == "A-G" else state)[kind] for level in levels}
    tau = {table: 6 if kind == 1 else 10 for table, kind in kinds.items() if not table.endswith("denom")}
    return {"privacy_budget": budget, "tau": tau, "privacy_defn": "zcdp"}
