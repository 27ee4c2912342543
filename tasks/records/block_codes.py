"""The four columns that name a block in records and in GRF-C, and its code as one number of 15 digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spine.geography import IntArray
from tasks.records.tables import EncodedColumn

N = TypeVar("N", bound=np.integer)
BLOCK_COLUMNS = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")
BLOCK_WIDTHS = (2, 3, 6, 4)
DISTRICTS = ("SDUNILEA", "SDSECLEA", "SDELMLEA")  # school districts: unified, secondary, elementary
# What each of them is multiplied by in the block's number.
BLOCK_FACTORS = {name: 10 ** sum(BLOCK_WIDTHS[number + 1 :]) for number, name in enumerate(BLOCK_COLUMNS)}
STATE_UNIT, COUNTY_UNIT, TRACT_UNIT = 10**13, 10**10, 10**4  # what a block's number is divided by to give theirs


def has_digits(width: int, text: str) -> bool:
    """Return whether a text is `width` digits."""
    return len(text) == width and text.isascii() and text.isdigit()


def code_number(text: str) -> int:
    """Return the number of a code of digits, 0 for any other text, which has a finding of its own."""
    return int(text[-9:]) if text.isascii() and text.isdigit() else 0


def block_numbers(columns: Mapping[str, EncodedColumn]) -> NDArray[np.int64]:
    """Join the four block columns to numbers of 15 digits."""
    number = np.zeros(1, np.int64)
    for name, factor in BLOCK_FACTORS.items():
        number = number + columns[name].where(code_number, np.int64) * factor
    return number


def short_codes(geocodes: IntArray) -> IntArray:
    """Return the 15-digit codes of blocks from their geocodes, 16 digits."""
    codes: IntArray = geocodes // 10**5 * 10**4 + geocodes % 10**4
    return codes


def long_codes(codes: IntArray) -> IntArray:
    """Return the geocodes of blocks, 16 digits: the first of a block's number is its block group's as well."""
    geocodes: IntArray = codes // 10**4 * 10**5 + codes % 10**4 // 1000 * 10**4 + codes % 10**4
    return geocodes


def find_blocks(blocks: NDArray[np.int64], numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Look up block numbers in the sorted `blocks`; return the row of each, and whether it is there.

    Fast where many numbers in a row are the same, as those of persons are.
    """
    if not len(blocks):
        return np.zeros(len(numbers), np.int64), np.zeros(len(numbers), bool)
    number, lengths = runs(numbers)
    row = np.minimum(np.searchsorted(blocks, number), len(blocks) - 1)
    return np.repeat(row, lengths), np.repeat(blocks[row] == number, lengths)


def runs(numbers: NDArray[N]) -> tuple[NDArray[N], NDArray[np.int64]]:
    """Return the number of each run of the same ones, and the run's length."""
    begins = np.flatnonzero(np.concatenate([np.ones(len(numbers[:1]), bool), numbers[1:] != numbers[:-1]]))
    return numbers[begins], np.diff(begins, append=len(numbers))
