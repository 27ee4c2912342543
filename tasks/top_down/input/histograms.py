"""Exact histograms: of the blocks of each state, compared with the declared invariants, and of every level of a spine.

Confidential: only measuring reads them, which adds the noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from spine.geography import BoolArray, IntArray, geoid15
from spine.redistricting import HHGQ, HOUSEHOLD, OCCUPIED, PERSONS, TYPES, VACANT
from spine.top_down.histogram import TrueHistograms, from_entries, joined, summed
from spine.top_down.queries import group_sums, query_group
from tasks.inputs.findings import SHOWN_VALUES, Finding
from tasks.inputs.records import RecordFile
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.workers import Workers
from tasks.top_down.input.counting import load_counted, records_name
from tasks.top_down.input.records import CELLS, FACILITY
from tasks.top_down.run_plan import SCHEMAS, US, ProductName
from tasks.top_down.source import Blocks, TopDownRun, load_histograms, save_histograms

BLOCKS = "blocks"  # the histograms of a state's blocks by geocode
assert (VACANT, OCCUPIED, FACILITY) == (0, 1, 2)  # of `_unit_faults`


def findings_path(run: TopDownRun, product: ProductName, state: str) -> Path:
    """Return the file of the findings about a state's blocks."""
    return run / f"persons/{product}/{state}.findings"


def validate_state(run: TopDownRun, product: ProductName, state: str) -> None:
    """Save the histograms of a state's blocks, added up from the chunks, and the findings about them."""
    path = findings_path(run, product, state)
    if path.exists():
        return
    blocks = run.state(state)
    number = len(blocks.geography)
    row, cell, count = load_counted(run, product, CELLS[product], blocks.first, blocks.first + number)
    file = load_object(run / records_name(product), RecordFile)
    faults = _person_faults if product == "persons" else _unit_faults
    findings = list(faults(file.name, blocks, state, row, cell, count))
    inside = cell < SCHEMAS[product].cells  # H1 does not count the group quarters among the units
    histograms = from_entries(TrueHistograms, -1, 0, row[inside], cell[inside], count[inside], number)
    save_histograms(run.counts_folder(product, state, BLOCKS), histograms)
    save_object(path, findings)


def _person_faults(
    file: str, blocks: Blocks, state: str, row: IntArray, cell: IntArray, count: IntArray
) -> Iterator[Finding]:
    quarters, geocode = blocks.quarters, blocks.geography.geocode
    persons = group_sums(query_group(PERSONS, HHGQ.name), len(geocode), row, cell, count)
    undeclared = (persons > 0) & (quarters == 0)
    rule = "persons in households where no housing unit is declared"
    yield from _by_block(file, geocode, rule, "GQTYPE_PL", undeclared[:, HOUSEHOLD])
    for gq in range(1, TYPES):
        rule = f"persons in group quarters of type {gq} where no facility is declared"
        yield from _by_block(file, geocode, rule, "GQTYPE_PL", undeclared[:, gq])
        rule = f"fewer persons in group quarters of type {gq} than facilities are declared"
        yield from _by_block(file, geocode, rule, "GQTYPE_PL", persons[:, gq] < quarters[:, gq])
    if int(count.sum()) != blocks.totals[int(state)]:
        rule = f"state {state} does not have the number of persons that is declared for it"
        yield Finding(file, rule, "TABBLKST")


def _unit_faults(
    file: str, blocks: Blocks, _state: str, row: IntArray, cell: IntArray, count: IntArray
) -> Iterator[Finding]:
    quarters, geocode = blocks.quarters, blocks.geography.geocode
    units = np.zeros((len(geocode), 2), np.int64)
    np.add.at(units, (row, (cell == FACILITY).astype(np.int64)), count)
    wrong = units[:, 0] != quarters[:, HOUSEHOLD]
    yield from _by_block(file, geocode, "a number of housing units other than declared", "TABBLK", wrong)
    wrong = units[:, 1] != quarters[:, 1:].sum(axis=1)
    yield from _by_block(file, geocode, "a number of group quarters other than declared", "TABBLK", wrong)


def _by_block(file: str, geocode: IntArray, rule: str, column: str, bad: BoolArray) -> Iterator[Finding]:
    """Yield a finding with the number of bad blocks; the curator's report names some."""
    rows = np.flatnonzero(bad)
    if len(rows):
        shown = tuple(geoid15(code) for code in geocode[rows[:SHOWN_VALUES]].tolist())
        yield Finding(file, f"blocks with {rule}", column, len(rows), (), shown)


def sum_histograms(run: TopDownRun, workers: Workers) -> None:
    """Sum up every state's histograms in the order of its spine; then the nation's, where it is measured."""
    workers.map("histograms", run, sum_state, run.product_states)
    if run.validated.nation:
        workers.map("histograms", run, sum_nation, [(product,) for product in run.design.products])


def sum_state(run: TopDownRun, product: ProductName, state: str) -> None:
    """Write the exact histograms of every level of a state's spine."""
    spine = run.spine(product, state)
    folders = [run.counts_folder(product, state, level) for level in spine.levels]
    if all(folder.exists() for folder in folders):
        return
    of_blocks = load_histograms(run.counts_folder(product, state, BLOCKS), TrueHistograms)
    place = np.empty(spine.blocks, np.int64)
    place[spine.order] = np.arange(spine.blocks)
    lowest = len(spine.levels) - 1
    row = place[of_blocks.row]
    blocks = from_entries(TrueHistograms, lowest, 0, row, of_blocks.cell, of_blocks.count, spine.blocks)
    for folder, histograms in zip(folders, summed(blocks, spine), strict=True):
        if not folder.exists():
            save_histograms(folder, histograms)


def sum_nation(run: TopDownRun, product: ProductName) -> None:
    """Write the exact histogram of the nation, from those of the states' parts."""
    folder = run.counts_folder(product, US, US)
    if folder.exists():
        return
    parts = joined(
        [load_histograms(run.counts_folder(product, state, "State"), TrueHistograms) for state in run.validated.states]
    )
    save_histograms(run.counts_folder(product, US, "State"), parts)
    first_row = np.zeros(len(parts.cell), np.int64)
    save_histograms(folder, from_entries(TrueHistograms, 0, 0, first_row, parts.cell, parts.count, 1))
