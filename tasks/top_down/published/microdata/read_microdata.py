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

from spine.geography import BoolArray, IntArray
from spine.redistricting import CENRACE, TYPES
from spine.top_down.histogram import PERSONS
from tasks.inputs.files import open_file, why
from tasks.lifecycle.errors import Refused
from tasks.top_down.published.microdata.layout import NEEDED_GEOGRAPHY, MicrodataLayout, recognize
from tasks.top_down.run_plan import ProductName, file_name

CODES = (np.int64(10**13), np.int64(10**10), np.int64(10**4), np.int64(1))  # of state, county, tract, block
WIDEST = (99, 999, 999_999, 9999)
UNIT_CELLS = 3 + TYPES  # occupied, vacant, group quarters of no known type, and of types 1 to 7 (number 2 + type)
OCCUPIED, VACANT, UNTYPED = 0, 1, 2
CELLS: dict[ProductName, int] = {"persons": PERSONS.cells, "units": UNIT_CELLS}
MOST_UNITS = 100_000  # of a block
MOST_RECORDS = 10_000_000  # of a row
BATCH = 1 << 20  # rows of Parquet that are read at once
Entries = tuple[IntArray, IntArray, IntArray]  # block, cell, number
BLOCK_BYTES = 32 << 20  # bytes of text
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
        order = np.argsort(entries["key"], kind="stable")
        key, count = entries["key"][order], entries["count"][order].astype(np.int64)
        first = np.flatnonzero(np.append(True, key[1:] != key[:-1])[: len(key)])
        sums = np.add.reduceat(count, first) if len(first) else count
        return key[first] // CELLS[product], key[first] % CELLS[product], sums

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

    Raises
    ------
    Refused
        where a file cannot be read or is no microdata, a value is not of its column, or a product is missing.
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
    layout, row, batches = _batches(name, stream, areas)
    product = layout.product
    if areas and product == "units":
        missing = set(NEEDED_GEOGRAPHY) - set(layout.geography)
        found.geography = () if missing else layout.geography
    for batch in batches:
        first, row = row + 1, row + len(batch)
        chosen = _of_states(batch, layout.block[0], states)
        values = _Values(name, first, batch.filter(chosen) if states else batch, np.flatnonzero(chosen))
        block = _blocks(values, layout)
        if areas and product == "units" and found.geography:
            _keep_areas(found, values.batch, block)
        if layout.counted:
            block, cell, count = _numbers_of_units(values, block, layout)
        else:
            weight = values.numbers(layout.weight, 0, MOST_RECORDS) if layout.weight else np.ones(len(block), np.int64)
            block, cell, count = block, _cells(values, layout), weight
        _add(found, product, block, cell, count)
        found.rows[product] = found.rows.get(product, 0) + int(count.sum())
        progress(sum(found.rows.values()), 0)
    if product == "units" and layout.quarters is None:
        found.typed = False
    found.counted |= layout.counted


def _batches(name: str, stream: IO[bytes], areas: bool) -> tuple[MicrodataLayout, int, Iterator[pa.RecordBatch]]:
    """Return the layout of a file, the line of its header, and its rows: numbers, and the codes of areas as text."""
    if name.endswith(".parquet"):
        file = pq.ParquetFile(stream)
        layout = recognize(name, file.schema_arrow.names)
        schema = _schema(layout, areas)
        groups = range(file.num_row_groups)  # each by itself: a reader keeps what it has read
        batches = (batch for at in groups for batch in file.iter_batches(BATCH, row_groups=[at], columns=schema.names))
        return layout, 1, (_cast(name, batch, schema) for batch in batches)
    head, comments = stream.readline(1 << 16), 0
    while head.startswith(b"#"):  # what the program says of its run, above the header of a microdata detail file
        head, comments = stream.readline(1 << 16), comments + 1
    delimiter = "|" if b"|" in head else ","
    header = [column.strip().strip('"') for column in head.decode("utf-8-sig", "replace").strip().split(delimiter)]
    layout = recognize(name, header)
    schema = _schema(layout, areas)
    return layout, comments + 1, _text_batches(name, stream, header, delimiter, schema)


def _schema(layout: MicrodataLayout, areas: bool) -> pa.Schema:
    text = layout.geography if areas and layout.product == "units" else ()
    return pa.schema([*((name, pa.int32()) for name in layout.columns), *((name, pa.string()) for name in text)])


def _text_batches(
    name: str, stream: IO[bytes], header: list[str], delimiter: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield batches of text; a value that is no number is refused without being shown."""
    try:
        yield from pa.csv.open_csv(
            stream,
            pa.csv.ReadOptions(block_size=BLOCK_BYTES, column_names=header),
            pa.csv.ParseOptions(delimiter=delimiter),
            pa.csv.ConvertOptions(column_types=schema, include_columns=schema.names, null_values=["", " ", "   "]),
        )
    except pa.ArrowInvalid as error:
        column = str(error).partition("In CSV column #")[2].partition(":")[0]
        where = f"column {int(column) + 1} holds something that is no number" if column else "rows of another width"
        raise Refused(f"{name}: {where}") from None


def _cast(name: str, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for column in schema:
        values = batch[column.name]
        try:
            plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
            columns.append(pc.cast(plain, column.type))
        except pa.ArrowException:
            raise Refused(f"{name}: column {column.name} holds something that is no number") from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _of_states(batch: pa.RecordBatch, column: str, states: frozenset[int]) -> BoolArray:
    if not states:
        return np.ones(len(batch), bool)
    chosen: BoolArray = np.isin(batch[column].to_numpy(zero_copy_only=False), list(states))
    return chosen


@dataclass(frozen=True)
class _Values:
    """The rows of a batch; a value outside its domain is refused by file, column and row."""

    file: str
    first: int
    batch: pa.RecordBatch
    rows: IntArray

    def numbers(self, column: str, low: int, high: int, blank: int | None = None) -> IntArray:
        """Return the values of a column, all from low to high; blank: in place of a value that is missing."""
        values = self.batch[column]
        if values.null_count and blank is not None:
            values = values.fill_null(blank)
        if values.null_count:
            self.refuse(column, "is blank", np.asarray(values.is_null()))
        numbers: IntArray = values.to_numpy(zero_copy_only=False).astype(np.int64)
        self.refuse(column, f"is not {low} to {high}", (numbers < low) | (numbers > high))
        return numbers

    def refuse(self, column: str, what: str, bad: BoolArray) -> None:
        """Refuse the first row where `bad` holds."""
        if bad.any():
            raise Refused(f"{self.file}, line {self.first + int(self.rows[int(bad.argmax())])}: {column} {what}")


def _blocks(values: _Values, layout: MicrodataLayout) -> IntArray:
    parts = [values.numbers(name, 0, most) for name, most in zip(layout.block, WIDEST, strict=True)]
    state, county, tract, block = parts
    code: IntArray = state * CODES[0] + county * CODES[1] + tract * CODES[2] + block
    return code


def _cells(values: _Values, layout: MicrodataLayout) -> IntArray:
    return _person_cells(values, layout) if layout.product == "persons" else _unit_cells(values, layout)


def _major_type(values: _Values, column: str) -> IntArray:
    """Return the major type of group quarters, 0 for households: by itself, or the first of three digits."""
    if column == "GQTYPE_PL":
        return values.numbers(column, 0, TYPES - 1, blank=0)
    kind: IntArray = np.minimum(values.numbers(column, 0, 999, blank=0) // 100, TYPES - 1)
    return kind


def _person_cells(values: _Values, layout: MicrodataLayout) -> IntArray:
    rtype, gq, age, hispanic, race = layout.values
    kind = _major_type(values, gq)
    is_group = values.numbers(rtype, 3, 5) == 5
    values.refuse(rtype, f"contradicts {gq}", is_group != (kind > 0))
    adult = values.numbers(age, 1, 2) - 1 if age == "VOTING_AGE" else (values.numbers(age, 0, 130) >= 18).astype(int)
    ethnicity, races = values.numbers(hispanic, 1, 2) - 1, values.numbers(race, 1, len(CENRACE)) - 1
    return np.ravel_multi_index((kind, adult, ethnicity, races), PERSONS.shape)


def _unit_cells(values: _Values, layout: MicrodataLayout) -> IntArray:
    rtype, status = layout.values
    is_group = values.numbers(rtype, 2, 4) == 4
    if status == "HH_STATUS":
        vacant = values.numbers(status, 0, 2) == 2
    else:  # VACS: why it is vacant; 0, or blank, of any other
        vacant = values.numbers(status, 0, 9, blank=0) > 0
    of_house = np.where(vacant, VACANT, OCCUPIED)
    if layout.quarters is None:
        return np.where(is_group, UNTYPED, of_house)
    kind = _major_type(values, layout.quarters)
    values.refuse(rtype, f"contradicts {layout.quarters}", is_group != (kind > 0))
    return np.where(is_group, UNTYPED + kind, of_house)


def _numbers_of_units(values: _Values, block: IntArray, layout: MicrodataLayout) -> Entries:
    """Return block, cell and number of the units of blocks whose numbers of units are given."""
    numbers = np.concatenate([values.numbers(name, 0, MOST_UNITS, blank=0) for name in layout.values])
    return np.tile(block, 2), np.repeat([OCCUPIED, VACANT], len(block)), numbers


def _add(found: Microdata, product: ProductName, block: IntArray, cell: IntArray, count: IntArray) -> None:
    """Append the counts of a batch to the files of its states."""
    every, entry = np.unique(block * CELLS[product] + cell, return_inverse=True)
    sums = np.bincount(entry, count, len(every)).astype(np.int64)  # exact: below 2^53
    key, sums = every[sums > 0], sums[sums > 0]
    state = key // (CELLS[product] * CODES[0])
    first = np.flatnonzero(np.append(True, state[1:] != state[:-1])[: len(state)])
    ends = [*first[1:].tolist(), len(key)][: len(first)]  # none where no row is of the states
    for start, end in zip(first.tolist(), ends, strict=True):
        entries = np.empty(end - start, ENTRY)
        entries["key"], entries["count"] = key[start:end], sums[start:end]
        with found.path(product, int(state[start])).open("ab") as file:
            entries.tofile(file)


def _keep_areas(found: Microdata, batch: pa.RecordBatch, block: IntArray) -> None:
    """Keep the codes of areas of a batch's blocks, by state."""
    codes, rows = np.unique(block, return_index=True)
    columns = {name: batch[name].take(pa.array(rows)).fill_null("") for name in found.geography or ()}
    table = pa.table({"block": codes, **columns})
    for state in np.unique(codes // CODES[0]).tolist():
        within = slice(*np.searchsorted(codes, (state * CODES[0], (state + 1) * CODES[0])).tolist())
        path = found.folder / f"areas-{state:02d}-{found.rows.get('units', 0):012d}"
        pq.write_table(table.slice(within.start, within.stop - within.start), path)
