"""What every table of a release is made of: the keys of its rows, the regions in the run, and its two files."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from privacy.noise.laws import DiscreteGaussian, Law
from privacy.noise.margins import margin_of_error
from tasks.lifecycle.staging import PIPES
from tasks.s_dhc.budgets import ALPHA_90
from tasks.s_dhc.configuration import TableQuery
from tasks.s_dhc.description import PARQUET_ALONE
from tasks.s_dhc.run import Plan

NATION = "1"  # REGION_ID


def write_table(out: Path, name: str, table: pa.Table, *, everything: bool = False) -> None:
    """Write a table as OUT/NAME.csv, with the columns of text or everything, and as OUT/NAME.parquet."""
    text = out / f"{name}.csv"
    text.parent.mkdir(parents=True, exist_ok=True)
    kept = table if everything else table.select([name for name in table.column_names if name not in PARQUET_ALONE])
    if "VARIANCE" in kept.column_names:
        variances = pa.array([f"{value:.17g}" for value in kept["VARIANCE"].to_pylist()])
        kept = kept.set_column(kept.column_names.index("VARIANCE"), "VARIANCE", variances)
    pa.csv.write_csv(kept, text, PIPES)
    pq.write_table(table, out / f"{name}.parquet", compression="zstd")


def places_of(plan: Plan, region_type: str) -> NDArray[np.int64]:
    """Return the rows of a query's answer that are in the run."""
    if region_type == "USA":
        return np.zeros(1, np.int64)
    configuration = plan.configuration
    return np.array([configuration.all_states.index(state) for state in configuration.states])


def keys_table(plan: Plan, query: TableQuery, column: str, cells: Iterable[str]) -> dict[str, pa.Array]:
    """Return the key columns of a query's rows: regions that are in the run x codes x cells, in this order."""
    ids = [NATION] if query.region_type == "USA" else plan.configuration.states
    regions, iterations, of_cells = zip(*product(ids, query.codes, cells), strict=True)
    return {
        "REGION_ID": pa.array(regions),
        "REGION_TYPE": pa.array([query.region_type] * len(regions)),
        **({"ITERATION_CODE": pa.array(iterations)} if query.table.levels != ("*",) else {}),
        column: pa.array(of_cells),
    }


def noise_columns(law: Law | None, cells: int) -> dict[str, Any]:
    """Return what a row says of its noise, the sum of draws of a law for its cells; None for a truth, without any."""
    if law is None:
        return {"NOISE_DISTRIBUTION": "None", "VARIANCE": 0.0, "MOE": 0, "MOE90": 0}
    return {
        "NOISE_DISTRIBUTION": law.name.title(),  # as the program has it
        "VARIANCE": variance_of(law) * cells,
        "MOE": margin_of_error(law, cells),
        "MOE90": margin_of_error(law, cells, ALPHA_90),
    }


def variance_of(law: Law) -> float:
    """Return the VARIANCE of a release, as the program has it: sigma^2, or the variance of the geometric law."""
    return float(law.sigma_squared) if isinstance(law, DiscreteGaussian) else law.variance()
