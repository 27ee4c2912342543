"""A run of a declaration: its records are counted by leaf and cell, and compared with the declared figures.

All of it is confidential, and so are the findings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from privacy.accounting.states import EVERYWHERE, STATES_PR, STATES_US
from spine.declaration.declaration import Declaration
from spine.declaration.form import Form
from spine.declaration.hierarchy import JOIN
from spine.declaration.product import coordinates
from spine.geography import IntArray
from tasks.records.block_codes import BLOCK_COLUMNS
from tasks.records.files import file_name
from tasks.records.findings import Finding, kept
from tasks.records.parquet import words_of
from tasks.records.record_digests import TABLE
from tasks.records.records import RecordFile, RowChecks, open_records
from tasks.top_down.declared.public_tables import Declared
from tasks.top_down.declared.source import ALL, DeclarationSource
from tasks.top_down.input.declared_counts import broken_counts
from tasks.top_down.measure import Asked, Leaves, MeasuredRun

RECORDS = "records"  # in place of a product


@dataclass(frozen=True)
class DeclaredRun(DeclarationSource, MeasuredRun):
    """A run of a declaration."""

    record_kind: ClassVar[str] = TABLE

    def asked(self) -> Asked:
        """Return what the run asks to be charged."""
        spend = self.declared.spend
        return Asked(spend, EVERYWHERE, {self.name: spend.charged}, self.design.public.digest())

    def read_at(self) -> Callable[[str, str, IntArray, IntArray], IntArray]:
        """Return noisy answers at addresses, drawn as they are asked. Raises Failed where the run may not draw."""
        return self.answers(self.name, ALL).at

    def offsets(self, _product: Any, _state: str) -> tuple[int, ...]:
        """Return that the hierarchy is all that is measured."""
        return (0,) * len(self.declared.plan.spine.levels)

    def open(self, product: str) -> tuple[RecordFile | None, list[Finding]]:
        """Open the records; return None and findings for a file without the columns of the declaration."""
        return open_data(self.tables.records[product], self.declared.declaration)

    def counting(self, _product: str) -> tuple[Any, ...]:
        """Return how a chunk is counted by leaf, in spine order, and cell; and the states whose records are."""
        return partial(encode, self.declared), states_read(self.declared)

    def counted_folder(self, _product: str) -> Path:
        """Return the folder of the counted records."""
        return super().counted_folder(RECORDS)

    def leaves(self, _product: str, _part: str) -> Leaves:
        """Return that all leaves are of the only part; each has a key for each cell."""
        cells = self.declared.declaration.product.cells
        return Leaves(0, len(self.declared.hierarchy.keys), cells, cells)

    def contradictions(
        self, _product: str, _part: str, leaf: IntArray, cell: IntArray, count: IntArray
    ) -> Iterator[Finding]:
        """Yield the declared figures that are not true of the records."""
        return contradictions(self.declared, leaf, cell, count)

    def places(self, _product: str, _part: str) -> None:
        """Return None: leaves are counted in the order of the spine."""


def record_columns(form: Form) -> list[str]:
    """Return the columns of records that are read."""
    return list(dict.fromkeys([*form.record_key, *(axis.column for axis in form.axes.values())]))


def open_data(data: str, declaration: Declaration) -> tuple[RecordFile | None, list[Finding]]:
    """Open the records with the columns of a declaration."""
    form = declaration.form
    words = {axis.column: words_of(coordinates(axis)) for axis in form.axes.values()}
    return open_records(data, record_columns(form), more=True, own=True, delimiter=form.delimiter, words=words)


def states_read(declared: Declared) -> Collection[str] | None:
    """Return the states whose records are counted: of blocks of one jurisdiction, not the other's. None is all."""
    if (declared.declaration.form.leaves.key, declared.declaration.form.record_key) != (BLOCK_COLUMNS, BLOCK_COLUMNS):
        return None
    every, pr = {f"{code:02d}" for code in range(100)}, {*STATES_PR}  # unknown codes are read: they are faults
    states = {*np.unique(declared.hierarchy.keys.astype("<U2")).tolist()}
    return every - {*STATES_US} if states == pr else None if states & pr else every - pr


def encode(declared: Declared, checks: RowChecks) -> tuple[IntArray, None]:
    """Check records, and return the keys of those without a fault: leaf * cells + cell."""
    form, product = declared.declaration.form, declared.declaration.product
    cell = checks.cells(product, {name: coordinates(axis) for name, axis in form.axes.items()})
    leaf = _leaf_of_records(declared, checks)
    last = {key.rpartition(JOIN)[2] for key in declared.hierarchy.by_key}
    checks.unknown("leaves that are not in the table of leaves", form.record_key[-1], leaf < 0, last)
    return (leaf * product.cells + cell)[checks.good], None


def _leaf_of_records(declared: Declared, checks: RowChecks) -> IntArray:
    """Return the place of each record's leaf in spine order, -1 for an unknown one."""
    form, by_key = declared.declaration.form, declared.hierarchy.by_key
    first, *others = [checks.columns[name] for name in form.record_key]
    texts, number = first.values, first.numbers.astype(np.int64)
    for column in others:  # only the pairs that occur are joined
        pairs, number = np.unique(number * len(column.values) + column.numbers, return_inverse=True)
        heads, tails = np.divmod(pairs, len(column.values))
        ends = zip(heads.tolist(), tails.tolist(), strict=True)
        texts = [texts[head] + JOIN + column.values[tail] for head, tail in ends]
    return np.array([by_key.get(text, -1) for text in texts], np.int64)[number]


def contradictions(declared: Declared, leaf: IntArray, cell: IntArray, count: IntArray) -> Iterator[Finding]:
    """Yield the declared figures that are not true of the records."""
    hierarchy, form, figures = declared.hierarchy, declared.declaration.form, declared.figures
    file, keys = "declared figures", hierarchy.keys
    by_leaf = np.bincount(leaf, count, len(keys)).astype(np.int64)
    for at, (group, names, values) in enumerate(figures.totals):
        wrong = np.flatnonzero(np.bincount(group, by_leaf, len(values)) != values)
        if len(wrong):
            text = f"totals of {file_name(form.totals[at].file)} that are not the numbers of the records"
            yield Finding(file, text, f"totals.{at}.file", len(wrong), (), kept(names[each] for each in wrong.tolist()))
    for at, counted in enumerate(form.counts):
        counts = figures.counts[at]
        for rule, bad in broken_counts(declared.declaration.product, counted, counts, leaf, cell, count):
            if len(rows := np.flatnonzero(bad)):
                yield Finding(file, f"leaves with {rule}", f"counts.{at}", len(rows), (), kept(keys[rows].tolist()))
