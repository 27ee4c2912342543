"""Write a data directory of synthetic persons: person records as text or Parquet, GRF-C.txt and SYNTHETIC.json.

The directory appears complete or not at all. Threads make chunks of persons (numpy releases the interpreter lock), and
these are written in order. Each chunk draws from its own stream, named by seed, state and chunk, so the bytes do not
depend on the number of threads.
"""

from __future__ import annotations

import io
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.inputs.marks import GRF_FILE, Mark, save_mark
from tasks.lifecycle.digests import StreamDigest
from tasks.lifecycle.errors import Refused
from tasks.synth.blocks import Blocks, grf_header, grf_rows
from tasks.synth.origins import Origins
from tasks.synth.parquet import SCHEMA, person_table
from tasks.synth.people import Place, draw_people
from tasks.synth.text import HEADER, PERIOD, person_rows

Format = Literal["text", "parquet"]
CHUNK_ROWS = 2048 * PERIOD  # persons drawn and laid out at a time
ROW_GROUP_ROWS = 8 * CHUNK_ROWS  # of Parquet
BYTES_A_PERSON: dict[Format, int] = {"text": 79, "parquet": 5}
BYTES_A_BLOCK = 60

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """A state's blocks, the law of its persons' origins, and the state's place in its country.

    before: persons of the country in the states before. country: persons of the whole country.
    """

    state: str
    blocks: Blocks
    origins: Origins
    before: int
    country: int


def check_room(folder: Path, *, persons: int, blocks: int, form: Format) -> None:
    """Refuse a folder on a disk that has no room for these persons and blocks."""
    need, free = persons * BYTES_A_PERSON[form] + blocks * BYTES_A_BLOCK, shutil.disk_usage(folder).free
    if need > free:
        raise Refused(f"the files need {need / 1e9:.1f} GB and the disk has {free / 1e9:.1f} GB left")


def write_data(
    data: Path,
    parts: Iterable[Part],
    *,
    seed: int,
    generator: str,
    version: str,
    form: Format = "text",
    threads: int = 2,
    wrote: Callable[[int], None] = lambda done: None,
) -> Mark:
    """Write the persons of all parts, in order, into the new directory `data`, and mark it.

    It holds a few chunks and one part at a time. `wrote` receives the number of persons written so far. Raises OSError.
    """
    data.mkdir(parents=True)
    name, lay_out, opened = _FORMS[form]
    with _Digested(data / name) as persons, _Digested(data / GRF_FILE) as grf, opened(persons) as write:
        done = 0
        for count, chunk in in_order(_jobs(parts, grf, seed, lay_out), threads):
            write(chunk)
            done += count
            wrote(done)
    digests = {name: persons.digest.hexdigest(), GRF_FILE: grf.digest.hexdigest()}
    mark = Mark(generator, version, seed, digests)
    save_mark(data, mark)
    return mark


@contextmanager
def _text(file: _Digested) -> Iterator[Callable[[bytes], Any]]:
    file.write(HEADER)
    yield file.write


@contextmanager
def _parquet(file: _Digested) -> Iterator[Callable[[pa.Table], Any]]:
    held: list[pa.Table] = []

    def flush() -> None:
        writer.write_table(pa.concat_tables(held).unify_dictionaries(), row_group_size=ROW_GROUP_ROWS)
        held.clear()

    def write(table: pa.Table) -> None:
        held.append(table)
        if len(held) == ROW_GROUP_ROWS // CHUNK_ROWS:
            flush()

    with pq.ParquetWriter(file, SCHEMA, compression="zstd", store_schema=False) as writer:  # read back as plain text
        yield write
        if held:
            flush()


_FORMS: dict[Format, tuple[str, Callable[..., Any], Callable[[_Digested], Any]]] = {
    "text": ("person-records.txt", person_rows, _text),
    "parquet": ("person-records.parquet", person_table, _parquet),
}


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
    parts: Iterable[Part], grf: _Digested, seed: int, lay_out: Callable[..., T]
) -> Iterator[Callable[[], tuple[int, T]]]:
    """Yield the chunks of all parts, each as a job; a part's geography is written when its turn comes."""
    for number, part in enumerate(parts):
        if number == 0:
            grf.write(grf_header(part.blocks))
        grf.write(grf_rows(part.blocks))
        place = Place(part.before, part.country, part.blocks.population.cumsum())
        for start in range(0, part.blocks.persons, CHUNK_ROWS):
            count = min(CHUNK_ROWS, part.blocks.persons - start)
            yield partial(_chunk, part, place, start, count, seed, lay_out)


def _chunk(part: Part, place: Place, start: int, count: int, seed: int, lay_out: Callable[..., T]) -> tuple[int, T]:
    stream = np.random.SeedSequence(seed, spawn_key=(0, int(part.state), start // CHUNK_ROWS))
    people = draw_people(place, part.origins, start, count, np.random.Generator(np.random.SFC64(stream)))
    first, last = int(people.block[0]), int(people.block[-1])
    here = replace(people, block=people.block - first)
    return count, lay_out(here, part.blocks.take(slice(first, last + 1)), part.origins)


class _Digested(io.RawIOBase):
    """A new file that computes the digest of its content."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb")
        self.digest = StreamDigest()

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
