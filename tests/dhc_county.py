"""A county of four blocks for the DHC's units and households: releases, each with the counts of the one before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pandas as pd
from declared_runs import declare, measured, released

from spine.dhc_households import units_declaration
from tasks.records.block_codes import BLOCK_COLUMNS
from tasks.synth.synthesize import synthesize_example
from tasks.synth.write import Options
from tasks.top_down.declared import block_declarations as dhc
from tasks.top_down.declared.source import DeclaredRun

KEY = list(BLOCK_COLUMNS)
BLOCKS = 4
RHO = 70  # of one answer: its noise is 0 but once in 10^15
STATUS = {"HH_STATUS": {"column": "HH_STATUS", "values": ["1", "2"], "labels": ["occupied", "vacant"]}}


def codes(records: pd.DataFrame) -> pd.Series:
    """Return the code of each record's block."""
    return reduce(add, (records[name] for name in KEY))


def make(folder: Path) -> pd.DataFrame:
    """Write a county of four blocks, and return its households: none in the first, one in the second, then renters."""
    synthesize_example(folder / "made", Options(seed=4, places={"dhc": "dhc"}))
    data = folder / "made/dhc"
    households, units = (pd.read_csv(data / f"{name}.txt", sep="|", dtype=str) for name in ("households", "units"))
    quarters = pd.read_csv(data / "quarters.csv", dtype=str)
    of_county = quarters[quarters["tabblk"].str[:5] == "31001"]["tabblk"].tolist()[:BLOCKS]
    assert len(of_county) == BLOCKS
    quarters = quarters[quarters["tabblk"].isin(of_county)]
    households, units = (own[codes(own).isin(of_county)] for own in (households, units))
    at, place = codes(households), codes(units)
    renters = at.eq(of_county[2])
    keep = at.ne(of_county[0]) & ~(at.eq(of_county[1]) & at.duplicated()) & (~renters | households["TEN"].ge("3"))
    households = households[keep]
    lost = place.eq(of_county[0]) | place.eq(of_county[1]) | (place.eq(of_county[2]) & units["TEN"].lt("3"))
    lost &= units["TEN"].ne("0")
    first = units[place.eq(of_county[1]) & units["TEN"].ne("0")].index[:1]
    units = units.assign(VACS=units["VACS"].mask(lost, "1"), TEN=units["TEN"].mask(lost, "0"))
    no_rent = units[place.eq(of_county[2]) & units["TEN"].eq("3")].index[::2]
    units.loc[no_rent, "TEN"] = "4"
    own = households[at[keep].eq(of_county[1])]["TEN"].iloc[0]
    units.loc[first, ["TEN", "VACS"]] = own, "0"
    units["HH_STATUS"] = units["TEN"].eq("0").map({True: "2", False: "1"})
    for name, table in (("households", households), ("units", units)):
        table.to_csv(folder / f"{name}.csv", sep="|", index=False)
    quarters.to_csv(data / "quarters.csv", index=False)
    return households


def without_noise(raw: dict[str, Any]) -> dict[str, Any]:
    """A declaration of histograms alone, whose answers have all the same share of a budget that leaves no noise."""
    raw = {key: own for key, own in raw.items() if key != "publish"} | {"histograms": ["US", "County", "Block"]}
    levels = [{**level, "share": f"1/{len(raw['levels'])}"} for level in raw["levels"]]
    queries = {level: dict.fromkeys(own, f"1/{len(own)}") for level, own in raw["queries"].items()}
    return {**raw, "levels": levels, "queries": queries, "budget": str(RHO * sum(map(len, queries.values())))}


def redistricting(folder: Path) -> Path:
    """Make a release of occupied and vacant units."""
    raw = {**without_noise(units_declaration("us")), "name": "first", "axes": STATUS}
    raw = {key: own for key, own in raw.items() if key not in ("recodes", "zeros", "equal")}
    place = folder / "first"
    place.mkdir()
    dhc.pa.csv.write_csv(dhc._block_table(folder / "made/dhc", "us"), place / "blocks.txt", dhc.PIPES)
    return released(measured(folder, "first", declare(place, "first", raw), "units.csv", "household"), place)


Change = Callable[[dict[str, Any]], dict[str, Any]]


def changed(path: Path, change: Change) -> str:
    """Change a declaration, and return its path."""
    path.write_text(json.dumps(change(json.loads(path.read_text("utf-8")))), "utf-8")
    return str(path)


def with_units(folder: Path, first: Path, change: Change = lambda raw: raw) -> tuple[Path, str]:
    """Release the units of a folder after the occupancy; return that release and the declaration of the households.

    change: of both declarations.
    """
    mine = folder / "mine"
    mine.mkdir()
    kept = {"redistricting": dhc.ToKeep("redistricting", first), "units": dhc.ToKeep("units/declared")}
    (_, of_units, own), blocks = dhc.write_dhc_declarations(folder / "made/dhc", "us", mine, kept)
    assert blocks == BLOCKS
    units = released(measured(folder, "units", changed(of_units, change), "units.csv", "household"), mine)
    shutil.copytree(units, mine / "units/declared")
    return units, changed(own, change)


@dataclass
class Chain:
    """A folder with records and declarations, the runs, and their releases: of occupancy, units, households."""

    folder: Path
    households: pd.DataFrame
    first: Path
    units: Path
    run: DeclaredRun
    release: Path


Begun = tuple[Path, pd.DataFrame, Path]


def chain(folder: Path, begun: Begun, change: Change = lambda raw: raw) -> Chain:
    """Make all three releases. begun: a folder with the records, its households, the release of occupancy."""
    source, households, first = begun
    shutil.copytree(source, folder, dirs_exist_ok=True)
    first = folder / first.relative_to(source)
    units, own = with_units(folder, first, change)
    run = measured(folder, "households", own, "households.csv", "household")
    return Chain(folder, households, first, units, run, released(run, folder / "own"))
