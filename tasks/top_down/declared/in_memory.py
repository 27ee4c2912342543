"""The TopDown Algorithm from a table in memory and a declaration, for programs of one's own. It charges no ledger."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath
from typing import get_args

import numpy as np
import pandas as pd
import pyarrow as pa

import spine.top_down as engine  # its compiled functions are imported at first use: they import numba
from privacy.accounting.composition import Spend
from privacy.noise.randomness import RunSecret
from spine.top_down.histogram import TrueHistograms, from_entries, summed
from tasks.errors import Refused
from tasks.lifecycle.authorization import Authorization, NoiseSource
from tasks.records.records import RecordFile, RowChecks
from tasks.top_down.choices import Estimator
from tasks.top_down.declared.public_tables import Declared, read_declared
from tasks.top_down.declared.release import level_tables
from tasks.top_down.declared.source import check_estimator, contradictions, encode, record_columns, states_read
from tasks.top_down.declared.tables import released_levels
from tasks.top_down.measure import Measuring


@dataclass(frozen=True)
class TopDownTables:
    """The histograms of a declaration, and what making them spent.

    levels: a frame of each released level: the codes of its geounits, a column an axis, and COUNT; cells without a
    record are left out. spend: the declaration's budget, and which changes of the records it covers.
    """

    levels: dict[str, pd.DataFrame]
    spend: Spend


def top_down(
    records: pd.DataFrame, declaration: str | PathLike[str], estimator: Estimator = "topdown"
) -> TopDownTables:
    """Estimate the histograms of every level of a declaration from records in memory, by the TopDown Algorithm.

    The noise is new in every call, and every call spends the declaration's budget: `spend.charged`. What several calls
    spend together is for the caller to add up. `das tda run --declaration` charges a ledger, and can be resumed.

    Parameters
    ----------
    records
        confidential: a row a record, with the declaration's columns; values are compared as text.
    declaration
        its file, or the name of a shipped one (docs/declarations.md).
    estimator
        "topdown", the program of 2020, or "gls", least squares over the whole hierarchy.

    Raises
    ------
    ValueError
        for another estimator.
    Refused
        for a declaration with faults, for a wide one, or for one without least squares where `gls` is asked for; for
        records that do not fit it: a missing column, an unknown leaf or value, a cell that is declared a zero, or a
        declared figure that is not true of them. Nothing is drawn then.
    """
    if estimator not in get_args(Estimator):
        raise ValueError(f"the estimator is {' or '.join(map(repr, get_args(Estimator)))}, not {estimator!r:.80}")
    _, declared = read_declared(fspath(declaration))
    if declared.is_wide:
        raise Refused("a wide declaration, with `equal` and passes with `then`, is run by das tda run --declaration")
    check_estimator(declared, estimator)
    plan, true = declared.plan, _count(records, declared)
    drawing = NoiseSource(RunSecret.generate(), Authorization("", "", ""))
    measuring = Measuring(plan, "memory", lambda level, first, last: true[level], (0,) * len(true), drawing)
    answers = engine.OwnAnswers(plan, measuring)
    if estimator == "gls":  # the information of each geounit, which one pass up the hierarchy finds
        from spine.gls.tree_answers import TreeAnswers  # imports numba
        from spine.gls.upward import pass_up

        answers = TreeAnswers(plan, measuring, pass_up(plan, measuring, 0, 0, len(plan.spine.starts[0])))
    estimates, _ = engine.estimate_roots(plan, answers)
    released, levels = released_levels(declared.declaration), {}
    for number, level in enumerate(plan.spine.levels):
        if number:
            estimates, _ = engine.estimate_children(plan, estimates, answers)
        if level in released:
            levels[level] = pa.concat_tables(level_tables(declared, level, estimates)).to_pandas()
    return TopDownTables(levels, declared.spend)


def _count(records: pd.DataFrame, declared: Declared) -> tuple[TrueHistograms, ...]:
    """Return the exact histograms of every level. Raises Refused, in words that hold no value of a record."""
    names = tuple(record_columns(declared.declaration.form))
    if missing := [name for name in names if name not in records]:
        raise Refused(f"the records have no column {missing[0]}")
    if not len(records):
        raise Refused("the records do not fit the declaration: there is no record")
    texts = pa.table({name: pa.array(records[name].astype(str).fillna(""), pa.string()) for name in names})
    checks = RowChecks(RecordFile("records", names, names), texts, states_read(declared))
    if not len(checks.rows):
        raise Refused("the records do not fit the declaration: all are of other states")
    keys, counts = np.unique(encode(declared, checks)[0], return_counts=True)
    if checks.findings:
        raise Refused("the records do not fit the declaration: " + "; ".join(each.rule for each in checks.findings))
    leaf, cell = np.divmod(keys, declared.declaration.product.cells)
    if wrong := [
        found.rule for found in contradictions(declared, 0, declared.hierarchy.spine.blocks, leaf, cell, counts)
    ]:
        raise Refused("the records contradict declared figures: " + "; ".join(wrong))
    spine = declared.hierarchy.spine
    return summed(from_entries(TrueHistograms, len(spine.levels) - 1, 0, leaf, cell, counts, spine.blocks), spine)
