"""The kernel that reads lines of GRF-C without a fault. Anything else it leaves to the validating reader.

Import it only where there is much to do: numba takes half a second, and the first call of an installation compiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled
from tasks.inputs.compiled_lines import NEWLINE, RETURN, behind_line
from tasks.inputs.files import LONGEST_LINE

UNREAD, BLOCK, PLACE, AREA = range(4)  # what a field belongs to
ZERO, BAR, ASCII = ord("0"), ord("|"), 128


@compiled
def read_lines_of_blocks(
    text: NDArray[np.uint8],
    fields: NDArray[np.int64],
    block: NDArray[np.int64],
    place: NDArray[np.int32],
    area: NDArray[np.int32],
) -> int:
    """Read lines of blocks; return how many, or -1 if the validating reader might refuse anything.

    `fields` are (what it belongs to, digits, what they are multiplied by in the block's number) of each field of a
    line. The last three are filled.
    """
    size, width, row, at = len(text), len(fields), 0, 0
    value: Any  # numba knows it as int64
    number: Any
    while at < size:
        if text[at] == NEWLINE or (text[at] == RETURN and at + 1 < size and text[at + 1] == NEWLINE):
            at += 1 + (text[at] == RETURN)  # a blank line
            continue
        start, number = at, 0
        for field in range(width):
            belongs, digits, times = fields[field, 0], fields[field, 1], fields[field, 2]
            if belongs == UNREAD:
                while at < size and text[at] != BAR and text[at] != NEWLINE and text[at] != RETURN:
                    if text[at] >= ASCII:
                        return -1
                    at += 1
            else:
                if at + digits > size:
                    return -1
                value = 0
                for position in range(at, at + digits):
                    digit = np.int64(text[position]) - ZERO
                    if digit < 0 or digit > 9:
                        return -1
                    value = 10 * value + digit
                at += digits
                if belongs == BLOCK:
                    number += value * times
                elif belongs == PLACE:
                    place[row] = value
                else:
                    area[row] = value
            if field < width - 1:
                if at >= size or text[at] != BAR:
                    return -1
                at += 1
        if at - start > LONGEST_LINE:
            return -1
        at = behind_line(text, at)
        if at < 0:
            return -1
        block[row] = number
        row += 1
    return row
