"""Synthetic persons: valid by every rule, exact to the block, the same for a seed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from dhca_inputs import check_mark
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import Failed, Refused
from tasks.records.marks import read_mark
from tasks.safetab.persons.person import PERSON
from tasks.synth import states, write
from tasks.synth.blocks import read_blocks
from tasks.synth.draws import apportion
from tasks.synth.synthesize import synthesize_blocks, synthesize_example
from tasks.synth.write import Options

RACES = [f"QRACE{j}" for j in range(1, 9)]
BLOCK = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stretch for each tract, so that a small file has many."""
    monkeypatch.setattr(states, "STRETCH_TRACTS", 1)
    monkeypatch.setattr(write, "ROW_GROUP_ROWS", 720)


def table(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, sep="|", dtype=str, keep_default_na=False)


# --- what every file must be -------------------------------------------------------------------------------------


def assert_valid(data: Path, params: Path) -> pd.DataFrame:
    """Every rule of docs/spec/files.md for person records and GRF-C; returns the persons."""
    persons, grf = table(data / "person-records.txt"), table(data / "GRF-C.txt")
    codes = set(table(params / "race-and-ethnicity-codes.txt")["RACE_ETH_CODE"])
    mapping = table(params / "race-and-ethnicity-code-to-iteration.txt")
    ethnicity = table(params / "ethnicity-characteristic-iterations.txt")
    config = json.loads((params / "config.json").read_text())

    assert tuple(persons.columns) == tuple(PERSON.fields)
    assert (data / "person-records.txt").read_bytes().endswith(b"\n")
    assert persons["QAGE"].str.fullmatch("[0-9]{3}").all()
    assert persons["QAGE"].astype(int).between(0, 115).all()
    assert set(persons["QSEX"]) == {"1", "2"}
    assert set(persons["HOUSEHOLDER"]) == {"True", "False"}
    assert persons["CENRACE"].astype(int).between(1, 63).all()
    given_codes = persons[RACES] != "Null"
    assert given_codes["QRACE1"].all()
    assert not (given_codes.iloc[:, 1:].to_numpy() & ~given_codes.iloc[:, :-1].to_numpy()).any(), "code after Null"
    assert given_codes.sum(axis=1).max() <= config["max_race_codes"]
    assert set(np.unique(persons[RACES])) <= codes | {"Null"}
    for _, row in persons[given_codes["QRACE2"]].iterrows():
        own = [code for code in row[RACES] if code != "Null"]
        assert len(set(own)) == len(own), "the same code twice"
    hispanic = set(mapping.merge(ethnicity[ethnicity["LEVEL"] != "0"], on="ITERATION_CODE")["RACE_ETH_CODE"].unique())
    not_hispanic = set(persons["QSPAN"]) - hispanic
    assert len(not_hispanic) == 1, "one code says that a person is not Hispanic"
    assert not_hispanic <= codes
    no_race = persons[RACES].isin(not_hispanic)
    assert not no_race.any(axis=None), "the not-Hispanic code is no race"

    assert list(grf.columns[:6]) == [*BLOCK, "PLACEFP", "AIANNHCE"]
    assert not grf.duplicated(BLOCK).any()
    assert len(persons.merge(grf, on=BLOCK)) == len(persons), "a block that is not in GRF-C"
    states = set(grf["TABBLKST"])
    assert config["run_us"] is bool(states - {"72"})
    assert config["run_pr"] is ("72" in states)
    if config["run_us"]:
        assert config["state_filter_us"] == sorted(states - {"72"})
    assert config["reader"] == "csv"
    return persons


def test_the_example_is_valid_and_marked(example: Path) -> None:
    assert len(assert_valid(example / "data", example / "params")) == 8000
    mark = read_mark(example / "data")
    assert mark is not None
    assert (mark.generator, mark.seed) == ("das synth (example)", 0)
    check_mark(mark, example / "data")


def test_the_example_has_every_case(example: Path) -> None:
    grf = table(example / "data/GRF-C.txt")
    land = grf[~grf["TABBLK"].str.startswith("0")]
    placed = grf[grf["PLACEFP"] != "99999"]
    crossing = placed.groupby(["TABBLKST", "PLACEFP"])["TABTRACTCE"].nunique()
    assert (crossing > 1).any(), "a place that crosses tracts"
    county = land[land["TABBLKCOU"].eq("003") & land["TABBLKST"].eq("31")]
    assert county["TABTRACTCE"].nunique() == county["PLACEFP"].nunique() == 1, "county = tract = place, except water"
    assert grf[grf["AIANNHCE"] != "9999"].groupby("AIANNHCE")["TABBLKST"].nunique().max() == 2
    assert set(grf["TABBLKST"]) == {"31", "46", "72"}

    persons = table(example / "data/person-records.txt")
    iterations = table(example / "params/race-characteristic-iterations.txt")
    flags = set(zip(iterations["LEVEL"], iterations["DETAILED_ONLY"], iterations["COARSE_ONLY"], strict=True))
    assert {("1", "False", "False"), ("2", "True", "False"), ("2", "False", "True"), ("0", "Null", "Null")} <= flags
    groups = table(example / "params/race-and-ethnicity-code-to-iteration.txt").merge(
        iterations[iterations["LEVEL"].eq("2") & iterations["ALONE"].eq("True")], on="ITERATION_CODE"
    )
    sizes = persons[persons["QRACE2"] == "Null"].merge(groups, left_on="QRACE1", right_on="RACE_ETH_CODE")
    sizes = sizes[sizes["TABBLKST"] != "72"].groupby("ITERATION_CODE").size()
    thresholds = json.loads((example / "params/config.json").read_text())["thresholds_p"]["(USA, 2)"]
    assert set(np.digitize(sizes, thresholds)) == {0, 1, 2, 3}, "each workload has its groups"


# --- block tables ------------------------------------------------------------------------------------------------

HEADER = "STATE,COUNTY,TRACT,BLKGRP,BLOCK,PLACEFP,AIANNHCE,SDUNI,POP"
ROWS = [
    "44,001,000100,1,1000,05140,,00030,70",
    "44,001,000100,1,1001,,2415,00030,0",
    "44,003,000200,2,2000,,,,1400",
    "72,001,000100,1,1000,,,00030,900",
    "09,001,000100,1,1000,,,00030,333",
]


@pytest.fixture
def blocks(tmp_path: Path) -> Path:
    path = tmp_path / "blocks.csv"
    path.write_text("\n".join([HEADER, *ROWS]) + "\n")
    return path


def test_block_populations_are_the_tables(blocks: Path, example: Path, tmp_path: Path, small_chunks: None) -> None:
    made = synthesize_blocks(blocks, example / "params", tmp_path / "out", Options(seed=3))
    persons = assert_valid(made.data, made.params)
    counts = persons.groupby(BLOCK).size()
    assert counts.to_dict() == {
        ("44", "001", "000100", "1000"): 70,
        ("44", "003", "000200", "2000"): 1400,
        ("72", "001", "000100", "1000"): 900,
        ("09", "001", "000100", "1000"): 333,
    }
    grf = table(made.data / "GRF-C.txt").set_index(BLOCK)
    assert grf.loc[("44", "001", "000100", "1001")].to_dict() == {
        "PLACEFP": "99999",
        "AIANNHCE": "2415",
        "TABBLKGRPCE": "1",
        "SDUNILEA": "00030",
    }
    assert grf.loc[("44", "003", "000200", "2000"), "SDUNILEA"] == "99999"
    assert made.states == ["09", "44", "72"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("POP", "HOUSES"), "no column POP"),
        (lambda text: text.replace("TRACT", "T"), "no column TRACT"),
        (lambda text: text.replace(",1400", ",-4"), r"row 3: POP '-4' is not valid"),
        (lambda text: text.replace(",1400", ",1e3"), r"row 3: POP '1e3' is not valid"),
        (lambda text: text.replace("05140", "514"), r"row 1: PLACEFP '514' is not valid"),
        (lambda text: text.replace(",1001,", ",1000,"), r"block 440010001001000 appears twice"),
        (lambda text: text.replace("09,001", "9,001"), r"row 5: STATE '9' is not valid"),
        (lambda text: text.splitlines()[0] + "\n44,001,000100,1,1000,,,,0\n", "have no population"),
        (lambda text: "", "it is empty"),
    ],
)
def test_a_faulty_block_table_is_refused(blocks: Path, change: Callable[[str], str], message: str) -> None:
    blocks.write_text(change(blocks.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(Refused, match=message) as refused:
        read_blocks(blocks)
    assert "\n" not in str(refused.value)


def test_config_keeps_its_numbers_to_the_digit(blocks: Path, example: Path, tmp_path: Path) -> None:
    config = shutil.copytree(example / "params", tmp_path / "params") / "config.json"
    long = "0.2500000000000000000000000000000001"
    config.write_text(config.read_text().replace(": 0.25,", f": {long},", 1))
    made = synthesize_blocks(blocks, config.parent, tmp_path / "out", Options())
    before, after = config.read_text(), (made.params / "config.json").read_text()
    assert after.count(long) == 1
    assert {**json.loads(before), "state_filter_us": ["09", "44"]} == json.loads(after)


def test_puerto_rico_alone_runs_puerto_rico_alone(blocks: Path, example: Path, tmp_path: Path) -> None:
    blocks.write_text("\n".join([HEADER, ROWS[3]]), encoding="utf-8")
    made = synthesize_blocks(blocks, example / "params", tmp_path / "out", Options())
    config = json.loads((made.params / "config.json").read_text())
    assert (config["run_us"], config["run_pr"]) == (False, True)


# --- one seed, the same bytes --------------------------------------------------------------------------------------


def test_bytes_depend_on_the_seed_alone(tmp_path: Path, small_chunks: None) -> None:
    def make(name: str, seed: int, threads: int) -> bytes:
        made = synthesize_example(tmp_path / name, Options(seed=seed, threads=threads))
        return (made.data / "person-records.txt").read_bytes()

    first = make("one", 1, 1)
    assert first == make("three", 1, 3)
    assert first != make("other", 2, 1)


@pytest.mark.ci
def test_parquet_holds_the_same_persons(tmp_path: Path, small_chunks: None) -> None:
    text = synthesize_example(tmp_path / "text", Options(seed=4))
    parquet = synthesize_example(tmp_path / "parquet", Options(seed=4, form="parquet"))
    stored = pq.ParquetFile(parquet.data / "person-records.parquet")
    assert stored.num_row_groups > 1
    assert all(str(field.type) == "string" and not field.nullable for field in stored.schema_arrow)
    encodings = {stored.metadata.row_group(0).column(place).encodings for place in range(stored.metadata.num_columns)}
    assert all("RLE_DICTIONARY" in each for each in encodings)
    assert stored.read().to_pandas().astype(str).equals(table(text.data / "person-records.txt").astype(str))
    mark = read_mark(parquet.data)
    assert mark is not None
    check_mark(mark, parquet.data)


# --- the output directory ------------------------------------------------------------------------------------------


def test_an_output_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(Refused, match="is not empty"):
        synthesize_example(tmp_path, Options())
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_too_small_a_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000})())
    with pytest.raises(Refused, match=r"need 0\.0 GB and the disk has 0\.0 GB"):
        synthesize_example(tmp_path / "out", Options())
    assert not any(tmp_path.iterdir())


def test_a_disk_that_fills_up_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write._TextFile, "write", full)
    with pytest.raises(Failed, match="No space left on device; nothing was kept"):
        synthesize_example(tmp_path / "out", Options())
    assert not any(tmp_path.iterdir())


@settings(max_examples=25, derandomize=True, deadline=None)
@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1e3)), min_size=1, max_size=50).filter(any),
    st.integers(0, 10_000),
    st.integers(0, 3),
)
def test_apportion_is_exact_and_fair(weights: list[float], rest: int, least: int) -> None:
    total = rest + least * len(weights)
    shares = apportion(np.array(weights), total, least=least)
    exact = np.array(weights) / np.sum(weights) * rest + least
    assert shares.sum() == total
    assert np.abs(shares - exact).max() < 1 + 1e-6
    assert (shares[np.array(weights) == 0] == least).all()


def test_apportion_refuses_too_small_a_total() -> None:
    with pytest.raises(ValueError, match="3 cannot be split into 2 parts of at least 2"):
        apportion(np.ones(2), 3, least=2)


def test_a_table_without_populations_is_refused(das_data: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no column POP"):
        synthesize_blocks(
            das_data / "wi_blocks_2020.csv.gz", das_data / "params-2020-production", tmp_path / "wi", Options()
        )
    assert not any(tmp_path.iterdir())
