"""Block tables as the public downloads them: every form of a state's files gives the same blocks."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from block_files import assignment, block_ids, from_csv, geographic_header, segment_3, write_zip
from spine_cases import blocks_table

from spine.settings import settings_for
from tasks.errors import Refused
from tasks.geography.blocks.area_file import read_areas
from tasks.geography.blocks.files import input_digests
from tasks.geography.blocks.geography import read_geography
from tasks.geography.blocks.pl94 import PL94_FIELDS
from tasks.releases.digests import file_digest
from tasks.synth.blocks import grf_text, read_blocks

PERSONS = settings_for("pl94-persons", occupied_only=False)


@pytest.fixture
def table() -> pd.DataFrame:
    """Blocks of Wisconsin in the order of their codes, 3 persons in every other."""
    made = blocks_table(5, (55,), 200).sort_values(["TABBLKCOU", "TABTRACTCE", "TABBLK"], ignore_index=True)
    return made.assign(POP=[str(3 * (i % 2)) for i in range(200)], HU="1")


Form = Callable[[Path, pd.DataFrame], Path]


def grfc(folder: Path, table: pd.DataFrame) -> Path:
    path = folder / "GRF-C.txt"
    path.write_text(table.drop(columns=["POP", "HU"]).to_csv(sep="|", index=False))
    return path


def geo(folder: Path, table: pd.DataFrame) -> Path:
    path = folder / "wigeo2020.pl"
    path.write_bytes(geographic_header(table, "wi"))
    return path


def geo_gzip(folder: Path, table: pd.DataFrame) -> Path:
    path = folder / "wigeo2020.pl.gz"
    path.write_bytes(gzip.compress(geographic_header(table, "wi")))
    return path


def geo_zip(folder: Path, table: pd.DataFrame) -> Path:
    others = {"wi000012020.pl": b"PLST|WI|000|01|0000001|0\n", "wi000022020.pl": b"PLST|WI|000|02|0000001|0\n"}
    return write_zip(folder / "wi2020.pl.zip", {"wigeo2020.pl": geographic_header(table, "wi"), **others})


def geo_folder(folder: Path, table: pd.DataFrame) -> Path:
    geo_zip(folder, table)
    layers(folder, table)  # a geographic header says more: it comes first
    return folder


def layers(folder: Path, table: pd.DataFrame) -> Path:
    for name, content in assignment(table, "55", "WI").items():
        (folder / name).write_bytes(content)
    return folder / "BlockAssign_ST55_WI_AIANNH.txt"


def layers_folder(folder: Path, table: pd.DataFrame) -> Path:
    return layers(folder, table).parent


def layers_zip(folder: Path, table: pd.DataFrame) -> Path:
    return write_zip(folder / "BlockAssign_ST55_WI.zip", assignment(table, "55", "WI"))


def further(*forms: Form) -> list[Any]:
    return [pytest.param(form, marks=pytest.mark.ci) for form in forms]


def test_the_fields_of_a_geographic_header_stand_where_the_bureau_puts_them() -> None:
    """Their numbers in real rows of the 2020 files; the other tests write their rows by the same list that is read."""
    numbers = {"SUMLEV": 3, "LOGRECNO": 8, "GEOCODE": 10, "STATE": 13, "COUNTY": 15, "COUSUB": 18, "PLACE": 30}
    numbers |= {"TRACT": 33, "BLKGRP": 34, "BLOCK": 35, "AIANHH": 36, "SDELM": 81, "SDSEC": 82, "SDUNI": 83}
    numbers |= {"AREALAND": 85, "FUNCSTAT": 89, "POP100": 91, "HU100": 92, "UGA": 97}
    assert {name: PL94_FIELDS.index(name) + 1 for name in numbers} == numbers
    assert len(PL94_FIELDS) == len(set(PL94_FIELDS)) == 97


@pytest.mark.parametrize("form", [geo_gzip, geo_zip, layers_folder, *further(geo, geo_folder, layers, layers_zip)])
def test_every_form_gives_the_spine_the_same_blocks(tmp_path: Path, table: pd.DataFrame, form: Form) -> None:
    (tmp_path / "other").mkdir()
    expected, _ = read_geography(grfc(tmp_path / "other", table), PERSONS)
    (tmp_path / "mine").mkdir()
    geography, _ = read_geography(form(tmp_path / "mine", table), PERSONS)
    for column in ("geocode", "place", "cousub", "aiannh", "school_district"):
        assert (getattr(geography, column) == getattr(expected, column)).all(), column
    assert (geography.population is not None) == form.__name__.startswith("geo")


@pytest.mark.parametrize("form", [geo_zip, *further(geo, geo_gzip, geo_folder)])
def test_every_form_gives_synthetic_persons_the_same_blocks(tmp_path: Path, table: pd.DataFrame, form: Form) -> None:
    blocks = read_blocks(form(tmp_path, table))
    assert blocks.population.tolist() == table["POP"].astype(int).tolist()
    rows = pd.DataFrame(
        [row.split("|") for row in grf_text(blocks, header=False).decode().splitlines()], columns=[*blocks.columns]
    )
    none = {"COUSUBFS": table["COUSUBFS"], "PLACEFS": table["PLACEFS"].where(table["PLACEFP"] != "99999", "9")}
    expected = table.assign(**none)
    assert list(rows) == [
        *("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK", "PLACEFP", "AIANNHCE", "TABBLKGRPCE", "COUSUBFP"),
        *("SDUNILEA", "SDSECLEA", "SDELMLEA", "COUSUBFS", "PLACEFS"),
    ]
    for column in rows:
        assert (rows[column] == expected[column]).all(), column


@pytest.mark.parametrize(("form", "column"), [(grfc, "POP"), (layers, "POP"), (layers_zip, "POP")])
def test_persons_need_populations(tmp_path: Path, table: pd.DataFrame, form: Form, column: str) -> None:
    with pytest.raises(Refused, match=rf"no column {column}: .* P\.L\. 94-171 files"):
        read_blocks(form(tmp_path, table))


def test_group_quarters_are_read_from_the_archive(tmp_path: Path, table: pd.DataFrame) -> None:
    quarters = pd.DataFrame(0, index=table.index, columns=range(7))
    quarters.loc[::10, 4] = 20  # college: the fifth type
    files = {"wigeo2020.pl": geographic_header(table, "wi"), "wi000032020.pl": segment_3(table, quarters)}
    geography, _ = read_geography(write_zip(tmp_path / "wi2020.pl.zip", files), PERSONS)
    assert geography.gq is not None
    assert (geography.gq == np.where(np.arange(200) % 10 == 0, 0b0000100, 0)).all()


def test_digests_are_of_all_that_is_read(tmp_path: Path, table: pd.DataFrame) -> None:
    archive = geo_zip(tmp_path, table)
    assert input_digests(str(archive)) == input_digests(str(tmp_path)) == {"wi2020.pl.zip": file_digest(archive)}
    archive.unlink()
    path = geo(tmp_path, table)
    (tmp_path / "wi000032020.pl").write_text("")
    assert sorted(input_digests(str(path))) == ["wi000032020.pl", "wigeo2020.pl"]
    path.unlink()
    layers(tmp_path, table)
    read = {"AIANNH", "INCPLACE_CDP", "MCD", "SDUNI"}  # Wisconsin's made-up districts are unified ones
    assert set(input_digests(str(tmp_path))) == {f"BlockAssign_ST55_WI_{layer}.txt" for layer in read}


def test_a_layer_that_is_not_there_is_missed_where_it_is_needed(tmp_path: Path, table: pd.DataFrame) -> None:
    path = layers(tmp_path, table)
    (tmp_path / "BlockAssign_ST55_WI_INCPLACE_CDP.txt").rename(tmp_path / "places")
    with pytest.raises(Refused, match="the layer INCPLACE_CDP, which lists every block, is not next to it"):
        read_geography(path, settings_for("pl94-persons", "pr"))
    (tmp_path / "places").rename(tmp_path / "BlockAssign_ST55_WI_INCPLACE_CDP.txt")
    (tmp_path / "BlockAssign_ST55_WI_MCD.txt").unlink()
    with pytest.raises(Refused, match=r"need the column\(s\) COUSUBFP; P.L. 94-171 files"):
        read_geography(path, PERSONS)


def test_faulty_files_are_refused(tmp_path: Path, table: pd.DataFrame) -> None:
    path = layers(tmp_path, table)
    places = tmp_path / "BlockAssign_ST55_WI_INCPLACE_CDP.txt"
    whole = places.read_text()
    first = block_ids(table)[0]
    for text, message in [
        (whole + whole.splitlines()[1] + "\n", f"block {first} comes twice"),
        (whole.replace(f"{first}|", f"{first[:-1]}|"), f"row 1 names no block .{first[:-1]}"),
        (whole.replace(whole.splitlines()[1] + "\n", ""), f"block {first} has [A-Z]+ and is not in"),
        (whole.replace("PLACEFP", "PLACE"), "is not a block assignment file with BLOCKID and PLACEFP"),
    ]:
        places.write_text(text)
        with pytest.raises(Refused, match=message):
            read_geography(path, PERSONS)
    (tmp_path / "xy2020.pl.zip").write_bytes(b"no archive")
    with pytest.raises(Refused, match="is not a zip archive"):
        read_geography(tmp_path / "xy2020.pl.zip", PERSONS)
    damaged = geo_gzip(tmp_path, table)
    damaged.write_bytes(damaged.read_bytes()[:-2000])
    for read in (lambda: read_geography(damaged, PERSONS), lambda: read_blocks(damaged)):
        with pytest.raises(Refused, match=r"cannot be read|is not a block table"):
            read()
    with pytest.raises(Refused, match="holds no block table"):
        read_geography(write_zip(tmp_path / "wi.zip", {"readme.txt": b""}), PERSONS)


def test_no_name_in_an_archive_leads_out_of_it(tmp_path: Path) -> None:
    other = write_zip(tmp_path / "other.zip", {"plan.csv": b"BLOCK,DISTRICT\n440010301001000,of another\n"})
    for name in (f"plan.csv::{other}", f"plan.csv::file://{other}", "simplecache::http://127.0.0.1:9/plan.csv"):
        sent = write_zip(tmp_path / "wi2020.pl.zip", {name: b"BLOCK,DISTRICT\n440010301001000,its own\n"})
        for read in (read_areas, partial(read_geography, settings=PERSONS)):
            with pytest.raises(Refused, match="leads out of it"):
                read(str(sent))


@pytest.mark.ci
def test_rhode_island_as_it_is_downloaded(das_data: Path, tmp_path: Path) -> None:
    """The table at hand in the Bureau's two formats: the same blocks, persons and geography as from the CSV."""
    csv = das_data / "ri_blocks_2020.csv.gz"
    table = from_csv(csv)
    pl = write_zip(tmp_path / "ri2020.pl.zip", {"rigeo2020.pl": geographic_header(table, "ri")})
    baf = write_zip(tmp_path / "BlockAssign_ST44_RI.zip", assignment(table, "44", "RI"))
    expected, _ = read_geography(csv, PERSONS)
    for path in (pl, baf):
        geography, _ = read_geography(os.path.relpath(path), PERSONS)
        for column in ("geocode", "place", "cousub", "aiannh"):
            assert (getattr(geography, column) == getattr(expected, column)).all(), column
    blocks, from_table = read_blocks(pl), read_blocks(csv)
    assert (blocks.population == from_table.population).all()
    assert blocks.persons == 1_097_379
    assert all((blocks.columns[name] == column).all() for name, column in from_table.columns.items())
