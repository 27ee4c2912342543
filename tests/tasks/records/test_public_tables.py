"""Public tables as people make them: one table of inputs a reader, with what they mean or what their refusal says."""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy.noise.exact import exact_number
from spine.declaration.figures import whole_numbers
from spine.declaration.form import DeclaredLevel
from tasks.bottom_up.declared_histogram import read_declared_histogram
from tasks.bottom_up.tabulate import open_source
from tasks.bottom_up.totals import read_totals
from tasks.errors import Refused
from tasks.geography.blocks.area_file import AreaFile, read_areas
from tasks.geography.blocks.tables import read_rows, recognize
from tasks.records.declarations import read_columns
from tasks.records.public_table import find_faults
from tasks.records.records import open_records, read_chunk
from tasks.safetab.persons.person import PERSON
from tasks.top_down.input.public_input import read_quarters
from tasks.top_down.input.public_input import read_totals as read_states
from tasks.top_down.user_areas.area_estimates import without_empty_areas

CODES = [f"31001000100100{at}" for at in range(8)]
PLAN = list(zip(CODES, "11112222", strict=True))


def text(header: str, rows: list[tuple[str, ...]] = PLAN, mark: str = ",", end: str = "\n") -> bytes:
    return end.join([*([header] if header else []), *(mark.join(row) for row in rows), ""]).encode()


def parquet(columns: Mapping[str, Any]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), stream)
    return stream.getvalue()


def framed(**options: Any) -> bytes:
    return pd.DataFrame(PLAN, columns=["GEOID20", "District"]).to_csv(**options).encode()


DISTRICTS = np.array([int(district) for _, district in PLAN])
# -- plans: every form of PLAN in which a program or office saves it ---------------------------------------------------
FORMS: dict[str, bytes] = {
    "excel.csv": text("GEOID20,District", end="\r\n"),
    "excel-utf8.csv": b"\xef\xbb\xbf" + text("GEOID20,District", end="\r\n"),
    "european-excel.csv": text("GEOID20;District", mark=";", end="\r\n"),
    "tabs.txt": text("GEOID20\tDistrict", mark="\t"),
    "macintosh.csv": text("GEOID20,District", end="\r"),
    "r-write-csv.csv": text('"","GEOID20","District"', [(f'"{at}"', f'"{c}"', d) for at, (c, d) in enumerate(PLAN, 1)]),
    "r-write-table.txt": text('"GEOID20"\t"District"', [(f'"{at}"', c, d) for at, (c, d) in enumerate(PLAN, 1)], "\t"),
    "r-numbered.csv": text("...1,GEOID20,District", [(str(at), *row) for at, row in enumerate(PLAN, 1)]),
    "r-without-names.csv": text("X1,X2"),
    "pandas.csv": framed(index=False),
    "pandas-index.csv": framed(),
    "pandas-twice.csv": text("Unnamed: 0,GEOID20,District", [(str(at), *row) for at, row in enumerate(PLAN)]),
    "pandas-floats.csv": text("GEOID20,District", [(f"{code}.0", f"{district}.0") for code, district in PLAN]),
    "dra-older.csv": text("Id,District"),
    "districtr.csv": text("GEOID20,assignment"),
    "maptitude.csv": text("BLOCK,DISTRICT", [(f'"{code}"', district) for code, district in PLAN]),
    "autobound.txt": text(""),
    "texas.csv": text("SCTBKEY,DISTRICT"),
    "headless-trailing.csv": text("", [(*row, "") for row in PLAN]),
    "headless-numbered.csv": text("", [(str(at), *row) for at, row in enumerate(PLAN, 1)]),
    "census-baf.txt": text("BLOCKID|DISTRICT", mark="|"),
    "census-cd.txt": text("GEOID|CDFP", mark="|", end="\r\n"),
    "cd119.csv": text("GEOID20,STATEFP20,CD119FP", [(code, "31", district) for code, district in PLAN]),
    "shapefile.csv": text(
        "STATEFP20,COUNTYFP20,TRACTCE20,BLOCKCE20,GEOID20,NAME20,ALAND20,DISTRICT",
        [("31", "001", "000100", c[-4:], c, f"Block {c[-4:]}", "1", d) for c, d in PLAN],
    ),
    "shapefile-codes.csv": text(
        "STATEFP20,COUNTYFP20,TRACTCE20,BLOCKCE20,DISTRICT", [("31", "001", "000100", c[-4:], d) for c, d in PLAN]
    ),
    "four-numbers.csv": text("STATE,COUNTY,TRACT,BLOCK,DISTRICT", [("31", "1", "100", c[-4:], d) for c, d in PLAN]),
    "four-lower.csv": text("state,county,tract,block,district", [("31", "001", "000100", c[-4:], d) for c, d in PLAN]),
    "grf-c.txt": text(
        "TABBLKST|TABBLKCOU|TABTRACTCE|TABBLK|DISTRICT", [("31", "001", "000100", c[-4:], d) for c, d in PLAN], "|"
    ),
    "data-census-gov.csv": text("GEO_ID,DISTRICT", [(f"1000000US{code}", district) for code, district in PLAN]),
    "formulas.csv": text("GEOID20,DISTRICT", [(f'="{code}"', f'"=""{district}"""') for code, district in PLAN]),
    "apostrophes.csv": text("GEOID20,DISTRICT", [(f"'{code}", district) for code, district in PLAN]),
    "sixteen.csv": text("GEOCODE,DISTRICT", [(f"{c[:11]}{c[11]}{c[11:]}", d) for c, d in PLAN]),
    "sep.csv": b"sep=;\r\n" + text("GEOID20;District", mark=";", end="\r\n"),
    "sep-quoted.csv": b'\xef\xbb\xbf"sep=,"\r\n' + text("GEOID20,District", end="\r\n"),
    "a-long-cell.csv": text("GEOID20,District,note", [(*row, "x" * 200_000) for row in PLAN]),
    "comments.csv": b"# plan A\n# made by hand\n\n" + text("GEOID20,District"),
    "empty-columns.csv": text("GEOID20,,District,,", [(code, "", district, "", "") for code, district in PLAN]),
    "short-header.csv": text("GEOID20,District", [(*row, "", "") for row in PLAN]),
    "empty-rows.csv": text("GEOID20,District", [*PLAN, ("", ""), ("", "")]),
    "blank-lines.csv": text("GEOID20,District").replace(b"\n", b"\n\n"),
    "spaces.csv": text(" GEOID20 , District ", [(f" {code}", f" {district} ") for code, district in PLAN]),
    "zeros.csv": text("GEOID20,District", [(c, f"0{d}" if at % 2 else d) for at, (c, d) in enumerate(PLAN)]),
    "plan.csv.gz": gzip.compress(text("GEOID20,District")),
    "text.parquet": parquet({"GEOID20": CODES, "District": [d for _, d in PLAN]}),
    "numbers.parquet": parquet({"GEOID20": [int(code) for code in CODES], "District": DISTRICTS}),
    "floats.parquet": parquet({"GEOID20": [float(code) for code in CODES], "District": DISTRICTS.astype(float)}),
    "pandas.parquet": parquet({"__index_level_0__": np.arange(8), "GEOID20": CODES, "District": DISTRICTS}),
    "categories.parquet": parquet(
        {"GEOID20": pa.array(CODES).dictionary_encode(), "District": pa.array([d for _, d in PLAN]).dictionary_encode()}
    ),
}


def write(folder: Path, name: str, content: bytes | str) -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize("name", FORMS)
def test_a_plan_is_read_in_every_form_in_which_people_save_it(tmp_path: Path, name: str) -> None:
    found = read_areas(write(tmp_path, name, FORMS[name]))
    assert found.code.tolist() == [int(code) for code in CODES]
    assert found.names == ("1", "2")
    assert found.area.tolist() == (DISTRICTS - 1).tolist()
    assert found.columns.startswith("blocks in ")


# -- marks, and what is ambiguous -------------------------------------------------------------------------------------

MARKS = [
    "ZZ",
    "ZZZ",
    "zz",
    "NA",
    "N/A",
    "#N/A",
    "NaN",
    "nan",
    "None",
    "null",
    "NULL",
    "-1",
    "-1.0",
    "<NA>",
    "Unassigned",
    "",
]


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_of_no_district_is_none_and_is_named(tmp_path: Path, mark: str) -> None:
    found = read_areas(write(tmp_path, "plan.csv", text("GEOID20,DISTRICT", [*PLAN[:-1], (CODES[-1], mark)])))
    assert found.names == ("1", "2")
    assert len(found.code) == 7
    (note,) = found.notes
    assert note.endswith("blocks are unassigned: 1")
    assert mark in note or mark == "Unassigned"


def test_layers_keep_their_codes_and_an_option_says_what_is_a_mark(tmp_path: Path) -> None:
    rows = [(code, "001", "NA") for code in CODES]
    assert read_areas(write(tmp_path, "vtd.txt", text("BLOCKID|COUNTYFP|DISTRICT", rows, "|"))).names == ("001NA",)
    path = write(tmp_path, "plan.csv", text("GEOID20,DISTRICT", [*PLAN[:-2], (CODES[6], "NA"), (CODES[7], "0")]))
    assert read_areas(path).doubtful == "0"
    assert read_areas(path, unassigned="0").names == ("1", "2")
    assert read_areas(path, unassigned="").names == ("0", "1", "2", "NA")
    assert not read_areas(path, unassigned="").doubtful


@pytest.mark.parametrize(
    ("spellings", "names", "said"),
    [
        ("1 01 2 2", ("1", "2"), True),
        ("1 1.0 2 2.0", ("1", "2"), False),
        ("01 01 02 02", ("01", "02"), False),
        ("A 0A A 0A", ("0A", "A"), False),
    ],
)
def test_one_number_is_one_district(tmp_path: Path, spellings: str, names: tuple[str, ...], said: bool) -> None:
    rows = list(zip(CODES, spellings.split() * 2, strict=True))
    found = read_areas(write(tmp_path, "plan.csv", text("GEOID20,DISTRICT", rows)))
    assert found.names == names
    assert found.notes == (("areas with the same number, taken as one: 1, 01",) if said else ())


def test_a_district_beside_its_county_is_asked_about(tmp_path: Path) -> None:
    rows = [
        (code.replace("001000100", f"00{1 + at % 2}000100"), f"00{1 + at % 2}", "7") for at, code in enumerate(CODES)
    ]
    path = write(tmp_path, "plan.csv", text("GEOID20,COUNTYFP,DISTRICT", rows))
    with pytest.raises(Refused, match=r"--area-column DISTRICT if.* --area-column COUNTYFP\+DISTRICT if"):
        read_areas(path)
    assert read_areas(path, "district").names == ("7",)
    assert read_areas(path, "COUNTYFP+DISTRICT").names == ("0017", "0027")
    one = [(code, "001", district) for code, district in PLAN]
    assert read_areas(write(tmp_path, "one.csv", text("GEOID20,COUNTYFP,DISTRICT", one))).names == ("1", "2")


@pytest.mark.parametrize(("zeros", "words"), [(0, "left out: 1 \\(0"), (1, "Refused"), (3, "0 is taken for an area")])
def test_an_area_0_is_left_out_asked_about_or_said(zeros: int, words: str) -> None:
    """Of 12 blocks with living quarters; two further blocks have none."""
    universe = np.arange(12)
    area = np.where(universe < zeros, 0, 1 + universe % 2)
    file = AreaFile(np.arange(14), np.append(area, [0, 0]), ("0", "1", "2"), (), doubtful="0")
    if words == "Refused":
        with pytest.raises(Refused, match=r"far fewer than the others: add --unassigned 0 if .*--unassigned '' if"):
            without_empty_areas(file, universe)
        return
    found = without_empty_areas(file, universe)
    assert found.names == (("1", "2") if zeros == 0 else ("0", "1", "2"))
    assert np.bincount(found.area).min() > 0
    assert pd.Series(found.notes).str.contains(words).tolist() == [True]


REFUSED = {
    text("GEOID20,District", [(code[:3] + "." + code[3:], "1") for code in CODES]): "not a block's",
    text("OLD,NEW,District", [(code, code, "1") for code in CODES]): "2 whose values all have 15.*--block-column",
    text("A,B", [("1", "2")]): "none whose values all have 15 digits.*--block-column; it has A, B",
    text("GEOID20,District,District", [(*row, "1") for row in PLAN]): "column District comes twice",
    text("GEOID20,District", [(*row, "x", "y") for row in PLAN]): "line 2 has 4 cells, and there are 2 columns",
    text("GEOID20,District") + b"310,1,2\n": "line 10 has 3 cells, and there are 2 columns",
    text("GEOID20,District").decode().encode("utf-16"): "save the table as CSV in UTF-8",
    b"\n# nothing\n": "it is empty",
    b"PK\x03\x04....": "workbook",
    b"PAR1....PAR1": "cannot be read as a Parquet file",
}


@pytest.mark.parametrize("content", REFUSED)
def test_what_cannot_be_read_is_refused_by_its_name(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(Refused, match=REFUSED[content]) as refusal:
        read_areas(write(tmp_path, "plan.csv", content))
    assert "\n" not in str(refusal.value)
    if "2 whose" in REFUSED[content]:
        assert read_areas(str(tmp_path / "plan.csv"), "District", block_column="new").names == ("1",)


# -- the same tolerance in every reader -------------------------------------------------------------------------------

CHANGES: dict[str, tuple[str, str]] = {  # what is changed in a table of commas, by regular expression
    "semicolons": (",", ";"),
    "tabs": (",", "\t"),
    "bars": (",", "|"),
    "quotes": (r"([^,\n]+)", r'"\1"'),
    "carriage returns": ("\n", "\r\n"),
    "old Macintosh": ("\n", "\r"),
    "byte order mark": (r"\A", "\ufeff"),
    "sep": (r"\A", "sep=,\n"),
    "comment": (r"\A", "# made by hand\n"),
    "empty columns": ("\n", ",,\n"),
    "empty rows": (r"\Z", ",\n\n"),
    "row names": (r"(?m)^(?=.)", "ROW,"),
}


def changed(table: str, change: str) -> str:
    old, new = CHANGES[change]
    if change == "row names":
        header, *rows = table.splitlines()
        return "\n".join([f'"",{header}', *(f"{at},{row}" for at, row in enumerate(rows, 1)), ""])
    if change == "empty rows":
        new = "," * table.splitlines()[0].count(",") + "\n\n"
    return pd.Series([table]).str.replace(old, new, regex=True)[0]


@pytest.mark.parametrize("change", CHANGES)
def test_every_reader_of_public_tables_has_one_tolerance(tmp_path: Path, change: str) -> None:
    def made(table: str, name: str = "table.csv") -> str:
        return write(tmp_path, name, changed(table, change))

    blocks = "STATE,COUNTY,TRACT,BLOCK,POP\n31,001,000100,1000,5\n31,001,000100,1001,\n"
    found = read_rows(recognize(made(blocks)))
    assert found["TABBLK"].to_pylist() == [1000, 1001]
    assert found["POP"].to_pylist() == [5, None]
    assert read_rows(recognize(made(blocks)), text=True)["TABBLKCOU"].to_pylist() == ["001", "001"]
    leaves = "village,island,total\nAsh,North,5\nElm,South,7\n"
    columns, findings = read_columns(made(leaves), ["village", "total"], ",")
    assert (columns, findings) == ({"village": ("Ash", "Elm"), "total": ("5", "7")}, [])
    quarters = "tabblk,hu,gq1,gq2,gq3,gq4,gq5,gq6,gq7\n310010001001000,5,0,0,0,0,0,0,1\n"
    code, counts, findings = read_quarters(made(quarters))
    assert (code.tolist(), counts.tolist(), findings) == ([310010001001000], [[5, 0, 0, 0, 0, 0, 0, 1]], [])
    assert read_states(made("state,pop\n31,5\n46,7\n")) == ({31: 5, 46: 7}, [])
    (tmp_path / "sexes.toml").write_text('axes.SEX = { column = "SEX", values = ["1", "2"] }')
    declared = read_declared_histogram(tmp_path / "sexes.toml")
    assert read_totals(Path(made("SEX,TOTAL\n1,5\n2,7\n")), declared).published == {0: 5, 1: 7}


@pytest.mark.parametrize("change", ["quotes", "byte order mark", "carriage returns", "empty rows", "semicolons"])
def test_block_assignment_files_are_read_as_they_are_saved_again(tmp_path: Path, change: str) -> None:
    layers = {"INCPLACE_CDP": "BLOCKID,PLACEFP\n", "MCD": "BLOCKID,COUSUBFP\n"}
    for layer, header in layers.items():
        rows = "".join(f"{code},{at:05d}\n" for at, code in enumerate(CODES))
        write(tmp_path, f"BlockAssign_ST31_NE_{layer}.txt", changed(header + rows, change))
    found = read_rows(recognize(str(tmp_path / "BlockAssign_ST31_NE_INCPLACE_CDP.txt")))
    assert found["TABBLK"].to_pylist() == [int(code[-4:]) for code in CODES]
    assert found["PLACEFP"].to_pylist() == found["COUSUBFP"].to_pylist() == list(range(8))


def test_columns_are_found_in_any_case_and_faults_are_said_alike(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", "STATE,Pop\n31,5.0\n")
    assert read_states(path) == ({31: 5}, [])
    for reader in (lambda: find_faults(path, ["total"], more=True)[1], lambda: read_columns(path, ["total"], ",")[1]):
        (finding,) = reader()
        assert finding.rule == "no column total; the file has STATE, Pop"
    numbers, wrong = whole_numbers(["5", " 5 ", "5.0", "5.", "5.5", "-5", "", "five"])
    assert (numbers[:4].tolist(), wrong) == ([5, 5, 5, 5], [4, 5, 6, 7])


@pytest.mark.parametrize(
    "number", [*["1e-2", "1E-2", "1/3", ".5", "5.", "0.25", "3", "+1/2", "1e101", "1/0", "x", "1e", "0x1"], ""]
)
def test_exact_numbers_are_read_alike_everywhere(number: str) -> None:
    """A declaration's reader is in `spine`, which imports no `privacy`."""

    def read(reader: Any) -> Fraction | None:
        try:
            return reader()
        except ValueError:
            return None

    assert read(lambda: DeclaredLevel(name="a", share=number).share) == read(lambda: exact_number(number))


# -- Parquet ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("levels", "column"),
    [
        (["True", "False"], pa.array([True, False])),
        (["TRUE", "FALSE"], pa.array([True, False])),
        (["true", "false"], pa.array([True, False])),
        (["1", "0"], pa.array([True, False])),
        (["yes", "no"], pa.array([True, False])),
        (["1", ""], pa.array([1, None], pa.int64())),
        (["1", ""], pa.array([1.0, float("nan")])),
        (["1", "2"], pa.array([1.0, 2.0])),
        (["1", "0.5"], pa.array([1.0, 0.5])),
        (["1", "2"], pa.array([1, 2], pa.int8()).dictionary_encode()),
        (["310010001001000", "2"], pa.array([310010001001000.0, 2.0])),
    ],
)
def test_a_value_of_parquet_is_the_level_that_its_text_is(tmp_path: Path, levels: list[str], column: pa.Array) -> None:
    values = [level or ["none", ""] for level in levels]  # an empty value has no code of its own
    (tmp_path / "x.toml").write_text(f'axes.X = {{ column = "X", values = {values} }}')
    path = write(tmp_path, "table.parquet", parquet({"X": column}))
    table = read_chunk(open_source(path, read_declared_histogram(tmp_path / "x.toml")), 0).parse()[0]
    assert table is not None
    assert table["X"].to_pylist() == levels
    words = read_columns(path, ["X"], ",")[0]
    assert words is not None
    assert not pa.types.is_boolean(column.type) or words["X"] == ("True", "False")


def test_persons_of_parquet_may_have_truth_values_and_nulls(tmp_path: Path) -> None:
    columns = dict.fromkeys(PERSON.fields, pa.array(["1010", "1010"]))
    columns |= {"HOUSEHOLDER": pa.array([True, False]), "QRACE2": pa.array([1020, None], pa.int16())}
    columns |= {"QRACE3": pa.array([None, None], pa.string()), "QAGE": pa.array([42.0, float("nan")])}
    write(tmp_path, "person-records.parquet", parquet(columns))
    file, findings = PERSON.open(str(tmp_path))
    assert file is not None
    assert findings == []
    table = read_chunk(file, 0).parse()[0]
    assert table is not None
    names = ("HOUSEHOLDER", "QRACE2", "QRACE3", "QAGE")
    rows = [tuple(table[name][at].as_py() for name in names) for at in range(2)]
    assert rows == [("True", "1020", "Null", "42"), ("False", "Null", "Null", "")]
    assert all(PERSON.fields[name].number(text) is not None for name, text in zip(names, rows[0], strict=True))


def test_columns_without_a_name_are_said(tmp_path: Path) -> None:
    path = write(tmp_path, "register.csv", "VILLAGE,SEX,,\nAsh,M,,\n")
    (finding,) = open_records(path, ("VILLAGE", "SEX"), more=True, own=True, delimiter=",")[1]
    assert finding.rule == "2 columns without a name: delete them"
