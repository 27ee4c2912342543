"""Count records by leaf of the hierarchy and cell of the histogram, chunk by chunk. Confidential, findings included.

A chunk is 64 MiB of text or a row group of Parquet.

```
prepared/PRODUCT             the file of the records
persons/PRODUCT/NUMBER       a chunk's `key` (leaf * cells + cell, ascending) and `count`, next to it its report
```
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from spine.geography import IntArray
from tasks.inputs.record_digests import Sums
from tasks.inputs.records import FileReport, RecordFile, RowChecks, join_reports, read_chunk, report_of
from tasks.lifecycle.files import load_object, open_array, save_arrays, save_object
from tasks.lifecycle.workers import Workers
from tasks.top_down.source import TopDownRun


def records_name(product: str) -> str:
    """Return the path in a run directory of the description of a product's file."""
    return f"prepared/{product}"


def count_records(
    run: TopDownRun, workers: Workers, stage: str, product: str, file: RecordFile, count_chunk: Callable[..., None]
) -> FileReport:
    """Check and count a table on the workers, which call `count_chunk` with product and number of each chunk."""
    save_object(run / records_name(product), file)
    numbers = range(file.chunks)
    workers.map(stage, run, count_chunk, [(product, number) for number in numbers])
    paths = [run.chunk_folder(product, number).with_suffix(".report") for number in numbers]
    return join_reports(run, workers, file, paths)


def save_chunk(
    run: TopDownRun,
    product: str,
    number: int,
    encode: Callable[[RowChecks], IntArray],
    states: Collection[str] | None = None,
    sum_up: Callable[[IntArray, IntArray], Sums | None] = lambda keys, counts: None,
) -> None:
    """Check and count a chunk, unless that is done. encode: checks rows, and returns the keys of those without a fault.

    states: whose records are checked; None for all. sum_up: sums of keys and counts, by state.
    """
    folder = run.chunk_folder(product, number)
    path = folder.with_suffix(".report")
    if path.exists():
        return
    file = load_object(run / records_name(product), RecordFile)
    chunk = read_chunk(file, number)
    table, _ = chunk.parse()
    report = report_of(chunk, 0, 0, [])
    if table is not None:
        checks = RowChecks(file, table, states)
        keys, counts = np.unique(encode(checks), return_counts=True)
        save_arrays(folder, {"key": keys, "count": counts})
        report = report_of(chunk, len(table), checks.left_out, checks.findings, sum_up(keys, counts))
    save_object(path, report)


def load_counted(
    run: TopDownRun, product: str, cells: int, first: int, last: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Return leaf, cell and count of the leaves first ... last - 1 from all chunks; a pair may occur in several."""
    keys, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for number in range(load_object(run / records_name(product), RecordFile).chunks):
        folder = run.chunk_folder(product, number)
        if folder.exists():  # a chunk without a row has none
            key = open_array(folder, "key")
            within = slice(*np.searchsorted(key, (first * cells, last * cells)).tolist())
            keys.append(np.asarray(key[within]))
            counts.append(np.asarray(open_array(folder, "count")[within]))
    key = np.concatenate(keys) - first * cells
    return key // cells, key % cells, np.concatenate(counts)
