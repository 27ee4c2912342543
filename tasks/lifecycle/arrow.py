"""Arrow columns of a release."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def text(codes: NDArray[np.uint8]) -> pa.Array:
    """Rows of digits as one Arrow string array."""
    rows, width = codes.shape
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    return pa.Array.from_buffers(
        pa.large_string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(codes))]
    )
