"""Read published microdata as a stream: text with commas or pipes, plain, gzip or a member of a zip, or Parquet.

A nation has 331 million rows of persons and 140 million of units: only counts by block and cell are kept, and those on
disk, by state, until a state is asked for.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from spine.geography import IntArray
from spine.redistricting import TYPES
from spine.top_down.redistricting import PERSONS
from tasks.inputs.block_codes import STATE_UNIT
from tasks.inputs.files import open_file, why
from tasks.lifecycle.errors import Refused
from tasks.top_down.published.microdata.layout import (
    BLOCK,
    GROUP,
    KIND,
    OCCUPIED_UNITS,
    RECORDS,
    REST,
    VACANT_UNITS,
    MicrodataLayout,
)
from tasks.top_down.published.microdata.read_file import open_batches
from tasks.top_down.run_plan import ProductName, file_name

UNIT_CELLS = 3 + TYPES  # occupied, vacant, group quarters of no known type, and of types 1 to 7 (number 2 + type)
OCCUPIED, VACANT, UNTYPED = 0, 1, 2
CELLS: dict[ProductName, int] = {"persons": PERSONS.cells, "units": UNIT_CELLS}
Entries = tuple[IntArray, IntArray, IntArray]  # block, cell, number
ENTRY = np.dtype([("key", "<i8"), ("count", "<i4")])


@dataclass
class Microdata:
    """Published records, counted by block and cell in files of a folder, by product and state.

    rows: of each product, those of other states left out. geography: columns that the units of the blocks have. typed:
    whether units have the type of group quarters. counted: whether they were numbers by block, without group quarters.
    """

    folder: Path
    rows: dict[ProductName, int] = field(default_factory=dict)
    geography: tuple[str, ...] | None = None
    typed: bool = True
    counted: bool = False

    @property
    def states(self) -> list[int]:
        """The states that have a record of units."""
        return self.states_of("units")

    def states_of(self, product: ProductName) -> list[int]:
        """Return the states that have a record of a product."""
        return sorted(int(path.name.rpartition("-")[2]) for path in self.folder.glob(f"{product}-*"))

    def path(self, product: ProductName, state: int) -> Path:
        """Return the file of a state's counts."""
        return self.folder / f"{product}-{state:02d}"

    def counts(self, product: ProductName, state: int) -> Entries:
        """Return 15-digit block, cell and number of a state's records, by block and cell."""
        path = self.path(product, state)
        entries = np.fromfile(path, ENTRY) if path.exists() else np.zeros(0, ENTRY)
        key, entry = np.unique(entries["key"], return_inverse=True)
        sums = np.bincount(entry, entries["count"], len(key)).astype(np.int64)  # exact: below 2^53
        return key // CELLS[product], key % CELLS[product], sums

    def areas(self, state: int) -> pa.Table:
        """Return the codes of areas of a state's blocks, a row a block."""
        parts = [pq.read_table(path) for path in sorted(self.folder.glob(f"areas-{state:02d}-*"))]
        return (
            pa.concat_tables(parts)
            .group_by("block")
            .aggregate([(name, "min") for name in self.geography or ()])
            .sort_by("block")
            if parts
            else pa.table({})
        )


def read_microdata(
    sources: Sequence[str],
    folder: Path,
    states: Collection[int] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
    areas: bool = False,
) -> Microdata:
    """Count the records of files, folders and zip archives by state into a new folder.

    states: only these, where any are named. areas: whether the codes of areas are kept as well.

    Raises Refused where a file cannot be read or is no microdata, a value is not of its column, or a product is
    missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = Microdata(folder)
    for source in sources:
        for name, open_one in _files(source):
            of_state = re.search(r"ppmf_(?:person|unit)_(\d\d)\.csv", name)  # of an archive by state
            if of_state and states and int(of_state[1]) not in states:
                continue
            with open_one() as stream:
                _read_file(name, stream, found, frozenset(states), progress, areas)
    if missing := [product for product in CELLS if not found.rows.get(product)]:
        only = f" in state(s) {', '.join(f'{state:02d}' for state in sorted(states))}" if states else ""
        raise Refused(f"no record of {' or '.join(missing)}{only}: give the files of persons and of units")
    return found


def _files(source: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of each file of a path or URL, a folder or an archive, and how to open it."""
    if Path(source).is_dir():
        names = [path for path in sorted(Path(source).iterdir()) if path.is_file() and _is_table(path.name)]
        if not names:
            raise Refused(f"{source} holds no file of microdata (.csv, .txt, .parquet, .gz or .zip)")
        for path in names:
            yield from _files(str(path))
    elif source.endswith(".zip"):
        with open_file(source) as stream, _damaged(source), zipfile.ZipFile(stream) as archive:
            members = [name for name in archive.namelist() if _is_table(name)]
        if not members:
            raise Refused(f"{source} holds no file of microdata (.csv or .txt)")
        for member in members:
            yield f"{file_name(source)}/{member}", _opener(source, member)
    else:
        yield file_name(source), _opener(source)


def _is_table(name: str) -> bool:
    return name.lower().endswith((".csv", ".txt", ".parquet", ".gz", ".zip"))


def _opener(source: str, member: str | None = None) -> Callable[[], Any]:
    @contextmanager
    def opened() -> Iterator[IO[bytes]]:
        with ExitStack() as stack, _damaged(source):
            stream = stack.enter_context(open_file(source, compression="infer" if member is None else None))
            yield stack.enter_context(zipfile.ZipFile(stream).open(member)) if member else stream

    return opened


@contextmanager
def _damaged(source: str) -> Iterator[None]:
    """Refuse what cannot be read."""
    try:
        yield
    except OSError as error:
        raise Refused(f"{source} cannot be read: {why(error)}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, pa.ArrowException):
        raise Refused(f"{source} cannot be read: it is damaged, or not what its name says") from None


def _read_file(
    name: str,
    stream: IO[bytes],
    found: Microdata,
    states: frozenset[int],
    progress: Callable[[int, int], None],
    areas: bool,
) -> None:
    """Count one file batch by batch."""
    file, line, batches = open_batches(name, stream, areas)
    layout = file.layout
    if areas and layout.product == "units":
        found.geography = file.areas
    for batch in batches:
        records = None if isinstance(batch, pa.Table) else file.parse(batch)
        if records is not None:
            rows = records.shape[1]
            chosen = np.flatnonzero(np.isin(records[BLOCK] // STATE_UNIT, list(states))) if states else np.arange(rows)
            records = records[:, chosen] if states else records
        else:
            batch = batch if isinstance(batch, pa.Table) else file.split(batch)
            rows, chosen = len(batch), file.of_states(batch, states)
            records = file.check(batch, chosen, line + 1)
        line += rows
        if file.areas:
            code, first = np.unique(records[BLOCK], return_index=True)
            _keep_areas(found, file.take(batch, chosen[first]), code)
        block, cell, count = _entries(records, layout)
        _add(found, layout.product, block, cell, count)
        found.rows[layout.product] = found.rows.get(layout.product, 0) + int(count.sum())
        progress(sum(found.rows.values()), 0)
    if layout.product == "units" and layout.quarters is None:
        found.typed = False
    found.counted |= layout.counted


def _entries(records: IntArray, layout: MicrodataLayout) -> Entries:
    """Return block, cell and number of records, or of the units of blocks whose numbers of units are given."""
    block = records[BLOCK]
    if layout.counted:
        numbers = np.concatenate([records[OCCUPIED_UNITS], records[VACANT_UNITS]])
        return np.tile(block, 2), np.repeat([OCCUPIED, VACANT], len(block)), numbers
    count = records[RECORDS] if layout.weight else np.ones(len(block), np.int64)
    if layout.product == "persons":
        return block, records[KIND] * (PERSONS.cells // TYPES) + records[REST], count
    kind = records[KIND] if layout.quarters else 0
    return block, np.where(records[GROUP] > 0, UNTYPED + kind, np.where(records[REST] > 0, VACANT, OCCUPIED)), count


def _add(found: Microdata, product: ProductName, block: IntArray, cell: IntArray, count: IntArray) -> None:
    """Append the counts of a batch to the files of its states."""
    every, entry = np.unique(block * CELLS[product] + cell, return_inverse=True)
    sums = np.bincount(entry, count, len(every)).astype(np.int64)  # exact: below 2^53
    key, sums = every[sums > 0], sums[sums > 0]
    state = key // (CELLS[product] * STATE_UNIT)
    first = np.flatnonzero(np.append(True, state[1:] != state[:-1])[: len(state)])
    ends = [*first[1:].tolist(), len(key)][: len(first)]  # none where no row is of the states
    for start, end in zip(first.tolist(), ends, strict=True):
        entries = np.empty(end - start, ENTRY)
        entries["key"], entries["count"] = key[start:end], sums[start:end]
        with found.path(product, int(state[start])).open("ab") as file:
            entries.tofile(file)


def _keep_areas(found: Microdata, rows: pa.Table, codes: IntArray) -> None:
    """Keep the codes of areas of blocks, a row each, by state."""
    columns = {name: pc.cast(rows[name], pa.string()) for name in found.geography or ()}
    table = pa.table({"block": codes, **columns})
    for state in np.unique(codes // STATE_UNIT).tolist():
        within = slice(*np.searchsorted(codes, (state * STATE_UNIT, (state + 1) * STATE_UNIT)).tolist())
        path = found.folder / f"areas-{state:02d}-{found.rows.get('units', 0):012d}"
        pq.write_table(table.slice(within.start, within.stop - within.start), path)
