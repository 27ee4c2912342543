"""The kernel that writes rows as lines of text.

Import it only where there is much to write: numba takes half a second, and the first call of an installation compiles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled

ZERO, MINUS, NEWLINE = ord("0"), ord("-"), ord("\n")
LONGEST_NUMBER = 20  # letters of -2^63


@compiled
def write_lines(
    letters: NDArray[np.uint8],
    starts: NDArray[np.int64],
    values: NDArray[np.int64],
    is_number: NDArray[np.bool_],
    delimiter: int,
    out: NDArray[np.uint8],
) -> int:
    """Write the values of rows (columns x rows) between delimiters; return how many letters `out` has then.

    A value is a number, or the place of a text: letters[starts[place] : starts[place + 1]]. No number may be -2^63.
    """
    size, columns = 0, len(is_number)
    for row in range(values.shape[1]):
        for column in range(columns):
            value = values[column, row]
            if is_number[column]:
                if value < 0:
                    out[size] = MINUS
                    size, value = size + 1, -value
                digits, rest = 1, value // 10
                while rest > 0:
                    digits, rest = digits + 1, rest // 10
                for at in range(size + digits - 1, size - 1, -1):
                    value, out[at] = value // 10, ZERO + value % 10
                size += digits
            else:
                for at in range(starts[value], starts[value + 1]):
                    out[size] = letters[at]
                    size += 1
            out[size] = delimiter if column < columns - 1 else NEWLINE
            size += 1
    return size
