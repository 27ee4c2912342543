"""Write inputs of a TopDown run: records of persons and units, declared living quarters and totals, block codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from spine.geocodes import digits
from spine.geography import IntArray
from tasks.inputs.arrow import text
from tasks.inputs.marks import Mark, save_mark
from tasks.lifecycle.digests import file_digest
from tasks.lifecycle.staging import PIPES
from tasks.top_down.input.public_input import QUARTERS
from tasks.top_down.input.records import COLUMNS, block_columns, person_columns, unit_columns
from tasks.top_down.run_plan import QUARTERS_FILE, TOTALS_FILE, ProductName

Form = Literal["text", "parquet"]
DECLARED = pa.schema([("tabblk", pa.string()), *((kind, pa.int64()) for kind in QUARTERS)])
PLAIN = pa.csv.WriteOptions(quoting_style="none", quoting_header="none")


@contextmanager
def open_records(
    folder: Path, product: ProductName, form: Form = "parquet"
) -> Iterator[Callable[[IntArray, IntArray], None]]:
    """Open a file of records as text or Parquet; yield how to write those of these geocodes and cells (or statuses)."""
    schema = pa.schema([(name, pa.string()) for name in COLUMNS[product]])
    values = person_columns if product == "persons" else unit_columns

    def write(geocode: IntArray, cell: IntArray) -> None:
        for first in range(0, len(geocode), 1 << 20):
            within = slice(first, first + (1 << 20))
            columns = block_columns(geocode[within]) | values(cell[within])
            writer.write_table(pa.table([columns[name] for name in schema.names], schema))

    with (
        pa.csv.CSVWriter(folder / f"{product}.txt", schema, write_options=PIPES)
        if form == "text"
        else pq.ParquetWriter(folder / f"{product}.parquet", schema, compression="zstd")
    ) as writer:
        yield write


def runs_of_records(count: IntArray, most: int) -> Iterator[slice]:
    """Yield runs of rows with about `most` records together, one row at the least; count: of each row's records."""
    ends, first = np.cumsum(count), 0
    while first < len(count):
        last = max(first + 1, int(np.searchsorted(ends, (ends[first - 1] if first else 0) + most, side="right")))
        yield slice(first, last)
        first = last


@contextmanager
def open_declared(folder: Path) -> Iterator[Callable[[IntArray, IntArray], None]]:
    """Open quarters.csv; yield how to write the living quarters, (blocks, 8), of these 15-digit blocks."""

    def write(blocks: IntArray, facilities: IntArray) -> None:
        there = np.flatnonzero(facilities.sum(axis=1))
        code = text(digits(blocks[there], 15)).cast(pa.string())
        writer.write_table(pa.table([code, *facilities[there].T], DECLARED))

    with pa.csv.CSVWriter(folder / QUARTERS_FILE, DECLARED, write_options=PLAIN) as writer:
        yield write


def mark_inputs(folder: Path, generator: str, *, seed: int | None = None, source: str | None = None) -> None:
    """Mark all files of a folder: those that a seed made as synthetic, those of a published source as public."""
    digests = {path.name: file_digest(path) for path in sorted(folder.iterdir())}
    save_mark(folder, Mark(generator, version("das-flows"), seed, digests, source))


def write_totals(folder: Path, totals: Mapping[int, int]) -> None:
    """Write states.csv: the population of each state."""
    (folder / TOTALS_FILE).write_text("state,pop\n" + "".join(f"{state:02d},{n}\n" for state, n in totals.items()))
