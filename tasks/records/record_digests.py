"""The digest of a state's records as a set: the same in any order, file, format and company of other states' records.

A record is known by what a run uses of it: its block and the values that it is counted by; in a table of one's own, by
its texts in the columns that are read, and such a table counts as one state. Each value has two weights of 64 bits that
scatter it, a record weighs their product (their sum, scattered, in such a table), and a state's digest is made from the
number and the two sums of its records (modulo 2^64). Sets that differ have the same sums with a chance near 2^-120,
unless somebody makes them for it: a digest recognizes data that comes a second time, and proves nothing against a
forger. All of it is confidential.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b, sha256

import numpy as np
from numpy.typing import NDArray

from tasks.records.block_codes import STATE_UNIT
from tasks.records.tables import EncodedColumn

LANES = (0x243F6A8885A308D3, 0x13198A2E03707345)  # digits of pi
BLOCK, VALUE = 0xA4093822299F31D1, 0x082EFA98EC4E6C89  # what else a record is known by
Weights = tuple[NDArray[np.uint64], ...]  # one array a lane
Sums = Mapping[str, tuple[int, ...]]  # by state: the number of records, and their sums
TABLE = "table of records"  # the kind of records of a table of one's own, whichever system reads it
EVERYWHERE = "all"  # the state of these
ROWS = 1 << 16  # summed at a time


def weights(*columns: NDArray[np.integer], kind: int = VALUE) -> Weights:
    """Return the weights of values that are tuples of whole numbers, given by columns; all are odd."""
    lanes = []
    for lane in LANES:
        mixed = np.full(columns[0].shape, lane ^ kind, np.uint64)
        for column in columns:
            mixed += column.astype(np.uint64)
            _scatter(mixed)
        lanes.append(mixed | np.uint64(1))
    return tuple(lanes)


def _scatter(numbers: NDArray[np.uint64]) -> None:
    """Scatter numbers over 64 bits, each by itself (the finalizer of SplitMix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers ^= numbers >> np.uint64(shift)
        numbers *= np.uint64(factor)
    numbers ^= numbers >> np.uint64(31)


def sum_by_state(blocks: NDArray[np.int64], counts: NDArray[np.int64], within: Weights) -> Sums:
    """Return the sums of records, given by groups in one block.

    blocks: the 15-digit code of each group. counts: its records. within: the sum of their weights, without the block's.
    """
    totals = [values * of_block for values, of_block in zip(within, weights(blocks, kind=BLOCK), strict=True)]
    states = blocks // STATE_UNIT
    sums = {}
    for state in np.unique(states):
        here = states == state
        sums[f"{state:02d}"] = (int(counts[here].sum()), *(int(total[here].sum()) for total in totals))
    return sums


def sum_rows(columns: Mapping[str, EncodedColumn]) -> Sums:
    """Return the sums of the rows of a table, each known by its texts in these columns, by name."""
    of_values = {name: _text_weights(name, column.values) for name, column in columns.items()}
    rows, totals = len(next(iter(columns.values())).numbers), np.zeros(len(LANES), np.uint64)
    for first in range(0, rows, ROWS):
        within = slice(first, first + ROWS)
        mixed = np.asarray(sum(of_values[name][column.numbers[within]] for name, column in columns.items()))
        _scatter(mixed)
        totals += mixed.sum(axis=0)
    return {EVERYWHERE: (rows, *totals.tolist())} if rows else {}


def _text_weights(column: str, texts: Iterable[str]) -> NDArray[np.uint64]:
    """Return the weights of a column's texts, texts x lanes."""
    size = 8 * len(LANES)
    hashes = (blake2b(repr((column, text)).encode(), digest_size=size).digest() for text in texts)
    return np.frombuffer(b"".join(hashes), "<u8").reshape(-1, len(LANES))


def digests(kind: str, parts: Iterable[Sums]) -> tuple[str, ...]:
    """Return the digest of each state's records of a kind, in hexadecimal, from the sums of any parts of them.

    A state without a record has no digest: it would be that of any data.
    """
    joined: dict[str, tuple[int, ...]] = {}
    for part in parts:
        for state, sums in part.items():
            joined[state] = tuple(map(sum, zip(joined.get(state, (0,) * len(sums)), sums, strict=True)))
    described = (f"{kind} of state {state}: {[total % 2**64 for total in joined[state]]}" for state in sorted(joined))
    return tuple(sha256(text.encode()).hexdigest() for text in described)
