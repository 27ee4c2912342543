"""The errors of noisy tables of households against the exact ones, for `das ddhcb accuracy`. Not private."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from tasks.safetab.domain import load_domain
from tasks.safetab.exact_counts import read_exact_counts
from tasks.safetab.group_tables import load_margins
from tasks.safetab.households.estimates import ESTIMATED, has_both
from tasks.safetab.households.run import HouseholdRun
from tasks.safetab.households.tables import KINDS, CountTable
from tasks.safetab.levels import Level

KEYS = ["LEVEL", "TABLE", "DETAIL", "CELL", "OF"]
SUMS = ["COUNTS", "ERROR", "SQUARE", "WITHIN", "MARGIN"]


def compare(run: HouseholdRun, level: Level, estimates: bool) -> pd.DataFrame:
    """Return the errors of a level's tables.

    Columns KEYS, of COUNT or ESTIMATE, and SUMS: the counts, sums of errors, squares and margins, and how many errors
    are within the margin.
    """
    kinds = (False, True) if estimates and has_both(run, level) else (False,)
    rows = [
        row
        for table in run.parameters.configuration.tables(level)
        for of_estimates in kinds
        for row in _errors(run, level, table, of_estimates=of_estimates)
    ]
    return pd.DataFrame(rows, columns=[*KEYS, *SUMS])


def _errors(run: HouseholdRun, level: Level, table: CountTable, *, of_estimates: bool) -> Iterator[tuple[object, ...]]:
    kind, domain = ESTIMATED[table.name] if of_estimates else KINDS[table.name], load_domain(run, level)
    margins, signed = load_margins(run, level, kind), run.parameters.configuration.allow_negative_counts
    for detail, published in enumerate(table.published):
        sums = np.zeros((len(SUMS), len(published.rows)))
        for first, last in domain.pieces():
            piece = kind.load([run.noisy_folder(level, kind.FINAL, first)])
            part = piece.take(np.flatnonzero(piece.detail == detail))
            if not len(part.group):
                continue
            exact = read_exact_counts(run, level, first, last).cells(part.group - first * len(domain.iterations))
            noisy, margin = part.numbers(f"{table.name}/{published.name}", detail, margins)
            error = (noisy if signed else np.maximum(noisy, 0)) - published.counts(exact @ table.counted(detail))
            sums += [each.sum(axis=0) for each in (error * 0 + 1, error, error**2, np.abs(error) <= margin, margin)]
        if sums[0].any():
            of = "ESTIMATE" if of_estimates else "COUNT"
            for row, column in zip(published.rows, sums.T.tolist(), strict=True):
                yield str(level), table.name.upper(), published.name, int(row.codes[0]), of, *column


def report(errors: pd.DataFrame) -> pd.DataFrame:
    """Return bias, root mean square error, coverage and mean margin by level, table, detail, cell and OF."""
    sums = errors.groupby(KEYS, sort=False, as_index=False)[SUMS].sum()
    number = sums["COUNTS"]
    figures: dict[str, Any] = {
        "COUNTS": number.astype(int),
        "BIAS": sums["ERROR"] / number,
        "RMSE": np.sqrt(sums["SQUARE"] / number),
        "COVERAGE": sums["WITHIN"] / number,
        "MARGIN": sums["MARGIN"] / number,
    }
    return sums[KEYS].assign(**figures)
