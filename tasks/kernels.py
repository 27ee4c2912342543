"""Whether this process has compiled kernels, or has so much to do that it should load them."""

import os
import sys

FOLDER_VARIABLE = "NUMBA_CACHE_DIR"  # names the folder of compiled kernels, once a process has chosen it
FEWEST = 1 << 16  # records, entries or rows that justify loading numba, which takes longer than it saves on fewer


def kernels_loaded() -> bool:
    """Return whether this process has loaded kernels; if so, loading another one is cheap."""
    return "spine.compiled" in sys.modules


def worth_a_kernel(number: int) -> bool:
    """Return whether this many records, entries or rows justify a kernel, if one is loaded or has its folder."""
    return kernels_loaded() or (number >= FEWEST and FOLDER_VARIABLE in os.environ)
