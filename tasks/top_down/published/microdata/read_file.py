"""Read a file of published microdata batch by batch: text by the compiled reader or value by value, or Parquet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from spine.geography import BoolArray, IntArray
from tasks.inputs.fast_records import MIN_BYTES, RecordLayout, parse_text
from tasks.inputs.tables import Column
from tasks.lifecycle.errors import Refused
from tasks.top_down.published.microdata.layout import GROUP, KIND, NEEDED_GEOGRAPHY, MicrodataLayout, recognize

BATCH = 1 << 20  # rows of Parquet that are read at once
BLOCK_BYTES = 32 << 20  # bytes of text


@dataclass(frozen=True)
class MicrodataFile:
    """A file that is read. delimiter: None for Parquet. areas: the columns with codes of areas that are kept."""

    name: str
    header: list[str]
    delimiter: str | None
    layout: MicrodataLayout
    areas: tuple[str, ...]

    @classmethod
    def of(cls, name: str, header: list[str], delimiter: str | None, areas: bool) -> MicrodataFile:
        """Return the file with this header. Raises Refused as `recognize` does."""
        layout = recognize(name, header)
        kept = areas and layout.product == "units" and set(NEEDED_GEOGRAPHY) <= set(layout.geography)
        return cls(name, header, delimiter, layout, layout.geography if kept else ())

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [*self.layout.fields, *self.areas]

    def parse(self, text: memoryview) -> IntArray | None:
        """Return the numbers of the records in text by the compiled reader; None where it leaves the text to `check`.

        It does so where there is little text, and where a value may be at fault.
        """
        if len(text) < MIN_BYTES:
            return None
        parsed = parse_text(RecordLayout(self.layout.fields), self.header, text, self.delimiter or "")
        return None if parsed is None or self.contradicts(parsed.numbers).any() else parsed.numbers

    def split(self, text: memoryview | bytes) -> pa.Table:
        """Return the columns of text as dictionaries. Raises Refused for rows of another width."""
        kinds = dict.fromkeys(self.columns, pa.dictionary(pa.int32(), pa.string()))
        try:
            return pa.csv.read_csv(
                pa.BufferReader(text),
                pa.csv.ReadOptions(column_names=self.header),
                pa.csv.ParseOptions(delimiter=self.delimiter),
                pa.csv.ConvertOptions(column_types=kinds, include_columns=self.columns, strings_can_be_null=False),
            ).unify_dictionaries()
        except pa.ArrowInvalid:
            raise Refused(f"{self.name}: rows of another width") from None

    def take(self, batch: memoryview | pa.Table, rows: IntArray) -> pa.Table:
        """Return the columns of some rows of a batch."""
        if isinstance(batch, pa.Table):
            return batch.take(pa.array(rows))
        ends = np.flatnonzero(np.frombuffer(batch, np.uint8) == ord("\n")) + 1
        starts = np.concatenate([[0], ends])
        starts = starts[np.diff(starts, append=len(batch)) > 2]  # no blank line, which is at most \r\n
        lines = (
            bytes(batch[start:end])
            for start, end in zip(starts[rows], np.append(starts[1:], len(batch))[rows], strict=True)
        )
        return self.split(b"".join(lines))

    def of_states(self, table: pa.Table, states: frozenset[int]) -> IntArray:
        """Return the rows that are of these states, all if there are none, and those of no state at all."""
        if not states:
            return np.arange(len(table))
        state = self.layout.fields[self.layout.block[0]]
        chosen = {None, *(code * state.factor for code in states)}
        return np.flatnonzero(
            Column(table[self.layout.block[0]]).where(lambda code: state.number(code.strip()) in chosen)
        )

    def check(self, table: pa.Table, rows: IntArray, first: int) -> IntArray:
        """Return the numbers of the records in these rows, of which row 0 is line `first`.

        Raises Refused for the first value that is not valid, by column and line, without showing it.
        """
        numbers = RecordLayout(self.layout.fields).empty(len(rows)).numbers
        for name, of_column in self.layout.fields.items():
            column = Column(table[name]).take(rows)
            counted = [of_column.number(value.strip()) for value in column.values]
            bad = np.flatnonzero(column.spread([number is None for number in counted]))
            if len(bad):
                value = column.values[column.numbers[bad[0]]].strip()
                if value and not re.fullmatch("-?[0-9]+", value):
                    where = self.header.index(name) + 1 if self.delimiter else name
                    raise Refused(f"{self.name}: column {where} holds something that is no number")
                what = f"is not {of_column.least} to {of_column.most}" if value else "is blank"
                raise Refused(f"{self.name}, line {first + int(rows[bad[0]])}: {name} {what}")
            numbers[of_column.place] += column.spread([number or 0 for number in counted], np.int64)
        contradictory = np.flatnonzero(self.contradicts(numbers))
        if len(contradictory):
            line = first + int(rows[contradictory[0]])
            raise Refused(f"{self.name}, line {line}: RTYPE contradicts {self.layout.quarters}")
        return numbers

    def contradicts(self, records: IntArray) -> BoolArray:
        """Return which records are in group quarters by one column and in a household by another."""
        if self.layout.counted or self.layout.quarters is None:
            return np.zeros(records.shape[1], bool)
        contradictory: BoolArray = (records[GROUP] > 0) != (records[KIND] > 0)
        return contradictory


def open_batches(
    name: str, stream: IO[bytes], areas: bool
) -> tuple[MicrodataFile, int, Iterator[memoryview | pa.Table]]:
    """Return a file, the line of its header, and its batches: text, or the columns of Parquet."""
    if name.endswith(".parquet"):
        file = MicrodataFile.of(name, pq.read_schema(stream).names, None, areas)
        return file, 1, _read_columns(file, pq.ParquetFile(stream, read_dictionary=file.columns))
    head, comments = stream.readline(1 << 16), 0
    while head.startswith(b"#"):  # what the program says of its run, above the header of a microdata detail file
        head, comments = stream.readline(1 << 16), comments + 1
    delimiter = "|" if b"|" in head else ","
    header = [column.strip().strip('"') for column in head.decode("utf-8-sig", "replace").strip().split(delimiter)]
    return MicrodataFile.of(name, header, delimiter, areas), comments + 1, _read_lines(stream)


def _read_lines(stream: IO[bytes]) -> Iterator[memoryview]:
    """Yield lines, many at a time, in a buffer that is filled again for the next."""
    buffer, kept = bytearray(BLOCK_BYTES), 0
    while (read := stream.readinto(memoryview(buffer)[kept:])) or kept:  # type: ignore[attr-defined]
        size = kept + read
        end = buffer.rfind(b"\n", 0, size) + 1 if read else size
        if end:
            yield memoryview(buffer)[:end]
        elif size == len(buffer):
            buffer = buffer + bytes(BLOCK_BYTES)  # a line that is longer
        kept = size - end
        buffer[:kept] = buffer[end:size]


def _read_columns(file: MicrodataFile, parquet: pq.ParquetFile) -> Iterator[pa.Table]:
    """Yield the columns of Parquet as dictionaries of text, a row group by itself: a reader keeps what it has read."""
    for group in range(parquet.num_row_groups):
        for batch in parquet.iter_batches(BATCH, row_groups=[group], columns=file.columns):
            columns = {}
            for name in file.columns:
                try:
                    columns[name] = _as_text(batch[name])
                except pa.ArrowException:
                    raise Refused(f"{file.name}: column {name} holds something that is no number") from None
            yield pa.table(columns)


def _as_text(values: pa.Array) -> pa.Array:
    """Return numbers or text as a dictionary of text, "" for null. Raises ArrowException for fractions and lists."""
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    numbers = pa.types.is_floating(encoded.dictionary.type)
    words = pc.cast(pc.cast(encoded.dictionary, pa.int64()) if numbers else encoded.dictionary, pa.string())
    return pa.DictionaryArray.from_arrays(
        encoded.indices.fill_null(len(words)), pa.concat_arrays([words, pa.array([""])])
    )
