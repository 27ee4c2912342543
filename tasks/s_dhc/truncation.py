"""Which persons of a large household the truncation keeps: those with the smallest hashes of their content.

So it depends on the household's own rows alone, not on their order. The hash is that of the program of 2020, byte by
byte: SHA-256 of each value (text, or a number in binary), of these joined by commas, and of the result once more.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from tasks.s_dhc.records import FIRST_MAFID, PERSONS

QUARTERS_BIT = 19
Content = tuple[str, int, int, int, str, str]  # RTYPE, MAFID, QAGE, CENHISP, CENRACE, RELSHIP


def hash_of_row(content: Content, copy: int) -> str:
    """Return the hash of a person's row; copy: its number, from 1, among identical rows."""
    values = (value if isinstance(value, str) else f"{value:b}" for value in (*content, copy))
    joined = ",".join(sha256(value.encode()).hexdigest() for value in values)
    return sha256(sha256(joined.encode()).hexdigest().encode()).hexdigest()


def content_of_row(row: int) -> Content:
    """Return the values of an encoded person."""
    identity, values = divmod(row, 1 << PERSONS.bits)
    return (
        "5" if values >> QUARTERS_BIT else "3",
        identity + FIRST_MAFID,
        values & 127,
        (values >> 18 & 1) + 1,
        f"{values >> 12 & 63:02d}",
        f"{(values >> 7 & 31) + 20}",
    )


def order_by_hash(persons: NDArray[np.uint64], most: int) -> None:
    """Put the persons of each housing unit with more than `most` into the order of their hashes, in place.

    persons: sorted rows. The first tau that a table would count are then those that it keeps.
    """
    identity = persons >> np.uint64(PERSONS.bits)
    starts = np.flatnonzero(np.concatenate([[True], identity[1:] != identity[:-1]]) if len(persons) else [])
    sizes = np.diff(starts, append=len(persons))
    large = (sizes > most) & (persons[starts] >> np.uint64(QUARTERS_BIT) & np.uint64(1) == 0)  # quarters do not count
    for start, size in zip(starts[large].tolist(), sizes[large].tolist(), strict=True):
        copies: Counter[int] = Counter()
        hashed = []
        for row in persons[start : start + size].tolist():
            copies[row] += 1
            content = content_of_row(row)
            hashed.append((hash_of_row(content, copies[row]), content, row))
        persons[start : start + size] = [row for _, _, row in sorted(hashed)]
