"""Least-squares estimates of all tables, from noisy counts alone: post-processing.

Tables that count the same rows are estimated together: PH1_num, PH7 and PH2 if their tau, and so the persons kept, are
the same; PH1_denom and PH8_denom. If households may be inconsistent (`household_rules` warn), a row without a cell in
one table may have one in another, so each table is estimated separately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, sqrt
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privacy.estimation.linked_tables import Answers, LinkedTable, estimate
from privacy.noise.margins import Z90, Z95
from tasks.releases.published import rows_of
from tasks.s_dhc.configuration import TableQuery
from tasks.s_dhc.released_rows import Counts, keys_of, variance_of, write_table
from tasks.s_dhc.run import SDhcPlan
from tasks.s_dhc.tables import LEVELS, PUBLISHED, TABLES

SAME_PERSONS, SAME_UNITS = ("PH1_num", "PH7", "PH2"), ("PH1_denom", "PH8_denom")
QUANTILES = {"MOE": Z95, "MOE90": Z90}
KEYS = {  # by iteration level: the keys of linked tables' answers, with what their estimates describe
    "A-G": {"state_A-G": "state codes", "state_*": "state all", "usa_A-G": "nation codes", "usa_*": "nation all"},
    "H,I": {"state_H,I": "state codes", "usa_H,I": "nation codes"},
}


@dataclass(frozen=True)
class Estimated:
    """The estimate of a query's answer: integers, regions x codes x cells, and the covariance of its cells."""

    counts: NDArray[np.int64]
    covariance: NDArray[np.float64]

    def variance(self, cells: Sequence[int]) -> float:
        """Return the variance of a sum of cells."""
        return float(self.covariance[np.ix_(list(cells), list(cells))].sum())


Estimates = dict[tuple[str, str], Estimated]  # by table and key
Measured = Mapping[tuple[str, str], Answers]


def linked(plan: SDhcPlan) -> list[tuple[str, ...]]:
    """Return the groups of tables that are estimated together."""
    configuration = plan.configuration
    if configuration.household_rules == "warn":
        return [(name,) for name in TABLES]
    by_tau = sorted(SAME_PERSONS, key=lambda name: configuration.tau[name])
    groups = [tuple(names) for _, names in groupby(by_tau, key=lambda name: configuration.tau[name])]
    alone = [(name,) for name in TABLES if name not in (*SAME_PERSONS, *SAME_UNITS)]
    return [*groups, SAME_UNITS, *alone]


def estimate_all(plan: SDhcPlan, counts: Counts) -> Estimates:
    """Estimate every table with answers about states, by code if it has codes."""
    measured = {
        (each.table.name, each.key): Answers(
            counts[each.query.name].reshape(-1, len(each.codes), len(each.table.cells)), variance_of(plan.law(each))
        )
        for each in plan.configuration.queries()
    }
    estimates: Estimates = {}
    for names in linked(plan):
        _add(estimates, measured, names, "A-G", list(range(len(LEVELS["A-G"]))))
        for code in range(len(LEVELS["H,I"])):
            _add(estimates, measured, names, "H,I", [code])
    return estimates


def _add(estimates: Estimates, measured: Measured, names: Sequence[str], level: str, codes: list[int]) -> None:
    """Estimate linked tables for some codes of a level, and append to the estimates of earlier codes."""
    tables = {name: table for name in names if (table := _table(name, measured, level, codes)) is not None}
    for name, each in (estimate(tables, len(codes)) if tables else {}).items():
        for key, of in KEYS[level].items():
            if (name, key) in measured:
                counts = each.counts.sum(axis=1, keepdims=True) if of.endswith("all") else each.counts
                counts = counts.sum(axis=0, keepdims=True) if of.startswith("nation") else counts
                before = [estimates[name, key].counts] if (name, key) in estimates else []
                estimates[name, key] = Estimated(np.concatenate([*before, counts], axis=1), each.covariances[of])


def _table(name: str, measured: Measured, level: str, codes: list[int]) -> LinkedTable | None:
    """Return the answers about a table, by code and over all codes; None without the finest answers about states."""
    own = {key: answers for key in KEYS[level] if (answers := measured.get((name, key))) is not None}
    by_code = {
        kind: Answers(own[key].counts[:, codes], own[key].variance)
        for kind, key in (("codes", f"state_{level}"), ("nation_codes", f"usa_{level}"))
        if key in own
    }
    table = LinkedTable(**by_code, together=own.get("state_*"), nation_together=own.get("usa_*"))
    return table if (table.codes if level in TABLES[name].levels else table.together) is not None else None


def margins_of(plan: SDhcPlan, query: TableQuery, estimated: Estimated, column: str = "MOE") -> list[int]:
    """Return the stated margin of each cell of an estimate: MOE or MOE90.

    By the normal law, including the variance of rounding the integers that a cell sums; rounded up.
    """
    states = len(plan.configuration.states) if query.region_type == "USA" else 1
    rounding = states * (len(LEVELS["A-G"]) if query.level == "*" else 1) / 12
    variances = [estimated.variance([cell]) + rounding for cell in range(estimated.counts.shape[2])]
    return [ceil(QUANTILES[column] * sqrt(variance)) for variance in variances]


def write_estimates(plan: SDhcPlan, out: Path, estimates: Estimates) -> None:
    """Write the tables of estimates into OUT/estimates."""
    for name, table in estimate_tables(plan, estimates).items():
        write_table(out, f"estimates/{name}", table, everything=True)


def estimate_tables(plan: SDhcPlan, estimates: Estimates) -> dict[str, pa.Table]:
    """Return the tables of estimates: a row per cell, with its margins."""
    tables = {}
    for name in dict.fromkeys(name for name, _ in estimates):
        published, parts = PUBLISHED[name], []
        for query in plan.configuration.queries():
            each = estimates.get((query.table.name, query.key))
            if query.table.name != name or each is None:
                continue
            margins = {column: margins_of(plan, query, each, column) for column in QUANTILES}
            counts = each.counts.reshape(-1, len(published.rows))
            parts.append(rows_of(published, keys_of(plan, query), {"COUNT": counts, **margins}))
        tables[name] = pa.concat_tables(parts)
    return tables
