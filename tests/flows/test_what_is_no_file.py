"""Every input of every command as a named pipe, a device or a folder, or damaged: a finding or one line, and exit 1."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from top_down_inputs import damage

from tests.flows.conftest import Das, Refuse

pytestmark = pytest.mark.usefixtures("stages_here")

# The words of a command, with EX for a folder of good inputs, and which of them is no file.
INPUTS = {
    "config.json": ("validate EX/params EX/data", "params/config.json"),
    "codes": ("validate EX/params EX/data", "params/race-and-ethnicity-codes.txt"),
    "persons": ("validate EX/params EX/data", "data/person-records.txt"),
    "GRF-C": ("validate EX/params EX/data", "data/GRF-C.txt"),
    "mark": ("validate EX/params EX/data", "data/SYNTHETIC.json"),
    "mark of a truth": ("truth EX/params EX/data EX/out", "data/SYNTHETIC.json"),
    "table": ("bottom-up run EX/table.parquet EX/declaration.toml EX/out --epsilon 1", "table.parquet"),
    "table's mark": ("bottom-up run EX/table.parquet EX/declaration.toml EX/out --epsilon 1", "SYNTHETIC.json"),
    "declaration": ("bottom-up run EX/table.parquet EX/declaration.toml EX/out --epsilon 1", "declaration.toml"),
    "totals": (
        "bottom-up run EX/table.parquet EX/declaration.toml EX/out --epsilon 1 --calibrate EX/totals.csv",
        "totals.csv",
    ),
    "budgets": ("attribute-loss s-dhc EX/x", "x"),
    "parameters": ("attribute-loss dhc-a EX/params", "params/config.json"),
    "configuration": ("compare EX/params", "params/config.json"),
    "manifest": ("tune EX/manifest.json", "manifest.json"),
    "geography": ("spine EX/x EX/out", "x"),
    "archive": ("spine EX/x.zip EX/out", "x.zip"),
    "compressed": ("spine EX/x.csv.gz EX/out", "x.csv.gz"),
    "allocation": ("spine EX/data/GRF-C.txt EX/out --allocation EX/x", "x"),
    "extra": ("spine EX/data/GRF-C.txt EX/out --extra EX/x", "x"),
    "blocks": ("synth EX/x EX/params EX/out", "x"),
    "shares": ("synth EX/blocks.csv EX/params EX/out --shares EX/x", "x"),
    "files to mark": ("synth --mark EX/data --yes", "data/GRF-C.txt"),
    "TopDown geography": ("tda validate EX/tda --geography EX/x", "x"),
    "quarters": ("tda validate EX/tda --quarters EX/x", "x"),
    "state totals": ("tda validate EX/tda --state-totals EX/x", "x"),
    "TopDown allocation": ("tda run EX/tda EX/out --persons-allocation EX/x", "x"),
    "names": ("validate EX/params EX/data", "data/names.csv"),
    "release": ("check EX/released", "released/manifest.json"),
    "ledger": ("ledger show --ledger EX/x", "x"),
}

SLOW = {"TopDown geography", "quarters", "state totals", "TopDown allocation", "names", "release"}


@pytest.fixture
def inputs(all_inputs: Path, tmp_path: Path) -> Path:
    """Inputs of every command."""
    folder = Path(shutil.copytree(all_inputs, tmp_path / "inputs"))
    (folder / "released").mkdir()
    (folder / "released/manifest.json").write_text("{}")
    return folder


@pytest.mark.parametrize(
    "kind", ["pipe", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("device", "folder"))]
)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in INPUTS]
)
def test_an_input_that_is_no_file(inputs: Path, refused: Refuse, name: str, kind: str) -> None:
    words, hostile = INPUTS[name]
    path = inputs / hostile
    path.unlink(missing_ok=True)
    {"pipe": os.mkfifo, "device": lambda at: at.symlink_to("/dev/zero"), "folder": Path.mkdir}[kind](path)
    text = refused("", *words.replace("EX/", f"{inputs}/").split(), findings=True)
    assert not (inputs / "out").exists()
    if name in ("config.json", "codes", "persons", "GRF-C"):
        assert {"pipe": "a named pipe", "device": "a device", "folder": "a folder"}[kind] in text


def test_a_mark_is_never_written_through_a_pipe(inputs: Path, das: Das) -> None:
    mark = inputs / "data/SYNTHETIC.json"
    mark.unlink()
    os.mkfifo(mark)
    assert das("synth", "--mark", inputs / "data", "--yes")[0] == 0
    assert mark.is_file()


def test_parquet_persons_without_row_groups_or_with_damaged_pages(inputs: Path, refused: Refuse) -> None:
    text = inputs / "data/person-records.txt"
    header, *rows = (line.split("|") for line in text.read_text().splitlines())
    table = pa.table({name: pa.array(column) for name, *column in zip(header, *rows, strict=True)})
    text.unlink()
    parquet = inputs / "data/person-records.parquet"
    pq.ParquetWriter(parquet, table.schema).close()
    assert "person-records.parquet is empty" in refused(
        "", "validate", inputs / "params", inputs / "data", findings=True
    )
    pq.write_table(table, parquet)
    damage(parquet)
    message = "row group 1 cannot be read"
    assert message in refused("", "validate", inputs / "params", inputs / "data", findings=True)
