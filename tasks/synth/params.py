"""The parameter files of synthetic data: the user's, with config.json adapted to the states in the data.

config-ddhcb.json and config-sdhc.json are also written, from the user's parameter files or as in the 2020 production
(NMFv5 of the Detailed DHC-B, NMFv8 of the S-DHC: `production/`).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tasks.errors import Refused
from tasks.records.files import read_text
from tasks.synth.nation import PUERTO_RICO
from tasks.synth.origins import PARAMETER_FILES

PRODUCTION = Path(__file__).parent / "production"
HOUSEHOLDS_CONFIG, SDHC_CONFIG = "config-ddhcb.json", "config-sdhc.json"


def read_config(params: Path, name: str = "config.json") -> dict[str, Any]:
    """Return a configuration as a plain dictionary; numbers with a point keep their text, as `@0.159@`.

    Raises Refused if it is not JSON or is invalid.
    """
    path = params / name
    try:
        config = json.loads(read_text(path), parse_float=lambda text: f"@{text}@")
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

    They run the jurisdictions in the data and read text or Parquet (`csv`). Everything else is unchanged, digit for
    digit.
    """
    out.mkdir(parents=True)
    for name in PARAMETER_FILES:
        shutil.copyfile(params / name, out / name)
    us = sorted(set(states) - {PUERTO_RICO})
    runs = {"run_us": bool(us), "run_pr": PUERTO_RICO in states, "reader": "csv"}
    runs |= {"state_filter_us": us} if us else {}
    households, sdhc = (
        read_config(params if (params / name).exists() else PRODUCTION, name)
        for name in (HOUSEHOLDS_CONFIG, SDHC_CONFIG)
    )
    if not (params / HOUSEHOLDS_CONFIG).exists():
        households |= {"max_race_codes": config["max_race_codes"]}
    sdhc |= {"state_filter": us or [PUERTO_RICO], "reader": "csv"}
    if not us:  # a run of Puerto Rico alone has no nation level
        budgets = sdhc["privacy_budget"].items()
        sdhc["privacy_budget"] = {
            table: {level: 0 if level.startswith("usa") else budget for level, budget in levels.items()}
            for table, levels in budgets
        }
    for name, fitted in (("config.json", config | runs), (HOUSEHOLDS_CONFIG, households | runs), (SDHC_CONFIG, sdhc)):
        text = re.sub(r'"@([^"@]+)@"', r"\1", json.dumps(fitted, indent=2))
        (out / name).write_text(text + "\n", "utf-8")
