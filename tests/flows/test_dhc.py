"""The DHC from made-up persons to its releases, of two states with the nation above, and of Puerto Rico."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from spine.settings import Jurisdiction
from tasks.releases.manifest import read_manifest
from tasks.synth.synthesize import synthesize_example
from tasks.synth.write import Options
from tests.flows.conftest import Das

pytestmark = pytest.mark.usefixtures("stages_here")
BLOCK = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]
STATES = {"us": {"31", "46"}, "pr": {"72"}}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One population of both jurisdictions, in the same files."""
    out: Path = tmp_path_factory.mktemp("dhc") / "made"
    synthesize_example(out, Options(seed=4, places={"dhc": "dhc", "tda": "tda"}))
    return out


@pytest.mark.parametrize("jurisdiction", [pytest.param("us", marks=pytest.mark.slow), "pr"])
def test_persons_units_and_households_keep_the_counts_of_the_releases_before(
    das: Das, made: Path, tmp_path: Path, jurisdiction: Jurisdiction
) -> None:
    """From one declaring: units are released into its folder, where households look for them."""
    end = ("--workers", 1, "--runs-folder", tmp_path / "state")
    chosen, mine, first = ("--jurisdiction", jurisdiction), tmp_path / "mine", tmp_path / f"out/{jurisdiction}"
    done = [
        das("tda", "run", made / "tda", tmp_path / "out", *chosen, *end),
        das("tda", "declare", made / "dhc", mine, "--redistricting", first, *chosen),
    ]
    for name, kind in (("persons", "toml"), ("units", "json"), ("households", "json")):
        words = made / f"dhc/{name}.txt", mine / name, "--declaration", mine / f"dhc-{name}-{jurisdiction}.{kind}"
        done += [das("tda", "run", *words, *end), das("check", mine / name / "declared")]
    assert [said for code, *said in done if code] == []
    files = {"persons": "persons", "households": "units"}
    own = {file: pd.read_parquet(mine / f"{name}/declared/mdf/{file}.parquet") for name, file in files.items()}
    assert [{*table["TABBLKST"]} for table in own.values()] == [STATES[jurisdiction]] * 2
    for file, keys in (("persons", [*BLOCK, "CENRACE"]), ("units", BLOCK)):
        theirs = pd.concat(map(pd.read_parquet, first.glob(f"mdf/*_{file}.parquet")))
        assert own[file].groupby(keys)["COUNT"].sum().to_dict() == theirs.groupby(keys)["COUNT"].sum().to_dict()
    tops = {next(iter(read_manifest(mine / name / "declared")["geounits"])) for name in ("persons", "households")}
    assert tops == {"US" if jurisdiction == "us" else "State"}
