"""The fast reader takes exactly what the validating reader takes, or leaves it to that."""

from __future__ import annotations

import io
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dhca_inputs import CODES, PERSON_COLUMNS, PROPERTY, Inputs, new_run, people, person, validate_here
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.lifecycle.files import open_array
from tasks.records import fast_records
from tasks.records.block_codes import find_blocks
from tasks.records.fast_records import Parsed
from tasks.records.parquet import read_row_group
from tasks.records.records import Chunk
from tasks.records.tables import parse_rows
from tasks.safetab import compiled_counts, encode
from tasks.safetab.compiled_counts import SCATTER
from tasks.safetab.encode import encoded_chunks
from tasks.safetab.persons.person import PERSON
from tasks.safetab.readers import check_and_encode, distinct_combinations, encode_parsed, parse_records
from tasks.safetab.record_kind import GroupRecords

BLOCKS = np.sort(np.array([10010001001000, 10010001001001, 10010002001000, 20010001001000], np.int64))
Encoded = tuple[list[tuple[int, ...]], int]


@pytest.fixture(autouse=True)
def however_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the kernels for any number of persons."""
    monkeypatch.setattr(fast_records, "MIN_BYTES", 0)
    monkeypatch.setattr(fast_records, "MIN_ROWS", 0)


def person_file(header: tuple[str, ...] = tuple(PERSON_COLUMNS), most: int = 8) -> GroupRecords:
    numbers = {"Null": 0, **{code: number for number, code in enumerate(CODES, start=1)}}
    columns = tuple(PERSON_COLUMNS)
    return GroupRecords(
        "person-records.txt", header, columns, states=("01", "02"), code_numbers=numbers, max_race_codes=most
    )


def text_chunk(body: bytes) -> Chunk:
    return Chunk(lines=0, digest="", text=body, parse=lambda: (None, []), line_of_row=int)


def table_chunk(table: pa.Table) -> Chunk:
    return Chunk(lines=0, digest="", text=None, parse=lambda: (table, []), line_of_row=int)


def persons_of(arrays: dict[str, Any], left_out: int) -> Encoded:
    """(block row, cell, codes) of each person, in order, and how many were left out."""
    codes = arrays["combinations"][arrays["combination"]].tolist()
    block = np.repeat(arrays["block"], np.diff(arrays["ends"], prepend=0))
    return [
        (*pair, *codes) for *pair, codes in zip(block.tolist(), arrays["cell"].tolist(), codes, strict=True)
    ], left_out  # type: ignore[return-value]


def validating(file: GroupRecords, table: pa.Table | None, findings: list[Any]) -> Encoded | None:
    """What the validating reader encodes; None where it finds a fault or no person."""
    if table is None or findings or not len(table):
        return None
    arrays, left_out, faults = check_and_encode(PERSON, file, table, BLOCKS)
    return None if faults else flat(persons_of(arrays, left_out))


def flat(encoded: Encoded) -> Encoded:
    return [tuple(np.hstack(row).tolist()) for row in encoded[0]], encoded[1]


def fast(file: GroupRecords, persons: Parsed | None) -> Encoded | None:
    encoded = encode_parsed(file, persons, BLOCKS) if persons is not None else None
    return None if encoded is None else flat(persons_of(*encoded))


GOOD = {
    "QAGE": ["0", "9", "017", "000000020", "115", "84", "85"],
    "QSEX": ["1", "2"],
    "HOUSEHOLDER": ["True", "False"],
    "TABBLKST": ["01", "01", "02", "11"],
    "TABTRACTCE": ["000100", "000100", "000200"],
    "TABBLK": ["1000", "1000", "1001"],
    "CENRACE": ["01", "99"],
    "QRACE1": CODES[:4],
    "QRACE2": ["Null", "Null", *CODES[:2]],
    "QSPAN": CODES[4:],
}
HOSTILE = {
    "QAGE": ["116", "", "-1", " 3", "1e1", "0000000000030", "٣", "3\r"],
    "QSEX": ["3", "0", "", "11", "1 "],
    "HOUSEHOLDER": ["true", "Tru", "Fals", "", "Falsee", "1"],
    "TABBLKST": ["1", "0x", "99", "72", "001", ""],
    "TABTRACTCE": ["00100", "0001000", "00010a"],
    "TABBLK": ["1009", "100", "10000", "Null"],
    "CENRACE": ["1", "", "0a"],
    "QRACE1": ["Null", "0100", "9999", "110", "11000", "null"],
    "QRACE2": ["9999", "Nul", "NULL", "", "é"],
    "QRACE3": ["1100", "Null", "x"],
    "QSPAN": ["Null", "8000", "", "2000\n"],
}
good_value = {name: st.sampled_from(values) for name, values in GOOD.items()}
any_value = {name: st.sampled_from([*GOOD.get(name, ["Null"]) * 4, *values]) for name, values in HOSTILE.items()}
good_person = st.fixed_dictionaries(good_value).map(lambda values: person(**values))
any_person = st.fixed_dictionaries(any_value).map(lambda values: person(**values))
headers = st.permutations(PERSON_COLUMNS).map(tuple)


def text_of(rows: list[dict[str, str]], header: tuple[str, ...], end: str, *, last: bool) -> bytes:
    return (end.join("|".join(row[name] for name in header) for row in rows) + (end if last else "")).encode()


@given(rows=st.lists(good_person, min_size=1, max_size=12), header=headers, end=st.sampled_from(["\n", "\r\n"]))
@PROPERTY
def test_good_lines_are_taken(rows: list[dict[str, str]], header: tuple[str, ...], end: str) -> None:
    """In any order of columns, with either end of a line, with or without a last one."""
    for last in (True, False):
        file, body = person_file(header), text_of(rows, header, end, last=last)
        read = parse_records(PERSON, file, text_chunk(body))
        assert read is not None
        assert read.numbers.shape[1] == len(rows)
        assert fast(file, read) == validating(file, *parse_rows("", body, header, PERSON_COLUMNS, dictionary=True))


@given(
    rows=st.lists(any_person | good_person, max_size=6),
    header=headers,
    end=st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
    last=st.booleans(),
    most=st.integers(1, 3),
)
@PROPERTY
def test_hostile_values_are_left_to_the_validating_reader(
    rows: list[dict[str, str]], header: tuple[str, ...], end: str, last: bool, most: int
) -> None:
    file, body = person_file(header, most), text_of(rows, header, end, last=last)
    found = fast(file, parse_records(PERSON, file, text_chunk(body)))
    if found is not None and found[0]:
        assert found == validating(file, *parse_rows("", body, header, PERSON_COLUMNS, dictionary=True))


@given(
    rows=st.lists(good_person, min_size=1, max_size=3),
    changes=st.lists(
        st.tuples(st.integers(0, 10_000), st.integers(0, 2), st.sampled_from([*b'|\n\r01Nul\xff\x00"TF', None])),
        min_size=1,
        max_size=3,
    ),
    stop=st.none() | st.integers(0, 300),
)
@example(rows=[person()], changes=[(0, 3, None)], stop=None)
@PROPERTY
def test_changed_bytes_are_left_to_the_validating_reader(
    rows: list[dict[str, str]], changes: list[tuple[int, int, int | None]], stop: int | None
) -> None:
    """Bytes put in, taken out and replaced, and texts that end anywhere."""
    header, text = tuple(PERSON_COLUMNS), bytearray(text_of(rows, tuple(PERSON_COLUMNS), "\n", last=True))
    for at, taken, put in changes:
        at %= len(text) + 1
        text[at : at + taken] = b"" if put is None else bytes([put])
    file, body = person_file(header), bytes(text[:stop])
    found = fast(file, parse_records(PERSON, file, text_chunk(body)))
    if found is not None and found[0]:
        assert found == validating(file, *parse_rows("", body, header, PERSON_COLUMNS, dictionary=True))


@cache
def encoded_validating(rows: tuple[tuple[str, ...], ...]) -> Encoded | None:
    text = {
        name: pa.array(values).dictionary_encode()
        for name, values in zip(PERSON_COLUMNS, zip(*rows, strict=True), strict=True)
    }
    return validating(person_file(), pa.table(text), [])


FORMS: list[dict[str, Any]] = [{}, {"use_dictionary": False}, {"dictionary_pagesize_limit": 16, "data_page_size": 16}]


@given(
    persons=st.tuples(st.just(False), st.lists(any_person, min_size=1, max_size=6))
    | st.tuples(st.just(True), st.lists(good_person, min_size=1, max_size=12)),
    form=st.sampled_from(FORMS),
    kind=st.sampled_from(["text", "large", "dictionary", "more"]),
    size=st.integers(1, 6),
)
@PROPERTY
def test_parquet_of_any_form_is_what_its_values_are(
    persons: tuple[bool, list[dict[str, str]]], form: dict[str, Any], kind: str, size: int
) -> None:
    """Dictionaries in the file or none, some that overflow into plain text, some with values that nobody has."""
    good, rows = persons
    columns: dict[str, Any] = {name: pa.array([row[name] for row in rows]) for name in PERSON_COLUMNS}
    if kind == "large":
        columns = {name: column.cast(pa.large_string()) for name, column in columns.items()}
    if kind == "dictionary":
        columns = {name: column.dictionary_encode() for name, column in columns.items()}
    if kind == "more":
        unused = pa.array(["", "no value", "1"])
        columns = {name: _with_values(column.dictionary_encode(), unused) for name, column in columns.items()}
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, row_group_size=size, **form)
    for number, start in enumerate(range(0, len(rows), size)):
        table, findings = read_row_group(stream, number, "", PERSON_COLUMNS)
        assert table is not None
        assert findings == []
        here = rows[start : start + size]
        assert [dict(zip(PERSON_COLUMNS, row.values(), strict=True)) for row in table.to_pylist()] == here
        expected = encoded_validating(tuple(tuple(row.values()) for row in here))
        assert validating(person_file(), table, []) == expected
        found = fast(person_file(), parse_records(PERSON, person_file(), table_chunk(table)))
        assert found == expected or (found is None and not good)  # outside the states nothing is a fault


def _with_values(column: pa.DictionaryArray, more: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(column.indices, pa.concat_arrays([column.dictionary, more]))


@given(
    blocks=st.lists(st.integers(0, 60), unique=True, max_size=40).map(sorted),
    numbers=st.lists(st.integers(0, 61), max_size=30),
    ordered=st.booleans(),
)
@PROPERTY
def test_blocks_are_found_in_any_order(blocks: list[int], numbers: list[int], ordered: bool) -> None:
    wanted, sought = np.array(sorted(numbers) if ordered else numbers, np.int64), np.array(blocks, np.int64)
    row, known = find_blocks(sought, wanted)
    np.testing.assert_array_equal(known, np.isin(wanted, sought))
    np.testing.assert_array_equal(row[known], np.searchsorted(sought, wanted[known]))


@given(codes=st.lists(st.tuples(*[st.sampled_from([0, 1, 2, 65535])] * 9), max_size=40), scattered=st.booleans())
@PROPERTY
def test_combinations_are_numbered_as_they_come(codes: list[tuple[int, ...]], scattered: bool) -> None:
    """Also where all of them fall into one slot of the table, and where it is too small to begin with."""
    columns = np.array(codes, np.uint16).reshape(-1, 9).T.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_counts, "SCATTER", SCATTER * np.uint64(scattered))
        numbers, combinations = distinct_combinations(columns, slots=2)
    in_order = list(dict.fromkeys(codes))
    assert [tuple(row) for row in combinations.tolist()] == in_order
    assert numbers.tolist() == [in_order.index(code) for code in codes]


@pytest.mark.parametrize("form", ["text", "parquet", "required"])
def test_a_run_keeps_the_same_persons_either_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    params, data = Inputs(persons=people(60)).write(tmp_path)
    if form != "text":
        lines = (data / "person-records.txt").read_text().splitlines()[1:]
        rows = [line.split("|") for line in lines]
        table = {name: [row[place] for row in rows] for place, name in enumerate(PERSON_COLUMNS)}
        schema = pa.schema([pa.field(name, pa.string(), nullable=form == "parquet") for name in table])
        pq.write_table(pa.table(table, schema), data / "person-records.parquet", row_group_size=25)
        (data / "person-records.txt").unlink()
    kept, known_by = [], []
    for name in ("fast", "validating"):
        run = new_run(tmp_path, name)
        validated = validate_here(run, params, data)[0]
        assert validated is not None
        known_by.append(validated.records_digests)
        kept.append(
            Counter(
                row
                for folder in encoded_chunks(run)
                for row in zip(
                    np.repeat(open_array(folder, "block"), np.diff(open_array(folder, "ends"), prepend=0)).tolist(),
                    open_array(folder, "cell").tolist(),
                    map(tuple, open_array(folder, "combinations")[open_array(folder, "combination")].tolist()),
                    strict=True,
                )
            )
        )
        monkeypatch.setattr(fast_records, "MIN_BYTES", 1 << 30)
        monkeypatch.setattr(fast_records, "MIN_ROWS", 1 << 30)
        monkeypatch.setattr(encode, "kernels_loaded", bool)  # none
    assert kept[0] == kept[1]
    assert known_by[0] == known_by[1]
    assert sum(kept[0].values()) == 60
