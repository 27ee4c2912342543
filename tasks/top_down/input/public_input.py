"""Read and validate the public files of a run: its geography and the declared invariants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spine.geography import Geography, IntArray, gq_pattern
from spine.top_down.histogram import TYPES
from tasks.inputs.blocks.geography import read_geography
from tasks.inputs.findings import Finding, has_errors
from tasks.lifecycle.errors import Refused
from tasks.top_down.input.invariants_input import read_quarters, read_totals
from tasks.top_down.input.records import short_codes
from tasks.top_down.run import Blocks
from tasks.top_down.run_plan import Design
from tasks.top_down.tables import Tables, file_name


def read_public(tables: Tables, design: Design) -> tuple[Blocks | None, IntArray, list[Finding]]:
    """Return the blocks of the universe, the codes of all blocks of the geography, and the findings.

    The universe is every block with living quarters; None where a finding is an error.
    """
    code, quarters, findings = read_quarters(tables.quarters)
    totals, faults = read_totals(tables.totals)
    findings += faults
    geography, faults = _read_geography(tables.geography, design)
    findings += faults
    if geography is None or has_errors(findings):
        return None, np.zeros(0, np.int64), findings
    codes = short_codes(geography)
    row = np.minimum(np.searchsorted(code, codes), len(code) - 1)
    declared = code[row] == codes
    living_quarters = np.zeros((len(codes), TYPES), np.int64)
    living_quarters[declared] = quarters[row[declared]]
    file = file_name(tables.quarters)
    if others := len(code) - int(declared.sum()):
        rule = "blocks that are not of the run's geography, left out"
        findings.append(Finding(file, rule, "tabblk", others, warning=True))
    universe = living_quarters.sum(axis=1) > 0
    if not universe.any():
        findings.append(Finding(file, "no block of the geography has living quarters", "tabblk"))
        return None, codes, findings
    gq = gq_pattern([living_quarters[:, gq_type] > 0 for gq_type in range(1, TYPES)])
    geography = replace(geography, gq=gq, universe=universe)
    blocks = Blocks(geography.take(universe), living_quarters[universe], totals)
    missing = [state for state in blocks.states if int(state) not in totals]
    if missing:
        rule = f"states without a declared population: {', '.join(missing)}"
        findings.append(Finding(file_name(tables.totals), rule, "state", len(missing)))
        return None, codes, findings
    return blocks, codes, findings


def _read_geography(source: str, design: Design) -> tuple[Geography | None, list[Finding]]:
    """Return the run's blocks, occupied or not; None and a finding that names a block where they are unreadable."""
    settings = replace(design.settings[design.products[0]], occupied_only=False)
    try:
        geography, _ = read_geography(source, settings, states=design.states)
    except Refused as refused:
        return None, [Finding(file_name(source), str(refused))]
    return replace(geography, population=None), []
