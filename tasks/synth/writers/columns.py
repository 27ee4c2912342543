"""Records of a populated stretch of a state as columns with a shared index, and their text and Parquet forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.records.block_codes import BLOCK_COLUMNS
from tasks.synth.blocks import BlockTable, digits
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


def numerals(numbers: IntArray) -> NDArray[np.bytes_]:
    """Return whole numbers as text, without leading zeros."""
    most = int(numbers.max(initial=0))
    return np.arange(most + 1).astype(f"S{len(str(most))}")[numbers]


def coded(name: str, words: list[str], index: NDArray[np.integer]) -> IndexedColumns:
    """Return a column with a few distinct words."""
    return IndexedColumns({name: np.array(words, "S")}, index)


def as_text(groups: list[IndexedColumns], delimiter: str, *, header: bool) -> pa.Buffer:
    """Return records as lines of text, with or without the header.

    The distinct rows of each group are joined once, and then those of all groups for each record.
    """
    *texts, last = (pc.binary_join_element_wise(*map(_texts, group.words.values()), delimiter) for group in groups)
    texts.append(pc.binary_join_element_wise(last, "", "\n"))
    columns = [text.take(pa.array(group.index)) for text, group in zip(texts, groups, strict=True)]
    names = delimiter.join(name for group in groups for name in group.words) + "\n"
    lines = pa.concat_arrays(
        [pa.array([names] * header, pa.string()), pc.binary_join_element_wise(*columns, delimiter)]
    )
    _, ends, letters = lines.buffers()
    return letters[: np.frombuffer(ends, np.int32)[len(lines)]]


def as_table(groups: list[IndexedColumns]) -> pa.Table:
    """Return records as text columns, as dictionaries except MAFID, with the values of the text file.

    Columns are declared non-null: for nullable ones a reader decodes a flag for every row, which takes half its time.
    """
    columns = {name: column for group in groups for name, column in group.arrow.items()}
    fields = [pa.field(name, column.type, nullable=False) for name, column in columns.items()]
    return pa.table(columns, pa.schema(fields))


def _texts(words: NDArray[np.bytes_]) -> pa.StringArray:
    return pa.array(words).view(pa.string())


def _column(name: str, words: NDArray[np.bytes_], index: NDArray[np.integer]) -> pa.Array:
    if name == MAFID:  # all words have the same length
        ends = words.itemsize * np.arange(len(index) + 1, dtype=np.int32)
        return pa.StringArray.from_buffers(len(index), pa.py_buffer(ends), pa.py_buffer(words.take(index)))
    coded = _texts(words).dictionary_encode()
    at = coded.indices.to_numpy().astype(np.int16).take(index)
    return pa.DictionaryArray.from_arrays(pa.array(at), coded.dictionary, safe=False)  # they are in it
