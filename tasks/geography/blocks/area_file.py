"""Read areas from the files that people have: a table of blocks, each with its area.

Accepts text with a header, or Parquet; block assignment files; block equivalency files of districting plans, with or
without a header; a plain list of blocks, which is one area; a zip of one such file. Blocks have 15 digits, or 16 with
the repeated digit of the block group (docs/published.md#areas).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spine.geography import IntArray
from tasks.errors import Refused
from tasks.geography.blocks.area_names import MARKS, UNASSIGNED, doubtful_zero, natural, read_names
from tasks.records.block_codes import BLOCK_WIDTHS, COUNTY_UNIT, short_codes
from tasks.records.files import file_name, members, why
from tasks.records.public_table import PublicTable, TableFault, open_table

BLOCKS = ("GEOID20", "GEOID", "GEO_ID", "BLOCKID20", "BLOCKID", "BLOCK", "GEOCODE", "TABBLK")
BLOCKS_OF_2010 = ("GEOID10", "BLOCKID10", "GEOCODE10")
PARTS = (  # parts of a block's code, in separate columns
    ("STATE", "STATEFP20", "STATEFP", "TABBLKST"),
    ("COUNTY", "COUNTYFP20", "COUNTYFP", "TABBLKCOU"),
    ("TRACT", "TRACTCE20", "TRACTCE", "TABTRACTCE"),
    ("BLOCK", "BLOCKCE20", "BLOCKCE", "TABBLK"),
)
# Columns of areas; the first that exists is taken. A pattern covers all vintages, such as CD118FP.
AREAS = ("DISTRICT", r"CD\w*", r"SLDU\w*", r"SLDL\w*", "PLACEFP", "COUSUBFP", "AIANNHCE", "AREA", "NAME")
LAYERS = ("PLACEFP", "COUSUBFP", "AIANNHCE")  # the Bureau's codes: they are never marks of unassigned blocks
VTD = ["BLOCKID", "COUNTYFP", "DISTRICT"]  # a block assignment file whose codes are unique only within a county
_CODE = r"^(?:[0-9]{7}US)?([0-9]+)(?:\.0*)?$"  # with or without the summary level of data.census.gov
_BLOCK = r"^(?:[0-9]{7}US)?[0-9]{14,16}(?:\.0*)?$"
_QUOTES = " \t\r\"'="


@dataclass(frozen=True)
class AreaFile:
    """Blocks and their areas.

    code: (blocks,) sorted, 15 digits. area: (blocks,) index into `names`. notes: remarks about accepted peculiarities.
    columns: those that were read, in words. doubtful: the area 0 if it may mark unassigned blocks.
    """

    code: IntArray
    area: IntArray
    names: tuple[str, ...]
    notes: tuple[str, ...]
    columns: str = ""
    doubtful: str = ""


def read_areas(
    path: str,
    column: str | None = None,
    *,
    block_column: str | None = None,
    pad: bool = False,
    unassigned: str | None = None,
) -> AreaFile:
    """Return the areas of a file.

    column: the areas' column, or several joined by `+`. block_column: the blocks' column. pad: restore a leading zero
    that a spreadsheet dropped. unassigned: another mark of blocks in no area; "" if only blanks are marks.

    Raises Refused for a file that is not such a table, codes that did not exist in 2020, or a block in two areas.
    """
    path = _one_file(path)
    try:
        table = open_table(path, is_value=lambda cell: len(cell) > 4 and bool(re.match(_CODE, cell)))
        rows = table.read()
    except TableFault as fault:
        raise Refused(f"{path} is not a table of blocks: {fault.args[1]}") from None
    except OSError as error:
        raise Refused(f"{path}: {why(error)}") from None
    own, block = _blocks(table, rows.table, block_column)
    code, there = _codes(path, block, pad)
    others = [name for name in rows.table.column_names if name not in own]
    columns = _area_columns(table, others, column)
    text = _area_texts(path, rows.table, columns)
    notes = [*rows.notes]
    if lost := int((~there & np.asarray(pc.not_equal(text, ""))).sum()):
        notes.append(f"rows with an area but no block, left out: {lost:,}")
    encoded = text.filter(pa.array(there)).combine_chunks().dictionary_encode()
    texts, number = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)
    _refuse_control(path, code, encoded, there)
    marks = () if len(columns) != 1 or columns[0].upper() in LAYERS or unassigned == "" else MARKS
    rows_of = dict(zip(texts, np.bincount(number, minlength=len(texts)).tolist(), strict=True))
    areas, more = read_names(rows_of, {UNASSIGNED, *marks, (unassigned or "").strip().casefold()})
    named = np.array([bool(areas[each]) for each in texts], bool)[number]
    if not named.any():
        raise Refused(f"{path} assigns no block to an area")
    code, names = code[named], pa.array([areas[each] for each in texts], pa.string()).take(pa.array(number[named]))
    if column is None:
        _refuse_several_counties(path, others, columns, code, names)
    found = _one_area_each(path, code, names, [*notes, *more])
    words = f"blocks in {', '.join(own)}, areas in {', '.join(columns) or 'the name of the file'}"
    doubtful = doubtful_zero(found.names) if marks and unassigned is None else ""
    return replace(found, columns=words, doubtful=doubtful)


def _refuse_control(path: str, code: IntArray, named: pa.DictionaryArray, there: np.ndarray) -> None:
    """Refuse a name that could steer a terminal, end a line or hide in a page; name its row and block."""
    bad = np.asarray(pc.match_substring_regex(named.dictionary, r"[\p{C}\p{Zl}\p{Zp}]"))
    if bad.any():
        bad = bad[named.indices.to_numpy()]
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
            f"{path} holds {len(inside)} files, not one table: name the table, as zip://NAME::{path}"
            + (f" ({names}{', ...' if len(inside) > 6 else ''})" if inside else "")
        )
    return inside[0]


def _blocks(table: PublicTable, rows: pa.Table, wanted: str | None) -> tuple[tuple[str, ...], pa.ChunkedArray]:
    """Return the column of blocks, or the four that make up their codes, and the codes as text."""
    if wanted is not None:
        (name,) = table.columns([wanted]).values()
        return (name,), rows[name]
    known = next((found for name in BLOCKS if (found := table.find(name))), None)
    parts = [next((found for name in names if (found := table.find(name))), None) for names in PARTS]
    if None not in parts and (known is None or (known in parts and not _all_match(rows[known], _BLOCK))):
        return tuple(map(str, parts)), _joined([rows[str(part)] for part in parts])
    if known is None and (old := [name for name in table.names if name.upper() in BLOCKS_OF_2010]):
        raise table.fault(
            f"the column {old[0]} has blocks of the 2010 census, and the measurements are of the 2020 census: "
            "take the file for 2020 blocks (GEOID20)"
        )
    alike = [known] if known else [name for name in rows.column_names if _all_match(rows[name], _BLOCK)]
    if len(alike) != 1:
        raise table.fault(
            f"it has no column of blocks ({', '.join(BLOCKS[:-1])} or tabblk), and {len(alike) or 'none'} whose values "
            f"all have 15 digits: name it with --block-column; it has {table.shown()}"
        )
    return (alike[0],), rows[alike[0]]


def _all_match(column: pa.ChunkedArray, pattern: str) -> bool:
    """Return whether all values of a column except blanks match, and there is one."""
    text = pc.utf8_trim(column, characters=_QUOTES)
    blank = pc.equal(text, "")
    return not pc.all(blank).as_py() and bool(pc.all(pc.or_(blank, pc.match_substring_regex(text, pattern))).as_py())


def _joined(parts: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Return the codes of state, county, tract and block joined, padded with zeros."""
    texts = []
    for part, width in zip(parts, BLOCK_WIDTHS, strict=True):
        text = pc.replace_substring_regex(pc.utf8_trim(part, characters=_QUOTES), pattern=_CODE, replacement=r"\1")
        texts.append(pc.if_else(pc.equal(text, ""), "", pc.utf8_lpad(text, width, "0")))
    return pc.binary_join_element_wise(*texts, "")


def _area_columns(table: PublicTable, others: Sequence[str], wanted: str | None) -> tuple[str, ...]:
    """Return the column of areas, or two if one has the county; empty for a list of blocks."""
    if wanted is not None:
        names = [wanted] if table.find(wanted) else [name.strip() for name in wanted.split("+")]
        found = [table.find(name) for name in names]
        if lacking := [name for name, own in zip(names, found, strict=True) if own is None]:
            raise table.fault(f"it has no column {lacking[0]}; it has {_shown(others)}")
        return tuple(map(str, found))
    if len(others) < 2:
        return tuple(others)
    for pattern in AREAS:
        if area := next((name for name in others if re.fullmatch(pattern, name, re.IGNORECASE)), None):
            county = next((name for name in others if name.upper() in PARTS[1]), None)
            of_county = area.upper() == "COUSUBFP" or ([*map(str.upper, table.names)] == VTD and table.delimiter == "|")
            return (county, area) if county and of_county else (area,)
    raise table.fault(f"which column is the area? Name it with --area-column; it has {_shown(others)}")


def _area_texts(path: str, rows: pa.Table, columns: Sequence[str]) -> pa.ChunkedArray:
    """Return the text of each row's area, or the name of the file if no column has areas."""
    if not columns:
        name = file_name(path.partition("::")[0].removeprefix("zip://")).partition(".")[0]
        return pa.chunked_array([pa.array([name] * len(rows), pa.string())])
    texts = [
        pc.replace_substring_regex(pc.utf8_trim_whitespace(rows[name]), pattern='^="(.*)"$', replacement=r"\1")
        for name in columns
    ]
    joined = pc.binary_join_element_wise(*texts, "")
    return texts[0] if len(texts) == 1 else pc.if_else(pc.equal(texts[-1], ""), "", joined)


def _refuse_several_counties(
    path: str, others: Sequence[str], columns: Sequence[str], code: IntArray, names: pa.Array
) -> None:
    """Refuse a DISTRICT column with a county column if a code is in several counties: it may be one district or
    several.
    """
    county = next((name for name in others if name.upper() in PARTS[1]), None)
    if county is None or [name.upper() for name in columns] != ["DISTRICT"]:
        return
    pairs = np.unique(np.column_stack([code // COUNTY_UNIT, names.dictionary_encode().indices.to_numpy()]), axis=0)
    if len(pairs) > len(np.unique(pairs[:, 1])):
        raise Refused(
            f"{path}: the same {columns[0]} is in several counties: add --area-column {columns[0]} if it is one area "
            f"in all of them, --area-column {county}+{columns[0]} if each county has its own"
        )


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:12])[:200] + (", ..." if len(names) > 12 else "")


def _codes(path: str, block: pa.ChunkedArray, pad: bool) -> tuple[IntArray, np.ndarray]:
    """Return every row that is not blank as a number of 15 digits, and which rows these are."""
    text = pc.utf8_trim(block, characters=_QUOTES)
    there = np.asarray(pc.not_equal(text, ""))
    text = text.filter(pa.array(there))
    digits = pc.replace_substring_regex(text, pattern=_CODE, replacement=r"\1")
    if pad:
        digits = pc.if_else(pc.equal(pc.utf8_length(digits), 14), pc.binary_join_element_wise("0", digits, ""), digits)
    lost = pc.match_substring_regex(digits, "^[0-9]{14}$")
    _refuse(path, text, lost, "codes of 14 digits", "a leading zero was lost: put it back, or add --pad")
    wrong = pc.invert(pc.match_substring_regex(digits, "^[0-9]{15,16}$"))
    remedy = "a block has 15 digits, or 16 with the block group's repeated: give them as text"
    _refuse(path, text, wrong, "codes that are not a block's", remedy)
    number = digits.cast(pa.int64()).to_numpy().astype(np.int64)
    long = np.asarray(pc.equal(pc.utf8_length(digits), 16))
    repeated = number // 10**4 % 10 == number // 10**3 % 10
    fault = "codes of 16 digits that do not repeat the block group's"
    _refuse(path, text, pa.array(long & ~repeated), fault, "a block has 15 digits")
    return np.where(long, short_codes(number), number), there


def _refuse(path: str, text: pa.ChunkedArray, wrong: pa.Array, fault: str, remedy: str) -> None:
    """Refuse codes with a fault, naming up to three."""
    rows = np.flatnonzero(np.asarray(wrong))
    if len(rows):
        shown = shown_examples(text.take(pa.array(rows[:4])).to_pylist())
        raise Refused(f"{path}: {fault}: {len(rows):,} ({shown}); {remedy}")


def shown_examples(values: Sequence[object]) -> str:
    """Return the first three values for a message, and a mark if there are more."""
    return ", ".join(str(value)[:24] for value in values[:3]) + ", …" * (len(values) > 3)


def _one_area_each(path: str, code: IntArray, named: pa.Array, notes: list[str]) -> AreaFile:
    """Return every block once; areas are in the order of their numbers or names."""
    encoded = named.dictionary_encode()  # numpy would allot every row the longest name's width
    names, area = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)
    order = np.lexsort((area, code))
    code, area = code[order], area[order]
    again = np.flatnonzero(code[1:] == code[:-1])
    differ = again[area[again + 1] != area[again]]
    if len(differ):
        twice = np.unique(code[differ])
        shown = shown_examples([f"{one:015d}" for one in twice[:4].tolist()])
        raise Refused(f"{path}: blocks in two areas: {len(twice):,} ({shown}); areas must not overlap")
    if len(again):
        notes = [*notes, f"rows that repeat a block and its area: {len(again):,}"]
        keep = np.append(True, code[1:] != code[:-1])
        code, area = code[keep], area[keep]
    rank = sorted(range(len(names)), key=lambda at: natural(names[at]))
    place = np.empty(len(names), np.int64)
    place[rank] = np.arange(len(names))
    return AreaFile(code, place[area], tuple(names[at] for at in rank), tuple(notes))
