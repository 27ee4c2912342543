"""Validate the records of each state against the declared invariants. Confidential."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spine.geography import geoid15
from spine.redistricting import redistricting_declaration
from spine.top_down.histogram import TrueHistograms, from_entries
from tasks.lifecycle.files import save_object
from tasks.records.findings import SHOWN_VALUES, Finding
from tasks.top_down.blocks import TopDownRun
from tasks.top_down.input.axes import broken_counts
from tasks.top_down.input.histograms import BLOCKS
from tasks.top_down.input.records import CELLS
from tasks.top_down.run_plan import SCHEMAS, ProductName
from tasks.top_down.source import save_histograms


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
