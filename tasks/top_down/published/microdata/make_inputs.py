"""Make inputs of a TopDown run from published microdata, and mark them public.

Living quarters and state totals are invariant in the program, so its microdata has those of its input.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.csv

from spine.geography import BoolArray, IntArray
from spine.redistricting import PERSONS, TYPES
from tasks.errors import Refused
from tasks.lifecycle.new_folder import new_folder
from tasks.lifecycle.staging import PIPES
from tasks.records.block_codes import find_blocks, long_codes
from tasks.records.files import file_name
from tasks.records.marks import GRF_FILE, Mark, save_mark
from tasks.releases.digests import file_digest
from tasks.top_down.input.public_input import open_quarters, write_totals
from tasks.top_down.input.records import block_columns, open_records, runs_of_records
from tasks.top_down.published.microdata.read_microdata import CELLS, UNTYPED, VACANT, Entries, Microdata, read_microdata

NO_TYPES = "the units have no type of group quarters: a facility of each type that has residents was taken"
NO_GEOGRAPHY = "no codes of places, county subdivisions and AIAN areas: give --geography to das tda run"
ROWS = 1 << 22  # records written at once


@dataclass
class MadeInputs:
    """The folder that `das tda public` made, its numbers of records and blocks, and remarks."""

    data: Path
    persons: int = 0
    units: int = 0
    blocks: int = 0
    states: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)


def make_inputs(
    sources: Sequence[str],
    data: Path,
    *,
    publisher: str,
    states: Collection[int] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> MadeInputs:
    """Write inputs made of published microdata to the new folder DATA, and mark it public.

    publisher: who published the microdata. states: only these; empty for all.

    Raises Refused if DATA is not empty, if a file cannot be read or is not microdata, or if its records contradict each
    other.
    """
    with new_folder(data) as folder:
        with TemporaryDirectory(dir=folder) as scratch:  # as large as the counts
            found = read_microdata(sources, Path(scratch), states, progress)
            if without := sorted({*found.states_of("persons")} - {*found.states}):
                raise Refused(
                    f"state {without[0]:02d} has records of persons but not of units: give its units too, or leave it "
                    "out with --only-state"
                )
            made = MadeInputs(data, found.rows["persons"], found.rows["units"])
            made.states = tuple(f"{state:02d}" for state in found.states)
            _write_records(folder, found, made)
        source = f"declared published by {publisher}: {', '.join(map(file_name, sources))}"
        digests = {path.name: file_digest(path) for path in sorted(folder.iterdir())}
        save_mark(folder, Mark("das tda public", version("das-flows"), None, digests, source))
    return made


def _write_records(folder: Path, found: Microdata, made: MadeInputs) -> None:
    """Write records, declared living quarters and totals, and the codes of the blocks' areas, state by state."""
    totals: dict[int, int] = {}
    areas = []
    with (
        open_records(folder, "persons") as write_persons,
        open_records(folder, "units") as write_units,
        open_quarters(folder) as declare,
    ):
        for state in found.states:
            persons, units = (found.counts(product, state) for product in CELLS)
            blocks = np.unique(units[0])
            quarters = _quarters(blocks, persons, units)
            declare(blocks, quarters)
            _spread(write_persons, *persons)
            status = np.where(units[1] >= UNTYPED, 2, np.where(units[1] == VACANT, 1, 0))
            _spread(write_units, units[0], status, units[2])
            totals[state] = int(persons[2].sum())
            made.blocks += len(blocks)
            if found.geography:
                codes = found.areas(state)
                block = block_columns(long_codes(codes["block"].to_numpy()))
                areas.append(pa.table({**block, **{name: codes[name] for name in found.geography}}))
    write_totals(folder, totals)
    if areas:
        pa.csv.write_csv(pa.concat_tables(areas), folder / GRF_FILE, PIPES)
    made.notes += [NO_TYPES] * (not found.typed) + [NO_GEOGRAPHY] * (not areas)


def _quarters(blocks: IntArray, persons: Entries, units: Entries) -> IntArray:
    """Return (blocks, 8) housing units and facilities of the units, typed by residents if units have no type."""
    of_cells = np.zeros((len(blocks), CELLS["units"]), np.int64)
    np.add.at(of_cells, (np.searchsorted(blocks, units[0]), units[1]), units[2])
    housing, untyped = of_cells[:, : VACANT + 1].sum(axis=1), of_cells[:, UNTYPED]
    quarters = np.column_stack([housing, of_cells[:, UNTYPED + 1 : UNTYPED + TYPES]])
    residents = np.zeros((len(blocks), TYPES), np.int64)
    at, there = find_blocks(blocks, persons[0])
    _refuse("persons in a block without a unit", persons[0], ~there)
    np.add.at(residents, (at, PERSONS.types[persons[1]]), persons[2])
    if untyped.any():
        _give_types(blocks, quarters, residents, untyped)
    _refuse("persons in quarters of a type without a unit", blocks, ((residents > 0) & (quarters == 0)).any(axis=1))
    return quarters


def _give_types(blocks: IntArray, quarters: IntArray, residents: IntArray, untyped: IntArray) -> None:
    """Give facilities types: one to each type with residents, the rest to the type with the most."""
    there = residents[:, 1:] > 0
    rest = untyped - there.sum(axis=1)
    _refuse("group quarters without a resident, or of more types than facilities", blocks, (untyped > 0) & (rest < 0))
    _refuse("group quarters without a resident", blocks, (untyped > 0) & ~there.any(axis=1))
    quarters[:, 1:] += there & (untyped > 0)[:, None]
    chosen = np.flatnonzero(untyped)
    quarters[chosen, 1 + residents[chosen, 1:].argmax(axis=1)] += rest[chosen]


def _refuse(what: str, blocks: IntArray, bad: BoolArray) -> None:
    if bad.any():
        block = int(blocks[int(bad.argmax())])
        raise Refused(f"{what}: {int(bad.sum())}, the first in block {block:015d}; take all files from one release")


def _spread(write: Callable[[IntArray, IntArray], None], block: IntArray, value: IntArray, count: IntArray) -> None:
    """Write every record, by block, a limited number at once."""
    for within in runs_of_records(count, ROWS):
        write(np.repeat(long_codes(block[within]), count[within]), np.repeat(value[within], count[within]))
