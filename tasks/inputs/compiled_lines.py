"""What kernels that read lines of text share.

Import it only where there is much to do: numba takes half a second, and the first call of an installation compiles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled

NEWLINE, RETURN = ord("\n"), ord("\r")


@compiled
def behind_line(text: NDArray[np.uint8], at: int) -> int:
    """Return where the next line begins, if a line ends at `at` (with the text, \\n or \\r\\n); -1 if none does."""
    if at + 1 < len(text) and text[at] == RETURN and text[at + 1] == NEWLINE:
        at += 1
    if at < len(text):
        return at + 1 if text[at] == NEWLINE else -1
    return at
