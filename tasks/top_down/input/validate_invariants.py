"""Validate the records of each state against the declared invariants. Confidential."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from spine.geography import BoolArray, IntArray, geoid15
from spine.redistricting import HHGQ, HOUSEHOLD, OCCUPIED, PERSONS, TYPES, VACANT
from spine.top_down.histogram import TrueHistograms, from_entries
from spine.top_down.queries import group_sums, query_group
from tasks.lifecycle.files import save_object
from tasks.records.findings import SHOWN_VALUES, Finding
from tasks.top_down.blocks import Blocks, TopDownRun
from tasks.top_down.input.histograms import BLOCKS
from tasks.top_down.input.records import CELLS, FACILITY
from tasks.top_down.run_plan import SCHEMAS, ProductName
from tasks.top_down.source import save_histograms

assert (VACANT, OCCUPIED, FACILITY) == (0, 1, 2)  # of `_unit_faults`
Fault = tuple[str, str, BoolArray]  # a rule, the column that it is of, and the blocks that break it


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
    row, cell, count = run.counted(product, CELLS[product], blocks.first, blocks.first + number)
    file = run.records(product)
    faults = _person_faults if product == "persons" else _unit_faults
    findings = []
    for rule, column, bad in faults(blocks, row, cell, count):
        if len(rows := np.flatnonzero(bad)):
            shown = tuple(geoid15(code) for code in blocks.geography.geocode[rows[:SHOWN_VALUES]].tolist())
            findings.append(Finding(file.name, f"blocks with {rule}", column, len(rows), (), shown))
    if product == "persons" and int(count.sum()) != blocks.totals[int(state)]:
        rule = f"state {state} does not have the number of persons that is declared for it"
        findings.append(Finding(file.name, rule, "TABBLKST"))
    inside = cell < SCHEMAS[product].cells  # H1 does not count the group quarters among the units
    histograms = from_entries(TrueHistograms, -1, 0, row[inside], cell[inside], count[inside], number)
    save_histograms(run.counts_folder(product, state, BLOCKS), histograms)
    save_object(path, findings)


def _person_faults(blocks: Blocks, row: IntArray, cell: IntArray, count: IntArray) -> Iterator[Fault]:
    persons = group_sums(query_group(PERSONS, HHGQ.name), len(blocks.quarters), row, cell, count)
    undeclared, fewer = (persons > 0) & (blocks.quarters == 0), persons < blocks.quarters
    yield "persons in households where no housing unit is declared", "GQTYPE_PL", undeclared[:, HOUSEHOLD]
    for gq in range(1, TYPES):
        kind = f"persons in group quarters of type {gq}"
        yield f"{kind} where no facility is declared", "GQTYPE_PL", undeclared[:, gq]
        yield f"fewer {kind} than facilities are declared", "GQTYPE_PL", fewer[:, gq]


def _unit_faults(blocks: Blocks, row: IntArray, cell: IntArray, count: IntArray) -> Iterator[Fault]:
    units = np.zeros((len(blocks.quarters), 2), np.int64)
    np.add.at(units, (row, (cell == FACILITY).astype(np.int64)), count)
    facilities = blocks.quarters[:, 1:].sum(axis=1)
    yield "a number of housing units other than declared", "TABBLK", units[:, 0] != blocks.quarters[:, HOUSEHOLD]
    yield "a number of group quarters other than declared", "TABBLK", units[:, 1] != facilities
