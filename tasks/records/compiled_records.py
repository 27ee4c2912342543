"""The kernels of the fast reader of records (`fast_records`): lines and columns without a fault.

Import it only where there is much to do: numba takes half a second, and the first call of an installation compiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled
from tasks.records.files import LONGEST_LINE
from tasks.records.record_fields import CODE, CODE_OR_NULL, DIGITS, FAULT, LISTED, NO_MEANING, NUMBER, UNREAD

ZERO, SPACE, NEWLINE, RETURN, ASCII = ord("0"), ord(" "), ord("\n"), ord("\r"), 128
BIG_N, U, L, BIG_T, R, E, BIG_F, A, S = (ord(letter) for letter in "NulTreFas")


@compiled
def read_lines(
    text: NDArray[np.uint8],
    delimiter: int,
    fields: NDArray[np.int64],
    meanings: NDArray[np.int64],
    code_numbers: NDArray[np.uint16],
    numbers: NDArray[np.int64],
    codes: NDArray[np.uint16],
) -> int:
    """Read lines of fields between delimiters; return how many, or -1 if a validating reader might refuse anything.

    fields: for each field of a line, kind, width, place, factor, most (`record_fields.Field`), where its meanings begin
    or NO_MEANING, and whether it may be blank. meanings: those of all fields. code_numbers: as in
    `fast_records.RecordLayout`. numbers, codes: places x lines; filled. The numbers are all 0 before.
    """
    size, width, row, at = len(text), len(fields), 0, 0
    value: Any  # numba knows it as int64
    while at < size:
        if text[at] == NEWLINE or (text[at] == RETURN and at + 1 < size and text[at + 1] == NEWLINE):
            at += 1 + (text[at] == RETURN)  # a blank line
            continue
        start = at
        for field in range(width):
            kind, letters, place, factor = fields[field, 0], fields[field, 1], fields[field, 2], fields[field, 3]
            if kind >= CODE:
                if at + 4 > size:
                    return -1
                if text[at] == BIG_N and text[at + 1] == U and text[at + 2] == L and text[at + 3] == L:
                    if kind != CODE_OR_NULL:
                        return -1
                    codes[place, row] = 0
                else:
                    value = 0
                    for position in range(at, at + 4):
                        digit = np.int64(text[position]) - ZERO
                        if digit < 0 or digit > 9:
                            return -1
                        value = 10 * value + digit
                    code = code_numbers[value]
                    if code == 0:
                        return -1
                    codes[place, row] = code
                at += 4
            elif kind == DIGITS:
                if at + letters > size:
                    return -1
                value = 0
                for position in range(at, at + letters):
                    digit = np.int64(text[position]) - ZERO
                    if digit < 0 or digit > 9:
                        return -1
                    value = 10 * value + digit
                numbers[place, row] += value * factor
                at += letters
            elif kind in (NUMBER, LISTED):
                value, first = 0, at
                while at < size and at - first < letters:
                    digit = np.int64(text[at]) - ZERO
                    if digit < 0 or digit > 9:
                        break
                    value = 10 * value + digit
                    at += 1
                if value > fields[field, 4] or (kind == LISTED and at < first + letters):
                    return -1
                if at == first:
                    if not fields[field, 6]:
                        return -1
                    while at < size and text[at] == SPACE:
                        at += 1
                if fields[field, 5] != NO_MEANING:
                    value = meanings[fields[field, 5] + value]
                    if value == FAULT:
                        return -1
                numbers[place, row] += value * factor
            elif kind == UNREAD:
                while at < size and text[at] != delimiter and text[at] != NEWLINE and text[at] != RETURN:
                    if text[at] >= ASCII:
                        return -1
                    at += 1
            elif at + 4 <= size and text[at] == BIG_T and text[at + 1] == R and text[at + 2] == U and text[at + 3] == E:
                at += 4
            elif (
                at + 5 <= size
                and text[at] == BIG_F
                and text[at + 1] == A
                and text[at + 2] == L
                and text[at + 3] == S
                and text[at + 4] == E
            ):
                at += 5
            else:
                return -1
            if field < width - 1:
                if at >= size or text[at] != delimiter:
                    return -1
                at += 1
        if at - start > LONGEST_LINE:
            return -1
        if at + 1 < size and text[at] == RETURN and text[at + 1] == NEWLINE:
            at += 1
        if at < size:
            if text[at] != NEWLINE:
                return -1
            at += 1
        row += 1
    return row


@compiled
def add_values(values: NDArray[np.int64], numbers: NDArray[np.uint32], sums: NDArray[np.int64]) -> None:
    """Add the value of each number to its sum."""
    for row in range(len(numbers)):
        sums[row] += values[numbers[row]]


@compiled
def take_values(values: NDArray[np.uint16], numbers: NDArray[np.uint32], taken: NDArray[np.uint16]) -> None:
    """Fill in the value of each number: faster than numpy's `take`."""
    for row in range(len(numbers)):
        taken[row] = values[numbers[row]]
