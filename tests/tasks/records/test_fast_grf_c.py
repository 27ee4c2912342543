"""The fast reader of GRF-C takes exactly what the validating reader takes, or leaves it to that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from dhca_inputs import HERE, PROPERTY, cut_files, new_run
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.geography import grf_c
from tasks.geography.grf_c import COLUMNS, BlockCodes, RegionMap, parse_blocks, read_region_map
from tasks.records.files import LONGEST_LINE, digest_file
from tasks.records.marks import GRF_FILE
from tasks.safetab.persons.run import DetailedRun

STATES = ("01", "02", "72")
MORE = (*COLUMNS, "NAME")
GOOD = {
    "TABBLKST": ["01", "01", "02", "11"],
    "TABBLKCOU": ["001", "003"],
    "TABTRACTCE": ["000100", "990000"],
    "TABBLK": ["1000", "1001", "0001"],
    "PLACEFP": ["99999", "00100", "00200"],
    "AIANNHCE": ["9999", "0070"],
    "NAME": ["", "a b", "x" * 9],
}
BAD = {"TABBLKST": "1", "TABBLKCOU": "0a1", "TABBLK": "10000", "PLACEFP": "", "AIANNHCE": "٣٣٣٣", "NAME": "ñ"}
good_block = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in GOOD.items()})
any_block = st.fixed_dictionaries(
    {name: st.sampled_from([*values * 4, BAD.get(name, values[0])]) for name, values in GOOD.items()}
)


@contextmanager
def in_chunks(chunk_bytes: int) -> Iterator[tuple[DetailedRun, Path]]:
    """A run and a data folder, files of any size being read by chunks of so many bytes."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        cut_files(patch, chunk_bytes)
        patch.setattr(grf_c, "MIN_BYTES", 0)
        yield new_run(Path(folder), "run"), Path(folder)


def text_of(blocks: list[dict[str, str]], header: tuple[str, ...], end: str) -> bytes:
    rows = [header, *([block[name] for name in header] for block in blocks)]
    return "".join("|".join(row) + end for row in rows).encode()


def parsed(run: DetailedRun, data: Path) -> BlockCodes | None:
    return parse_blocks(run, HERE, str(data / GRF_FILE))


def contents(read: tuple[RegionMap | None, list[Any]]) -> Any:
    found, findings = read
    return [None if found is None else [_plain(getattr(found, field.name)) for field in fields(found)], findings]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return (value.dtype, value.tolist()) if isinstance(value, np.ndarray) else value


def check(run: DetailedRun, data: Path) -> BlockCodes | None:
    """Blocks that the fast reader takes are those of the validating one, with the file's digest."""
    blocks = parsed(run, data)
    if blocks is not None:
        assert blocks.digest == digest_file(str(data / GRF_FILE))
        for jurisdiction in ("us", "pr"):
            plain = contents(read_region_map(str(data), jurisdiction, STATES))  # type: ignore[arg-type]
            assert contents(read_region_map(str(data), jurisdiction, STATES, blocks)) == plain  # type: ignore[arg-type]
    return blocks


@given(
    blocks=st.lists(good_block, min_size=1, max_size=12),
    header=st.permutations(MORE).map(tuple),
    end=st.sampled_from(["\n", "\r\n", "\n\n"]),
    chunk_bytes=st.integers(40, 400),
)
@PROPERTY
def test_good_lines_are_taken(
    blocks: list[dict[str, str]], header: tuple[str, ...], end: str, chunk_bytes: int
) -> None:
    """In any order of columns and blocks, in any chunks; the validating reader finds blocks that appear twice."""
    with in_chunks(chunk_bytes) as (run, data):
        (data / GRF_FILE).write_bytes(text_of(blocks, header, end))
        found = check(run, data)
        assert found is not None
        assert len(found.block) == len(blocks)
        assert not (run / "prepared/blocks").exists()


@given(
    blocks=st.lists(any_block, min_size=1, max_size=6),
    changes=st.lists(
        st.tuples(st.integers(0, 10_000), st.integers(0, 2), st.sampled_from([*b"|\n\r09a\xff\x00", None])), max_size=2
    ),
)
@example(blocks=[], changes=[])
@PROPERTY
def test_hostile_lines_are_left_to_the_validating_reader(
    blocks: list[dict[str, str]], changes: list[tuple[int, int, int | None]]
) -> None:
    text = bytearray(text_of(blocks, MORE, "\n"))
    for at, taken, put in changes:
        at %= len(text) + 1
        text[at : at + taken] = b"" if put is None else bytes([put])
    with in_chunks(10_000) as (run, data):
        (data / GRF_FILE).write_bytes(text)
        check(run, data)


def test_a_small_file_and_none_are_left_to_the_validating_reader(tmp_path: Path) -> None:
    run = new_run(tmp_path, "run")
    assert parsed(run, tmp_path) is None
    (tmp_path / GRF_FILE).write_bytes(text_of([{name: values[0] for name, values in GOOD.items()}], MORE, "\n"))
    assert parsed(run, tmp_path) is None
    assert read_region_map(str(tmp_path), "us", STATES)[0] is not None


def test_a_line_that_is_too_long_is_left_to_the_validating_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    block = {name: values[0] for name, values in GOOD.items()}
    with in_chunks(1 << 22) as (run, data):
        for length, taken in ((100, True), (LONGEST_LINE + 1, False)):
            (data / GRF_FILE).write_bytes(text_of([block | {"NAME": "x" * length}], MORE, "\n"))
            assert (check(run, data) is not None) == taken


def test_regions_of_blocks_in_any_order() -> None:
    """Held against numpy's plainest way to number codes."""
    random = np.random.default_rng(1)
    code = np.where(random.random(50) < 0.3, grf_c.NOWHERE, random.integers(0, 9, 50))
    for each in (code, np.sort(code), np.sort(np.abs(code)), np.full(3, grf_c.NOWHERE), code[:0]):
        codes, numbers = grf_c._numbered(each)
        assert codes.tolist() == sorted(set(each.tolist()) - {grf_c.NOWHERE})
        assert [codes[number] if number >= 0 else -1 for number in numbers] == each.tolist()
