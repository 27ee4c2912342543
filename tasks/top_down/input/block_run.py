"""A run on the redistricting data: how its public files are read, its records counted, and both compared.

```
prepared/codes/PRODUCT    all blocks of the geography, and their places in the spines of the universe
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np

from spine.declaration.figures import broken_counts
from spine.geography import IntArray, geoid15
from spine.redistricting import redistricting_declaration
from tasks.lifecycle.reservation import Charging, Claim, precheck
from tasks.lifecycle.workers import Workers
from tasks.records.findings import SHOWN_VALUES, Finding
from tasks.records.records import RecordFile, open_records
from tasks.top_down.blocks import BlockSource, build_spines, save_blocks
from tasks.top_down.input.records import CELLS, CODES, COLUMNS, encode, save_codes, sum_records
from tasks.top_down.measure import Asked, MeasuredRun
from tasks.top_down.run_plan import SCHEMAS, request_digest
from tasks.top_down.source import Branch
from tasks.top_down.spend import planned_spend


@dataclass(frozen=True)
class TopDownRun(BlockSource, MeasuredRun):
    """A run on the redistricting data."""

    record_kind: ClassVar[str] = "{} of the TopDown Algorithm"

    def asked(self) -> Asked:
        """Return what the run asks to be charged, for the states of its data."""
        design, validated = self.design, self.validated
        request = request_digest(design, validated.digests)
        return Asked(
            planned_spend(design, nation=validated.nation),
            validated.states,
            {product: design.cost(product, nation=False) for product in design.products},
            sha256(f"{request}\nspine {self.spine_digest()}\n".encode()).hexdigest(),
        )

    def read_public(self, workers: Workers, charging: Charging | None) -> list[Finding]:
        """Read geography and declared invariants; save the blocks of the universe, and their spines.

        Raises Refused as `precheck`.
        """
        from tasks.geography.public_regions import keep_regions  # imports pandas, which workers do not need
        from tasks.top_down.input.public_input import read_public

        tables, design = self.tables, self.design
        keep_regions(self, tables.geography)
        blocks, codes, findings = read_public(tables, design)
        if blocks is not None:
            if charging is not None:
                spend = planned_spend(design, nation=design.with_nation(blocks.states))
                precheck(charging, Claim(self, blocks.states, spend))
            save_blocks(self, blocks)
            build_spines(self, workers)
            for product in design.products:
                save_codes(self, product, codes)
        return findings

    def open(self, product: str) -> tuple[RecordFile | None, list[Finding]]:
        """Open the records of a product; return None and findings for a file without its columns."""
        return open_records(self.tables.records[product], COLUMNS[product], more=True)

    def counting(self, product: str) -> tuple[Any, ...]:
        """Return how a chunk is counted by block and cell; without a block where the geography has faults."""
        geography = self / CODES.format(product)
        if not geography.exists():
            return partial(encode, product, None), ()
        return partial(encode, product, geography), self.states, partial(sum_records, product, geography)

    def keys(self, product: str) -> tuple[int, int]:
        """Return that a block has a key for each cell and, of units, one for its group quarters."""
        return CELLS[product], SCHEMAS[product].cells

    def contradictions(
        self, branch: Branch, first: int, last: int, leaf: IntArray, cell: IntArray, count: IntArray
    ) -> Iterator[Finding]:
        """Yield how the records of a state contradict the living quarters of its blocks, or its population."""
        blocks, file, schema = self.state(branch.name), self.records(branch.product), SCHEMAS[branch.product]
        order = self.spine(branch).order
        declared, geocode = blocks.quarters[order], blocks.geography.geocode[order]
        inside = cell < schema.cells  # H1 does not count the group quarters among the units
        (counted,) = redistricting_declaration(schema.name, "us").form.counts
        quarters = declared[:, : len(counted.columns)]
        rules = [*broken_counts(schema, counted, quarters, leaf[inside], cell[inside], count[inside])]
        if branch.product == "units":
            facilities = np.bincount(leaf[~inside], count[~inside], len(quarters))
            rule = "another number of group quarters than declared"
            rules.append((rule, facilities != declared[:, 1:].sum(axis=1)))
        for rule, bad in rules:
            if len(rows := np.flatnonzero(bad)):
                shown = tuple(geoid15(code) for code in np.sort(geocode[rows])[:SHOWN_VALUES].tolist())
                yield Finding(file.name, f"blocks with {rule}", "TABBLK", len(rows), (), shown)
        if branch.product == "persons" and int(count.sum()) != blocks.totals[int(branch.name)]:
            rule = f"state {branch.name} does not have the number of persons that is declared for it"
            yield Finding(file.name, rule, "TABBLKST")
