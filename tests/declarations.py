"""A small declaration with its tables, for the tests: two regions of dwellings and institutions, by sex and age."""

from __future__ import annotations

import copy
import csv
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from dhca_inputs import HERE

from spine.declaration.declaration import Declaration, read_declaration
from spine.declaration.figures import Figures, read_bounds
from spine.declaration.form import Fault
from spine.declaration.hierarchy import Hierarchy, make_hierarchy
from spine.top_down import Plan
from tasks.records.block_codes import BLOCK_COLUMNS
from tasks.records.marks import mark_folder
from tasks.top_down.choices import Estimator
from tasks.top_down.declared.public_tables import DeclaredDesign, PublicTables
from tasks.top_down.declared.source import RECORDS, DeclaredRun
from tasks.top_down.input.histograms import sum_histograms
from tasks.top_down.input.validation import validate
from tasks.top_down.run_plan import Tables
from tasks.top_down.source import Validated

Row = tuple[str, ...]
BASE: dict[str, Any] = {
    "name": "small",
    "records": "person",
    "budget": "2",
    "leaves": {"file": "zones.csv", "key": "zone"},
    "levels": [
        {"name": "nation"},
        {"name": "region", "columns": ["region"]},
        {"name": "district", "columns": ["district"]},
        {"name": "zone", "columns": ["zcode"]},
    ],
    "axes": {
        "dwelling": {"column": "DW", "values": ["1", "2"]},
        "sex": {"column": "SEX", "values": ["1", "2"]},
        "age": {"column": "AGE", "values": ["0-4", ["5-9"]]},
    },
    "recodes": {"young": {"axis": "age", "starts": [0, 3]}},
    "queries": {"total": "1/4", "dwelling*young": "1/4", "detailed": "1/2"},
    "zeros": [{"where": {"dwelling": "2", "age": "0-1"}}],
    "totals": [{"of": "region", "file": "regions.csv"}],
    "counts": [{"partition": "dwelling", "columns": ["homes", "institutions"], "least": [0, 1]}],
}
LEAVES: dict[str, list[str]] = {
    "zone": ["a1", "a2", "a3", "b1", "b2"],
    "region": ["1", "1", "1", "2", "2"],
    "district": ["10", "9", "9", "9", "9"],
    "zcode": ["1", "1", "2", "1", "2"],
    "homes": ["3", "2", "4", "1", "5"],
    "institutions": ["0", "1", "0", "2", "0"],
}
TOTALS = {"1": 20, "2": 12}


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The declaration after a change."""
    raw = copy.deepcopy(BASE)
    change(raw)
    return raw


def exactly(partition: str, width: int) -> dict[str, Any]:
    """Counts that say the number of records of every part."""
    return {"partition": partition, "columns": ["homes"] * width, "least": [1] * width, "most": [1] * width}


def declared(raw: dict[str, Any] = BASE) -> Declaration:
    """A declaration that must be without faults."""
    declaration, faults = read_declaration(raw)
    assert declaration is not None, faults
    return declaration


def hierarchy_of(raw: dict[str, Any] = BASE, leaves: dict[str, list[str]] = LEAVES) -> Hierarchy:
    """Its hierarchy, which must be without faults."""
    hierarchy, faults = make_hierarchy(declared(raw), leaves)
    assert hierarchy is not None, faults
    return hierarchy


def figures_of(hierarchy: Hierarchy, leaves: dict[str, list[str]] = LEAVES, totals: dict[str, int] = TOTALS) -> Figures:
    """Its declared figures, those of a total by the first column of its level."""
    order, form = hierarchy.spine.order, hierarchy.declaration.form
    counts = [
        np.column_stack(
            [np.array([int(text) for text in leaves.get(name, "0" * len(order))])[order] for name in count.columns]
        )
        for count in form.counts
    ]
    names, group = np.unique(hierarchy.column("region").texts(), return_inverse=True)
    known = np.array([totals[name] for name in names.tolist()])
    return Figures(counts, [(group, names.tolist(), known)] * len(form.totals))


def plan_of(raw: dict[str, Any] = BASE, leaves: dict[str, list[str]] = LEAVES, totals: dict[str, int] = TOTALS) -> Plan:
    """The plan of its estimation."""
    hierarchy = hierarchy_of(raw, leaves)
    bounds, faults = read_bounds(hierarchy, figures_of(hierarchy, leaves, totals))
    assert bounds is not None, faults
    declaration = hierarchy.declaration
    return Plan(declaration.product, hierarchy.spine, declaration.allocation, bounds, declaration.passes)


def keys(faults: list[Fault]) -> set[str]:
    """The keys of faults."""
    return {fault.key for fault in faults}


def write(folder: Path, raw: dict[str, Any] = BASE, rows: list[Row] | None = None) -> tuple[str, str]:
    """Write a declaration with its tables and records that agree with it; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    records = persons() if rows is None else rows
    region = dict(zip(LEAVES["zone"], LEAVES["region"], strict=True))
    totals = Counter(region.get(row[0], "1") for row in records)
    tables = {
        "zones.csv": [list(LEAVES), *zip(*LEAVES.values(), strict=True)],
        "regions.csv": [["region", "total"], *([code, str(totals[code])] for code in ("1", "2"))],
        "records.csv": [["zone", "DW", "SEX", "AGE"], *records],
    }
    for name, lines in tables.items():
        with open(folder / name, "w", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)
    (folder / "small.json").write_text(json.dumps(raw))
    return str(folder / "small.json"), str(folder / "records.csv")


def persons(seed: int = 1) -> list[Row]:
    """Records of the small country: each institution has persons, of ages 2 and over."""
    chance = random.Random(seed)
    rows: list[Row] = []
    for zone, homes, institutions in zip(LEAVES["zone"], LEAVES["homes"], LEAVES["institutions"], strict=True):
        at_home, inside = chance.randint(0, 4 * int(homes)), int(institutions) * chance.randint(1, 6)
        rows += [(zone, "1", chance.choice("12"), str(chance.randint(0, 9))) for _ in range(at_home)]
        rows += [(zone, "2", chance.choice("12"), str(chance.randint(2, 9))) for _ in range(inside)]
    return rows


def count(run: DeclaredRun, data: str, public: PublicTables, estimator: Estimator = "topdown") -> Validated:
    """Validate the records of a run and make its exact histograms."""
    validated = validate(run, HERE, Tables({RECORDS: data}, mark_folder(data)), DeclaredDesign(public, estimator))
    sum_histograms(run, HERE)
    return validated


def declare_blocks(folder: Path, *states: str) -> Path:
    """Write a declaration of one census block in each of these states, and its table of leaves; return its path."""
    header = ",".join((*BLOCK_COLUMNS, "code"))
    rows = [f"{state},001,000100,100{at},{at}" for at, state in enumerate(states, 1)]
    (folder / "blocks.csv").write_text("\n".join([header, *rows, ""]))
    raw = {
        "name": "blocks",
        "records": "person",
        "budget": "2",
        "leaves": {"file": "blocks.csv", "key": [*BLOCK_COLUMNS]},
        "levels": [{"name": "nation"}, {"name": "block", "columns": ["code"]}],
        "axes": {"sex": {"column": "SEX", "values": ["1", "2"]}},
        "queries": {"total": "1/2", "detailed": "1/2"},
    }
    (folder / "blocks.json").write_text(json.dumps(raw))
    return folder / "blocks.json"
