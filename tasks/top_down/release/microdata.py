"""Write protected microdata from the estimated histograms of blocks, with the fields of the Bureau's 2020 files.

As Parquet one row per block and cell, with its COUNT; on request also as text with one row per record
(docs/spec/files.md#topdown-release). Sorted by block, then cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from spine.geography import IntArray
from spine.redistricting import HOUSEHOLD, OCCUPIED
from spine.top_down import Estimates
from spine.top_down.histogram import H, from_entries
from tasks.lifecycle.staging import PIPES, release_file, write_tables
from tasks.top_down.blocks import BlockSource
from tasks.top_down.input.records import block_columns, person_columns, runs_of_records, unit_columns, words
from tasks.top_down.source import Branch

BUILD = "das-flows"
ROWS_EACH = 1 << 18  # rows of a batch of microdata


def by_geocode(run: BlockSource, branch: Branch, blocks: H) -> H:
    """Return the blocks of a state in the order of their geocodes; blocks of one geocode are one."""
    order = _first_of_its_code(run, branch.name)[run.spine(branch).order]
    return from_entries(type(blocks), blocks.level, 0, order[blocks.row], blocks.cell, blocks.count, len(order))


def _first_of_its_code(run: BlockSource, state: str) -> IntArray:
    """Return for each block the first one with its geocode: the Bureau moved some for its tables."""
    geocode = run.state(state).geography.geocode
    return np.searchsorted(geocode, geocode)


def write_microdata(run: BlockSource, branch: Branch, blocks: Estimates, staged: Path) -> None:
    """Write the microdata of a state, from blocks in the order of their geocodes."""
    entries = (
        _unit_entries(run, branch.name, blocks)
        if branch.product == "units"
        else (blocks.row, blocks.cell, blocks.count)
    )
    geocode = run.state(branch.name).geography.geocode
    starts = range(0, max(1, len(entries[0])), ROWS_EACH)  # an empty batch where nobody lives
    batches = [_batch(branch.product, geocode, *(column[at : at + ROWS_EACH] for column in entries)) for at in starts]
    write_tables(staged, batches, f"mdf/{branch.name}_{branch.product}.parquet")
    if run.design.microdata == "text":
        schema = batches[0].drop_columns(["COUNT"]).schema
        with (
            release_file(staged, f"mdf/{branch.name}_{branch.product}.txt") as draft,
            pa.csv.CSVWriter(draft, schema, write_options=PIPES) as lines,
        ):
            for part in chain.from_iterable(map(_repeated, batches)):
                lines.write_table(part)


def _repeated(batch: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of a batch, each repeated by its count, in tables of about ROWS_EACH."""
    count, rows = batch["COUNT"].to_numpy(), batch.drop_columns(["COUNT"])
    for run in runs_of_records(count, ROWS_EACH):
        yield rows.take(pa.array(np.repeat(np.arange(run.start, run.stop), count[run])))


def _unit_entries(run: BlockSource, state: str, blocks: Estimates) -> tuple[IntArray, IntArray, IntArray]:
    """Return block, cell and count: occupied, then vacant units, then the declared group quarters (cell 2)."""
    declared = run.state(state).quarters[:, HOUSEHOLD + 1 :].sum(axis=1)
    facilities = np.bincount(_first_of_its_code(run, state), declared, len(declared)).astype(np.int64)
    with_facilities = np.flatnonzero(facilities)
    row = np.concatenate([blocks.row, with_facilities])
    cell = np.concatenate([np.where(blocks.cell == OCCUPIED, 0, 1), np.full(len(with_facilities), 2)])
    order = np.lexsort((cell, row))
    return row[order], cell[order], np.concatenate([blocks.count, facilities[with_facilities]])[order]


def _batch(product: str, geocode: IntArray, row: IntArray, cell: IntArray, count: IntArray) -> pa.Table:
    own = person_columns(cell) if product == "persons" else unit_columns(cell)
    return microdata_rows(product, geocode[row], own, count)


def microdata_rows(product: str, geocode: IntArray, own: Mapping[str, pa.Array], count: IntArray) -> pa.Table:
    """Return rows of microdata; geocode: of their blocks, 16 digits. own: the fields of persons, or of units."""
    same, are_persons = np.zeros(len(count), np.int8), product == "persons"
    return pa.table(
        {
            "SCHEMA_TYPE_CODE": words(["MPD" if are_persons else "MUD"], same),
            "SCHEMA_BUILD_ID": words([BUILD], same),
            **block_columns(geocode),
            **({"EPNUM": words(["999999999"], same)} if are_persons else {}),
            **own,
            "COUNT": count,
        }
    )
