"""Read the blocks of a spine from block tables of any format. Errors in the geography name the block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from spine.entities import prims
from spine.geography import (
    NO_AIANNH,
    NO_COUSUB,
    NO_PLACE,
    NO_SCHOOL_DISTRICT,
    BadGeography,
    Geography,
    IntArray,
    checked,
    concatenate,
    geocode16,
    geoid15,
    gq_pattern,
)
from spine.settings import SpineSettings
from tasks.errors import Refused
from tasks.geography.blocks.files import block_files
from tasks.geography.blocks.pl94 import GQ_TYPES, with_group_quarters
from tasks.geography.blocks.tables import read_rows, recognize
from tasks.records.block_codes import BLOCK_COLUMNS, BLOCK_WIDTHS, DISTRICTS, short_codes
from tasks.records.files import why
from tasks.records.public_table import open_table, whole_numbers

GQ_COUNTS = tuple(f"gq{i}" for i in range(1, 8))
KNOWN = ("tabblk", "primgeo", *GQ_COUNTS, "hu", "pop")


def read_geography(
    source: str | Path,
    settings: SpineSettings,
    states: Sequence[int] = (),
    extra: str | None = None,
) -> tuple[Geography, list[str]]:
    """Return the blocks that `settings` cover, and notes on what was left out or is unknown.

    source: a block table (docs/spec/files.md#block-tables) or a directory of them, plain or compressed, local or an
    fsspec URL. states: only these; empty for all. extra: a table of prims and living quarters by block (`_with_extra`).

    Raises Refused if the table contradicts itself, lacks a column, or has no block that the settings cover.
    """
    try:
        parts = [_read_file(path, settings, prims_given=extra is not None) for path in block_files(str(source))]
        geography = checked(concatenate(parts))
        if extra is not None:
            geography = _with_extra(geography, extra)
    except BadGeography as bad:
        raise Refused(f"{source}: {bad}") from bad
    except OSError as error:
        raise Refused(f"{error.filename or source} cannot be read: {why(error)}") from error
    return _covered(geography, settings, states, str(source))


def _read_file(path: str, settings: SpineSettings, *, prims_given: bool) -> Geography:
    file = recognize(path)
    statuses = {"COUSUBFS", "PLACEFS"} if file.headless else set()
    lacking = [name for name in needed(settings, prims_given=prims_given) if name not in {*file.columns, *statuses}]
    if lacking:
        raise Refused(
            f"{file}: the settings {settings.product} need the column(s) {', '.join(lacking)}; "
            "P.L. 94-171 files (??2020.pl.zip) have all of them"
        )
    table = read_rows(file)
    return _geography(with_group_quarters(path, table) if file.headless else table, settings)


def needed(settings: SpineSettings, *, prims_given: bool = False) -> list[str]:
    """Return the columns, by GRF-C's names, that a spine with these settings requires (except GQ types).

    prims_given: whether a separate prim crosswalk exists.
    """
    names = ["PLACEFP"]
    if settings.jurisdiction == "us":
        names += ["COUSUBFP", "AIANNHCE"]
    if "sd" in settings.entities:
        names += DISTRICTS[:1]  # most states have unified school districts only
    if "Prim" in settings.levels and settings.jurisdiction == "us" and not prims_given:
        names += ["COUSUBFS", "PLACEFS"]
    return names


def _geography(table: pa.Table, settings: SpineSettings) -> Geography:
    parts = {name: _integers(table, name, -1) for name in BLOCK_COLUMNS}
    for name, width in zip(BLOCK_COLUMNS, BLOCK_WIDTHS, strict=True):
        bad = np.flatnonzero((parts[name] < 0) | (parts[name] >= 10**width))
        if len(bad):
            words = zip(("state", "county", "tract", "block"), parts.values(), strict=True)
            codes = ", ".join(f"{word} {values[bad[0]]}" for word, values in words)
            raise BadGeography(f"row {bad[0] + 1} names no block ({codes.replace('-1', 'blank')})")
    geocode = geocode16(*parts.values())
    block, columns = parts[BLOCK_COLUMNS[-1]], set(table.column_names)
    if "GEOID" in columns:
        _same(geocode, _integers(table, "GEOID", -1), geocode // 10**5 * 10**4 + block, "outside its tract")
    if "TABBLKGRPCE" in columns:
        _same(geocode, _integers(table, "TABBLKGRPCE", -1), block // 1000, "outside its block group")
    geography = Geography(
        geocode=geocode,
        place=_code(table, "PLACEFP", NO_PLACE, geocode).astype(np.int32),
        cousub=_code(table, "COUSUBFP", NO_COUSUB, geocode).astype(np.int32),
        aiannh=_code(table, "AIANNHCE", NO_AIANNH, geocode).astype(np.int16),
        school_district=_school_district(table, geocode),
        gq=gq_pattern([_integers(table, name, 0) > 0 for name in GQ_TYPES]) if columns.issuperset(GQ_TYPES) else None,
        # whether a block has living quarters; `quarters` is 0 if all live in group quarters
        universe=(_integers(table, "HU", 0) > 0) | (_integers(table, "POP", 0) > 0) if "HU" in columns else None,
        population=_integers(table, "POP", 0).astype(np.int32) if "POP" in columns else None,
    )
    return _with_prims(geography, table, settings)


def _same(geocode: IntArray, given: IntArray, expected: IntArray, what: str) -> None:
    wrong = np.flatnonzero((given != expected) & (given != -1))
    if len(wrong):
        raise BadGeography(f"block {geoid15(int(geocode[wrong[0]]))} lies {what}, but the table has {given[wrong[0]]}")


def _code(table: pa.Table, name: str, none: int, geocode: IntArray) -> IntArray:
    if name not in table.column_names:
        return np.full(len(geocode), none, np.int64)
    code = _integers(table, name, none)
    bad = np.flatnonzero((code < 0) | (code > none))
    if len(bad):
        raise BadGeography(f"block {geoid15(int(geocode[bad[0]]))} has the invalid {name} {code[bad[0]]}")
    return code


def _integers(table: pa.Table, name: str, none: int) -> IntArray:
    column = pc.fill_null(table[name], none)
    return cast(IntArray, column.to_numpy().astype(np.int64, copy=False))


def _school_district(table: pa.Table, geocode: IntArray) -> IntArray | None:
    if not set(DISTRICTS) & set(table.column_names):
        return None
    code = np.zeros(len(geocode), np.int64)
    for name in DISTRICTS:
        code = code * 10**5 + _code(table, name, 99999, geocode)
    assert code.max(initial=0) <= NO_SCHOOL_DISTRICT
    return code


def _with_prims(geography: Geography, table: pa.Table, settings: SpineSettings) -> Geography:
    if "Prim" not in settings.levels:
        return geography
    status = [_letters(table, name) for name in ("COUSUBFS", "PLACEFS")]
    if settings.jurisdiction == "us" and any(each is None for each in status):
        return geography  # a separate table has the prims
    return replace(geography, prim=prims(geography, *status))


def _letters(table: pa.Table, name: str) -> IntArray | None:
    if name not in table.column_names:
        return None
    letters = pc.fill_null(table[name], "").to_pylist()
    return np.array([ord(letter[0]) if letter else 0 for letter in letters])


def _with_extra(geography: Geography, source: str) -> Geography:
    """Return the geography with further data on its blocks; a block that the data lacks has no living quarters.

    source: a CSV, one row per block: `tabblk` (15 digits) and any of `primgeo` (the prim crosswalk of the Estimates and
    Projections Area), `gq1` .. `gq7` (facilities of the major group-quarters types 1xx .. 7xx-9xx), `hu` (housing
    units), `pop`.

    Raises BadGeography for an unknown column, a repeated block, a block without a prim, and a value that is not a
    number.
    """
    table = _read_extra(source)
    block = short_codes(geography.geocode)
    row = table.index.get_indexer(pd.Index(block))
    added: dict[str, Any] = {}
    if "primgeo" in table:
        lost = np.flatnonzero(row < 0)
        if len(lost):
            raise BadGeography(f"block {geoid15(int(geography.geocode[lost[0]]))} has no prim in {source}")
        added["prim"] = np.unique(table["primgeo"].to_numpy(str)[row], return_inverse=True)[1].astype(np.int64)
    counts = {
        name: np.where(row < 0, 0, table[name].to_numpy()[row]) for name in (*GQ_COUNTS, "hu", "pop") if name in table
    }
    quarters = [counts[name] > 0 for name in GQ_COUNTS if name in counts]
    if len(quarters) == len(GQ_COUNTS):
        added["gq"] = gq_pattern(quarters)
        if "hu" in counts:
            added["universe"] = np.logical_or.reduce([*quarters, counts["hu"] > 0])
    if "pop" in counts:
        added["population"] = counts["pop"].astype(np.int32)
    return replace(geography, **added)


def _read_extra(source: str) -> pd.DataFrame:
    rows = open_table(source).read()
    names = {name: name.lower() for name in rows.table.column_names}
    if unknown := sorted(name for name, known in names.items() if known not in KNOWN):
        raise BadGeography(f"{source} has the unknown column(s) {', '.join(unknown)}; known are {', '.join(KNOWN)}")
    if KNOWN[0] not in names.values():
        raise BadGeography(f"{source} has no column {KNOWN[0]}")
    columns: dict[str, Any] = {}
    for own, name in names.items():
        if name == "primgeo":
            columns[name] = rows.table[own].to_pandas()
            continue
        columns[name], wrong = whole_numbers(rows.table[own], blank=-1 if name == KNOWN[0] else 0)
        if wrong.any() or columns[name].min(initial=0) < 0:
            at = int((wrong | (columns[name] < 0)).argmax())
            value = rows.table[own][at].as_py()
            raise BadGeography(f"{source}, line {rows.lines[at]}: {own} {value[:40]!r} is not a whole number")
    table = pd.DataFrame(columns).set_index(KNOWN[0])
    twice = table.index[table.index.duplicated()]
    if len(twice):
        raise BadGeography(f"block {twice[0]:015d} comes twice in {source}")
    return table


def _covered(
    geography: Geography, settings: SpineSettings, states: Sequence[int], source: str
) -> tuple[Geography, list[str]]:
    notes = []
    present = np.unique(geography.state).tolist()
    absent = ", ".join(f"{s:02d}" for s in sorted(set(states) - set(present)))
    chosen = [s for s in present if settings.covers(s) and (not states or s in states)]
    if absent and chosen:
        notes.append(f"no block is in state {absent}")
    elif absent:
        raise Refused(f"{source} has no block of state {absent}")
    if not chosen:
        raise Refused(f"{source}: has no block of {settings.states_covered}")
    if len(chosen) < len(present):
        keep = np.isin(geography.state, chosen)
        notes.append(f"{int((~keep).sum()):,} blocks of other states are left out")
        geography = geography.take(keep)
    if geography.gq is None and "gq" in settings.entities:
        notes.append("group-quarters types are not known: the GQ entities are left out")
    if geography.universe is None:
        if settings.occupied_only:
            notes.append("which blocks are occupied is not known: all blocks are on the spine")
    elif settings.occupied_only:
        if not geography.universe.any():
            raise Refused(f"{source}: no block holds a housing unit or group quarters")
        notes.append(f"{int((~geography.universe).sum()):,} blocks without living quarters are left out of the spine")
        geography = geography.take(geography.universe)
    return geography, notes
