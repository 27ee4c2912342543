"""Lines of any length, and byte order marks where none belongs: findings, and no more is read than shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.records import files
from tasks.records.files import LONGEST_LINE, read_lines
from tasks.records.tables import LONG_HEADER, TOO_LONG, parse_rows, read_table
from tasks.releases.digests import chunk_digest

CHUNK = 64


@settings(deadline=None)
@given(st.lists(st.integers(0, 200), max_size=20), st.booleans())
def test_every_line_is_in_one_chunk(tmp_path_factory: pytest.TempPathFactory, lengths: list[int], ended: bool) -> None:
    lines = [b"header", *(b"x" * length for length in lengths)]
    text = b"\n".join(lines) + b"\n" * ended
    path = tmp_path_factory.mktemp("lines") / "lines.txt"
    path.write_bytes(text)
    chunks = [read_lines(str(path), number, CHUNK) for number in range(max(1, -(-len(text) // CHUNK)))]
    assert b"".join(chunk.body for chunk in chunks) == text.partition(b"\n")[2]
    of_chunks = [chunk_digest(text[start : start + CHUNK]).hex() for start in range(0, len(text), CHUNK)]
    assert [chunk.digest for chunk in chunks] == of_chunks


def test_of_a_line_that_goes_on_no_more_is_read_than_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"A|B\n1|2\n" + b"7" * (8 * LONGEST_LINE) + b"\n3|4\n")
    asked: list[int] = []
    read = files.read_bytes

    def watched(path: str, start: int = 0, stop: int = 0) -> bytes:
        asked.append(stop - start)
        return read(path, start, stop)

    monkeypatch.setattr(files, "read_bytes", watched)
    lines = read_lines(str(path), 0, CHUNK)
    assert sum(asked) < 1.2 * LONGEST_LINE
    table, findings = parse_rows("lines.txt", lines.body, ["A", "B"], ["A", "B"])
    assert table is None
    assert [(finding.rule, finding.first) for finding in findings] == [(TOO_LONG, 2)]
    assert lines.count == 2


@pytest.mark.parametrize(("length", "fits"), [(LONGEST_LINE - 2, True), (LONGEST_LINE - 1, False)])
def test_the_longest_line(tmp_path: Path, length: int, fits: bool) -> None:
    path = tmp_path / "table.txt"
    path.write_bytes(b"A|B\n1|2\n" + b"7" * length + b"|4\n5|6\n")
    table, findings = read_table(str(path), "table.txt", ["A", "B"])
    assert (table is not None) == fits
    assert [(finding.rule, finding.first) for finding in findings] == ([] if fits else [(TOO_LONG, 3)])


def test_a_header_without_an_end(tmp_path: Path) -> None:
    path = tmp_path / "table.txt"
    path.write_bytes(b"7" * 2**20)
    _, (findings,) = read_table(str(path), "table.txt", ["A", "B"])
    assert (findings.rule, findings.first, findings.values) == (LONG_HEADER, 1, ())


@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_byte_order_mark_before_a_later_row_is_part_of_its_value(row: int) -> None:
    rows = [b"1|2", b"3|4", b"5|6"]
    rows[row] = b"\xef\xbb\xbf" + rows[row]
    table, findings = parse_rows("table.txt", b"\n".join(rows), ["A", "B"], ["A", "B"])
    assert findings == []
    assert [value.startswith("\ufeff") for value in table["A"].to_pylist()] == [place == row for place in range(3)]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"\xef\xbb\xbf", b"\n", b"\r", b"|", b"1", b"\x00", b"\xff", b"\r\n", b'"']), max_size=30)
)
def test_no_bytes_break_the_reader(tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("bytes") / "table.txt"
    path.write_bytes(b"A|B\n" + b"".join(parts))
    table, findings = read_table(str(path), "table.txt", ["A", "B"])
    assert table is not None or findings
    if table is not None:
        assert len(table) == len(set(table["line"].to_pylist()))
