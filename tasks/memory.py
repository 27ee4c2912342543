"""What a process holds that it has freed."""

import ctypes
from contextlib import suppress


def return_memory() -> None:
    """Give freed memory, Arrow's too, back to the system; glibc keeps hundreds of MiB for what comes next."""
    with suppress(AttributeError):  # of another C library
        ctypes.CDLL(None).malloc_trim(0)
