"""The rows of every table of a release: keys, counts and noise columns; and its two files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from privacy.noise.laws import DiscreteGaussian, Law
from privacy.tables.histogram import IntArray
from privacy.tables.published import Published
from tasks.lifecycle.staging import PIPES
from tasks.releases.published import Keys, rows_of
from tasks.s_dhc.budgets import ALPHA_90
from tasks.s_dhc.configuration import TableQuery
from tasks.s_dhc.release_tables import PARQUET_ALONE
from tasks.s_dhc.run import SDhcPlan

NATION = "1"  # REGION_ID
Counts = Mapping[str, IntArray]  # by query: (keys, cells) of the regions in a run


def write_table(out: Path, name: str, table: pa.Table, *, everything: bool = False) -> None:
    """Write OUT/NAME.parquet and OUT/NAME.csv; the text lacks PARQUET_ALONE, unless `everything`."""
    text = out / f"{name}.csv"
    text.parent.mkdir(parents=True, exist_ok=True)
    kept = table if everything else table.select([name for name in table.column_names if name not in PARQUET_ALONE])
    if "VARIANCE" in kept.column_names:
        variances = pa.array([f"{value:.17g}" for value in kept["VARIANCE"].to_pylist()])
        kept = kept.set_column(kept.column_names.index("VARIANCE"), "VARIANCE", variances)
    pa.csv.write_csv(kept, text, PIPES)
    pq.write_table(table, out / f"{name}.parquet", compression="zstd")


def in_run(plan: SDhcPlan, answers: Mapping[str, IntArray]) -> Counts:
    """Return the answers about the run's regions, from those about all states."""
    configuration = plan.configuration
    states = [configuration.all_states.index(state) for state in configuration.states]
    return {
        name: (answer if "/usa_" in name else answer[states]).reshape(-1, answer.shape[2])
        for name, answer in answers.items()
    }


def keys_of(plan: SDhcPlan, query: TableQuery) -> Keys:
    """Return the key columns of a query: the run's regions x codes, in this order."""
    ids = [NATION] if query.region_type == "USA" else plan.configuration.states
    regions, iterations = zip(*product(ids, query.codes), strict=True)
    keys = {"REGION_ID": pa.array(regions), "REGION_TYPE": pa.array([query.region_type] * len(regions))}
    return keys if query.table.levels == ("*",) else {**keys, "ITERATION_CODE": pa.array(iterations)}


def queries_of(plan: SDhcPlan, table: Published) -> Iterator[TableQuery]:
    """Yield the queries of a run that measure a published table."""
    return (query for query in plan.configuration.queries() if query.table.name == table.measured)


def count_rows(plan: SDhcPlan, table: Published, counts: Counts, *, truth: bool) -> pa.Table | None:
    """Return a published table: the nation first, then states by id; None if no query of it has a budget."""
    parts = []
    for query in queries_of(plan, table):
        noise = noise_columns(table, None if truth else plan.law(query))
        numbers = {"COUNT": table.counts(counts[query.query.name]), **noise}
        parts.append(rows_of(table, keys_of(plan, query), numbers))
    if not parts:
        return None
    rows = pa.concat_tables(parts)
    region = np.where(rows["REGION_TYPE"].to_numpy() == "USA", "", rows["REGION_ID"].to_numpy())
    return rows.take(np.argsort(region.astype(str), kind="stable"))


def noise_columns(table: Published, law: Law | None) -> dict[str, ArrayLike]:
    """Return the noise columns of a key's rows. law: each cell's; None for a truth."""
    if law is None:
        return {"NOISE_DISTRIBUTION": "None", "VARIANCE": 0.0, "MOE": 0, "MOE90": 0}
    return {
        "NOISE_DISTRIBUTION": law.name.title(),  # as the program has it
        "VARIANCE": variance_of(law) * table.draws,
        "MOE": table.margins(law),
        "MOE90": table.margins(law, ALPHA_90),
    }


def variance_of(law: Law) -> float:
    """Return the VARIANCE of a release, as in the program: sigma^2, or the variance of the geometric law."""
    return float(law.sigma_squared) if isinstance(law, DiscreteGaussian) else law.variance()
