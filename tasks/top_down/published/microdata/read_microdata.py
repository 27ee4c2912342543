"""Read published microdata as a stream: text with commas or pipes, plain, gzip or a member of a zip, or Parquet.

The header of a file says its product and the meaning of its columns. Known are the 2020 PPMF, the microdata detail
files of the redistricting program and of the DHC, and the demonstration files made of the 2010 census
(docs/spec/files.md#published-microdata). A nation has 331 million rows of persons and 140 million of units. Only counts
by block and cell are kept, on disk, by state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from spine.geography import IntArray
from spine.redistricting import CENRACE, PERSONS, TYPES
from tasks.errors import Refused
from tasks.records.block_codes import BLOCK_COLUMNS, BLOCK_FACTORS, BLOCK_WIDTHS, STATE_UNIT
from tasks.records.files import file_name, is_passed_over, members, open_file, refuse_unreadable
from tasks.records.record_fields import Field, number, whole
from tasks.records.tables import EncodedColumn

OTHER_NAMES = {"TABTRACTCE": "TABTRACT"}  # in the demonstration PPMF of 2021
GEOGRAPHY = ("PLACEFP", "COUSUBFP", "AIANNHCE", "SDUNILEA", "SDSECLEA", "SDELMLEA", "COUSUBFS", "PLACEFS")
NEEDED_GEOGRAPHY = ("PLACEFP", "COUSUBFP", "AIANNHCE")
CHOICES: dict[str, tuple[tuple[str, ...], ...]] = {  # alternatives of a column; the first that exists is taken
    "persons": (("RTYPE",), ("GQTYPE_PL", "GQTYPE"), ("VOTING_AGE", "QAGE"), ("CENHISP",), ("CENRACE",)),
    "units": (("RTYPE",), ("HH_STATUS", "VACS")),
}
WEIGHT = "COUNT"  # the number of equal records that a row stands for, as in the mdf/ of a das-flows release
# The numbers that a record's fields sum to: whether it is in group quarters; their major type; the rest of its cell
# (for a unit, whether it is vacant); how many equal records a row is.
BLOCK, GROUP, KIND, REST, RECORDS = range(5)
MOST_RECORDS = 10_000_000  # records of a row
ADULT, HISPANIC, RACE = (int(np.prod(PERSONS.shape[axis:])) for axis in (2, 3, 4))  # cells that a code of each is apart
KINDS = {  # the major type of group quarters, 0 for households: the first of three digits, or by itself
    "GQTYPE": whole((min(kind // 100, TYPES - 1) for kind in range(1000)), place=KIND, blank=True),
    "GQTYPE_PL": whole(range(TYPES), place=KIND, blank=True),
}
FIELDS: dict[str, dict[str, Field]] = {
    "persons": {
        "RTYPE": whole((0, 0, 1), first=3, place=GROUP),
        "VOTING_AGE": whole((0, 1), first=1, place=REST, factor=ADULT),
        "QAGE": whole((age >= 18 for age in range(131)), place=REST, factor=ADULT),
        "CENHISP": whole((0, 1), first=1, place=REST, factor=HISPANIC),
        "CENRACE": whole(range(len(CENRACE)), first=1, place=REST, factor=RACE),
        **KINDS,
    },
    "units": {
        "RTYPE": whole((0, 0, 1), first=2, place=GROUP),
        "HH_STATUS": whole((0, 0, 1), place=REST),
        "VACS": whole((reason > 0 for reason in range(10)), place=REST, blank=True),  # why it is vacant
        **KINDS,
    },
}
UNIT_CELLS = 3 + TYPES  # occupied, vacant, group quarters of no known type, and of types 1 to 7 (number 2 + type)
OCCUPIED, VACANT, UNTYPED = 0, 1, 2
CELLS: dict[str, int] = {"persons": PERSONS.cells, "units": UNIT_CELLS}
Entries = tuple[IntArray, IntArray, IntArray]  # block, cell, number
ENTRY = np.dtype([("key", "<i8"), ("count", "<i4")])
ROWS, BYTES = 1 << 20, 32 << 20  # of Parquet and text that are read at once
HEADER_BYTES = 1 << 16
TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class MicrodataLayout:
    """The columns that are read from a file.

    block: state, county, tract and block. values: those of each record. quarters: the column with the type of group
    quarters, or None. weight: the column with the number of records of a row; None if a row is one record. geography:
    the codes of areas, for units.
    """

    product: str
    block: tuple[str, ...]
    values: tuple[str, ...]
    quarters: str | None
    weight: str | None
    geography: tuple[str, ...]

    @property
    def fields(self) -> Mapping[str, Field]:
        """All columns that are read as numbers."""
        block = zip(self.block, BLOCK_WIDTHS, BLOCK_FACTORS.values(), strict=True)
        values = (*self.values, *((self.quarters,) if self.quarters else ()))
        return {
            **{name: number(10**width - 1, place=BLOCK, factor=factor) for name, width, factor in block},
            **{name: FIELDS[self.product][name] for name in values},
            **({self.weight: number(MOST_RECORDS, place=RECORDS)} if self.weight else {}),
        }


def recognize(file: str, header: list[str]) -> MicrodataLayout:
    """Return the layout of a file with this header.

    Raises Refused for a missing or repeated column.
    """
    names = set(header)
    if twice := [name for name in names if header.count(name) > 1]:
        raise Refused(f"{file}: column {min(twice)} is there twice")
    product: str = "persons" if "CENRACE" in names else "units"
    block = tuple(name if name in names else OTHER_NAMES.get(name, name) for name in BLOCK_COLUMNS)
    values = [next((name for name in choice if name in names), " or ".join(choice)) for choice in CHOICES[product]]
    if missing := [name for name in (*block, *values) if name not in names]:
        raise Refused(
            f"{file} is not published microdata of persons or units: read as {product}, it lacks the columns "
            f"{', '.join(missing)}"
        )
    quarters = values[1] if product == "persons" else next((name for name in KINDS if name in names), None)
    weight = WEIGHT if WEIGHT in names else None
    with_areas = product == "units" and names.issuperset(NEEDED_GEOGRAPHY)
    geography = tuple(name for name in GEOGRAPHY if with_areas and name in names)
    return MicrodataLayout(product, block, tuple(values), quarters, weight, geography)


@dataclass
class Microdata:
    """Published records, counted by block and cell in files of a folder, by product and state.

    rows: the number of rows by product, other states' excluded. geography: columns of the units' block geography.
    typed: whether units have the type of group quarters.
    """

    folder: Path
    rows: dict[str, int] = field(default_factory=dict)
    geography: tuple[str, ...] = ()
    typed: bool = True

    @property
    def states(self) -> list[int]:
        """The states that have a record of units."""
        return self.states_of("units")

    def states_of(self, product: str) -> list[int]:
        """Return the states that have a record of a product."""
        return sorted(int(path.name.rpartition("-")[2]) for path in self.folder.glob(f"{product}-*"))

    def path(self, product: str, state: int) -> Path:
        """Return the file of a state's counts."""
        return self.folder / f"{product}-{state:02d}"

    def counts(self, product: str, state: int) -> Entries:
        """Return the 15-digit block, cell and number of a state's records, sorted by block and cell."""
        path = self.path(product, state)
        entries = np.fromfile(path, ENTRY) if path.exists() else np.zeros(0, ENTRY)
        key, entry = np.unique(entries["key"], return_inverse=True)
        sums = np.bincount(entry, entries["count"], len(key)).astype(np.int64)  # exact: below 2^53
        return key // CELLS[product], key % CELLS[product], sums

    def areas(self, state: int) -> pa.Table:
        """Return the codes of areas of a state's blocks, one row per block."""
        parts = pa.concat_tables(pq.read_table(path) for path in sorted(self.folder.glob(f"areas-{state:02d}-*")))
        least = [(name, "min") for name in self.geography]
        return parts.group_by("block").aggregate(least).rename_columns(["block", *self.geography]).sort_by("block")


def read_microdata(
    sources: Sequence[str],
    folder: Path,
    states: Collection[int] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Microdata:
    """Count the records of files, folders and zip archives by state into a new folder, and keep the codes of areas.

    states: only these; empty for all.

    Raises Refused if a file cannot be read or is not microdata, if a value is not valid in its column, or if a product
    is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = Microdata(folder)
    for path in [path for source in sources for path in _files(source)]:
        name = file_name(path.removeprefix("zip://").partition("::")[0])
        of_state = re.search(r"ppmf_(?:person|unit)_(\d\d)\.csv", name)  # in an archive by state
        if of_state and states and int(of_state[1]) not in states:
            continue
        try:
            with refuse_unreadable(path), open_file(path, compression="infer") as stream:
                _read_file(name, stream, found, frozenset(states), progress)
        except (RuntimeError, pa.ArrowException) as error:  # an archive with a password raises RuntimeError
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise Refused(f"{path} cannot be read: {reason:.200}") from None
    if missing := [product for product in CELLS if not found.rows.get(product)]:
        only = f" in state(s) {', '.join(f'{state:02d}' for state in sorted(states))}" if states else ""
        raise Refused(f"there are no records of {' or '.join(missing)}{only}: give the files of both persons and units")
    return found


def _files(source: str) -> list[str]:
    """Return the paths or URLs of the files of a folder or archive, or of a single file."""
    folder = Path(source)
    if not (folder.is_dir() or source.endswith(".zip")):
        return [source]
    if folder.is_dir():
        inside = sorted(str(path) for path in folder.iterdir() if path.is_file() and not is_passed_over(path.name))
    else:
        inside = members(source)
    endings = (".csv", ".txt", ".parquet", ".gz", ".zip")
    tables = [path for path in inside if path.partition("::")[0].lower().endswith(endings)]
    if not tables:
        raise Refused(f"{source} holds no microdata files (.csv, .txt, .parquet, .gz or .zip)")
    return [path for table in tables for path in (_files(table) if folder.is_dir() else [table])]


def _read_file(
    name: str,
    stream: IO[bytes],
    found: Microdata,
    states: frozenset[int],
    progress: Callable[[int, int], None],
) -> None:
    """Count one file batch by batch."""
    layout, line, batches = (_open_parquet if name.endswith(".parquet") else _open_text)(name, stream)
    if layout.product == "units":
        found.typed &= layout.quarters is not None
        found.geography = layout.geography
    for batch in batches:
        rows = _of_states(layout, batch, states)
        records = _numbers(name, layout, batch, rows, line + 1)
        line += len(batch)
        if layout.geography:
            code, first = np.unique(records[BLOCK], return_index=True)
            _keep_areas(found, batch.take(pa.array(rows[first])), code)
        block, cell, count = _entries(records, layout)
        _add(found, layout.product, block, cell, count)
        found.rows[layout.product] = found.rows.get(layout.product, 0) + int(count.sum())
        progress(sum(found.rows.values()), 0)


def _open_text(name: str, stream: IO[bytes]) -> tuple[MicrodataLayout, int, Iterator[pa.Table]]:
    """Return the layout of text, the line of its header, and its columns as dictionaries, batch by batch."""
    head, line = stream.readline(HEADER_BYTES), 1
    while head.startswith(b"#"):  # comments of the program above the header of a microdata detail file
        head, line = stream.readline(HEADER_BYTES), line + 1
    delimiter = "|" if b"|" in head else ","
    header = [column.strip().strip('"') for column in head.decode("utf-8-sig", "replace").strip().split(delimiter)]
    layout = recognize(name, header)

    def batches() -> Iterator[pa.Table]:
        columns = [*layout.fields, *layout.geography]
        try:
            for batch in pa.csv.open_csv(
                stream,
                pa.csv.ReadOptions(column_names=header, block_size=BYTES),
                pa.csv.ParseOptions(delimiter=delimiter),
                pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(columns, TEXT), include_columns=columns, strings_can_be_null=False
                ),
            ):
                yield pa.Table.from_batches([batch])
        except pa.ArrowInvalid:
            raise Refused(f"{name}: no rows, rows of another width, or bytes that are not text") from None

    return layout, line, batches()


def _open_parquet(name: str, stream: IO[bytes]) -> tuple[MicrodataLayout, int, Iterator[pa.Table]]:
    """Return the layout of Parquet, 1, and its columns as dictionaries of text, batch by batch."""
    layout = recognize(name, pq.read_schema(stream).names)

    def batches() -> Iterator[pa.Table]:
        columns = [*layout.fields, *layout.geography]
        file = pq.ParquetFile(stream, read_dictionary=columns)
        for group in range(file.num_row_groups):  # separately: a reader keeps what it has read
            for batch in file.iter_batches(ROWS, row_groups=[group], columns=columns):
                try:
                    yield pa.table({column: _as_text(batch[column]) for column in columns})
                except pa.ArrowException:
                    raise Refused(f"{name}: a column holds a value that is not a number") from None

    return layout, 1, batches()


def _as_text(values: pa.Array) -> pa.Array:
    """Return numbers or text as a dictionary of text, "" for null. Raises ArrowException for fractions and lists."""
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    numbers = pa.types.is_floating(encoded.dictionary.type)
    words = pc.cast(pc.cast(encoded.dictionary, pa.int64()) if numbers else encoded.dictionary, pa.string())
    return pa.DictionaryArray.from_arrays(
        encoded.indices.fill_null(len(words)), pa.concat_arrays([words, pa.array([""])])
    )


def _of_states(layout: MicrodataLayout, batch: pa.Table, states: frozenset[int]) -> IntArray:
    """Return the rows of these states (by default all) and the rows without a valid state."""
    if not states:
        return np.arange(len(batch))
    state = layout.fields[layout.block[0]]
    chosen = {None, *(code * state.factor for code in states)}
    return np.flatnonzero(
        EncodedColumn(batch[layout.block[0]]).where(lambda code: state.number(code.strip()) in chosen)
    )


def _numbers(name: str, layout: MicrodataLayout, batch: pa.Table, rows: IntArray, first: int) -> IntArray:
    """Return the (places, rows) numbers of the records in these rows. Row 0 is line `first`.

    Raises Refused for the first invalid value, by column and line, without showing it.
    """
    numbers = np.zeros((RECORDS + 1, len(rows)), np.int64)
    for column, of_column in layout.fields.items():
        values = EncodedColumn(batch[column]).take(rows)
        counted = [of_column.number(value.strip()) for value in values.values]
        bad = np.flatnonzero(values.spread([number is None for number in counted]))
        if len(bad):
            blank = not values.values[values.numbers[bad[0]]].strip()
            what = "is blank" if blank else f"is not {of_column.least} to {of_column.most}"
            raise Refused(f"{name}, line {first + int(rows[bad[0]])}: {column} {what}")
        numbers[of_column.place] += values.spread([number or 0 for number in counted], np.int64)
    if layout.quarters is not None and (bad := np.flatnonzero((numbers[GROUP] > 0) != (numbers[KIND] > 0))).size:
        raise Refused(f"{name}, line {first + int(rows[bad[0]])}: RTYPE contradicts {layout.quarters}")
    return numbers


def _entries(records: IntArray, layout: MicrodataLayout) -> Entries:
    """Return block, cell and number of records."""
    block = records[BLOCK]
    count = records[RECORDS] if layout.weight else np.ones(len(block), np.int64)
    if layout.product == "persons":
        return block, records[KIND] * (PERSONS.cells // TYPES) + records[REST], count
    in_group, vacant = records[GROUP] > 0, records[REST] > 0
    return block, np.where(in_group, UNTYPED + records[KIND], np.where(vacant, VACANT, OCCUPIED)), count


def _add(found: Microdata, product: str, block: IntArray, cell: IntArray, count: IntArray) -> None:
    """Append the counts of a batch to the files of its states."""
    every, entry = np.unique(block * CELLS[product] + cell, return_inverse=True)
    sums = np.bincount(entry, count, len(every)).astype(np.int64)  # exact: below 2^53
    key, sums = every[sums > 0], sums[sums > 0]
    state = key // (CELLS[product] * STATE_UNIT)
    for code in np.unique(state).tolist():
        own = state == code
        entries = np.empty(int(own.sum()), ENTRY)
        entries["key"], entries["count"] = key[own], sums[own]
        with found.path(product, code).open("ab") as file:
            entries.tofile(file)


def _keep_areas(found: Microdata, rows: pa.Table, codes: IntArray) -> None:
    """Save the codes of areas of blocks, one row each, by state."""
    table = pa.table({"block": codes, **{name: pc.cast(rows[name], pa.string()) for name in found.geography}})
    state = codes // STATE_UNIT
    for code in np.unique(state).tolist():
        path = found.folder / f"areas-{code:02d}-{found.rows.get('units', 0):012d}"
        pq.write_table(table.filter(pa.array(state == code)), path)
