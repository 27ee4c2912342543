"""Write data folders of a population: each system's records as text or Parquet, GRF-C.txt and SYNTHETIC.json.

Threads make stretches of whole tracts (numpy and the kernels release the interpreter lock), and these are written in
order. Draws are addressed by tract, so the bytes do not depend on the number of threads.
"""

from __future__ import annotations

import io
import os
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.inputs.marks import GRF_FILE, Mark, save_mark
from tasks.lifecycle.digests import StreamDigest, file_digest
from tasks.lifecycle.errors import Refused
from tasks.synth.blocks import Blocks, grf_header, grf_rows
from tasks.synth.population.codes import Origins
from tasks.synth.population.households import StateLaw
from tasks.synth.population.model import IntArray, Tracts
from tasks.synth.population.populate import populate
from tasks.synth.population.quarters import Quarters
from tasks.synth.report import Counts, count_figures
from tasks.synth.writers.records import Stretch, System, Table

Format = Literal["text", "parquet"]
STRETCH_PERSONS, STRETCH_TRACTS = 150_000, 60  # of a stretch, unless a tract has more; tracts have 6 bits
ROW_GROUP_ROWS = 1 << 20  # of Parquet, at least
PARQUET_SHARE = 0.3  # of the bytes of text, at most
BYTES_A_BLOCK = 60

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """A state to write: its blocks, its living quarters, the laws of its persons, and its place in its country.

    before, country: persons of the country in the states before, and in all. mafid: of the state's first unit.
    cells: published persons by block and cell, as in `Published`.
    """

    state: str
    blocks: Blocks
    quarters: Quarters
    law: StateLaw
    origins: Origins
    before: int
    country: int
    mafid: int
    cells: IntArray | None = None

    def stretches(self) -> Iterator[tuple[int, int]]:
        """Yield the rows of the blocks of whole tracts, the first and the end."""
        columns = self.blocks.columns
        same = [columns[name][1:] == columns[name][:-1] for name in ("TABBLKCOU", "TABTRACTCE")]
        ends = np.append(np.flatnonzero(~(same[0] & same[1])) + 1, len(self.blocks))
        persons = np.concatenate([[0], self.blocks.population.cumsum()])
        first, tracts = 0, 0
        for end, following in zip(ends.tolist(), [*ends.tolist()[1:], None], strict=True):
            tracts += 1
            full = following is None or persons[following] - persons[first] > STRETCH_PERSONS
            if full or tracts == STRETCH_TRACTS:
                yield first, end
                first, tracts = end, 0

    def tracts(self, first: int, end: int) -> Tracts:
        """Return the tracts in these rows of the blocks."""
        rows = slice(first, end)
        columns = self.blocks.take(rows).columns
        county = columns["TABBLKCOU"].astype(np.uint64) + np.uint64(1000 * int(self.state))
        codes = np.column_stack([county, columns["TABTRACTCE"].astype(np.uint64)])
        new = np.concatenate([[True], (codes[1:] != codes[:-1]).any(axis=1)])
        before, cells = int(self.blocks.population[:first].sum()), self.cells
        if cells is not None:
            block, cell, count = cells[slice(*np.searchsorted(cells[:, 0], (first, end)).tolist())].T
            cells = np.repeat(np.column_stack([block - first, cell]), count, axis=0)
        quarters = self.quarters
        return Tracts(
            codes[new],
            new.cumsum() - 1,
            quarters.facilities[rows],
            quarters.residents[rows],
            quarters.occupied[rows],
            self.before + before,
            self.country,
            cells,
        )

    def stretch(self, first: int, end: int, seed: int) -> Stretch:
        """Populate the tracts in these rows of the blocks."""
        units, people = populate(self.tracts(first, end), self.law, self.origins, seed)
        mafid = self.mafid + int(self.quarters.facilities[:first].sum())
        rows = slice(first, end)
        return Stretch(self.blocks.take(rows), self.quarters.facilities[rows], units, people, self.origins, mafid)


def check_room(folder: Path, systems: Iterable[System], *, persons: int, blocks: int, form: Format) -> None:
    """Refuse a folder on a disk that has no room for these persons and blocks."""
    share = 1.0 if form == "text" else PARQUET_SHARE
    need = persons * share * sum(system.bytes_a_person for system in systems) + blocks * BYTES_A_BLOCK
    free = shutil.disk_usage(folder).free
    if need > free:
        raise Refused(f"the files need {need / 1e9:.1f} GB and the disk has {free / 1e9:.1f} GB left")


def write_data(
    places: Mapping[Path, System],
    parts: Iterable[Part],
    *,
    seed: int,
    generator: str,
    population: Mapping[str, Any],
    form: Format = "text",
    threads: int = 2,
    report: bool = False,
    wrote: Callable[[int], None] = lambda done: None,
) -> tuple[dict[str, Mark], Counts]:
    """Write the persons of all parts, in order, into the new folders of these systems.

    Returns their marks by system, and counts of the population: of units, with `report` those of report.py too.

    It holds a few stretches and one part at a time. `wrote` receives the number of persons written so far. Raises
    OSError.
    """
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    grf_places = [place for place, system in places.items() if system.geography]
    totals, counts = dict[str, int](), Counter[str]()
    lay_outs: list[Callable[[Stretch], Any]] = [count_figures if report else lambda stretch: {}]
    with ExitStack() as stack:
        files = [_open(stack, place, table, form) for place, system in places.items() for table in system.tables]
        grf = stack.enter_context(_Digested(grf_places[0] / GRF_FILE)) if grf_places else None
        lay_outs += [file.lay_out for file in files]
        for state, (persons, units), (figures, *chunks) in in_order(_jobs(parts, grf, seed, lay_outs), threads):
            for file, chunk in zip(files, chunks, strict=True):
                file.write(chunk)
            totals[state] = totals.get(state, 0) + persons
            counts.update(figures, units=units)
            wrote(sum(totals.values()))
    digests = {file.path: file.digest for file in files}
    marks = {}
    for place, system in places.items():
        own = {path.name: digest() for path, digest in digests.items() if path.parent == place}
        if grf is not None and system.geography:
            own[GRF_FILE] = grf.digest.hexdigest()
            _link(grf_places[0] / GRF_FILE, place / GRF_FILE)
        if system.totals:
            lines = "".join(f"{state},{persons}\n" for state, persons in totals.items())
            (place / system.totals).write_text("state,pop\n" + lines)
            own[system.totals] = file_digest(place / system.totals)
        marks[system.name] = Mark(generator, version("das-flows"), seed, own, population=population)
        save_mark(place, marks[system.name])
    return marks, dict(counts)


def _link(source: Path, place: Path) -> None:
    if source != place:
        try:
            os.link(source, place)
        except OSError:  # a file system without links
            shutil.copyfile(source, place)


@dataclass(frozen=True)
class _File:
    path: Path
    lay_out: Callable[[Stretch], Any]
    write: Callable[[Any], Any]
    digest: Callable[[], str]


def _open(stack: ExitStack, place: Path, table: Table, form: Format) -> _File:
    """Open the file of a table."""
    if form == "text" or table.always_text:
        file = stack.enter_context(_Digested(place / f"{table.name}.{table.extension}"))
        file.write(table.header)
        return _File(file.path, table.text, file.write, lambda: file.digest.hexdigest())
    file = stack.enter_context(_Digested(place / f"{table.name}.parquet"))
    held: list[pa.Table] = []
    # Without Arrow's schema it is read back as plain text.
    writer = stack.enter_context(pq.ParquetWriter(file, table.schema, compression="zstd", store_schema=False))

    def flush() -> None:
        if held:
            rows = pa.concat_tables(held).unify_dictionaries()
            held.clear()
            writer.write_table(rows, row_group_size=len(rows))

    def write(rows: pa.Table) -> None:
        held.append(rows)
        if sum(map(len, held)) >= ROW_GROUP_ROWS:
            flush()

    stack.callback(flush)
    return _File(file.path, table.table, write, lambda: file.digest.hexdigest())


def in_order(jobs: Iterable[Callable[[], T]], threads: int) -> Iterator[T]:
    """Yield the results of the jobs in order; at most two per thread wait to be taken."""
    waiting: deque[Any] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for job in jobs:
            waiting.append(pool.submit(job))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _jobs(
    parts: Iterable[Part], grf: _Digested | None, seed: int, lay_outs: Sequence[Callable[[Stretch], Any]]
) -> Iterator[Callable[[], tuple[str, tuple[int, int], list[Any]]]]:
    """Yield the stretches of all parts, each as a job; a part's geography is written when its turn comes."""
    for number, part in enumerate(parts):
        if grf is not None:
            grf.write((grf_header(part.blocks) if number == 0 else b"") + grf_rows(part.blocks))
        for first, end in part.stretches():
            yield partial(_populate, part, first, end, seed, lay_outs)


def _populate(
    part: Part, first: int, end: int, seed: int, lay_outs: Sequence[Callable[[Stretch], Any]]
) -> tuple[str, tuple[int, int], list[Any]]:
    stretch = part.stretch(first, end, seed)
    counts = len(stretch.people.unit), len(stretch.units.size)
    return part.state, counts, [lay_out(stretch) for lay_out in lay_outs]


class _Digested(io.RawIOBase):
    """A new file that computes the digest of its content."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb")
        self.path, self.digest = path, StreamDigest()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()
