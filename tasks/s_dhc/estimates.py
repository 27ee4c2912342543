"""Least-squares estimates of all tables, from noisy counts alone: post-processing.

Tables that count the same rows are estimated together: PH1_num, PH7 and PH2 where tau is the same, so that the same
persons are kept; PH1_denom and PH8_denom. Of households that may be inconsistent (`household_rules` warn) a row that
has no cell in one table may have one in another, so each table is estimated by itself.
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

from privacy.estimation.linked_tables import Answers, Estimate, Table, estimate
from tasks.s_dhc.release import keys_of, keys_table, places_of, variance_of, write_table
from tasks.s_dhc.run import Plan
from tasks.s_dhc.tables import LEVELS, PUBLISHED, TABLES

SAME_PERSONS, SAME_UNITS = ("PH1_num", "PH7", "PH2"), ("PH1_denom", "PH8_denom")
QUANTILES = {"MOE": 1.96, "MOE90": 1.645}  # of the normal law
KINDS = {  # the answers of a linked table, and the key that has them where there is more than one code
    "codes": "state_A-G",
    "together": "state_*",
    "nation_codes": "usa_A-G",
    "nation_together": "usa_*",
}


@dataclass(frozen=True)
class Estimated:
    """The estimate of one query's answer: whole numbers, regions x codes x cells, and the covariance of its cells."""

    counts: NDArray[np.int64]
    covariance: NDArray[np.float64]

    def variance(self, cells: Sequence[int]) -> float:
        """Return the variance of a sum of cells."""
        return float(self.covariance[np.ix_(list(cells), list(cells))].sum())


Found = dict[tuple[str, str], Estimated]  # by table and key


def linked(plan: Plan) -> list[tuple[str, ...]]:
    """Return the tables that are estimated together."""
    configuration = plan.configuration
    if configuration.household_rules == "warn":
        return [(name,) for name in TABLES]
    by_tau = sorted(SAME_PERSONS, key=lambda name: configuration.tau[name])
    groups = [tuple(names) for _, names in groupby(by_tau, key=lambda name: configuration.tau[name])]
    alone = [(name,) for name in TABLES if name not in (*SAME_PERSONS, *SAME_UNITS)]
    return [*groups, SAME_UNITS, *alone]


def estimate_all(plan: Plan, answers: Mapping[str, NDArray[np.int64]]) -> Found:
    """Estimate every table that has answers about states, by code where it has codes."""
    measured = {
        (each.table.name, each.query.name.rpartition("/")[2]): Answers(
            answers[each.query.name][places_of(plan, each.region_type)], variance_of(plan.law(each))
        )
        for each in plan.configuration.queries()
    }
    found: Found = {}
    for names in linked(plan):
        tables = {name: _table(name, measured) for name in names}
        able = {name: table for name, table in tables.items() if table is not None}
        if able:
            found |= _estimated(estimate(able, len(LEVELS["A-G"])), measured)
        for code in range(len(LEVELS["H,I"])):
            of_code = {name: table for name in names if (table := _of_code(name, code, measured)) is not None}
            if of_code:
                _add_code(found, estimate(of_code, 1), measured)
    return found


def _table(name: str, measured: Mapping[tuple[str, str], Answers]) -> Table | None:
    """Return the answers about a table, by race and of all; None without the finest ones about states."""
    answers = {kind: measured.get((name, key)) for kind, key in KINDS.items()}
    finest = "codes" if "A-G" in TABLES[name].levels else "together"
    return Table(**answers) if answers[finest] is not None else None


def _of_code(name: str, code: int, measured: Mapping[tuple[str, str], Answers]) -> Table | None:
    """Return the answers about a table for one code of the level H,I; None without answers about states."""
    states, nation = (measured.get((name, f"{region}_H,I")) for region in ("state", "usa"))
    if states is None:
        return None
    picked = Answers(states.counts[:, [code]], states.variance)
    return Table(codes=picked, nation_codes=nation and Answers(nation.counts[:, [code]], nation.variance))


def _estimated(estimates: Mapping[str, Estimate], measured: Mapping[tuple[str, str], Answers]) -> Found:
    """Return the estimates of the answers that were measured."""
    found = {}
    for name, each in estimates.items():
        together = each.counts.sum(axis=1, keepdims=True)
        counts = {"state_A-G": each.counts, "state_*": together}
        counts |= {
            key.replace("state", "usa"): of_states.sum(axis=0, keepdims=True) for key, of_states in counts.items()
        }
        for key in counts:
            if (name, key) in measured:
                words = f"{'state' if key.startswith('state') else 'nation'} {'codes' if key.endswith('G') else 'all'}"
                found[name, key] = Estimated(counts[key], each.covariances[words])
    return found


def _add_code(found: Found, estimates: Mapping[str, Estimate], measured: Mapping[tuple[str, str], Answers]) -> None:
    """Add the estimates of one code of the level H,I to those of the codes before it."""
    for name, each in estimates.items():
        for region, words, counts in (
            ("state", "state codes", each.counts),
            ("usa", "nation codes", each.counts.sum(axis=0, keepdims=True)),
        ):
            key = (name, f"{region}_H,I")
            if key in measured:
                before = [found[key].counts] if key in found else []
                found[key] = Estimated(np.concatenate([*before, counts], axis=1), each.covariances[words])


def write_estimates(plan: Plan, out: Path, found: Found) -> None:
    """Write OUT/estimates: a row a cell with its margins."""
    for name in dict.fromkeys(name for name, _ in found):
        published, parts = PUBLISHED[name], []
        cells = list(published.cells)
        for query in plan.configuration.queries():
            each = found.get((query.table.name, query.query.name.rpartition("/")[2]))
            if query.table.name != name or each is None:
                continue
            ids, codes = keys_of(plan, query)
            columns = keys_table(query.region_type, ids, codes, published.column, cells)
            if published.of.levels == ("*",):
                del columns["ITERATION_CODE"]
            rounded = _summed(query.region_type, query.level, len(plan.configuration.states)) / 12  # whole numbers
            deviations = [sqrt(each.variance([cell]) + rounded) for cell in range(len(cells))]
            margins = {
                column: pa.array([ceil(quantile * deviation) for deviation in deviations] * (len(ids) * len(codes)))
                for column, quantile in QUANTILES.items()
            }
            parts.append(pa.table({**columns, "COUNT": pa.array(each.counts.ravel()), **margins}))
        write_table(out, f"estimates/{name}", pa.concat_tables(parts), everything=True)


def _summed(region_type: str, level: str, states: int) -> int:
    """Return how many whole numbers an estimate sums."""
    return (states if region_type == "USA" else 1) * (len(LEVELS["A-G"]) if level == "*" else 1)
