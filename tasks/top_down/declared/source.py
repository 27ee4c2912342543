"""A declaration as a source, and a run of it: its one hierarchy is worked on as one branch.

The noise of a query group is the stream `tda/NAME/LEVEL/QUERY`, NAME the declaration's; its row is the number of the
geounit on the level. A run's records are counted by leaf and cell, and compared with the declared figures: all of that
is confidential, and so are the findings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from privacy.accounting.states import EVERYWHERE, STATES_PR, STATES_US
from spine.declaration.declaration import Declaration
from spine.declaration.figures import broken_counts
from spine.declaration.form import Form
from spine.declaration.product import coordinates
from spine.geography import IntArray
from spine.top_down import Plan
from tasks.errors import Refused
from tasks.records.block_codes import BLOCK_COLUMNS
from tasks.records.files import file_name
from tasks.records.findings import Finding, kept
from tasks.records.parquet import words_of
from tasks.records.record_digests import TABLE
from tasks.records.records import RecordFile, RowChecks, open_records
from tasks.top_down.choices import Estimator
from tasks.top_down.declared.public_tables import Declared, DeclaredDesign, declared_of, keep_design
from tasks.top_down.declared.tables import geounit_columns
from tasks.top_down.input.histograms import LEAVES_EACH
from tasks.top_down.measure import Asked, MeasuredRun
from tasks.top_down.source import PLANNED, Branch, Descent, Names, Source

ALL = "all"  # the only branch
RECORDS = "records"  # in place of a product
CHILDREN, LEAVES = 4096, 1 << 16  # geounits that one piece estimates, about, and the leaves below these


class DeclarationSource(Source):
    """A source whose hierarchy and histogram are a declaration's."""

    @property
    def design(self) -> DeclaredDesign:
        """Load the design: what the declaration's public files hold, and the estimator."""
        return self._load(PLANNED, DeclaredDesign)

    @property
    def declared(self) -> Declared:
        """Load the declaration with its tables."""
        return declared_of(self)

    @property
    def name(self) -> str:
        """Return the declaration's name, which its histogram has in folders and in the noise's address."""
        return self.declared.declaration.form.name

    @property
    def folder(self) -> str:
        """Return the folder of a release."""
        return "declared"

    @property
    def branches(self) -> Sequence[Branch]:
        """Return the hierarchy's only branch."""
        return [self.branch]

    @property
    def branch(self) -> Branch:
        """Return the hierarchy as a branch."""
        return Branch(self.name, ALL)

    @property
    def descents(self) -> tuple[Descent, ...]:
        """Return a stage for each level below the top."""
        levels = self.declared.plan.spine.levels
        return tuple(Descent(f"estimate {lower}", upper, lower, CHILDREN) for upper, lower in pairwise(levels))

    @property
    def limits(self) -> Sequence[tuple[int, int]]:
        """Return the most leaves of a batch, whose cells are nearly as many as its records."""
        return [(len(self.declared.hierarchy.spine.levels) - 1, LEAVES)]

    def plan(self, _branch: Branch) -> Plan:
        """Return the plan of the estimation."""
        return self.declared.plan

    def read_at(self) -> Callable[[str, str, IntArray, IntArray], IntArray]:
        """Return noisy answers at addresses, for a wide declaration: `spine.wide.ReadAt`."""
        raise NotImplementedError

    def released(self, _branch: Branch, level: str) -> tuple[str, Names]:
        """Return the file of a level's answers in a release's measurements, and what names its geounits there."""
        return f"{level}.parquet", names_of(self.declared, level)


def names_of(declared: Declared, level: str) -> Names:
    """Return what names the geounits of a level: the codes of its columns and of those above."""
    number = declared.hierarchy.spine.levels.index(level)
    columns = [column.name for column in geounit_columns(declared.declaration, level)]

    def names(first: int, _last: int, rows: IntArray) -> dict[str, pa.Array]:
        geounits, place = np.unique(rows + first, return_inverse=True)
        codes = declared.hierarchy.codes(number, geounits)
        return {name: pa.array(codes[name].distinct).take(pa.array(codes[name].number[place])) for name in columns}

    return names


def check_estimator(declared: Declared, estimator: Estimator) -> None:
    """Refuse least squares over the tree for a declaration that cannot have it."""
    if estimator == "gls" and (why := declared.hindrance):
        raise Refused(f"estimator gls: {why}; topdown takes any declaration")


@dataclass(frozen=True)
class DeclaredRun(DeclarationSource, MeasuredRun):
    """A run of a declaration."""

    record_kind: ClassVar[str] = TABLE

    def keep_design(self, design: DeclaredDesign) -> None:
        """Write the design, and what is made of its tables."""
        keep_design(self, design)

    def asked(self) -> Asked:
        """Return what the run asks to be charged."""
        spend, states = self.declared.spend, charged_states(states_of(self.declared))
        return Asked(spend, states, {self.name: spend.charged}, self.design.public.digest())

    def read_at(self) -> Callable[[str, str, IntArray, IntArray], IntArray]:
        """Return noisy answers at addresses, drawn as they are asked. Raises Failed where the run may not draw."""
        return self.answers(self.branch).at

    def offsets(self, _branch: Branch) -> tuple[int, ...]:
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

    def keys(self, _product: str) -> tuple[int, int]:
        """Return that a leaf has a key for each cell."""
        return (self.declared.declaration.product.cells,) * 2

    def pieces(self, branch: Branch) -> list[tuple[int, int]]:
        """Return ranges of leaves; all of them where groups of leaves have declared totals."""
        blocks = self.declared.hierarchy.spine.blocks
        each = LEAVES_EACH if self.declared.is_wide else blocks
        return [*pairwise([*range(0, blocks, each), blocks])]

    def contradictions(
        self, _branch: Branch, first: int, last: int, leaf: IntArray, cell: IntArray, count: IntArray
    ) -> Iterator[Finding]:
        """Yield the declared figures that are not true of the records."""
        return contradictions(self.declared, first, last, leaf, cell, count)


def record_columns(form: Form) -> list[str]:
    """Return the columns of records that are read."""
    return list(dict.fromkeys([*form.record_key, *(axis.column for axis in form.axes.values())]))


def open_data(data: str, declaration: Declaration) -> tuple[RecordFile | None, list[Finding]]:
    """Open the records with the columns of a declaration."""
    form = declaration.form
    words = {axis.column: words_of(coordinates(axis)) for axis in form.axes.values()}
    return open_records(data, record_columns(form), more=True, own=True, delimiter=form.delimiter, words=words)


def has_blocks(form: Form) -> bool:
    """Return whether leaves and records are keyed by census blocks, whose first column is the state."""
    return (form.leaves.key, form.record_key) == (BLOCK_COLUMNS, BLOCK_COLUMNS)


def states_of(declared: Declared) -> set[str]:
    """Return the states of leaves that are blocks; empty for others."""
    if not has_blocks(declared.declaration.form):
        return set()
    return {*declared.hierarchy.leaves[BLOCK_COLUMNS[0]].distinct.tolist()}


def charged_states(states: set[str]) -> tuple[str, ...]:
    """Return the states that a run charges: those of its blocks, as FIPS codes; every state if it is of no blocks."""
    return tuple(sorted(states)) if states and states <= {*EVERYWHERE} else EVERYWHERE


def stated_states(declared: Declared) -> list[str]:
    """Return the states that a release says were charged; empty for every state."""
    states = charged_states(states_of(declared))
    return [] if states == EVERYWHERE else list(states)


def states_read(declared: Declared) -> Collection[str] | None:
    """Return the states whose records are counted: of blocks of one jurisdiction, not the other's; None for all."""
    states, pr = states_of(declared), {*STATES_PR}
    if not states:
        return None
    every = {f"{code:02d}" for code in range(100)}  # unknown codes are read: they are faults
    return every - {*STATES_US} if states == pr else None if states & pr else every - pr


def encode(declared: Declared, checks: RowChecks) -> tuple[IntArray, None]:
    """Check records, and return the keys of those without a fault: leaf * cells + cell."""
    form, product = declared.declaration.form, declared.declaration.product
    cell = checks.cells(product, {name: coordinates(axis) for name, axis in form.axes.items()})
    leaf = _leaf_of_records(declared, checks)
    last = declared.hierarchy.leaves[form.leaves.key[-1]].distinct.tolist()
    checks.unknown("leaves that are not in the table of leaves", form.record_key[-1], leaf < 0, last)
    return (leaf * product.cells + cell)[checks.good], None


def _leaf_of_records(declared: Declared, checks: RowChecks) -> IntArray:
    """Return the place of each record's leaf in spine order, -1 for an unknown one."""
    hierarchy, form = declared.hierarchy, declared.declaration.form
    columns = zip(form.leaves.key, (checks.columns[name] for name in form.record_key), strict=True)
    return hierarchy.by_key.find([hierarchy.leaves[name].find(own.values)[own.numbers] for name, own in columns])


def contradictions(
    declared: Declared, first: int, last: int, leaf: IntArray, cell: IntArray, count: IntArray
) -> Iterator[Finding]:
    """Yield the declared figures that are not true of the records of the leaves first ... last - 1, of all with totals.

    leaf: counted from `first`.
    """
    hierarchy, form, figures = declared.hierarchy, declared.declaration.form, declared.figures
    file, by_leaf = "declared figures", np.bincount(leaf, count, last - first).astype(np.int64)
    for at, (group, names, values) in enumerate(figures.totals):
        wrong = np.flatnonzero(np.bincount(group, by_leaf, len(values)) != values)
        if len(wrong):
            text = f"totals of {file_name(form.totals[at].file)} that are not the numbers of the records"
            yield Finding(file, text, f"totals.{at}.file", len(wrong), (), kept(names[each] for each in wrong.tolist()))
    counts = figures.counts if declared.released is None else declared.released.counts[-1:]
    for at, (counted, own) in enumerate(zip(form.counts, counts, strict=False)):
        numbers = own[first:last].astype(np.int64)
        for rule, bad in broken_counts(declared.declaration.product, counted, numbers, leaf, cell, count):
            if len(rows := np.flatnonzero(bad)):
                keys = kept(hierarchy.key(first + row) for row in rows.tolist())
                yield Finding(file, f"leaves with {rule}", f"counts.{at}", len(rows), (), keys)
