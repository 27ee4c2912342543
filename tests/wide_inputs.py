"""The small wide table as a person has it: blocks, records, and the release of fewer axes whose counts it keeps."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from declared_runs import declare, measured, released
from wide import WIDE

AXES = {
    "hhgq": {"column": "HHGQ", "values": "0-2", "labels": ["0 to 2", "3 to 4", "5 to 6"]},
    "votingage": {"column": "VOTING", "values": "0-1", "labels": ["0 to 3", "4 to 11"]},
    "race": {"column": "RACE", "values": "1-3"},
}
SHARED = {key: WIDE[key] for key in ("records", "budget", "leaves", "levels")}
FIRST = SHARED | {"name": "first", "axes": AXES, "queries": {"total": "1/2", "detailed": "1/2"}}
FIRST["counts"] = [{"partition": "hhgq", "columns": ["", "h1", "h2"], "least": [0, 1, 1]}]
QUARTERS = ["gq1", "gq2", "gq3", "gq4"]


def write(folder: Path, change: Callable[[pd.DataFrame, pd.DataFrame], object] = lambda leaves, rows: None) -> None:
    """Write blocks.csv, wide.csv and first.csv: a county of five blocks and one of seven; change leaves and records."""
    random, at = np.random.default_rng(3), np.arange(12)
    leaves = pd.DataFrame({"block": at, "county": at > 4, "tract": at // 2, "code": at}).astype(int)
    block, kind = random.integers(0, 12, 400), random.integers(0, 7, 400)
    kind = np.where((kind > 2) & (block % 4 > 0), 0, kind)
    low, high = np.array([[0, 11], [3, 11], [0, 11], [0, 11], [0, 11], [2, 9], [0, 11]]).T
    age = low[kind] + random.integers(0, 12, 400) % (high - low + 1)[kind]
    rows = pd.DataFrame({"block": block, "RELGQ": kind, "SEX": random.integers(1, 3, 400), "AGE": age})
    rows["RACE"] = random.choice([1, 2, 3], 400, p=[0.8, 0.15, 0.05])
    for number, name in enumerate(QUARTERS, 3):
        leaves[name] = (np.bincount(block[kind == number], minlength=12) > 0).astype(int)
    leaves["h1"], leaves["h2"] = leaves["gq1"] + leaves["gq2"], leaves["gq3"] + leaves["gq4"]
    first = rows.assign(HHGQ=np.searchsorted([3, 5], kind, side="right"), VOTING=(age > 3).astype(int))
    change(leaves, rows)
    leaves.to_csv(folder / "blocks.csv", index=False)
    rows.to_csv(folder / "wide.csv", index=False)
    first.to_csv(folder / "first.csv", index=False)


def wide(**changes: Any) -> dict[str, Any]:
    """The declaration with its release, after changes of whole keys."""
    raw: dict[str, Any] = copy.deepcopy(WIDE) | changes
    raw["equal"][0]["columns"] = {"hhgq": "hhgq", "votingage": "votingage"}
    return raw


def write_all(folder: Path) -> Path:
    """Write the tables, wide.json and the release that it equals, under a new secret each time; return the folder."""
    write(folder)
    staged = released(measured(folder, "first", declare(folder, "first", FIRST), "first.csv"), folder)
    shutil.copytree(staged, folder / "redistricting")
    (folder / "wide.json").write_text(json.dumps(wide()), "utf-8")
    return folder
