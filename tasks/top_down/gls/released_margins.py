"""Release the margins of error: of every total and table cell, beside the released count.

`margins/PRODUCT/LEVEL/SS.parquet` for the spine's geounits above the blocks, `margins/PRODUCT/tabulation/...` and
`margins/PRODUCT/entities/...` for sums of blocks (docs/spec/files.md#topdown-release).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spine.geography import BoolArray, IntArray
from spine.top_down.histogram import Histograms
from tasks.lifecycle.staging import write_table
from tasks.top_down.areas import FOLDERS
from tasks.top_down.gls.saved_margins import Z, columns_of, count_columns, load_margins
from tasks.top_down.input.geography import geounits
from tasks.top_down.run import TopDownRun
from tasks.top_down.run_plan import ProductName

PLACES = 3  # decimal places as written: far below any standard error
COVERED = ("total", "race", "voting age by race", "occupied")  # counts whose coverage is near 95 % (docs/top-down.md)
LAW = (
    "The estimate is the best linear unbiased one from all measurements of the tree: the true count plus a weighted "
    "sum of independent draws of known laws. Its standard error is exact; its law is normal, but for what is left of "
    "the draws being whole numbers and, under pure DP, of the weight of single draws. Released counts are whole, not "
    "negative, and add up, which no formula covers: that they lie within the margin, 1.96 standard errors of the "
    "estimate, in about 95 of 100 cases or more was measured on synthetic data (das tda accuracy)."
)
WITHOUT = (
    "Where the margin is empty, 1.96 standard errors would not be the release's error: sums that cut block groups of "
    "the spine, voting age, Hispanic, and residents of group quarters as single sums; blocks are left out. The release "
    "is far better there than the unbiased estimate, for it counts nobody below zero. The estimate and its standard "
    "error hold in every row."
)


def write_margins(
    run: TopDownRun,
    product: ProductName,
    state: str,
    level: str,
    staged: Path,
    name: str,
    codes: NDArray[np.uint8],
    released: Histograms,
) -> None:
    """Write a row for each count of the geounits of a level, or areas of a family, if the run found margins for them.

    codes, released: their codes and histograms.
    """
    margins = load_margins(run, product, state, level)
    if margins is None:
        return
    columns, (n, width) = columns_of(product), margins.estimate.shape
    rows = np.arange(n) if margins.area is None else margins.area
    column = pa.array(np.tile(np.arange(width, dtype=np.int8), n))
    margin = pa.array(np.round(Z * margins.error, PLACES).ravel(), mask=~is_covered(product, margins.cut).ravel())
    table = pa.table(
        {
            "geounit": geounits(codes[rows], np.repeat(np.arange(n), width)),
            "count": pa.DictionaryArray.from_arrays(column, pa.array(columns.names)),
            "released": pa.array(count_columns(released, columns)[rows].astype(np.int32).ravel()),
            "margin": margin,
            "estimate": pa.array(np.round(margins.estimate, PLACES).ravel() + 0.0),
            "standard_error": pa.array(np.round(margins.error, PLACES).ravel()),
        }
    )
    write_table(staged, f"margins/{name}", table)


def describe_margins(run: TopDownRun, product: ProductName) -> dict[str, Any]:
    """Return the manifest's entry: by level and family the mean standard errors, and how many have their margin.

    Empty where the run found no margins.
    """
    levels = run.spine(product, run.validated.states[0]).levels
    rows = []
    for name in (*levels[:-1], *FOLDERS):
        parts = [load_margins(run, product, state, name) for state in run.validated.states]
        found = [part for part in parts if part is not None]
        if found:
            error = np.concatenate([part.error for part in found])
            cut = np.concatenate([part.cut for part in found])
            mean = np.round(error.mean(axis=0), PLACES).tolist()
            row = {"of": name, "geounits": len(error), "with_margin": int((cut == 0).sum())}
            rows.append({**row, "mean_standard_error": dict(zip(columns_of(product).names, mean, strict=True))})
    return {"law": LAW, "without": WITHOUT, "mean_standard_error": rows} if rows else {}


def is_covered(product: ProductName, cut: IntArray) -> BoolArray:
    """Return which counts have a margin: those whose released errors it covers (docs/top-down.md#margins-of-error).

    cut: (n,) as in `Margins`. The result is (n, columns).
    """
    names = columns_of(product).names
    of_column = np.array([name.split(":")[0] in COVERED for name in names])
    covered: BoolArray = (cut == 0)[:, None] & of_column[None]
    return covered
