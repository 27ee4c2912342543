"""Arrow columns of a release."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def text(digits: NDArray[np.uint8]) -> pa.Array:
    """Return rows of ASCII digits, (rows, width), as one Arrow string array."""
    rows, width = digits.shape
    if not width:  # the geocode of a root
        return pa.array([""] * rows, pa.large_string())
    fixed = np.ascontiguousarray(digits).view(f"S{width}").ravel()
    return pa.array(fixed, pa.large_binary()).cast(pa.large_string())
