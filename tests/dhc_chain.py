"""A made-up population of two states and Puerto Rico for the DHC, and what its chain of releases must have."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tasks.releases.manifest import read_manifest
from tasks.synth.synthesize import synthesize_example
from tasks.synth.write import Options

BLOCK = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]


def synthesize(folder: Path) -> Path:
    """Make the population in a folder; each file has the records of both jurisdictions."""
    synthesize_example(folder / "made", Options(seed=4, places={"dhc": "dhc", "tda": "tda"}))
    return folder / "made"


def check_chain(first: Path, persons: Path, households: Path, states: set[str]) -> None:
    """Check that persons and units of the DHC are those of a redistricting release, by block, of these states alone."""
    for release, file, keys in ((persons, "persons", [*BLOCK, "CENRACE"]), (households, "units", BLOCK)):
        own = pd.read_parquet(release / f"mdf/{file}.parquet")
        theirs = pd.concat(map(pd.read_parquet, first.glob(f"mdf/*_{file}.parquet")))
        assert own.groupby(keys)["COUNT"].sum().to_dict() == theirs.groupby(keys)["COUNT"].sum().to_dict()
        assert {*own["TABBLKST"]} == states
        manifest = read_manifest(release)
        assert next(iter(manifest["geounits"])) == ("State" if states == {"72"} else "US")
        assert not manifest["failed"], "own solvers take every parent"
