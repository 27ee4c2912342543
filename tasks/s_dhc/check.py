"""Check S-DHC releases from their files alone: the manifest and every row against the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privacy.tables.histogram import IntArray
from tasks.releases.check import Check, NotChecked
from tasks.releases.published import check_rows, counts_in
from tasks.releases.received import path_in
from tasks.s_dhc.averages import average_columns, average_rows, levels_of
from tasks.s_dhc.configuration import read_described
from tasks.s_dhc.estimates import estimate_all, estimate_tables
from tasks.s_dhc.release import designed
from tasks.s_dhc.released_rows import count_rows, keys_of, queries_of
from tasks.s_dhc.run import SDhcPlan
from tasks.s_dhc.tables import PUBLISHED

NOT_MADE_AGAIN = ("LOW*", "HIGH*", "SAID*")  # columns of averages whose values take minutes to compute


def plan_in(manifest: Mapping[str, Any]) -> SDhcPlan:
    """Return the plan of a release. Raises ValueError, TypeError or KeyError if its manifest has no valid one."""
    configuration = read_described(manifest["configuration"])
    return SDhcPlan(configuration, bool(manifest["estimates"]), manifest["truncation"] is not None)


def statements(_release: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements of a release besides those that every release makes."""
    return designed(plan_in(manifest), truth="NOT_PRIVATE" in manifest)


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check | NotChecked]:
    """Check all rows of counts against the rows of single cells, then estimates and averages."""
    plan, truth = plan_in(manifest), "NOT_PRIVATE" in manifest
    yield NotChecked("P*: COUNT", "a count of a release without estimates is shown once")
    counts: dict[str, IntArray] = {}
    for name, table in PUBLISHED.items():
        if queries := list(queries_of(plan, table)):
            rows = pq.read_table(path_in(release, f"{name}/{name}.parquet"))
            for query in queries:
                if query.query.name not in counts:
                    numbers = counts_in(rows, table, keys_of(plan, query))
                    counts[query.query.name] = numbers[:, table.single]
            yield check_rows(name, [(rows, count_rows(plan, table, counts, truth=truth))])
    if plan.estimates and not truth:
        yield from (NotChecked(f"averages/*: {column}", "it is not computed again") for column in NOT_MADE_AGAIN)
        for name, made in estimate_tables(plan, estimate_all(plan, counts)).items():
            rows = pq.read_table(path_in(release, f"estimates/{name}.parquet"))
            yield check_rows(f"estimates/{name}", [(rows, made)], rounding=1)
        yield from _check_averages(release, plan, counts)


def _check_averages(release: Path, plan: SDhcPlan, counts: Mapping[str, IntArray]) -> Iterator[Check]:
    """Check averages: their keys, their counts, and that intervals contain their ratios."""
    for average, levels in groupby(levels_of(plan), key=lambda level: level[0]):
        made = []
        for _, *queries in levels:
            columns = average_columns(plan, average, queries, counts, alphas={})
            made.append(average_rows(plan, average, queries[0], columns))
        rows = pq.read_table(path_in(release, f"averages/{average.name}.parquet"))
        yield check_rows(f"averages/{average.name}", [(rows, pa.concat_tables(made))])
        yield _check_intervals(average.name, rows)


def _check_intervals(name: str, rows: pa.Table) -> Check:
    """Check that intervals contain their ratio, and that the wider intervals contain the narrower ones."""
    column = {name: rows[name].to_numpy() for name in rows.column_names}
    low, high, below = column["LOW"], column["HIGH"], column["DENOMINATOR"]
    ordered = (low <= column["LOW90"]) & (column["HIGH90"] <= high) | (column["SAID90"] == "none")
    possible = np.abs(column["RATIO"] - column["NUMERATOR"] / np.maximum(below, 1)) < 0.001
    inside = (low <= column["RATIO"]) & (column["RATIO"] <= high) | ~possible | (below <= 0)
    faults = () if (ordered & inside).all() else ("an interval does not contain its ratio, or the narrower interval",)
    return Check(f"intervals of {name}", f"{len(rows):,} rows", faults)
