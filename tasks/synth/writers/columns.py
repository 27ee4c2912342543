"""Records of a populated stretch of a state as columns with a shared index, and their text and Parquet forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.records.block_codes import BLOCK_COLUMNS
from tasks.safetab.record_kind import RACES
from tasks.synth.blocks import BlockTable, digits
from tasks.synth.population.codes import CENRACE, SETS, Origins
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
    def at_units(self) -> IndexedColumns:
        """The columns with the block of each unit."""
        return IndexedColumns({name: self.blocks.columns[name] for name in BLOCK_COLUMNS}, self.population.homes.block)

    @cached_property
    def at_persons(self) -> IndexedColumns:
        """The columns with the block of each person."""
        return self.at_units.take(self.population.homes.unit)

    @cached_property
    def at_households(self) -> IndexedColumns:
        """The columns with the block of each household."""
        return self.at_units.take(self.households)

    @cached_property
    def races(self) -> IndexedColumns:
        """CENRACE and QRACE1 to QRACE8 of each person: words for each code of those with one, then for each other."""
        codes, sets = self.population.codes, self.population.cell % SETS
        none, several = len(self.origins.race), codes.several
        index, single = codes.race.astype(np.int64), np.ones(len(sets), bool)
        index[several], single[several] = none + np.arange(len(several)), False
        of_code = np.zeros(none, np.uint8)
        of_code[codes.race[single]] = sets[single]
        number = np.full((none + len(several), 8), none)
        number[:none, 0] = np.arange(none)
        number[none:, 0], number[none:, 1:] = codes.race[several], codes.more
        words = np.append(self.origins.race, b"Null")
        columns = {"CENRACE": digits(CENRACE[np.concatenate([of_code, sets[several]])], 2)}
        return IndexedColumns(columns | {name: words[number[:, place]] for place, name in enumerate(RACES)}, index)

    @cached_property
    def mafid(self) -> NDArray[np.bytes_]:
        """MAFID of each unit, nine digits."""
        return digits(self.first_mafid + np.arange(len(self.population.homes.size)), 9)


@dataclass(frozen=True)
class IndexedColumns:
    """Columns that share an index. words: distinct rows of values. index: (n,), the row of `words` for each record.

    encoded: the words by column, once they were encoded: the number of each in a dictionary.
    """

    words: Mapping[str, NDArray[np.bytes_]]
    index: NDArray[np.integer]
    encoded: dict[str, tuple[NDArray[np.int16], pa.StringArray]] = field(default_factory=dict, repr=False)

    def take(self, records: IntArray | slice) -> IndexedColumns:
        """Return the columns of some of the records; their words are encoded once for all."""
        return replace(self, index=self.index[records])

    @cached_property
    def arrow(self) -> dict[str, pa.Array]:
        """The columns by name, made once for all systems that have them."""
        return {name: self._column(name, words) for name, words in self.words.items()}

    def _column(self, name: str, words: NDArray[np.bytes_]) -> pa.Array:
        if name == MAFID:  # all words have the same length
            ends = words.itemsize * np.arange(len(self.index) + 1, dtype=np.int32)
            letters = words.take(self.index)
            return pa.StringArray.from_buffers(len(letters), pa.py_buffer(ends), pa.py_buffer(letters))
        if name not in self.encoded:
            coded = _texts(words).dictionary_encode()
            self.encoded[name] = coded.indices.to_numpy().astype(np.int16), coded.dictionary
        numbers, dictionary = self.encoded[name]
        at = pa.array(numbers.take(self.index))
        return pa.DictionaryArray.from_arrays(at, dictionary, safe=False)  # they are in it


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
