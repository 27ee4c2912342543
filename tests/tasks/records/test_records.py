"""The reader of records that all systems share: text and Parquet give the same columns, lines and findings."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dhca_inputs import HERE, cut_files, new_run

from privacy.tables.histogram import Axis, Histogram
from tasks.lifecycle.files import save_object
from tasks.records.files import digest_file
from tasks.records.findings import Finding
from tasks.records.records import (
    ChunkReport,
    FileReport,
    RecordFile,
    RowChecks,
    join_reports,
    open_records,
    read_chunk,
    report_of,
)
from tasks.records.tables import empty

COLUMNS = ("TABBLKST", "AGE")
ROWS = [("01", "5"), ("01", "x"), ("02", "7"), ("1", "8"), ("01", "9"), ("02", "y"), ("01", "x")]


def write(folder: Path, parquet: bool) -> str:
    """A table in another order of columns, with one more and, as text, a blank line after the first row."""
    if parquet:
        ages, states = ([row[place] for row in ROWS] for place in (1, 0))
        table = pa.table({"AGE": ages, "MORE": [""] * len(ROWS), "TABBLKST": states})
        pq.write_table(table, folder / "table.parquet", row_group_size=3)
        return str(folder / "table.parquet")
    lines = ["AGE,MORE,TABBLKST", *(f"{age},,{state}" for state, age in ROWS)]
    lines.insert(2, "")
    (folder / "table.csv").write_text("\n".join(lines))
    return str(folder / "table.csv")


def joined(folder: Path, file: RecordFile, reports: list[ChunkReport]) -> FileReport:
    """Join reports that are saved in a run's directory."""
    run = new_run(folder)
    for number, report in enumerate(reports):
        save_object(run / f"reports/{number:05d}.report", report)
    return join_reports(run, HERE, file, run / "reports")


def check(folder: Path, file: RecordFile, states: tuple[str, ...] | None) -> list[Finding]:
    """The findings of a rule about ages, of all chunks together."""
    reports = []
    for number in range(file.chunks):
        chunk = read_chunk(file, number)
        table, _ = chunk.parse()
        assert table is not None
        checks = RowChecks(file, table, states)
        checks.fault("is no age", "AGE", ~checks.columns["AGE"].where(str.isdigit))
        reports.append(report_of(chunk, len(table), checks.left_out, checks.findings))
    read = joined(folder, file, reports)
    assert sum(report.rows for report in reports) == len(ROWS)
    assert read.left_out == (2 if states else 0)
    return read.findings


@pytest.mark.parametrize("parquet", [False, True])
@pytest.mark.parametrize("states", [None, ("01",)])
def test_faults_are_found_on_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parquet: bool, states: tuple[str, ...] | None
) -> None:
    """Whatever the delimiter, the order of columns and the chunks; records of other states are left out."""
    cut_files(monkeypatch, 40)
    file, findings = open_records(write(tmp_path, parquet), COLUMNS, more=True, delimiter=",")
    assert file is not None
    assert findings == []
    assert file.chunks > 1
    lines = [finding.first for finding in check(tmp_path, file, states)]
    rows = [
        row for row, (state, age) in enumerate(ROWS, start=1) if not age.isdigit() and (not states or state != "02")
    ]
    expected = rows if parquet else [row + 1 + (row > 1) for row in rows]  # below the header and the blank line
    assert set(lines) <= set(expected)
    assert lines[0] == expected[0]
    assert len(lines) > 1


def test_other_columns_only_where_they_may_be(tmp_path: Path) -> None:
    path = write(tmp_path, parquet=False)
    assert open_records(path, COLUMNS, delimiter=",")[0] is None
    found = open_records(path, (*COLUMNS, "SEX"), more=True, delimiter=",")[1]
    assert [finding.rule for finding in found] == [
        "Missing columns. Expected columns: ['TABBLKST', 'AGE', 'SEX']. Missing: ['SEX']."
    ]


@pytest.mark.parametrize("parquet", [False, True])
def test_a_table_has_the_digest_of_its_bytes(tmp_path: Path, parquet: bool) -> None:
    file, _ = open_records(write(tmp_path, parquet), COLUMNS, more=True, delimiter=",")
    assert file is not None
    reports = [report_of(read_chunk(file, number), 0, 0, []) for number in range(file.chunks)]
    read = joined(tmp_path, file, reports)
    assert read.digest == digest_file(file.path)
    assert [finding.rule for finding in read.findings] == [empty(file.name).rule]  # these reports have no row


AXES = (
    Axis("sex", "sex", ("male", "female"), "SEX", ("1", "2")),
    Axis("county", "county", tuple("abcdefghij"), "COUNTY", tuple(f"0{code}" for code in range(10))),
)


@pytest.mark.parametrize("rows", [4, 40], ids=["fewer rows than cells", "more"])
def test_the_cell_of_a_row_is_that_of_its_values_and_every_other_value_is_found(tmp_path: Path, rows: int) -> None:
    """Values of a merged coordinate are one; codes that lost a zero are told apart; a zero is a cell of its own."""
    good = [("1", "00"), ("m", "03"), ("2", "09"), ("2", "00")] * (rows // 4)
    bad = [("3", "01"), ("1", "4"), ("1", "x"), ("m", "09")]
    columns = dict(zip(("SEX", "COUNTY"), map(list, zip(*good, *bad, strict=True)), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    file, _ = open_records(str(tmp_path / "t.parquet"), ("SEX", "COUNTY"))
    assert file is not None
    table, _ = read_chunk(file, 0).parse()
    assert table is not None
    checks = RowChecks(file, table)
    zeros = ({"sex": frozenset({0}), "county": frozenset({9})},)
    values = {"sex": {"1": 0, "m": 0, "2": 1}, "county": AXES[1].coordinates}
    cells = checks.cells(Histogram(AXES, zeros=zeros), values)
    assert cells[checks.good].tolist() == [0, 3, 19, 10] * (rows // 4)
    of_county = "Invalid values found in COUNTY; valid are 00, 01, 02, 03, 04, 05, 06, 07, ..."
    assert [(finding.rule, finding.lines) for finding in checks.findings] == [
        ("Invalid values found in SEX; valid are 1, m, 2", (rows,)),
        (f"{of_county}; with leading zeros they would match: read codes as text", (rows + 1,)),
        (of_county, (rows + 2,)),
        ("records in a cell that is declared a zero, by SEX and COUNTY", (rows + 3,)),
    ]
