"""The law of synthetic persons: shares, ages and clusters, over made-up and real blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm

from tasks.synth.origins import published_counts
from tasks.synth.population.codes import CENRACE
from tasks.synth.synthesize import synthesize_blocks
from tasks.synth.write import Options

FALSE_ALARM = 1e-6  # of each statistical test below, over all that it compares
BLOCK = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]


def table(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, sep="|", dtype=str, keep_default_na=False)


def assert_follows(drawn: np.ndarray, chances: np.ndarray) -> None:
    """Counts of outcomes lie within bounds, all of them together but with chance FALSE_ALARM.

    Persons of a household share codes, so counts vary by up to thrice the binomial variance.
    """
    expected = len(drawn) * chances
    width = norm.isf(FALSE_ALARM / len(chances) / 2) * np.sqrt(3 * expected * (1 - chances))
    assert (np.abs(np.bincount(drawn, minlength=len(chances)) - expected) <= width + 25).all()


def test_cenrace_numbers_the_63_combinations() -> None:
    assert sorted(CENRACE[1:].tolist()) == list(range(1, 64))
    white, black, native, islander, other = 1, 2, 4, 16, 32
    assert CENRACE[white | black] == 7
    assert CENRACE[islander | other] == 21
    assert CENRACE[white | black | native] == 22
    assert CENRACE[63] == 63


@pytest.mark.long
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
