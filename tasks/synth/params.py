"""The parameter files of synthetic data: the user's, with config.json adapted to the states in the data."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tasks.inputs.files import read_text, why
from tasks.lifecycle.errors import Refused
from tasks.synth.origins import PARAMETER_FILES

PUERTO_RICO = "72"


def read_config(params: Path) -> dict[str, Any]:
    """Return config.json as a plain dictionary; numbers with a point keep their text, as `@0.159@`. Raises Refused."""
    path = params / "config.json"
    try:
        config = json.loads(read_text(path), parse_float=lambda text: f"@{text}@")
    except OSError as error:
        raise Refused(f"{path} cannot be read: {why(error)}") from error
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path} is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise Refused(f"{path} is not a JSON object")
    codes = config.get("max_race_codes")
    if type(codes) is not int or not 1 <= codes <= 8:
        raise Refused(f"{path}: max_race_codes must be a whole number from 1 to 8")
    return config


def write_params(config: dict[str, Any], params: Path, out: Path, states: Iterable[str]) -> None:
    """Copy the parameter files into the new directory `out`, with a config.json that runs exactly these states.

    It runs the jurisdictions in the data and reads text or Parquet (`csv`); everything else stays, numbers digit for
    digit.
    """
    out.mkdir(parents=True)
    for name in PARAMETER_FILES:
        shutil.copyfile(params / name, out / name)
    us = sorted(set(states) - {PUERTO_RICO})
    fitted = config | {"run_us": bool(us), "run_pr": PUERTO_RICO in states, "reader": "csv"}
    if us:
        fitted["state_filter_us"] = us
    text = re.sub(r'"@([^"@]+)@"', r"\1", json.dumps(fitted, indent=2))
    (out / "config.json").write_text(text + "\n", "utf-8")
