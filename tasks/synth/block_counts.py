"""Counts of blocks in P.L. 94-171 files: persons by voting age, Hispanic origin and race, quarters and occupancy."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spine.redistricting import PERSON_TABLES, UNIT_TABLES
from tasks.errors import Refused
from tasks.geography.blocks.files import block_files
from tasks.geography.blocks.pl94 import GQ_TYPES, has_all_segments, read_block_counts
from tasks.records.block_codes import BLOCK_COLUMNS, BLOCK_FACTORS
from tasks.synth.blocks import BlockTable
from tasks.synth.population.codes import CENRACE
from tasks.synth.population.model import IntArray

RACES_AT_ONCE = 16  # a large state's 252 counts per block would take more memory than everything else
_UNITS = tuple(cell.name for cell in UNIT_TABLES["H1"][:2])  # all, and occupied


@dataclass(frozen=True)
class BlockCounts:
    """The published counts of blocks.

    cells: (rows, 3), block, cell as in `Tracts`, persons, ascending by block. residents: (b, 7), of group quarters by
    type. units, occupied: (b,).
    """

    cells: IntArray
    residents: IntArray
    units: IntArray
    occupied: IntArray

    def take(self, rows: slice) -> BlockCounts:
        """Return the counts of these blocks."""
        return BlockCounts(cells_in(self.cells, rows), self.residents[rows], self.units[rows], self.occupied[rows])


def cells_in(cells: IntArray, rows: slice) -> IntArray:
    """Return the cells of some blocks, with blocks numbered among these."""
    inside = slice(*np.searchsorted(cells[:, 0], (rows.start, rows.stop)).tolist())
    return np.asarray(cells[inside] - np.array([rows.start, 0, 0]))


def read_counts(source: Path, blocks: BlockTable) -> BlockCounts | None:
    """Return the counts of these blocks, None where their files are not all there.

    Raises Refused if the tables contradict each other about a block's persons.
    """
    paths = block_files(str(source))
    if not all(map(has_all_segments, paths)):
        return None
    code = sum(blocks.columns[name].astype(np.int64) * BLOCK_FACTORS[name] for name in BLOCK_COLUMNS)
    parts = [_read(path, np.asarray(code)) for path in paths]
    cells = np.concatenate([part[0] for part in parts])
    counts = np.sum([part[1] for part in parts], axis=0)
    cells = cells[np.argsort(cells[:, 0], kind="stable")]
    persons = np.bincount(cells[:, 0], cells[:, 2], len(blocks)).astype(np.int64)
    negative = np.bincount(cells[cells[:, 2] < 0, 0], minlength=len(blocks)) > 0
    if len(bad := np.flatnonzero((persons != blocks.population) | negative)):
        raise Refused(f"{source}: tables P1 to P4 of block {code[bad[0]]:015d} contradict each other or its population")
    return BlockCounts(cells[cells[:, 2] > 0], counts[:, 2:], counts[:, 0], counts[:, 1])


def _read(path: str, code: IntArray) -> tuple[IntArray, IntArray]:
    """Return the cells of one state's blocks, and their units, occupied units and residents; 0 for other blocks."""
    own, numbers = read_block_counts(path, (*_UNITS, *GQ_TYPES))
    row = np.searchsorted(code, own)
    counts = np.zeros((len(code), numbers.shape[1]), np.int64)
    counts[row] = numbers
    every = np.concatenate([*_cells(path)])
    every[:, 0] = row[every[:, 0]]
    return every, counts


def _one_race(where: Mapping[str, Collection[int]]) -> Collection[int]:
    """Return the race that a cell counts, if it counts only one; nothing for sums."""
    races = where.get("cenrace", ())
    return races if len(races) == 1 else ()


def _cells(path: str) -> Iterator[IntArray]:
    """Yield the blocks' cells, as in `Published`, a few races at a time."""
    of_race = np.zeros(64, np.int64)
    of_race[CENRACE] = np.arange(64)
    tables = [
        [*{race: cell.name for cell in PERSON_TABLES[table] for race in _one_race(cell.where)}.values()]
        for table in ("P1", "P2", "P3", "P4")
    ]
    for first in range(0, 63, RACES_AT_ONCE):
        names = [name for table in tables for name in table[first : first + RACES_AT_ONCE]]
        numbers = read_block_counts(path, names)[1].reshape(-1, 4, len(names) // 4)
        everybody, others, adults, adult_others = numbers.transpose(1, 0, 2)  # others: not Hispanic
        of_cell = {
            0: others - adult_others,
            64: everybody - others - adults + adult_others,
            128: adult_others,
            192: adults - adult_others,
        }
        for cell, persons in of_cell.items():
            block, race = np.nonzero(persons)
            yield np.column_stack([block, cell + of_race[first + race + 1], persons[block, race]])
