"""The synthetic nation: the tallies of 2020, geography that is the same at any scale, states that stand alone."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import numpy as np
import pytest

from tasks.errors import Refused
from tasks.synth.blocks import BlockTable
from tasks.synth.nation import Tally, state_blocks, tallies
from tasks.synth.synthesize import synthesize_nation
from tasks.synth.write import Options
from tasks.synth.writers.systems import SYSTEMS


def distinct(blocks: BlockTable, *names: str) -> np.ndarray:
    return np.unique(reduce(np.char.add, (blocks.columns[name] for name in names)))


def test_the_states_add_up_to_the_tallies_of_2020() -> None:
    island = tallies()["72"]
    states = [tally for state, tally in tallies().items() if state != "72"]
    assert len(states) == 51

    def total(name: str) -> int:
        return sum(getattr(tally, name) for tally in states)

    assert total("persons") == 331_449_281
    assert total("counties") == 3_143
    assert total("tracts") == 84_414
    assert total("block_groups") == 239_780
    assert total("blocks") == 8_132_968
    assert total("subdivisions") == 35_629
    assert total("places") == 31_617
    assert len({area for tally in states for area in tally.areas}) == 704
    assert len([area for tally in states for area in tally.areas]) > 704, "some areas cross states"
    assert (island.persons, island.counties, island.tracts, island.blocks, island.places, island.areas) == (
        (3_285_874, 78, 981, 41_987, 292, ())
    )


@pytest.mark.parametrize("state", ["04", "10", "11", "44", "56", "72"])
def test_a_states_geography_has_its_tally(state: str) -> None:
    tally = tallies()[state]
    blocks = state_blocks(tally, tally.persons, seed=5)
    county, tract = ["TABBLKST", "TABBLKCOU"], ["TABBLKST", "TABBLKCOU", "TABTRACTCE"]
    assert blocks.persons == tally.persons
    assert len(distinct(blocks, *county)) == tally.counties
    assert len(distinct(blocks, *tract)) == tally.tracts
    assert len(distinct(blocks, *tract, "TABBLKGRPCE")) == tally.block_groups
    assert len(distinct(blocks, *tract, "TABBLK")) == len(blocks) == tally.blocks
    assert len(distinct(blocks, "COUSUBFP")) == len(distinct(blocks, *county, "COUSUBFP")) == tally.subdivisions
    assert len(set(blocks.columns["PLACEFP"]) - {b"99999"}) == tally.places
    assert {area.decode() for area in blocks.columns["AIANNHCE"]} - {"9999"} == set(tally.areas)
    assert (blocks.codes[1:] > blocks.codes[:-1]).all(), "in the order of the block codes"
    group_digit = blocks.columns["TABBLK"].view("S1")[::4]
    assert (group_digit == blocks.columns["TABBLKGRPCE"]).all()
    assert blocks.population[group_digit == b"0"].sum() == 0, "nobody lives on water"


def test_places_cross_tracts_and_counties_and_sizes_are_skewed() -> None:
    tally = tallies()["09"]
    blocks = state_blocks(tally, tally.persons, seed=0)
    placed = blocks.take(blocks.columns["PLACEFP"] != b"99999")
    assert len(distinct(placed, "PLACEFP", "TABBLKCOU")) > tally.places
    assert len(distinct(placed, "PLACEFP", "TABBLKCOU", "TABTRACTCE")) > 1.5 * tally.places
    lived_in = blocks.population[blocks.population > 0]
    assert 0.2 < 1 - len(lived_in) / len(blocks) < 0.35
    assert np.quantile(lived_in, 0.99) > 8 * np.median(lived_in)


def test_the_geography_is_the_same_at_any_scale() -> None:
    tally: Tally = tallies()["44"]
    large, small = state_blocks(tally, tally.persons, seed=3), state_blocks(tally, 10_000, seed=3)
    assert all((large.columns[name] == small.columns[name]).all() for name in large.columns)
    assert small.persons == 10_000
    assert np.corrcoef(large.population, small.population)[0, 1] > 0.8


def test_a_state_is_the_same_alone_and_among_others(example: Path, tmp_path: Path) -> None:
    def lines(name: str, *states: str) -> list[bytes]:
        params = example / "params"
        made = synthesize_nation(params, tmp_path / name, Options(seed=2), persons=2_000_000, states=states)
        assert made.states == sorted(states)
        return (made.data / "person-records.txt").read_bytes().splitlines()[1:]

    alone, others = lines("alone", "44"), lines("others", "10", "44", "72")
    assert len(alone) == round(2_000_000 * tallies()["44"].persons / sum(t.persons for t in tallies().values()))
    assert [line for line in others if line.split(b"|")[3] == b"44"] == alone


@pytest.mark.ci
def test_few_persons_make_a_file_too(example: Path, tmp_path: Path) -> None:
    """So few that none of a chunk has several races, or that nobody is there at all."""
    for persons, states, rows in ((100, ("72",), 1), (1, ("44",), 0)):
        out = tmp_path / f"{persons}"
        made = synthesize_nation(example / "params", out, Options(), persons=persons, states=states)
        assert len((made.data / "person-records.txt").read_bytes().splitlines()) == 1 + rows


@pytest.mark.parametrize("persons", [1, 3_000])
def test_few_persons_make_the_files_of_every_system(example: Path, tmp_path: Path, persons: int) -> None:
    """So few that a stretch has no household with a second person, or no living quarters at all."""
    options = Options(places={name: name for name in SYSTEMS})
    made = synthesize_nation(example / "params", tmp_path / "out", options, persons=persons, states=["44"])
    assert len((made.folders["sdhc"] / "persons.csv").read_text().splitlines()) == 1 + made.persons
    assert len((made.folders["sdhc"] / "units.csv").read_text().splitlines()) == 1 + made.counts["units"]


def test_an_unknown_state_is_refused(example: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="03 is not a state code"):
        synthesize_nation(example / "params", tmp_path / "out", Options(), states=["44", "03"])
