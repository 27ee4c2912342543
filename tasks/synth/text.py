"""Synthetic persons as the lines of person-records.txt, assembled as fixed-width bytes, not row by row.

Every column has one width but HOUSEHOLDER ("True", "False"). All rows are laid out as for "False"; since householders
stand in a pattern of HOUSEHOLDERS[1] rows, whole patterns are copied to their places at once, leaving one byte a
householder out.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from tasks.inputs.block_codes import BLOCK_COLUMNS
from tasks.synth.age import AGES, HOUSEHOLDERS, householder_pattern
from tasks.synth.blocks import Blocks, delimited
from tasks.synth.origins import Origins
from tasks.synth.people import People
from tasks.synth.races import CENRACE, major_races

PERIOD = HOUSEHOLDERS[1]
COLUMNS = ("QAGE", "QSEX", "HOUSEHOLDER", *BLOCK_COLUMNS, "CENRACE", *(f"QRACE{j}" for j in range(1, 9)), "QSPAN")
HEADER = "|".join(COLUMNS).encode() + b"\n"
PADDED = 11  # the byte of a row that is padding in "028|1|True||", which is 12 bytes long as "028|1|False|"


def person_rows(people: People, blocks: Blocks, origins: Origins) -> bytes:
    """Return the lines of persons whose first row is a multiple of PERIOD in their place."""
    heads, races, spans = _head_text(), race_text(origins), _ended(origins.span, b"\n")
    block = delimited([blocks.columns[name] for name in BLOCK_COLUMNS], end=b"|")
    parts = {"head": heads, "block": block, "race": races, "span": spans}
    rows = np.empty(len(people.cell), [(name, text.dtype) for name, text in parts.items()])
    rows["head"] = heads[people.cell + people.householder * (2 * AGES)]
    rows["block"] = block[people.block]
    rows["race"] = races[people.race]
    rows["race"][people.several] = _several_text(people, origins)
    rows["span"] = spans[people.span]
    return _without_padding(rows)


def race_text(origins: Origins) -> np.ndarray:
    """Return CENRACE and QRACE1..8 of a person with one code, for every code; `S43` of shape (c,)."""
    codes = _ended(origins.race, b"|")
    return _joined([_ended(CENRACE, b"|")[major_races(origins.race)], codes, np.full(len(codes), b"Null|" * 7)])


def _several_text(people: People, origins: Origins) -> np.ndarray:
    codes = np.append(_ended(origins.race, b"|"), b"Null|")
    majors = np.append(major_races(origins.race), 0)
    numbers = np.column_stack([people.race[people.several], people.more])
    cenrace = _ended(CENRACE, b"|")[np.bitwise_or.reduce(majors[numbers], axis=1)]
    return _joined([cenrace, codes[numbers]])


@cache
def _head_text() -> np.ndarray:
    """Return QAGE, QSEX and HOUSEHOLDER of every cell, others first; padded to the width of "False"."""
    cells = [f"{age:03d}|{sex}|" for sex in (1, 2) for age in range(AGES)]
    return np.array([cell + word for word in ("False|", "True||") for cell in cells], "S")


def _ended(column: np.ndarray, mark: bytes) -> np.ndarray:
    return delimited([column], end=mark)


def _joined(pieces: list[np.ndarray]) -> np.ndarray:
    rows = len(pieces[0])
    widths = [piece.itemsize * math.prod(piece.shape[1:]) for piece in pieces]  # given, as there may be no row
    matrix = np.hstack(
        [np.ascontiguousarray(p).view(np.uint8).reshape(rows, width) for p, width in zip(pieces, widths, strict=True)]
    )
    return matrix.view(f"S{matrix.shape[1]}").reshape(rows)


def _without_padding(rows: np.ndarray) -> bytes:
    width, count = rows.dtype.itemsize, len(rows)
    whole = -(-count // PERIOD)
    patterns = np.zeros((whole, PERIOD, width), np.uint8)
    patterns.reshape(-1, width)[:count] = rows.view(np.uint8).reshape(count, width)
    pattern = householder_pattern(0, PERIOD)
    text = np.empty((whole, PERIOD * width - pattern.sum()), np.uint8)
    place = 0
    for row, householder in enumerate(pattern):
        if householder:
            text[:, place : place + PADDED] = patterns[:, row, :PADDED]
            text[:, place + PADDED : place + width - 1] = patterns[:, row, PADDED + 1 :]
        else:
            text[:, place : place + width] = patterns[:, row]
        place += width - householder
    return text.tobytes()[: count * width - householder_pattern(0, count).sum()]
