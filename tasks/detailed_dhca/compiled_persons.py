"""Kernels that read and encode persons without a fault. Anything else they leave to the validating reader.

Import it only where there is much to do: numba takes half a second, and the first call of an installation compiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled
from tasks.inputs.compiled_lines import behind_line

AGE, SEX, HOUSEHOLDER, DIGITS, CODE, CODE_OR_NULL = range(6)  # kinds of fields
OLDEST, MOST_AGE_DIGITS = 115, 9
COMBINED = 9  # codes of a person
ZERO, BAR = ord("0"), ord("|")
BIG_N, U, L, BIG_T, R, E, BIG_F, A, S = (ord(letter) for letter in "NulTreFas")
# Odd numbers without a pattern (of the hexadecimal digits of pi): the sum of products with them scatters the codes.
SCATTER = np.array(
    [
        0x243F6A8885A308D3,
        0x13198A2E03707345,
        0xA4093822299F31D1,
        0x082EFA98EC4E6C89,
        0x452821E638D01377,
        0xBE5466CF34E90C6D,
        0xC0AC29B7C97C50DD,
        0x3F84D5B5B5470917,
        0x9216D5D98979FB1B,
    ],
    np.uint64,
)


@compiled
def read_text(
    text: NDArray[np.uint8],
    fields: NDArray[np.int64],
    code_numbers: NDArray[np.uint16],
    age_bins: NDArray[np.uint8],
    block: NDArray[np.int64],
    cell: NDArray[np.uint8],
    codes: NDArray[np.uint16],
) -> int:
    """Read lines of persons; return how many, or -1 if the validating reader might refuse anything.

    `fields` are (kind, width, place) of each field of a line; `place` is the row of a code in `codes`, or what a part
    of the block's number is multiplied by. `code_numbers` has 0 for what is no listed code. The last three are filled.
    """
    size, width, row, at = len(text), len(fields), 0, 0
    value: Any  # numba knows it as int64
    number: Any
    bin_of_age: Any
    sex: Any
    while at < size:
        number, bin_of_age, sex = 0, 0, 0
        for field in range(width):
            kind, letters, place = fields[field, 0], fields[field, 1], fields[field, 2]
            if at + letters > size:
                return -1
            if kind >= CODE:
                first, second, third, fourth = text[at], text[at + 1], text[at + 2], text[at + 3]
                if first == BIG_N and second == U and third == L and fourth == L:
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
                value = 0
                for position in range(at, at + letters):
                    digit = np.int64(text[position]) - ZERO
                    if digit < 0 or digit > 9:
                        return -1
                    value = 10 * value + digit
                number += value * place
                at += letters
            elif kind == AGE:
                value, start = 0, at
                while at < size and at - start < MOST_AGE_DIGITS:
                    digit = np.int64(text[at]) - ZERO
                    if digit < 0 or digit > 9:
                        break
                    value = 10 * value + digit
                    at += 1
                if at == start or value > OLDEST:
                    return -1
                bin_of_age = np.int64(age_bins[value])
            elif kind == SEX:
                sex = np.int64(text[at]) - ZERO
                if sex != 1 and sex != 2:
                    return -1
                at += 1
            elif text[at] == BIG_T and text[at + 1] == R and text[at + 2] == U and text[at + 3] == E:
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
                if at >= size or text[at] != BAR:
                    return -1
                at += 1
        at = behind_line(text, at)
        if at < 0:
            return -1
        block[row] = number
        cell[row] = 23 * (sex - 1) + bin_of_age
        row += 1
    return row


@compiled
def add_up(values: NDArray[Any], numbers: NDArray[np.int32], sums: NDArray[Any]) -> None:
    """Add to each sum the value that its number stands for."""
    for row in range(len(numbers)):
        sums[row] += values[numbers[row]]


@compiled
def find_blocks(numbers: NDArray[np.int64], blocks: NDArray[np.int64], found: NDArray[np.int32]) -> bool:
    """Look up numbers in the sorted blocks; False if one is not there. Fast where neighbours are in nearby blocks."""
    count, at = len(blocks), 0
    if count == 0:
        return len(numbers) == 0
    for row in range(len(numbers)):
        number = numbers[row]
        if blocks[at] != number:
            low, high, step = 0, at, 1
            if blocks[at] < number:
                low, high = at + 1, at + 2
                while high < count and blocks[high - 1] < number:
                    low, step = high, 2 * step
                    high = low + step
                high = min(high, count)
            while low < high:  # blocks before `low` are less, those from `high` on are not
                middle = (low + high) // 2
                if blocks[middle] < number:
                    low = middle + 1
                else:
                    high = middle
            if low == count or blocks[low] != number:
                return False
            at = low
        found[row] = at
    return True


@compiled
def number_combinations(
    codes: NDArray[np.uint16],
    scatter: NDArray[np.uint64],
    slots: NDArray[np.int32],
    combination: NDArray[np.int32],
    combinations: NDArray[np.uint16],
) -> int:
    """Number the distinct columns of `codes`, 9 x n, in the order in which they first occur; return how many there are.

    `slots`, all -1, is a table for open addressing: 2^b of them, more than n. The others are filled.
    """
    mask, shift, known = len(slots) - 1, np.uint64(32), 0
    for row in range(codes.shape[1]):
        mixed = np.uint64(0)
        for place in range(COMBINED):
            mixed += scatter[place] * np.uint64(codes[place, row])
        slot = np.int64(mixed >> shift) & mask
        while True:
            number = slots[slot]
            if number < 0:
                slots[slot] = number = known
                for place in range(COMBINED):
                    combinations[known, place] = codes[place, row]
                known += 1
                break
            same = True
            for place in range(COMBINED):
                same &= combinations[number, place] == codes[place, row]
            if same:
                break
            slot = (slot + 1) & mask
        combination[row] = number
    return known
