"""tables/ of a release: names and words beside codes, text that is safe for spreadsheets, and their check."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.geography.public_regions import NAMES_TABLE
from tasks.releases.datapackage import resources_of
from tasks.releases.description import Column, Description, Table, Tidy, count_and_margin
from tasks.releases.manifest import file_names
from tasks.releases.received import NotOfRelease
from tasks.releases.text_twin import CODED, differing_rows
from tasks.releases.tidy import tidy_files, with_tidy
from tasks.releases.tidy_rows import _in_words, _sums_by_geounit, check_tidy, write_tidy

SEX = Column("SEX", "code", "the sex", {"1": "male", "2": "female"}, frame="sex")
PLACE = Column("PLACE", "code", "the place", frame="place_id", region="PLACE", names="place")
COUNTS = Table(
    "Persons",
    (PLACE, SEX, Column("unit", "code", "a column of a declaration"), *count_and_margin("persons", "c", "m")),
    parquet="parquet/t/{level}.parquet",
    key=("PLACE", "SEX", "unit"),
    counts=True,
    tidy=(Tidy("t/{level}", "t", "persons"),),
)
DESCRIPTION = with_tidy(Description((COUNTS, NAMES_TABLE), names={"level": {"place-1": "Place, Regional"}}))
ROWS = {"PLACE": ["0112345", "0167890"], "SEX": ["2", "1"], "unit": ["u", "-1+2"], "COUNT": [-3, 7], "MOE": [5, 5]}


@pytest.fixture
def release(tmp_path: Path) -> Path:
    (tmp_path / "parquet/t").mkdir(parents=True)
    pq.write_table(pa.table(ROWS), tmp_path / "parquet/t/place-1.parquet")
    names = ["REGION_TYPE|REGION_ID|NAME", 'PLACE|0112345|=HYPERLINK("x"), town', "PLACE|0167890|Añasco"]
    (tmp_path / "names.csv").write_text("\n".join(names) + "\n", "utf-8")
    for made in tidy_files(tmp_path, DESCRIPTION):
        write_tidy(tmp_path, made, tmp_path / made.parquet, tmp_path / made.text)
    return tmp_path


def test_a_row_has_names_and_words_and_text_has_no_formula(release: Path) -> None:
    stored = pq.read_table(release / "tables/t/place-1.parquet")
    first, second = stored.to_pylist()
    assert list(first.values()) == [
        *("t", "Place, Regional", "0112345", '=HYPERLINK("x"), town', "2", "female", "u", "persons", -3, 5)
    ]
    assert list(first)[6:8] == ["unit", "unit_2"]  # a declaration may have a column of any name
    text = pd.read_csv(release / "tables/t/place-1.csv", dtype={"place_id": str})
    assert text["place"].tolist() == ['\'=HYPERLINK("x"), town', "Añasco"]
    assert text["place_id"].tolist() == ["0112345", "0167890"]
    assert text["unit"].tolist() == ["u", "-1+2"]  # a figure calls no function
    assert (text["count"].tolist(), second["count"]) == ([-3, 7], 7)
    assert {str(kind) for kind in stored.schema.types} == {"string", "int64"}


@pytest.mark.parametrize(("column", "value"), [("place", "Elsewhere"), ("sex", "male"), ("count", -2), ("margin", 1)])
def test_a_forged_row_of_a_tidy_table_is_found(release: Path, column: str, value: object) -> None:
    path = release / "tables/t/place-1.parquet"
    assert [each.faults for each in check_tidy(release, DESCRIPTION)] == [(), ()]
    rows = pq.read_table(path)
    forged = rows.to_pylist()
    forged[0][column] = value
    pq.write_table(pa.Table.from_pylist(forged, rows.schema), path)
    assert [each.faults for each in check_tidy(release, DESCRIPTION)] == [(), ("1 rows differ",)]
    (text,) = (each for each in resources_of(release, DESCRIPTION, file_names(release)) if each.twin)
    assert differing_rows(release / text.paths[0], path, text.columns, text.delimiter) == 1


def test_a_table_that_is_made_from_none_of_the_release_is_found(release: Path) -> None:
    copied = release / "tables/t/county-1.parquet"
    copied.write_bytes((release / "tables/t/place-1.parquet").read_bytes())
    (names, *_) = check_tidy(release, DESCRIPTION)
    assert names.faults == ("tables/t/county-1.parquet is made from no table of the release",)


def test_a_column_of_a_declaration_may_have_a_comma(tmp_path: Path) -> None:
    own = Column("County, name", "code", "a column of a declaration")
    table = Table(
        "Persons", (own, COUNTS.columns[-2]), parquet="parquet/t.parquet", key=(own.name,), tidy=(Tidy("t", "t", "p"),)
    )
    (tmp_path / "parquet").mkdir()
    pq.write_table(pa.table({own.name: ["a"], "COUNT": [1]}), tmp_path / "parquet/t.parquet")
    (made,) = tidy_files(tmp_path, with_tidy(Description((table,))))
    write_tidy(tmp_path, made, tmp_path / "t.parquet", tmp_path / "t.csv")
    assert pd.read_csv(tmp_path / "t.csv")[own.name].tolist() == ["a"]


def test_sums_of_more_rows_than_arrow_groups_at_once_are_all_written(tmp_path: Path) -> None:
    """Arrow returns groups in chunks of 32,768 rows."""
    own, rows = Column("PLACE", "code", "the place"), 70_000
    table = Table(
        "Persons",
        (own, COUNTS.columns[-2]),
        parquet="parquet/t.parquet",
        key=(own.name,),
        tidy=(Tidy("t", "t", "p", summed=True),),
    )
    (tmp_path / "parquet").mkdir()
    places = [f"{place:05}" for place in range(rows)]
    pq.write_table(pa.table({"PLACE": places, "COUNT": range(rows)}), tmp_path / "parquet/t.parquet")
    (made,) = tidy_files(tmp_path, with_tidy(Description((table,))))
    assert made.summed
    write_tidy(tmp_path, made, tmp_path / "t.parquet", tmp_path / "t.csv")
    assert len(pd.read_csv(tmp_path / "t.csv")) == pq.read_metadata(tmp_path / "t.parquet").num_rows == rows


def test_sums_have_the_place_of_their_first_rows_wherever_batches_end() -> None:
    """Arrow's own groups of such rows have another order."""
    random, own = np.random.default_rng(1), Column("PLACE", "code", "the place", level="place")
    place, group = np.sort(random.integers(0, 300, 5000)), random.integers(0, 9, 5000)
    rows = pd.DataFrame({"PLACE": place.astype(str), "group": group.astype(str), "COUNT": random.integers(0, 9, 5000)})
    coded = pa.schema({"PLACE": CODED, "group": CODED, "COUNT": pa.int64()})
    table = pa.table({name: rows[name].tolist() for name in coded.names})
    made = SimpleNamespace(columns=[SimpleNamespace(column=each) for each in (own, COUNTS.columns[-2])])
    batches = (table.slice(at, 7).cast(coded).combine_chunks() for at in range(0, 5000, 7))
    found = pa.concat_tables(_sums_by_geounit(batches, made)).to_pandas()  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(
        found.astype({"PLACE": str, "group": str}).astype(object),
        rows.groupby(["PLACE", "group"], sort=False, as_index=False)["COUNT"].sum().astype(object),
    )


def test_many_values_that_have_words_together_are_refused_or_looked_up_alone() -> None:
    values = [pa.array([f"{at % size}" for at in range(5_000)]).dictionary_encode() for size in (5_000, 4_999, 2)]
    found = _in_words(values[1:], {("7", "1"): "both"}, 5_000)  # 9,998 combinations, of which 5,000 are there
    assert found.to_pylist()[7] == "both"
    assert set(found.to_pylist()) == {"", "both"}
    with pytest.raises(NotOfRelease, match="values that have words together"):
        _in_words(values, {}, 5_000)
