"""Read areas as people have them: a table of blocks, each with its area.

CSV or pipe-delimited with a header; block assignment files; block equivalency files of districting plans, with or
without a header; a plain list of blocks, which is one area; a zip of one such file. Blocks are 15 digits, or 16 with
the repeated digit of the block group (docs/published.md#areas).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from spine.geography import IntArray
from tasks.inputs.block_codes import short_codes
from tasks.inputs.files import file_name, members, open_file, why
from tasks.inputs.tables import HEADER_BYTES, LONG_HEADER
from tasks.lifecycle.errors import Refused

BLOCKS = ("GEOID20", "GEOID", "GEO_ID", "BLOCKID20", "BLOCKID", "BLOCK", "GEOCODE", "TABBLK")
BLOCKS_OF_2010 = ("GEOID10", "BLOCKID10", "GEOCODE10")
# Columns of areas, the first that is there; a pattern is of any vintage, as CD118FP.
AREAS = ("DISTRICT", r"CD\w*", r"SLDU\w*", r"SLDL\w*", "PLACEFP", "COUSUBFP", "AIANNHCE", "AREA", "NAME")
WITHIN_COUNTY = ("DISTRICT", "COUSUBFP")  # codes that other counties have too, where the table has the county
UNASSIGNED = "unassigned"  # the name of what is in no area
LARGEST = 1 << 29  # bytes of a table; the blocks of the nation with their districts are 0.2 GB
_CODE = r"^(?:[0-9]{7}US)?([0-9]+)$"  # with or without the summary level of data.census.gov


@dataclass(frozen=True)
class AreaFile:
    """Blocks and their areas.

    code: (blocks,) sorted, 15 digits. area: (blocks,) which of the names. notes: remarks that are no faults.
    """

    code: IntArray
    area: IntArray
    names: tuple[str, ...]
    notes: tuple[str, ...]


def read_areas(path: str, column: str | None = None, *, pad: bool = False) -> AreaFile:
    """Return the areas of a file. column: of the areas; pad: put back a leading zero that a spreadsheet took.

    Raises Refused for a file that is no such table, codes that did not exist in 2020, or a block in two areas.
    """
    path = _one_file(path)
    try:
        with open_file(path, compression="infer") as file:
            body = file.read(LARGEST + 1)
    except OSError as error:
        raise Refused(f"{path}: {why(error)}") from None
    if len(body) > LARGEST:
        raise Refused(f"{path} has more than {LARGEST:,} bytes: it is no table of blocks")
    if body[:4] == b"PK\x03\x04":
        raise Refused(f"{path} is a workbook or an archive: save the table as CSV")
    block, area = _columns(path, _table(path, body), column)
    code, there = _codes(path, block, pad)
    name = pc.utf8_trim_whitespace(area)
    name = pc.if_else(pc.equal(pc.utf8_lower(name), UNASSIGNED), "", name)
    named = name.to_numpy(zero_copy_only=False)[there]
    notes = []
    if lost := int((~there & np.asarray(pc.not_equal(pc.utf8_trim_whitespace(area), ""))).sum()):
        notes.append(f"rows with an area and without a block, which are left out: {lost:,}")
    if blank := int((named == "").sum()):
        notes.append(f"rows with a blank area, whose blocks are {UNASSIGNED}: {blank:,}")
    _refuse_control(path, code, named, there)
    code, named = code[named != ""], named[named != ""]
    if not len(code):
        raise Refused(f"{path} assigns no block to an area")
    return _one_area_each(path, code, named, notes)


def _refuse_control(path: str, code: IntArray, named: np.ndarray, there: np.ndarray) -> None:
    """Refuse a name that could steer a terminal, end a line or hide in a page, by its row and block."""
    bad = np.asarray(pc.match_substring_regex(pa.array(named, pa.string()), r"[\p{C}\p{Zl}\p{Zp}]"))
    if bad.any():
        at = int(bad.argmax())
        raise Refused(
            f"{path}, row {int(np.flatnonzero(there)[at]) + 1} of the table (block {int(code[at]):015d}): the name of "
            "the area has a control character: take it out"
        )


def _one_file(path: str) -> str:
    if not path.lower().endswith(".zip") or "::" in path:
        return path
    inside = members(path)
    if len(inside) != 1:
        names = ", ".join(member.partition("::")[0].removeprefix("zip://") for member in sorted(inside)[:6])
        raise Refused(
            f"{path} holds {len(inside)} files, and one table is wanted: name it, as zip://NAME::{path}"
            + (f" ({names}{', ...' if len(inside) > 6 else ''})" if inside else "")
        )
    return inside[0]


def _table(path: str, body: bytes) -> pa.Table:
    """Return the table, text in all columns; without a header the columns are called 0 and 1."""
    if b"\0" in body[:HEADER_BYTES]:
        raise Refused(f"{path} is no text: save the table as CSV in UTF-8")
    if len(body) > HEADER_BYTES and b"\n" not in body[:HEADER_BYTES]:
        raise Refused(f"{path}: {LONG_HEADER}")
    try:
        body.decode("utf-8-sig")
        encoding = "utf8"
    except UnicodeDecodeError:
        encoding = "latin1"
    body = body.removeprefix(b"\xef\xbb\xbf")
    line = body[: HEADER_BYTES + 1].split(b"\n", 1)[0].decode(encoding, "replace").strip()
    delimiter = next((mark for mark in "|\t;" if mark in line), ",")
    first = [cell.strip().strip("\"'") for cell in line.split(delimiter)]
    headless = bool(re.match(_CODE, first[0])) and len(first) <= 2
    names = [str(n) for n in range(len(first))] if headless else [name.upper() for name in first]
    if len(set(names)) < len(names):
        raise Refused(f"{path}: a column comes twice in the header {', '.join(first)[:200]}")
    try:
        return pyarrow.csv.read_csv(
            pa.BufferReader(body),
            read_options=pyarrow.csv.ReadOptions(
                column_names=names, skip_rows=0 if headless else 1, encoding=encoding, use_threads=False
            ),
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        raise Refused(f"{path} is no table of blocks: {str(error).splitlines()[0][:200]}") from None


def _columns(path: str, table: pa.Table, column: str | None) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return the columns of blocks and of areas."""
    names: list[str] = table.column_names
    if names == ["0"]:
        one_name = file_name(path.partition("::")[0].removeprefix("zip://")).partition(".")[0]
        return table["0"], pa.chunked_array([pa.array([one_name] * len(table), pa.string())])
    if names == ["0", "1"]:
        return table["0"], table["1"]
    block = next((name for name in BLOCKS if name in names), None)
    if block is None and (old := [name for name in names if name in BLOCKS_OF_2010]):
        raise Refused(
            f"{path}: the column {old[0]} has blocks of the 2010 census, and the measurements are of the 2020 census: "
            "take the file for 2020 blocks (GEOID20)"
        )
    if block is None:
        raise Refused(f"{path} has no column of blocks ({', '.join(BLOCKS[:-1])} or tabblk); it has {_shown(names)}")
    others = [name for name in names if name != block]
    if column is not None:
        if column.upper() not in others:
            raise Refused(f"{path} has no column {column}; it has {_shown(others)}")
        return table[block], table[column.upper()]
    if not others:
        return _columns(path, table.rename_columns(["0"]), None)
    area = others[0] if len(others) == 1 else None
    for pattern in AREAS:
        area = area or next((name for name in others if re.fullmatch(pattern, name)), None)
    if area is None:
        raise Refused(f"{path}: which column is the area? Name it with --area-column; it has {_shown(others)}")
    if area in WITHIN_COUNTY and "COUNTYFP" in others:
        joined = pc.if_else(
            pc.equal(table[area], ""), "", pc.binary_join_element_wise(table["COUNTYFP"], table[area], "")
        )
        return table[block], joined
    return table[block], table[area]


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:12])[:200] + (", ..." if len(names) > 12 else "")


def _codes(path: str, block: pa.ChunkedArray, pad: bool) -> tuple[IntArray, np.ndarray]:
    """Return the 15 digits of every row that is not blank as a number, and which rows those are."""
    text = pc.utf8_trim(block, characters=" \t\r\"'=")
    there = np.asarray(pc.not_equal(text, ""))
    text = text.filter(pa.array(there))
    digits = pc.replace_substring_regex(text, pattern=_CODE, replacement=r"\1")
    if pad:
        digits = pc.if_else(pc.equal(pc.utf8_length(digits), 14), pc.binary_join_element_wise("0", digits, ""), digits)
    lost = pc.match_substring_regex(digits, "^[0-9]{14}$")
    _refuse(path, text, lost, "codes of 14 digits", "a leading zero was lost: put it back, or add --pad")
    wrong = pc.invert(pc.match_substring_regex(digits, "^[0-9]{15,16}$"))
    remedy = "a block has 15 digits, or 16 with the block group's repeated: give them as text"
    _refuse(path, text, wrong, "codes that are no block's", remedy)
    number = digits.cast(pa.int64()).to_numpy().astype(np.int64)
    long = np.asarray(pc.equal(pc.utf8_length(digits), 16))
    repeated = number // 10**4 % 10 == number // 10**3 % 10
    fault = "codes of 16 digits that do not repeat the block group's"
    _refuse(path, text, pa.array(long & ~repeated), fault, "a block has 15 digits")
    return np.where(long, short_codes(number), number), there


def _refuse(path: str, text: pa.ChunkedArray, wrong: pa.Array, fault: str, remedy: str) -> None:
    """Refuse codes with a fault, three of them by name."""
    rows = np.flatnonzero(np.asarray(wrong))
    if len(rows):
        shown = shown_examples(text.take(pa.array(rows[:3])).to_pylist())
        raise Refused(f"{path}: {fault}: {len(rows):,} ({shown}); {remedy}")


def shown_examples(values: Sequence[object]) -> str:
    """Return at most three values in a message."""
    return ", ".join(str(value)[:24] for value in values[:3])


def _one_area_each(path: str, code: IntArray, named: np.ndarray, notes: list[str]) -> AreaFile:
    """Return every block once, areas in the order of their numbers or names."""
    encoded = pa.array(named, pa.string()).dictionary_encode()  # numpy would give every row the longest name's room
    names, area = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)
    order = np.lexsort((area, code))
    code, area = code[order], area[order]
    again = np.flatnonzero(code[1:] == code[:-1])
    differ = again[area[again + 1] != area[again]]
    if len(differ):
        twice = np.unique(code[differ])
        shown = shown_examples([f"{one:015d}" for one in twice[:3]])
        raise Refused(f"{path}: blocks in two areas: {len(twice):,} ({shown}); areas must not overlap")
    if len(again):
        notes = [*notes, f"rows that repeat a block and its area: {len(again):,}"]
        keep = np.append(True, code[1:] != code[:-1])
        code, area = code[keep], area[keep]
    rank = sorted(range(len(names)), key=lambda at: natural(names[at]))
    place = np.empty(len(names), np.int64)
    place[rank] = np.arange(len(names))
    return AreaFile(code, place[area], tuple(names[at] for at in rank), tuple(notes))


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a key by which names are sorted with their numbers, of at most 18 digits, as numbers."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", name)
    return [(0, int(part), part) if part.isascii() and part.isdigit() else (1, 0, part) for part in parts]
