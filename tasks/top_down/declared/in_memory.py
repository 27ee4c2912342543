"""The TopDown Algorithm from a table in memory and a declaration, for programs of one's own. It charges no ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike, fspath

import numpy as np
import pandas as pd

from privacy.accounting.composition import Spend
from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import RunSecret
from spine.declaration.product import cell_values
from spine.geography import IntArray
from spine.top_down import Estimates, NoisyAnswers, Plan, TrueHistograms, summed
from spine.top_down.descend import estimate_children, estimate_roots
from spine.top_down.histogram import from_entries
from spine.top_down.own_answers import OwnAnswers
from tasks.lifecycle.errors import Refused
from tasks.top_down.declared.description import COUNT, geounit_columns, released_levels
from tasks.top_down.declared.public_tables import Declared, read_declared
from tasks.top_down.declared.spend import planned_spend
from tasks.top_down.declared.tabulate import contradictions, record_columns
from tasks.top_down.measure.measuring import noisy_answers
from tasks.top_down.run_plan import law


@dataclass(frozen=True)
class TopDownTables:
    """The histograms of a declaration, and what making them spent.

    levels: a frame of each released level: the codes of its geounits, a column an axis, and COUNT; cells without a
    record are left out. spend: the declaration's budget, and which changes of the records it covers.
    """

    levels: dict[str, pd.DataFrame]
    spend: Spend


def top_down(records: pd.DataFrame, declaration: str | PathLike[str]) -> TopDownTables:
    """Estimate the histograms of every level of a declaration from records in memory, by the TopDown Algorithm.

    The noise is new in every call, and every call spends the declaration's budget: `spend.charged`. What several calls
    spend together is for the caller to add up. `das tda run --declaration` charges a ledger, and can be resumed.

    Parameters
    ----------
    records
        confidential: a row a record, with the declaration's columns; values are compared as text.
    declaration
        its file, or the name of a shipped one (docs/declarations.md).

    Raises
    ------
    Refused
        for a declaration with faults, and for records that do not fit it: a missing column, an unknown leaf or value, a
        cell that is declared a zero, a declared figure that is not true of them. Nothing is drawn then.
    """
    _, declared = read_declared(fspath(declaration))
    true = _count(records, declared)
    answers = OwnAnswers(declared.plan, _Measuring(declared.plan, true, RunSecret.generate()))
    estimates, _ = estimate_roots(declared.plan, answers)
    released, levels = released_levels(declared.declaration), {}
    for number, level in enumerate(declared.plan.spine.levels):
        if number:
            estimates, _ = estimate_children(declared.plan, estimates, answers)
        if level in released:
            levels[level] = _frame(declared, number, estimates)
    return TopDownTables(levels, planned_spend(declared.declaration))


@dataclass(frozen=True)
class _Measuring:
    """The noisy answers of exact histograms, a level each, under a secret that is thrown away with them."""

    plan: Plan
    true: tuple[TrueHistograms, ...]
    secret: RunSecret

    def __call__(self, level: int, first: int, last: int) -> NoisyAnswers:
        """Draw the answers of the geounits first ... last - 1 of a level."""
        return noisy_answers(self.plan, self.true[level], (level, first, last), self._noise)

    def _noise(self, level: str, query: str, share: int) -> QueryNoise:
        own = law(
            self.plan.allocation,
            Fraction(share, self.plan.spine.denominator),
            self.plan.allocation.queries[level][query],
        )
        return QueryNoise(
            own, self.secret, input_digest="", configuration_digest="", query=f"tda/memory/{level}/{query}"
        )


def _count(records: pd.DataFrame, declared: Declared) -> tuple[TrueHistograms, ...]:
    """Return the exact histograms of every level. Raises Refused."""
    missing = [name for name in record_columns(declared) if name not in records]
    if missing:
        raise Refused(f"the records have no column {missing[0]}")
    faults = [*_faults(records, declared)]
    if faults:
        raise Refused("the records do not fit the declaration: " + "; ".join(faults))
    product, hierarchy = declared.declaration.product, declared.hierarchy
    keys, counts = np.unique(_leaves(records, declared) * product.cells + _cells(records, declared), return_counts=True)
    leaf, cell = np.divmod(keys, product.cells)
    if wrong := [found.rule for found in contradictions(declared, leaf, cell, counts)]:
        raise Refused("the records contradict declared figures: " + "; ".join(wrong))
    leaves = from_entries(TrueHistograms, len(hierarchy.spine.levels) - 1, 0, leaf, cell, counts, len(hierarchy.keys))
    return summed(leaves, hierarchy.spine)


def _faults(records: pd.DataFrame, declared: Declared) -> Iterator[str]:
    """Yield what is wrong with single records, in words that hold no value of any."""
    product = declared.declaration.product
    if not len(records):
        yield "there is no record"
    if (_leaves(records, declared) < 0).any():
        yield "a leaf is not in the table of leaves"
    cells = _cells(records, declared)
    if (cells < 0).any():
        yield "a value is none of its axis"
    elif not product.possible[cells].all():
        yield "a record is in a cell that is declared a zero"


def _leaves(records: pd.DataFrame, declared: Declared) -> IntArray:
    """Return the place of each record's leaf in spine order, -1 for an unknown one."""
    form = declared.declaration.form
    first, *more = form.record_key
    text = records[first].astype(str)
    for name in more:
        text = text + form.leaves.joint + records[name].astype(str)
    number, texts = pd.factorize(text)
    return np.array([declared.hierarchy.by_key.get(each, -1) for each in texts], np.int64)[number]


def _cells(records: pd.DataFrame, declared: Declared) -> IntArray:
    """Return the cell of each record, -1 where a value is none of its axis."""
    form, product = declared.declaration.form, declared.declaration.product
    cells, known = np.zeros(len(records), np.int64), np.ones(len(records), bool)
    for axis in product.axes:
        values = {value: cell for cell, each in enumerate(cell_values(form.axes[axis.name])) for value in each}
        number, texts = pd.factorize(records[axis.column].astype(str))
        own = np.array([values.get(each, -1) for each in texts], np.int64)[number]
        cells, known = cells * len(axis) + own, known & (own >= 0)
    return np.where(known, cells, -1)


def _frame(declared: Declared, level: int, estimates: Estimates) -> pd.DataFrame:
    """Return the cells of a level that are not 0, by the codes of geounits and axes."""
    product, codes = declared.declaration.product, declared.hierarchy.codes(level)
    names = [column.name for column in geounit_columns(declared.declaration, declared.plan.spine.levels[level])]
    at = np.unravel_index(estimates.cell, product.shape)
    return pd.DataFrame(
        {name: codes[name][estimates.row] for name in names}
        | {axis.name: np.array(axis.codes)[own] for axis, own in zip(product.axes, at, strict=True)}
        | {COUNT: estimates.count.astype(np.int64)}
    )
