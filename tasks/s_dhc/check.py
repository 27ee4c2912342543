"""Checks of an S-DHC release, from its files alone: what its configuration says of its manifest and of every row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from tasks.releases.check import Check, NotChecked
from tasks.releases.received import path_in
from tasks.s_dhc.averages import levels_of, nearest_ratio, possible_range
from tasks.s_dhc.configuration import read_described
from tasks.s_dhc.estimates import estimate_all, estimate_tables
from tasks.s_dhc.release import designed, expected_rows
from tasks.s_dhc.released_rows import keys_table, places_of
from tasks.s_dhc.run import Plan
from tasks.s_dhc.tables import PUBLISHED, PublishedTable

ROUNDING = 1e-12  # of a variance
NOT_MADE_AGAIN = ("LOW*", "HIGH*", "SAID*")  # columns of averages whose values take minutes to compute


def plan_in(manifest: Mapping[str, Any]) -> Plan:
    """Return the plan of a release. Raises ValueError, TypeError or KeyError where its manifest has none."""
    configuration = read_described(manifest["configuration"])
    return Plan(configuration, bool(manifest["estimates"]), manifest["truncation"] is not None)


def statements(_release: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements of a release besides those of every release."""
    return designed(plan_in(manifest), truth="NOT_PRIVATE" in manifest)


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check | NotChecked]:
    """Check the keys and the noise of every row, counts that are shown twice, estimates and averages."""
    plan, truth = plan_in(manifest), "NOT_PRIVATE" in manifest
    yield NotChecked("P*: COUNT", "a count of a release without estimates is shown once")
    tables = {}
    for name, table in PUBLISHED.items():
        expected = expected_rows(plan, table, truth=truth)
        if expected is not None:
            tables[name] = pd.read_parquet(path_in(release, f"{name}/{name}.parquet"))
            yield _check_rows(f"{name}: keys and noise", tables[name], expected)
    for name, other in (("PH5_num", "PH4"), ("PH8_num", "PH7")):
        if name in tables:
            yield _check_sums(PUBLISHED[name], tables[name], _answers(plan, PUBLISHED[other], tables[other]), plan)
    if plan.estimates and not truth:
        answers: dict[str, NDArray[np.int64]] = {}
        for table in PUBLISHED.values():
            if table.name in tables and table.name == table.of.name:
                answers |= _answers(plan, table, tables[table.name])
        yield from (NotChecked(f"averages/*: {column}", "it is not computed again") for column in NOT_MADE_AGAIN)
        for name, made in estimate_tables(plan, estimate_all(plan, answers)).items():
            yield _check_rows(f"estimates/{name}", pd.read_parquet(path_in(release, f"estimates/{name}.parquet")), made)
        yield from _check_averages(release, plan, answers)


def _answers(plan: Plan, table: PublishedTable, rows: pd.DataFrame) -> dict[str, NDArray[np.int64]]:
    """Return the noisy counts of a measured table by query, as a run keeps them: regions x codes x cells."""
    found, states = {}, plan.configuration.all_states
    keys = [name for name in rows.columns if name in ("REGION_TYPE", "REGION_ID", "ITERATION_CODE", table.column)]
    counts = rows.set_index(keys)["COUNT"]
    for query in plan.configuration.queries():
        if query.table is table.of:
            own = pd.MultiIndex.from_frame(
                pa.table(keys_table(plan, query, table.column, table.cells)).to_pandas()[keys]
            )
            shape = len(places_of(plan, query.region_type)), len(query.codes), len(table.cells)
            answer = np.zeros((1 if query.region_type == "USA" else len(states), *shape[1:]), np.int64)
            answer[places_of(plan, query.region_type)] = counts.reindex(own).to_numpy().reshape(shape)
            found[query.query.name] = answer
    return found


def _check_rows(what: str, rows: pd.DataFrame, expected: pa.Table) -> Check:
    """Compare rows with the keys and numbers that they must have; estimates may differ by their rounding."""
    made, faults = expected.to_pandas(), []
    if len(rows) != len(made):
        faults.append(f"it has {len(rows):,} rows, not {len(made):,}")
    for name in () if faults else made.columns:
        if pd.api.types.is_numeric_dtype(made[name]):
            tolerance = 1 if name == "COUNT" else 0
            same = np.isclose(rows[name], made[name], rtol=ROUNDING, atol=tolerance)
        else:
            same = rows[name].to_numpy() == made[name].to_numpy()
        faults += [f"{name} is another in {int((~same).sum()):,} rows"] * (not same.all())
    return Check(what, f"{len(made):,} rows", tuple(faults))


def _check_sums(
    table: PublishedTable, rows: pd.DataFrame, answers: Mapping[str, NDArray[np.int64]], plan: Plan
) -> Check:
    """Compare a table that is made of another with the sums of that one's cells."""
    wrong = 0
    for query, answer in _answers(plan, table, rows).items():
        sums = np.stack([answers[query][:, :, list(cells)].sum(axis=2) for cells in table.cells.values()], axis=2)
        wrong += int((answer != sums).sum())
    faults = (f"{wrong:,} counts differ",) if wrong else ()
    return Check(f"{table.name} is made of {table.of.name}", f"{len(rows):,} rows", faults)


def _check_averages(release: Path, plan: Plan, answers: Mapping[str, NDArray[np.int64]]) -> Iterator[Check]:
    """Check averages: their keys, their counts, and that intervals hold their ratios."""
    for average, levels in groupby(levels_of(plan), key=lambda level: level[0]):
        keys, counts = [], dict[str, list[float]](NUMERATOR=[], DENOMINATOR=[], RATIO=[])
        for _, *queries in levels:
            keys.append(pa.table(keys_table(plan, queries[0], f"{average.name}_DATA_CELL", average.cells)))
            of = [answers[each.query.name][places_of(plan, each.region_type)] for each in queries]
            for code, above, below in average.rows(of):
                row = above, below, nearest_ratio(above, below, *possible_range(plan, average, code, queries))
                for column, value in zip(counts.values(), row, strict=True):
                    column.append(value)
        rows = pd.read_parquet(path_in(release, f"averages/{average.name}.parquet"))
        yield _check_rows(f"averages/{average.name}: keys", rows, pa.concat_tables(keys))
        yield _check_rows(f"averages/{average.name}: counts", rows, pa.table(counts))
        yield _check_intervals(average.name, rows)


def _check_intervals(name: str, rows: pd.DataFrame) -> Check:
    """Check that intervals hold their ratio, and the wider ones the narrower."""
    ordered = (rows["LOW"] <= rows["LOW90"]) & (rows["HIGH90"] <= rows["HIGH"]) | (rows["SAID90"] == "none")
    possible = (rows["RATIO"] - rows["NUMERATOR"] / rows["DENOMINATOR"].clip(lower=1)).abs() < 0.001
    inside = rows["RATIO"].between(rows["LOW"], rows["HIGH"]) | ~possible | (rows["DENOMINATOR"] <= 0)
    faults = () if (ordered & inside).all() else ("an interval does not hold its ratio, or the narrower one",)
    return Check(f"intervals of {name}", f"{len(rows):,} rows", faults)
