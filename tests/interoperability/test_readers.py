"""Other programs open a release as docs/interoperability.md says: what each gets wrong by default, and what to do."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pyogrio
import pytest
from dhca_inputs import BUDGETS, stage_here
from show_release import inputs

TEXT, PARQUET = "t1/state-1.csv", "parquet/t1/state-1.parquet"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of the Detailed DHC-A whose states are 01 and 02, of the nation and the states by Regional groups."""
    made = inputs()
    made.config |= dict.fromkeys(BUDGETS[3:], 0)
    return stage_here(tmp_path_factory.mktemp("release"), made)[1]


@pytest.fixture(scope="module")
def states(release: Path) -> set[str]:
    """The codes in REGION_ID of the tables."""
    found = {line.partition("|")[0] for line in (release / TEXT).read_text().splitlines()[1:]}
    assert found
    assert all(code.startswith("0") for code in found)
    return found


def without_zeros(codes: set[str]) -> set[str]:
    return {str(int(code)) for code in codes}


def in_pandas(path: Path, **options: Any) -> set[str]:
    return set(pd.read_csv(path, sep="|", **options)["REGION_ID"].astype(str))


def in_polars(path: Path, **options: Any) -> set[str]:
    polars = pytest.importorskip("polars")
    return set(polars.read_csv(path, separator="|", **options)["REGION_ID"].cast(polars.String))


def of_r(program: str) -> list[str]:
    """The words that a program in R prints."""
    if not shutil.which("Rscript"):
        pytest.skip("no Rscript (apt-get install r-base-core)")
    return subprocess.run(["Rscript", "-e", program], capture_output=True, text=True, check=True).stdout.split()


def in_r(path: Path, **options: Any) -> set[str]:
    given = "".join(f", {name} = {json.dumps(value)}" for name, value in options.items())
    return set(of_r(f'cat(unique(read.csv({json.dumps(str(path))}, sep = "|"{given})$REGION_ID))'))


def in_libreoffice(path: Path, columns: str = "") -> set[str]:
    if not shutil.which("soffice"):
        pytest.skip("no soffice (apt-get install libreoffice-calc-nogui)")
    profile = path.parent / "profile"
    words = ["soffice", f"-env:UserInstallation=file://{profile}", "--headless", "--convert-to", "ods", path]
    words.insert(3, f"--infilter=CSV:124,34,76,1,{columns}")
    subprocess.run([*words, "--outdir", path.parent], capture_output=True, check=True)
    words[3:] = ["--convert-to", "csv", path.with_suffix(".ods"), "--outdir", path.parent / "out"]
    subprocess.run(words, capture_output=True, check=True)
    lines = (path.parent / "out" / path.name).read_text().splitlines()[1:]
    return {line.partition(",")[0] for line in lines}


@pytest.mark.parametrize(
    ("read", "as_text"),
    [
        (in_pandas, {"dtype": str}),
        (in_polars, {"infer_schema": False}),
        (in_r, {"colClasses": "character"}),
        pytest.param(in_libreoffice, {"columns": "1/2/2/2/3/2"}, marks=pytest.mark.ci),
    ],
)
def test_codes_in_text_lose_zeros_unless_columns_are_read_as_text(
    read: Callable[..., set[str]], as_text: dict[str, Any], release: Path, states: set[str], tmp_path: Path
) -> None:
    path = Path(shutil.copy(release / TEXT, tmp_path / "table.csv"))
    assert read(path) == without_zeros(states)
    assert read(path, **as_text) == states


def typed_in_duckdb(path: Path, *, as_text: bool = False) -> tuple[str, set[str]]:
    column = duckdb.read_csv(str(path), all_varchar=as_text).project("REGION_ID")
    return str(column.types[0]), {str(code) for (code,) in column.fetchall()}


@cache
def has_readr() -> bool:
    return of_r('cat(requireNamespace("readr", quietly = TRUE))') == ["TRUE"]


def typed_in_readr(path: Path, *, as_text: bool = False) -> tuple[str, set[str]]:
    if not has_readr():
        pytest.skip("no readr (apt-get install r-cran-readr)")
    types = ', col_types = readr::cols(.default = "c")' if as_text else ", show_col_types = FALSE"
    read = f'readr::read_delim({json.dumps(str(path))}, delim = "|"{types})$REGION_ID'
    kind, *codes = of_r(f"codes <- {read}; cat(class(codes), unique(codes))")
    return kind, set(codes)


@pytest.mark.parametrize(
    ("read", "text", "number"),
    [
        (typed_in_duckdb, "VARCHAR", "BIGINT"),
        pytest.param(typed_in_readr, "character", "numeric", marks=pytest.mark.ci),
    ],
)
def test_some_readers_keep_zeros_but_take_other_codes_for_numbers(
    read: Callable[..., tuple[str, set[str]]], text: str, number: str, release: Path, tmp_path: Path, states: set[str]
) -> None:
    """So two tables of one release may differ in the type of a code, and a join of them fails."""
    assert read(release / TEXT) == (text, states)
    table = tmp_path / "table.csv"
    table.write_text((release / TEXT).read_text().replace("\n0", "\n3"))
    assert [read(table)[0], read(table, as_text=True)[0]] == [number, text]


def test_gdal_reads_text_as_text(release: Path, states: set[str]) -> None:
    """As QGIS does: counts are text, too."""
    about, _, _, columns = pyogrio.raw.read(release / TEXT, read_geometry=False)
    assert set(columns[list(about["fields"]).index("REGION_ID")]) == states
    assert columns[list(about["fields"]).index("COUNT")].dtype == object


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_parquet_keeps_codes_and_a_folder_is_one_table(library: str, release: Path, states: set[str]) -> None:
    reader: Any = pytest.importorskip(library)
    assert set(reader.read_parquet(release / PARQUET)["REGION_ID"]) == states
    parts = release / "parquet/t1"
    assert len(reader.read_parquet(parts)) == sum(pq.read_metadata(path).num_rows for path in parts.iterdir())


def test_duckdb_reads_parquet_of_several_files(release: Path, states: set[str]) -> None:
    rows = duckdb.sql(f"SELECT DISTINCT REGION_ID FROM '{release}/parquet/t1/state-*.parquet'").fetchall()
    assert {code for (code,) in rows} == states


def test_arrow_for_javascript_counts_in_bigint(release: Path, tmp_path: Path) -> None:
    """JSON.stringify refuses it; Number() of a count is exact. DAS_NODE_MODULES names a folder with apache-arrow."""
    modules = Path(os.environ.get("DAS_NODE_MODULES", "node_modules")).absolute()
    if not shutil.which("node") or not (modules / "apache-arrow").exists():
        pytest.skip(f"no node, or no {modules}/apache-arrow (npm install apache-arrow)")
    table = pq.read_table(release / PARQUET)
    with ipc.new_file(tmp_path / "table.arrow", table.schema) as file:
        file.write(table)
    program = (
        f"const arrow = require({json.dumps(str(modules / 'apache-arrow'))});\n"
        "const row = arrow.tableFromIPC(require('fs').readFileSync(process.argv[1])).get(0);\n"
        "let refused = false; try { JSON.stringify(row) } catch (error) { refused = error instanceof TypeError }\n"
        "console.log(JSON.stringify([row.REGION_ID, typeof row.COUNT, Number(row.COUNT), refused]))\n"
    )
    words = ["node", "-e", program, str(tmp_path / "table.arrow")]
    said = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    first = table.slice(0, 1).to_pylist()[0]
    assert said == [first["REGION_ID"], "bigint", first["COUNT"], True]


def test_the_versions_of_the_page_are_those_that_were_tried() -> None:
    """Of the libraries that the lock file has; others are as the page says."""
    page = Path(__file__).parents[2] / "docs/interoperability.md"
    for name in ("pandas", "duckdb", "pyarrow", "frictionless"):
        version = importlib.import_module(name).__version__
        assert f"{name} {version}" in page.read_text().lower()
