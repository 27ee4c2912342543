"""Records of a populated stretch of a state as columns with a shared index, and their text and Parquet forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spine.compiled import compiled
from tasks.records.block_codes import BLOCK_COLUMNS
from tasks.synth.blocks import BlockTable, delimited, digits
from tasks.synth.population.codes import Origins
from tasks.synth.population.model import IntArray, Population
from tasks.synth.population.recodes import Recodes, recode

MAFID = "MAFID"  # the only column whose values are nearly all distinct


@dataclass(frozen=True)
class Stretch:
    """Whole tracts of a state, populated. facilities: as in `Tracts`. first_mafid: MAFID of the first unit."""

    blocks: BlockTable
    facilities: IntArray
    population: Population
    origins: Origins
    first_mafid: int

    @cached_property
    def recodes(self) -> Recodes:
        """The recodes of its units."""
        return recode(self.population)

    @cached_property
    def households(self) -> IntArray:
        """The rows of units with a household."""
        return np.flatnonzero(self.population.homes.head >= 0)

    @cached_property
    def at_persons(self) -> IndexedColumns:
        """The columns with the block of each person."""
        return at_block(self, self.population.homes.unit)

    @cached_property
    def at_households(self) -> IndexedColumns:
        """The columns with the block of each household."""
        return at_block(self, self.households)

    @cached_property
    def mafid(self) -> NDArray[np.bytes_]:
        """MAFID of each unit, nine digits."""
        return digits(self.first_mafid + np.arange(len(self.population.homes.size)), 9)


@dataclass(frozen=True)
class IndexedColumns:
    """Columns that share an index. words: distinct rows of values. index: (n,), the row of `words` for each record."""

    words: Mapping[str, NDArray[np.bytes_]]
    index: NDArray[np.integer]

    @cached_property
    def arrow(self) -> dict[str, pa.Array]:
        """The columns by name, made once for all systems that have them."""
        return {name: _column(name, words, self.index) for name, words in self.words.items()}


def at_block(stretch: Stretch, unit: IntArray | slice) -> IndexedColumns:
    """Return the columns with the block of these units."""
    return IndexedColumns(
        {name: stretch.blocks.columns[name] for name in BLOCK_COLUMNS}, stretch.population.homes.block[unit]
    )


def block_code(blocks: BlockTable) -> NDArray[np.bytes_]:
    """Return the 15 digits of each block."""
    code: NDArray[np.bytes_] = blocks.columns[BLOCK_COLUMNS[0]]
    for name in BLOCK_COLUMNS[1:]:
        code = np.char.add(code, blocks.columns[name])
    return code


def numerals(numbers: IntArray) -> NDArray[np.bytes_]:
    """Return whole numbers as text, without leading zeros."""
    most = int(numbers.max(initial=0))
    return np.arange(most + 1).astype(f"S{len(str(most))}")[numbers]


def coded(name: str, words: list[str], index: NDArray[np.integer]) -> IndexedColumns:
    """Return a column with a few distinct words."""
    return IndexedColumns({name: np.array(words, "S")}, index)


def as_text(groups: list[IndexedColumns], delimiter: bytes, *, header: bool) -> NDArray[np.uint8]:
    """Return the bytes of records as lines, with or without the header."""
    words, starts, offsets, row = [], [np.zeros(1, np.int64)], [], 0
    for number, group in enumerate(groups):
        pieces, end = [*group.words.values()], b"\n" if number == len(groups) - 1 else delimiter
        lines = delimited(pieces, end=end, between=delimiter)
        matrix = lines.view(np.uint8).reshape(lines.size, lines.itemsize)
        letters = matrix.ravel()
        words.append(letters[letters != 0])  # a word shorter than its column is padded with zeros
        starts.append((matrix != 0).sum(axis=1))
        offsets.append(row)
        row += len(matrix)
    names = delimiter.join(name.encode() for group in groups for name in group.words) + b"\n"
    ends = np.concatenate(starts).cumsum()
    index = np.array([group.index for group in groups], np.int32)
    first = np.frombuffer(names if header else b"", np.uint8)
    return _join_words(first, np.concatenate(words), ends, np.array(offsets), index)


@compiled
def _join_words(
    first: NDArray[np.uint8],
    words: NDArray[np.uint8],
    starts: IntArray,
    offsets: IntArray,
    index: NDArray[np.int32],
) -> NDArray[np.uint8]:
    """Return the rows after `first`, each the words of its columns one after the other.

    words: those of all columns. starts: each word's, and the end. offsets: where each column's words begin among them.
    index: (columns, rows), the word of each row.
    """
    columns, rows = index.shape
    size = len(first)
    for column in range(columns):
        for row in range(rows):
            word = offsets[column] + index[column, row]
            size += starts[word + 1] - starts[word]
    text, at = np.empty(size, np.uint8), len(first)
    text[:at] = first
    for row in range(rows):
        for column in range(columns):
            word = offsets[column] + index[column, row]
            for place in range(starts[word], starts[word + 1]):
                text[at] = words[place]
                at += 1
    return text


def as_table(groups: list[IndexedColumns]) -> pa.Table:
    """Return records as text columns, as dictionaries except MAFID, with the values of the text file.

    Columns are declared non-null: for nullable ones a reader decodes a flag for every row, which takes half its time.
    """
    columns = {name: column for group in groups for name, column in group.arrow.items()}
    fields = [pa.field(name, column.type, nullable=False) for name, column in columns.items()]
    return pa.table(columns, pa.schema(fields))


def _column(name: str, words: NDArray[np.bytes_], index: NDArray[np.integer]) -> pa.Array:
    if name == MAFID:  # all words have the same length
        ends = words.itemsize * np.arange(len(index) + 1, dtype=np.int32)
        return pa.StringArray.from_buffers(len(index), pa.py_buffer(ends), pa.py_buffer(words.take(index)))
    coded = pa.array(words).view(pa.string()).dictionary_encode()
    at = coded.indices.to_numpy().astype(np.int16).take(index)
    return pa.DictionaryArray.from_arrays(pa.array(at), coded.dictionary, safe=False)  # they are in it
