"""The law of synthetic persons: shares, ages and clusters, over made-up and real blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

from tasks.synth.age import AGES, cell_edges, householder_pattern, pyramid
from tasks.synth.origins import Origins, published_counts, read_origins
from tasks.synth.people import CODE_COUNTS, People, Place, draw_people
from tasks.synth.races import CENRACE, major_races
from tasks.synth.synthesize import Options, synthesize_blocks

FALSE_ALARM = 1e-6  # of each statistical test below, over all that it compares
BLOCK = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]


def table(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, sep="|", dtype=str, keep_default_na=False)


COUNT = 300_000


@pytest.fixture(scope="module")
def origins(example: Path) -> Origins:
    params = example / "params"
    files = [params / f"{kind}-characteristic-iterations.txt" for kind in ("race", "ethnicity")]
    counts = dict.fromkeys(pd.concat([table(file)["ITERATION_NAME"] for file in files]), 1e6)
    counts |= {"Lagoon alone or in any combination": 2e4, "Mesa": 3e7}
    del counts["Kelp alone or in any combination"]
    return read_origins(params, counts, most_codes=8)


@pytest.fixture(scope="module")
def people(origins: Origins) -> People:
    ends = np.arange(1, COUNT // 50 + 1) * 50
    random = np.random.Generator(np.random.SFC64(11))
    return draw_people(Place(0, COUNT, ends), origins, 0, COUNT, random)


def assert_follows(drawn: np.ndarray, chances: np.ndarray) -> None:
    """Counts of outcomes lie within binomial bounds, all of them together but with chance FALSE_ALARM.

    Persons are independent given where they live, so a count varies no more than the binomial one (Hoeffding 1956).
    """
    counts = np.bincount(drawn, minlength=len(chances))
    tail = FALSE_ALARM / len(chances) / 2
    assert (counts >= binom.ppf(tail, len(drawn), chances) - 1).all()
    assert (counts <= binom.isf(tail, len(drawn), chances) + 1).all()


def race_chances(origins: Origins, chance_hispanic: float) -> np.ndarray:
    law = np.diff(origins.race_edges.reshape(2, -1), prepend=[[0.0], [1.0]], axis=1)
    return (1 - chance_hispanic) * law[0] + chance_hispanic * law[1]


def test_first_codes_and_ethnicity_follow_their_law_however_clustered(people: People, origins: Origins) -> None:
    hispanic = 1 - origins.span_edges[0]
    assert_follows(people.race, race_chances(origins, hispanic))
    assert_follows(people.span, np.diff(origins.span_edges, prepend=0.0))


def test_further_codes_have_the_law_of_the_first(people: People, origins: Origins) -> None:
    hispanic = 1 - origins.span_edges[0]
    two = (people.more[:, 1:] == len(origins.race)).all(axis=1)
    assert_follows(people.more[two, 0], race_chances(origins, hispanic))


def test_a_tenth_has_two_or_more_codes(people: People, origins: Origins) -> None:
    further = np.zeros(COUNT, int)
    further[people.several] = (people.more != len(origins.race)).sum(axis=1)
    assert 1 - CODE_COUNTS[0] == pytest.approx(0.1)
    assert_follows((further > 0).astype(int), np.array([CODE_COUNTS[0], 1 - CODE_COUNTS[0]]))
    assert further.max() == 7


def test_a_rare_group_lives_together(people: People, origins: Origins) -> None:
    lagoon = people.block[people.race == list(origins.race).index(b"7520")]
    tenths = np.bincount(lagoon * 20 // (COUNT // 50), minlength=20) / len(lagoon)
    assert tenths.max() > 3 / 20, "a twentieth of the country holds thrice its share of the group"


def test_published_counts_give_the_shares(origins: Origins) -> None:
    """A group that is not in the table stands for one person; the codes of a group share 1 : 1/2."""
    assert 1 - origins.span_edges[0] == pytest.approx(33e6 / 331_449_281)
    chances = dict(zip(origins.race.tolist(), race_chances(origins, 1 - origins.span_edges[0]), strict=True))
    assert chances[b"1010"] + chances[b"1011"] == pytest.approx(50 * chances[b"7520"])
    assert chances[b"7520"] == pytest.approx(2e4 * chances[b"7510"])
    assert chances[b"1010"] == pytest.approx(2 * chances[b"1011"])


def test_age_and_sex_make_the_pyramid_and_no_child_is_a_householder() -> None:
    others, householders = np.diff(cell_edges().reshape(2, -1), prepend=[[0.0], [1.0]], axis=1)
    share = 23 / 60
    assert np.allclose((1 - share) * others + share * householders, pyramid(), atol=1e-12)
    assert householders.reshape(2, AGES)[:, :15].max() == 0
    assert householder_pattern(0, 60).sum() == 23
    assert np.array_equal(householder_pattern(0, 600)[37:411], householder_pattern(37, 374))


def test_drawn_ages_follow_the_pyramid(people: People) -> None:
    assert_follows(people.cell, pyramid())


def test_cenrace_numbers_the_63_combinations() -> None:
    assert sorted(CENRACE[1:].tolist()) == [f"{number:02d}".encode() for number in range(1, 64)]
    white, black, native, asian, islander, other = major_races(
        np.array([b"1000", b"3000", b"5000", b"4000", b"7500", b"8000"])
    )
    assert CENRACE[white | black] == b"07"
    assert CENRACE[islander | other] == b"21"
    assert CENRACE[white | black | native] == b"22"
    assert CENRACE[white | black | native | asian | islander | other] == b"63"
    assert major_races(np.array([b"7250"])) == [white]
    assert major_races(np.array([b"2000"])) == [other]


def test_rhode_island_has_the_blocks_and_the_national_shares(das_data: Path, tmp_path: Path) -> None:
    production = das_data / "params-2020-production"
    table_of_blocks, shares = das_data / "ri_blocks_2020.csv.gz", das_data / "ddhca_published_national.csv.gz"
    made = synthesize_blocks(table_of_blocks, production, tmp_path / "ri", Options(form="parquet"), shares)
    assert (made.shares, made.uncounted) == (shares, ())
    assert made.persons == 1_097_379
    columns = [*BLOCK, "QRACE1", "QSPAN"]
    persons = pq.read_table(made.data / "person-records.parquet", columns=columns).to_pandas()
    blocks = pd.read_csv(das_data / "ri_blocks_2020.csv.gz", dtype=str).astype({"POP": int})
    table_counts = blocks[blocks["POP"] > 0].set_index(["STATE", "COUNTY", "TRACT", "BLOCK"])["POP"]
    counts = persons.groupby(BLOCK).size()
    assert counts.to_dict() == table_counts.to_dict()

    published = pd.read_csv(das_data / "ddhca_published_national.csv.gz", dtype=str)
    published["US_POP"] = pd.to_numeric(published["US_POP"], errors="coerce").fillna(1.0)
    detailed = published[(published["LEVEL"] == "2") & (published["COARSE_ONLY"] == "False")]
    mapping = table(production / "race-and-ethnicity-code-to-iteration.txt")
    for kind, column, total in [("race", "QRACE1", None), ("ethnicity", "QSPAN", 331_449_281)]:
        groups = detailed[detailed["KIND"] == kind].reset_index(drop=True)
        number = mapping.merge(groups.assign(number=groups.index), on="ITERATION_CODE")
        number_of = dict(zip(number["RACE_ETH_CODE"], number["number"], strict=True))
        in_group = persons[column].map(number_of)
        if total is None:
            assert in_group.notna().all()
            assert_follows(in_group.to_numpy(int), (groups["US_POP"] / groups["US_POP"].sum()).to_numpy())
        else:
            chances = (groups["US_POP"] / total).to_list()
            drawn = in_group.fillna(len(groups)).to_numpy(int)
            assert_follows(drawn, np.array([*chances, 1 - sum(chances)]))


def test_published_counts_are_read_as_they_are(das_data: Path) -> None:
    counts = published_counts(das_data / "ddhca_published_national.csv.gz")
    assert counts["Mexican"] == 35_850_702
    assert counts["Alanvik alone or in any combination"] == 1
