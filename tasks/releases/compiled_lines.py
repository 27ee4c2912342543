"""The kernel that writes rows as lines of text.

Import it only where there is much to write: numba takes half a second, and the first call of an installation compiles.
"""

from __future__ import annotations

from typing import Any

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
    size: Any = np.uint64(0)  # indices are unsigned: a signed one costs a test whether it counts from the end
    one, ten, columns = np.uint64(1), np.uint64(10), len(is_number)
    for row in range(values.shape[1]):
        for column in range(columns):
            value = np.uint64(values[column, row])
            if is_number[column]:
                if values[column, row] < 0:
                    out[size] = MINUS
                    size, value = size + one, np.uint64(0) - value
                size, rest = size + one, value // ten
                while rest > 0:
                    size, rest = size + one, rest // ten
                at = size
                while True:
                    at, rest = at - one, value // ten
                    out[at] = np.uint64(ZERO) + value - rest * ten
                    if rest == 0:
                        break
                    value = rest
            else:
                for at in range(np.uint64(starts[value]), np.uint64(starts[value + one])):
                    out[size] = letters[at]
                    size += one
            out[size] = delimiter if column < columns - 1 else NEWLINE
            size += one
    return int(size)
