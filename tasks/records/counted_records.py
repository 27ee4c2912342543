"""Count records by a key, chunk by chunk. Confidential, findings included.

A chunk is 64 MiB of text or a row group of Parquet. Counted into a folder it is NUMBER, its distinct `key`, ascending,
with the `count` of each, and NUMBER.report next to it; a chunk without a row has the report alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tasks.lifecycle.files import complete, open_array, save_arrays, save_object
from tasks.records.record_digests import Sums, sum_rows
from tasks.records.records import RecordFile, RowChecks, read_chunk, report_of

Ints: TypeAlias = NDArray[np.int64]
DENSE = 4  # keys for each record up to which they are counted in an array


def count_chunk(
    folder: Path,
    file: RecordFile,
    number: int,
    encode: Callable[[RowChecks], tuple[Ints, Ints | None]],
    states: Collection[str] | None = None,
    sum_up: Callable[[Ints, Ints], Sums] | None = None,
) -> None:
    """Check and count a chunk of a file into a folder, unless that is done.

    encode: checks rows, and returns of those without a fault the keys, and how often each counts; None: once. states:
    whose records are checked; None for all. sum_up: sums keys and counts by state; None to sum the rows' texts.
    """
    path = folder / f"{number:05d}.report"
    if path.exists():
        return
    chunk = read_chunk(file, number)
    table, _ = chunk.parse()
    report = report_of(chunk, 0, 0, [])
    if table is not None:
        checks = RowChecks(file, table, states)
        keys, counts = _count(*encode(checks))
        save_arrays(path.with_suffix(""), {"key": keys, "count": counts})
        sums = sum_up(keys, counts) if sum_up else sum_rows(checks.columns)
        report = report_of(chunk, len(table), checks.left_out, checks.findings, sums)
    save_object(path, report)


def _count(keys: Ints, times: Ints | None) -> tuple[Ints, Ints]:
    """Return the distinct keys, ascending, and how often each occurs; times: how often each record counts, None: once.

    Keys below a few times the number of records are counted in an array of all of them, a thirtieth of a sort's time;
    it leaves out keys of times 0.
    """
    if len(keys) and keys.max() < DENSE * len(keys):
        counts = np.bincount(keys) if times is None else _sums(keys, times, int(keys.max()) + 1)
        found = np.flatnonzero(counts)
        return found, counts[found]
    if times is None:
        return np.unique(keys, return_counts=True)
    found, place = np.unique(keys, return_inverse=True)
    return found, _sums(place, times, len(found))


def _sums(place: Ints, times: Ints, places: int) -> Ints:
    sums = np.zeros(places, np.int64)
    np.add.at(sums, place, times)
    return sums


def load_counted(folder: Path, first: int, last: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield of each chunk in a folder the keys first ... last - 1 that it has, and their counts."""
    for path in complete(folder):
        if path.is_dir():
            key = open_array(path, "key")
            within = slice(*np.searchsorted(key, (first, last)).tolist())
            yield np.asarray(key[within]), np.asarray(open_array(path, "count")[within])
