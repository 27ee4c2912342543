"""Choose the persons of a large household that truncation keeps: those with the smallest hashes of their content.

The choice depends on the household's own rows, not on their order. The hash is that of the program of 2020, byte by
byte: SHA-256 of each value (text, or a number in binary), of these joined by commas, and of the result once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from privacy.tables.histogram import matrix
from tasks.s_dhc.records import FIRST_MAFID, PERSONS
from tasks.s_dhc.tables import AGE_STARTS, HOUSEHOLDER, PERSON, PERSON_TABLES, RELATIONSHIPS

QUARTERS_BIT = 19
AGE_BITS, KIND_BITS = 7, 12  # QAGE, then RELSHIP
Content = tuple[str, int, int, int, str, str]  # RTYPE, MAFID, QAGE, CENHISP, CENRACE, RELSHIP


def hash_of_row(content: Content, copy: int) -> str:
    """Return the hash of a person's row; copy: its number, from 1, among identical rows."""
    return _hash(_hash(",".join(map(_hash_of_value, (*content, copy)))))


@lru_cache(maxsize=1 << 12)  # caches all values except MAFIDs, and the last MAFID
def _hash_of_value(value: str | int) -> str:
    return _hash(value if isinstance(value, str) else f"{value:b}")


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def content_of_row(row: int) -> Content:
    """Return the values of an encoded person."""
    identity, values = divmod(row, 1 << PERSONS.bits)
    return (
        "5" if values >> QUARTERS_BIT else "3",
        identity + FIRST_MAFID,
        values & 127,
        (values >> 18 & 1) + 1,
        f"{values >> KIND_BITS & 63:02d}",
        f"{(values >> AGE_BITS & 31) + HOUSEHOLDER}",
    )


@cache
def _counted() -> NDArray[np.int32]:
    """Return whether each table of persons would count a person, 1 or 0: values of QAGE and RELSHIP x tables."""
    relation, age = np.divmod(np.arange(1 << KIND_BITS), 1 << AGE_BITS)
    inside = np.flatnonzero(relation < len(RELATIONSHIPS))  # in housing units: no table counts others
    group = np.searchsorted(AGE_STARTS, age[inside], "right") - 1
    counted = np.zeros((1 << KIND_BITS, len(PERSON_TABLES)), np.int32)
    counted[inside] = matrix(PERSON.axes, [table.rows for table in PERSON_TABLES])[
        PERSON.cell([group, relation[inside]])
    ]
    return counted


def order_by_hash(persons: NDArray[np.uint64], tau: Sequence[int]) -> None:
    """Sort the persons of each housing unit that a table truncates by their hashes, in place.

    A table then keeps the first tau persons that it would count. Other units keep their order, since hashing takes
    time.

    persons: sorted rows. tau: by table of persons.
    """
    identity = persons >> np.uint64(PERSONS.bits)
    starts = np.flatnonzero(np.concatenate([[True], identity[1:] != identity[:-1]]) if len(persons) else [])
    sizes = np.diff(starts, append=len(persons))
    large = (sizes > min(tau)) & (persons[starts] >> np.uint64(QUARTERS_BIT) & np.uint64(1) == 0)  # no quarters
    if not large.any():
        return
    starts, kinds = starts[large], persons[np.repeat(large, sizes)] & np.uint64((1 << KIND_BITS) - 1)
    sizes = sizes[large]
    competing = (np.add.reduceat(_counted()[kinds], np.cumsum(sizes) - sizes) > np.array(tau)).any(axis=1)
    for start, size in zip(starts[competing].tolist(), sizes[competing].tolist(), strict=True):
        copies: Counter[int] = Counter()
        hashed = []
        for row in persons[start : start + size].tolist():
            copies[row] += 1
            content = content_of_row(row)
            hashed.append((hash_of_row(content, copies[row]), content, row))
        persons[start : start + size] = [row for _, _, row in sorted(hashed)]
