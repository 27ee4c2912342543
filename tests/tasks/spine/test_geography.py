"""Readers of block tables: three formats give one geography, and what contradicts itself is refused by block."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from block_files import geographic_header, segment_3
from spine_cases import blocks_table, write_grfc

from spine.production import allocation_for
from spine.settings import settings_for
from tasks.errors import Refused
from tasks.geography.blocks.geography import read_geography
from tasks.geography.spine_options import read_allocation, read_settings
from tasks.spine.optimize import spine_columns_missing

PERSONS = settings_for("pl94-persons")
DHC = settings_for("dhc-persons")


def geo_files(folder: Path, table: pd.DataFrame, state: str, post: str) -> Path:
    """A state's geographic header and segment 3: every fourth block empty, every other of these with group quarters."""
    mine = table[table["TABBLKST"] == state].reset_index(drop=True)
    units = np.arange(len(mine)) % 4
    quarters = pd.DataFrame(0, index=mine.index, columns=range(7))
    quarters[3] = 7 * (np.arange(len(mine)) % 8 == 4)  # other institutional
    mine = mine.assign(HU=units.astype(str), POP=(3 * units + quarters[3]).astype(str))
    path = folder / f"{post}geo2020.pl"
    path.write_bytes(geographic_header(mine, post))
    (folder / f"{post}000032020.pl").write_bytes(segment_3(mine, quarters))
    return path


def test_three_formats_give_one_geography(tmp_path: Path) -> None:
    table = blocks_table(2, (1, 55))
    grfc = read_geography(write_grfc(tmp_path / "GRF-C.txt", table), PERSONS)[0]
    folder = tmp_path / "pl94"
    folder.mkdir()
    geo_files(folder, table, "01", "al")
    geo_files(folder, table, "55", "wi")
    everything = settings_for("pl94-persons", occupied_only=False)
    pl94 = read_geography(folder, everything)[0]
    names = {"TABBLKST": "STATE", "TABBLKCOU": "COUNTY", "TABTRACTCE": "TRACT", "TABBLK": "BLOCK"}
    csv = tmp_path / "blocks.csv.gz"
    csv.write_bytes(gzip.compress(table.rename(columns=names).to_csv(index=False).encode()))
    from_csv = read_geography(csv, PERSONS)[0]
    for other in (pl94, from_csv):
        for column in ("geocode", "place", "cousub", "aiannh"):
            assert (getattr(grfc, column) == getattr(other, column)).all(), column
    assert pl94.population is not None
    assert pl94.population.sum() > 0
    assert (np.diff(grfc.geocode) > 0).all()
    assert (pl94.school_district == grfc.school_district).all()


def test_pl94_knows_occupied_blocks_group_quarters_and_functional_status(tmp_path: Path) -> None:
    table = blocks_table(2, (55,))
    path = geo_files(tmp_path, table, "55", "wi")
    blocks, notes = read_geography(path, PERSONS)
    ordinal = np.arange(len(table))
    occupied = (ordinal % 4 > 0) | (ordinal % 8 == 4)
    assert len(blocks) == occupied.sum()
    assert f"{(~occupied).sum():,} blocks without living quarters are left out of the spine" in notes
    everything = settings_for("dhc-persons", occupied_only=False)
    pl94, grfc = (read_geography(p, everything)[0] for p in (path, write_grfc(tmp_path / "GRF-C.txt", table)))
    assert (pl94.prim == grfc.prim).all()
    assert pl94.gq is not None
    assert grfc.gq is None
    quarters = dict(zip(table["TABTRACTCE"] + table["TABBLK"], ordinal % 8 == 4, strict=True))
    expected = [quarters[f"{code:016d}"[5:11] + f"{code:016d}"[12:]] for code in pl94.geocode.tolist()]
    assert ((pl94.gq == 0b0001000) == np.array(expected)).all()


@pytest.mark.parametrize(("name", "blocks"), [("ri", 25_649), ("wi", 203_059), ("pr", 41_987)])
def test_the_tables_at_hand(das_data: Path, name: str, blocks: int) -> None:
    settings = settings_for("pl94-persons", "pr" if name == "pr" else "us")
    path = das_data / f"{name}_blocks_2020.csv.gz"
    geography, _ = read_geography(path, settings)
    assert len(geography) == blocks
    persons = {"ri": 1_097_379, "pr": 3_285_874, "wi": None}[name]
    assert (None if geography.population is None else int(geography.population.sum())) == persons
    areas = set(geography.aiannh.tolist()) - {9999}
    assert len(areas) == {"ri": 1, "wi": 12, "pr": 0}[name]


def changed(column: str, value: object, row: int = 5) -> pd.DataFrame:
    table = blocks_table(1, (55,), 40)
    table[column] = table[column].astype(object)
    table.loc[row, column] = value
    return table


def block(table: pd.DataFrame, row: int = 5) -> str:
    return "".join(table.loc[row, ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("AIANNHCE", "4995", "has the unknown AIANNH code 4995"),
        ("AIANNHCE", "0000", "has the unknown AIANNH code 0000"),
        ("TABBLKGRPCE", "7", "lies outside its block group"),
        ("PLACEFP", "123456", "has the invalid PLACEFP 123456"),
        ("COUSUBFP", "12a45", "has COUSUBFP '12a45', which is not a number"),
    ],
)
def test_bad_blocks_are_named(tmp_path: Path, column: str, value: str, message: str) -> None:
    table = changed(column, value)
    with pytest.raises(Refused, match=f"block {block(table)} {message}"):
        read_geography(write_grfc(tmp_path / "GRF-C.txt", table), PERSONS)


def test_a_duplicate_block_is_named(tmp_path: Path) -> None:
    table = blocks_table(1, (55,), 40)
    table = pd.concat([table, table.iloc[[5]]])
    with pytest.raises(Refused, match=f"block {block(table.reset_index(drop=True))} comes twice"):
        read_geography(write_grfc(tmp_path / "GRF-C.txt", table), PERSONS)


def test_a_block_outside_its_tract_is_named(tmp_path: Path) -> None:
    table = blocks_table(1, (55,), 40).rename(
        columns={"TABBLKST": "STATE", "TABBLKCOU": "COUNTY", "TABTRACTCE": "TRACT", "TABBLK": "BLOCK"}
    )
    table["GEOID"] = table["STATE"] + table["COUNTY"] + table["TRACT"] + table["BLOCK"]
    table.loc[7, "TRACT"] = "000300" if table.loc[7, "TRACT"] != "000300" else "000100"
    table.rename(columns={"TABBLKGRPCE": "BLKGRP"}).to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(Refused, match="lies outside its tract"):
        read_geography(tmp_path / "b.csv", PERSONS)


def test_a_state_in_two_files_is_refused(tmp_path: Path) -> None:
    table = blocks_table(1, (55,), 60)
    geo_files(tmp_path, table, "55", "wi")
    geo_files(tmp_path, table, "55", "wx")
    with pytest.raises(Refused, match="state 55 comes twice: block 55"):
        read_geography(tmp_path, PERSONS)


def test_what_else_is_refused(tmp_path: Path) -> None:
    grfc = write_grfc(tmp_path / "GRF-C.txt", blocks_table(1, (55,), 40))
    with pytest.raises(Refused, match="no block of Puerto Rico"):
        read_geography(grfc, settings_for("pl94-persons", "pr"))
    with pytest.raises(Refused, match="no block of state 12"):
        read_geography(grfc, PERSONS, states=[12])
    assert "no block is in state 12" in read_geography(grfc, PERSONS, states=[12, 55])[1]
    with pytest.raises(Refused, match="cannot be read"):
        read_geography(tmp_path / "nowhere.txt", PERSONS)
    (tmp_path / "empty").mkdir()
    with pytest.raises(Refused, match=r"holds no block table"):
        read_geography(tmp_path / "empty", PERSONS)
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(Refused, match="no column STATE"):
        read_geography(tmp_path / "other.csv", PERSONS)
    blank = changed("TABBLK", "")
    with pytest.raises(Refused, match=r"row 6 names no block \(.*block blank\)"):
        read_geography(write_grfc(tmp_path / "GRF-C.txt", blank), PERSONS)
    little = blocks_table(1, (55,), 40).drop(columns=["COUSUBFP", "AIANNHCE"])
    with pytest.raises(Refused, match="need the column\\(s\\) COUSUBFP, AIANNHCE"):
        read_geography(write_grfc(tmp_path / "GRF-C.txt", little), PERSONS)


def test_columns_that_a_grfc_lacks() -> None:
    plain = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK", "PLACEFP", "AIANNHCE"]
    assert spine_columns_missing(plain, PERSONS) == ["COUSUBFP"]
    assert spine_columns_missing([*plain, "COUSUBFP"], PERSONS) == []
    assert spine_columns_missing(plain, settings_for("pl94-persons", "pr")) == []
    assert spine_columns_missing([*plain, "COUSUBFP"], DHC) == [
        "SDUNILEA",
        "COUSUBFS",
        "PLACEFS",
    ]
    assert spine_columns_missing(plain, settings_for("pl94-units", "pr")) == []


def extra_table(table: pd.DataFrame) -> pd.DataFrame:
    """Prims, facilities, housing units and persons of every block."""
    blocks = table["TABBLKST"] + table["TABBLKCOU"] + table["TABTRACTCE"] + table["TABBLK"]
    ordinal = np.arange(len(table))
    quarters = {f"gq{i}": (ordinal % (6 + i) == 0).astype(int) * i for i in range(1, 8)}
    extra = pd.DataFrame({"tabblk": blocks, "primgeo": "p" + table["PLACEFP"], **quarters, "hu": ordinal % 3})
    return extra.assign(**{"pop": ordinal})


def test_prims_and_living_quarters_from_a_table_beside(tmp_path: Path) -> None:
    table = blocks_table(3, (55,), 120).drop(columns=["COUSUBFS", "PLACEFS"])
    grfc, extra = write_grfc(tmp_path / "GRF-C.txt", table), tmp_path / "extra.csv"
    with pytest.raises(Refused, match="need the column\\(s\\) COUSUBFS, PLACEFS"):
        read_geography(grfc, DHC)
    rows = extra_table(table)
    rows.to_csv(extra, index=False)
    blocks, _ = read_geography(grfc, DHC, extra=str(extra))
    by_block = rows.set_index(rows["tabblk"].astype(int))
    mine = by_block.loc[blocks.geocode // 10**5 * 10**4 + blocks.geocode % 10**4]
    quarters = [f"gq{i}" for i in range(1, 8)]
    assert ((mine[quarters].sum(axis=1) + mine["hu"]) > 0).all()  # the others are on no spine
    assert len(blocks) == ((rows[quarters].sum(axis=1) + rows["hu"]) > 0).sum() < len(rows)
    assert blocks.gq is not None
    assert blocks.gq.tolist() == [int("".join("1" if q else "0" for q in row), 2) for row in mine[quarters].to_numpy()]
    assert blocks.population is not None
    assert (blocks.population == mine["pop"]).all()
    prims = pd.Series(blocks.prim).groupby(mine["primgeo"].to_numpy()).nunique()
    assert (prims == 1).all()
    assert len(prims) == len(np.unique(blocks.prim))
    rows.iloc[:-1].to_csv(extra, index=False)
    with pytest.raises(Refused, match=f"block {rows['tabblk'].iloc[-1]} has no prim"):
        read_geography(grfc, DHC, extra=str(extra))
    pd.concat([rows, rows.iloc[[3]]]).to_csv(extra, index=False)
    with pytest.raises(Refused, match=f"block {rows['tabblk'].iloc[3]} comes twice in"):
        read_geography(grfc, DHC, extra=str(extra))
    rows.rename(columns={"hu": "houses"}).to_csv(extra, index=False)
    with pytest.raises(Refused, match="unknown column\\(s\\) houses"):
        read_geography(grfc, DHC, extra=str(extra))


def test_settings_in_words() -> None:
    said = {"fanout_cutoff": "8", "exact_bypass": "true", "tract_group_share": "1/3", "bypass_cutoff": "none"}
    settings = read_settings("pl94-persons", "us", "production", {**said, "entities": "pme, aian"})
    assert (settings.fanout_cutoff, settings.exact_bypass, settings.bypass_cutoff) == (8, True, None)
    assert settings.entities == ("pme", "aian")
    assert str(settings.tract_group_share) == "1/3"
    with pytest.raises(Refused, match="unknown spine settings fanout"):
        read_settings("pl94-persons", "us", "production", {"fanout": "8"})
    for name, value, message in (
        ("fanout_cutoff", "many", "fanout_cutoff=many"),
        ("fanout_cutoff", "-1", "must not be below 0"),
        ("entities", "pme, tribe", "there is no OSE tribe"),
        ("aian_classes", "OTSA, tribe", "there is no class of AIAN areas tribe"),
        ("tract_group_share", "1", "must lie between 0 and 1"),
        ("levels", "US, Block", "levels cannot be set"),
    ):
        with pytest.raises(Refused, match=message):
            read_settings("pl94-persons", "us", "production", {name: value})
    with pytest.raises(Refused, match="have no tracts, so they have no tract groups"):
        read_settings("dhc-persons", "us", "production", {"tract_groups": "true"})


def test_an_allocation_from_a_file(tmp_path: Path, das_data: Path) -> None:
    published = json.loads((das_data / "tda-production-allocations.json").read_text())["PL94_persons_US"]
    (tmp_path / "shares.json").write_text(json.dumps(published))
    from_file = read_allocation(str(tmp_path / "shares.json"), None, PERSONS)
    own = read_allocation(None, None, PERSONS)
    assert from_file.levels == own.levels
    assert from_file.queries["State"] == {
        name.replace("*", " * "): share for name, share in own.queries["State"].items()
    }
    assert read_allocation(None, "5/2", PERSONS) == read_allocation(None, "2.5", PERSONS) != own
    published["geolevel"]["US"] = "1/2"
    (tmp_path / "shares.json").write_text(json.dumps(published))
    with pytest.raises(Refused, match="sum to 1"):
        read_allocation(str(tmp_path / "shares.json"), None, PERSONS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": "1"}, "unknown key 'epsilon': one of rho, geolevel, query_within_geolevel"),
        ({"geolevl": {}}, "unknown key 'geolevl'"),
        ({"geolevel": {"Stat": "1"}}, "unknown level 'Stat': one of US, State, County"),
        ({"query_within_geolevel": {"detailed": {"Blok": "1"}}}, "unknown level 'Blok'"),
    ],
)
def test_an_unknown_name_in_an_allocation_is_refused_by_it(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    file = tmp_path / "shares.json"
    file.write_text(json.dumps(allocation_for(PERSONS).as_file() | change))
    with pytest.raises(Refused, match=f"shares.json: {words}"):
        read_allocation(str(file), None, PERSONS)
