"""What a system's files are made of: a populated stretch of a state, and tables of columns that share an index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.inputs.block_codes import BLOCK_COLUMNS
from tasks.synth.blocks import Blocks, delimited
from tasks.synth.population.codes import CENRACE, Origins
from tasks.synth.population.model import IntArray, People, Units
from tasks.synth.population.recodes import Recodes, recode
from tasks.synth.writers.compiled_text import join_words

MOST_WORDS = 1 << 15  # in a dictionary of Parquet; a column with more is written plainly
RTYPE_UNIT, RTYPE_PERSON = ("2", "4"), ("3", "5")  # of housing units, of group quarters


@dataclass(frozen=True)
class Columns:
    """Columns whose values stand in the same row of their words. index: (n,), which row of `words` each record has."""

    words: Mapping[str, NDArray[np.bytes_]]
    index: NDArray[np.integer]


@dataclass(frozen=True)
class Stretch:
    """Whole tracts of a state, populated. facilities: as in `Tracts`. first_mafid: MAFID of the first unit."""

    blocks: Blocks
    facilities: IntArray
    units: Units
    people: People
    origins: Origins
    first_mafid: int

    @cached_property
    def recodes(self) -> Recodes:
        """What the records of households say of them."""
        return recode(self.units, self.people)

    @cached_property
    def households(self) -> IntArray:
        """The rows of units with a household."""
        return np.flatnonzero(self.units.head >= 0)

    @cached_property
    def mafid(self) -> NDArray[np.bytes_]:
        """MAFID of each unit, nine digits."""
        return digits(self.first_mafid + np.arange(len(self.units.size)), 9)

    def at_block(self, block: IntArray, *more: str) -> Columns:
        """Return the columns that name a block, and others of GRF-C; block: of each record."""
        return Columns({name: self.blocks.columns[name] for name in (*BLOCK_COLUMNS, *more)}, block)


@dataclass(frozen=True)
class Table:
    """A file of records. columns: in their order. always_text: also where records are Parquet."""

    name: str
    columns: tuple[str, ...]
    rows: Callable[[Stretch], list[Columns]]
    delimiter: str = "|"
    extension: str = "txt"
    always_text: bool = False

    @property
    def header(self) -> bytes:
        """The first line of text."""
        return self.delimiter.join(self.columns).encode() + b"\n"

    def text(self, stretch: Stretch) -> bytes:
        """Return the records as lines."""
        groups = self.rows(stretch)
        words, starts, offsets, at = [], [np.zeros(1, np.int64)], [], 0
        for number, group in enumerate(groups):
            own = _word_rows(group, self.delimiter.encode(), b"\n" if number == len(groups) - 1 else None)
            letters = own.ravel()
            offsets.append(at)
            words.append(letters[letters != 0])
            starts.append((own != 0).sum(axis=1))
            at += len(own)
        index = np.array([group.index for group in groups], np.int32)
        ends = np.concatenate(starts).cumsum()
        return join_words(np.concatenate(words), ends, np.array(offsets), index).tobytes()

    @property
    def schema(self) -> pa.Schema:
        """The schema of Parquet: text, in dictionaries except MAFID."""
        text = pa.dictionary(pa.int16(), pa.string())
        return pa.schema([(name, pa.string() if name == "MAFID" else text) for name in self.columns])

    def table(self, stretch: Stretch) -> pa.Table:
        """Return the records as text columns, the values being those of the text file."""
        columns = {}
        for group in self.rows(stretch):
            for name, words in group.words.items():
                columns[name] = _column(words, group.index, plain=name == "MAFID")
        return pa.table([columns[name] for name in self.columns], schema=self.schema)


@dataclass(frozen=True)
class System:
    """A system's files. folder: of its data. geography: whether GRF-C is among them. bytes: of text by person."""

    name: str
    tables: tuple[Table, ...]
    bytes_a_person: int
    geography: bool = True
    totals: str | None = None


def _word_rows(group: Columns, delimiter: bytes, end: bytes | None) -> NDArray[np.uint8]:
    """Return the words of a group's rows, delimited, with zeros among the letters where they are shorter."""
    pieces = [*group.words.values()]
    rows = len(pieces[0])
    width = sum(piece.itemsize for piece in pieces) + len(pieces)
    if not rows:
        return np.zeros((0, width), np.uint8)
    return delimited(pieces, end=end or delimiter, between=delimiter).view(np.uint8).reshape(rows, width)


def _column(words: NDArray[np.bytes_], index: NDArray[np.integer], *, plain: bool) -> pa.Array:
    if plain:
        return pa.array(words.astype(str), pa.string()).take(pa.array(index))
    values, number = np.unique(words, return_inverse=True)
    at = number.astype(np.int16)[index]
    return pa.DictionaryArray.from_arrays(pa.array(at), pa.array(values.astype(str), pa.string()))


def digits(numbers: IntArray, width: int) -> NDArray[np.bytes_]:
    """Return numbers as text of `width` digits, `S` of their shape. Raises ValueError when one is too long."""
    if numbers.max(initial=0) >= 10**width:
        raise ValueError(f"{numbers.max()} has more than {width} digits")
    powers = 10 ** np.arange(width - 1, -1, -1)
    return (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8).view(f"S{width}").ravel()


def coded(name: str, words: list[str], index: NDArray[np.integer]) -> Columns:
    """Return one column of few words."""
    return Columns({name: np.array(words, "S")}, np.asarray(index, np.int32))


def race_columns(stretch: Stretch, rows: IntArray | None = None, *, cenrace: str) -> Columns:
    """Return CENRACE (or what it is called) and QRACE1 to QRACE8 of persons, all or these rows."""
    people, origins = stretch.people, stretch.origins
    none = len(origins.race)
    # A row of words for each pair of one code and its race, then one for each person with several.
    count = len(people.race)
    sets = np.zeros(none, np.uint8)
    sets[people.race] = people.races  # of persons with one code: the race of the code
    index = people.race.astype(np.int64)
    single = np.ones(count, bool)
    single[people.several] = False
    sets[people.race[single]] = people.races[single]
    index[people.several] = none + np.arange(len(people.several))
    codes = np.full((none + len(people.several), 8), none)
    codes[:none, 0] = np.arange(none)
    codes[none:, 0], codes[none:, 1:] = people.race[people.several], people.more
    words = np.append(origins.race, b"Null")
    races = np.concatenate([CENRACE[sets], CENRACE[people.races[people.several]]])
    columns = {cenrace: digits(races.astype(np.int64), 2)}
    columns |= {f"QRACE{j + 1}": words[codes[:, j]] for j in range(8)}
    return Columns(columns, index if rows is None else index[rows])
