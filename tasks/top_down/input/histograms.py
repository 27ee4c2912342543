"""Exact histograms: of blocks, compared with the declared invariants, then of every level of a spine.

Confidential: only measuring reads them, which adds the noise.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spine.geography import geoid15
from spine.redistricting import redistricting_declaration
from spine.top_down.histogram import TrueHistograms, from_entries, joined, summed
from tasks.lifecycle.files import save_object
from tasks.lifecycle.workers import Workers
from tasks.records.findings import SHOWN_VALUES, Finding
from tasks.top_down.blocks import TopDownRun
from tasks.top_down.input.declared_counts import broken_counts
from tasks.top_down.input.records import CELLS
from tasks.top_down.run_plan import SCHEMAS, US, ProductName
from tasks.top_down.source import load_histograms, save_histograms

BLOCKS = "blocks"  # the histograms of a state's blocks by geocode


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
    file, schema = run.records(product), SCHEMAS[product]
    inside = cell < schema.cells  # H1 does not count the group quarters among the units
    entries = row[inside], cell[inside], count[inside]
    (counted,) = redistricting_declaration(schema.name, "us").form.counts
    rules = [*broken_counts(schema, counted, blocks.quarters[:, : len(counted.columns)], *entries)]
    if product == "units":
        facilities = np.bincount(row[~inside], count[~inside], number)
        rules.append(
            ("another number of group quarters than declared", facilities != blocks.quarters[:, 1:].sum(axis=1))
        )
    findings = []
    for rule, bad in rules:
        if len(rows := np.flatnonzero(bad)):
            shown = tuple(geoid15(code) for code in blocks.geography.geocode[rows[:SHOWN_VALUES]].tolist())
            findings.append(Finding(file.name, f"blocks with {rule}", "TABBLK", len(rows), (), shown))
    if product == "persons" and int(count.sum()) != blocks.totals[int(state)]:
        rule = f"state {state} does not have the number of persons that is declared for it"
        findings.append(Finding(file.name, rule, "TABBLKST"))
    histograms = from_entries(TrueHistograms, -1, 0, *entries, number)
    save_histograms(run.counts_folder(product, state, BLOCKS), histograms)
    save_object(path, findings)


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
