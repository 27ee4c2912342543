"""Write data folders of a population: each system's records as text or Parquet, GRF-C.txt and states' totals.

Threads make stretches of whole tracts (numpy and the kernels release the interpreter lock), which are written in order.
Draws are addressed by tract, so the bytes do not depend on the number of threads.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.errors import Refused
from tasks.records.marks import GRF_FILE
from tasks.releases.digests import file_digests
from tasks.synth.blocks import grf_text
from tasks.synth.report import Counts, count_figures
from tasks.synth.states import OpenState
from tasks.synth.writers.columns import MAFID, Stretch, as_table, as_text
from tasks.synth.writers.systems import RecordTable, SystemFiles

Format = Literal["text", "parquet"]
ROW_GROUP_ROWS = 1 << 20  # the least number of rows in a row group of Parquet
PARQUET_SHARE = 0.3  # the largest size of Parquet, relative to text
BYTES_A_BLOCK = 60

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """The options for making a population.

    places: the folder of each system's files in OUT. params: whether to write parameter files too. progress: called
    with the number of persons written, and the number of all. report: whether to count the figures of report.py.
    """

    seed: int = 0
    places: Mapping[str, str] = field(default_factory=lambda: {"detailed-dhca": "data"})
    params: bool = True
    form: Format = "text"
    threads: int = 2
    report: bool = False
    progress: Callable[[int, int], None] = lambda done, total: None


def check_room(folder: Path, systems: Iterable[SystemFiles], *, persons: int, blocks: int, form: Format) -> None:
    """Refuse a folder on a disk without room for these persons and blocks."""
    share = 1.0 if form == "text" else PARQUET_SHARE
    need = persons * share * sum(system.bytes_a_person for system in systems) + blocks * BYTES_A_BLOCK
    free = shutil.disk_usage(folder).free
    if need > free:
        raise Refused(f"the files need {need / 1e9:.1f} GB and the disk has {free / 1e9:.1f} GB free")


def write_data(
    places: Mapping[Path, SystemFiles], states: Iterable[OpenState], options: Options, persons_in_all: int
) -> tuple[dict[Path, dict[str, str]], Counts]:
    """Write the persons of all states, in order, into the new folders of these systems.

    Returns the digests of each folder's files by name, and counts of the population: units and, with `options.report`,
    the counts of report.py. Keeps a few stretches and one state in memory at a time. Raises OSError.
    """
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    totals, counts = Counter[str](), Counter[str]()
    geography = [place for place, system in places.items() if system.geography]
    with ExitStack() as stack:
        files = [
            _open(stack, place, table, options.form) for place, system in places.items() for table in system.tables
        ]
        grf = stack.enter_context((geography[0] / GRF_FILE).open("xb")) if geography else None

        def populate(state: OpenState, rows: slice, *, header: bool) -> tuple[str, int, Counter[str], list[Any]]:
            stretch = state.populate(rows)
            figures = Counter(count_figures(stretch)) if options.report else Counter[str]()
            figures["units"] = len(stretch.population.tenure)
            chunks = [file.lay_out(stretch, header) for file in files]
            return state.state.code, len(stretch.population.age), figures, chunks

        def jobs() -> Iterator[Callable[[], tuple[str, int, Counter[str], list[Any]]]]:
            header = True
            for state in states:
                if grf is not None:
                    grf.write(grf_text(state.blocks, header=header))
                for rows in state.stretches():
                    yield partial(populate, state, rows, header=header)
                    header = False

        for code, persons, figures, chunks in in_order(jobs(), options.threads):
            for file, chunk in zip(files, chunks, strict=True):
                file.write(chunk)
            totals[code] += persons
            counts.update(figures)  # a sum of counters would drop zero counts
            options.progress(totals.total(), persons_in_all)
    made = [file.path for file in files]
    for place, system in places.items():
        if system.geography:
            _link(geography[0] / GRF_FILE, place / GRF_FILE)
            made.append(place / GRF_FILE)
        if system.totals:
            lines = "".join(f"{state},{persons}\n" for state, persons in totals.items())
            (place / system.totals).write_text("state,pop\n" + lines, "utf-8")
            made.append(place / system.totals)
    digests: dict[Path, dict[str, str]] = {place: {} for place in places}
    for path, digest in zip(made, file_digests(made), strict=True):
        digests[path.parent][path.name] = digest
    return digests, dict(counts)


def _link(source: Path, place: Path) -> None:
    if source != place:
        try:
            os.link(source, place)
        except OSError:  # a file system without links
            shutil.copyfile(source, place)


def in_order(jobs: Iterable[Callable[[], T]], threads: int) -> Iterator[T]:
    """Yield the results of the jobs in order; at most two per thread wait."""
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for job in jobs:
            waiting.append(pool.submit(job))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class _TextFile:
    def __init__(self, path: Path, table: RecordTable) -> None:
        self.path, self._table, self._file = path, table, path.open("xb")

    def lay_out(self, stretch: Stretch, header: bool) -> Any:
        """Return the text of a stretch; called by threads."""
        return as_text(self._table.rows(stretch), self._table.delimiter, header=header)

    def write(self, data: Any) -> None:
        self._file.write(data)

    def close(self) -> None:
        self._file.close()


class _ParquetFile:
    """The file of a table as Parquet, in row groups of several stretches."""

    def __init__(self, path: Path, table: RecordTable) -> None:
        self.path, self._table, self._file = path, table, path.open("xb")
        self._held = list[pa.Table]()
        self._writer: pq.ParquetWriter | None = None

    def lay_out(self, stretch: Stretch, header: bool) -> Any:
        """Return the rows of a stretch; called by threads."""
        return as_table(self._table.rows(stretch))

    def write(self, data: Any) -> None:
        """Keep rows, and write them once they fill a row group."""
        self._held.append(data)
        if sum(map(len, self._held)) >= ROW_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        rows = pa.concat_tables(self._held).unify_dictionaries()
        self._held.clear()
        if self._writer is None:  # without Arrow's schema, readers return plain text; zstd takes longer to read
            options = {"compression": "snappy", "store_schema": False, "write_statistics": False}  # they cost most
            coded = [name for name in rows.column_names if name != MAFID]
            self._writer = pq.ParquetWriter(self._file, rows.schema, use_dictionary=coded, **options)
        self._writer.write_table(rows, row_group_size=len(rows))

    def close(self) -> None:
        if self._held:
            self._flush()
        if self._writer is not None:
            self._writer.close()
        self._file.close()


def _open(stack: ExitStack, place: Path, table: RecordTable, form: Format) -> _TextFile | _ParquetFile:
    if form == "text" or table.always_text:
        return stack.enter_context(closing(_TextFile(place / f"{table.name}.{table.extension}", table)))
    return stack.enter_context(closing(_ParquetFile(place / f"{table.name}.parquet", table)))
