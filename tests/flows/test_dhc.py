"""The DHC of two states and the nation, from made-up persons to releases; of Puerto Rico: tests/e2e/test_census.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from dhc_chain import check_chain, synthesize

from tests.flows.conftest import Das


@pytest.mark.slow
@pytest.mark.usefixtures("stages_here")
def test_persons_units_and_households_keep_the_counts_of_the_releases_before(das: Das, tmp_path: Path) -> None:
    """Of one declaring: units are released into its folder, where households look for them."""
    data, mine, first = synthesize(tmp_path), tmp_path / "mine", tmp_path / "out/us"
    end = ("--workers", 1, "--runs-folder", tmp_path / "state")
    done = [
        das("tda", "run", data / "tda", tmp_path / "out", *end),
        das("tda", "declare", data / "dhc", mine, "--redistricting", first),
    ]
    for name, kind in (("persons", "toml"), ("units", "json"), ("households", "json")):
        words = data / f"dhc/{name}.txt", mine / name, "--declaration", mine / f"dhc-{name}-us.{kind}"
        done += [das("tda", "run", *words, *end), das("check", mine / name / "declared")]
    assert [said for code, *said in done if code] == []
    check_chain(first, mine / "persons/declared", mine / "households/declared", {"31", "46"})
