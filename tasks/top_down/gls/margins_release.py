"""The margins of error as they are released: of every total and table cell, beside the count that was released.

`margins/PRODUCT/LEVEL/SS.parquet` for the spine's geounits above the blocks, `margins/PRODUCT/tabulation/...` and
`margins/PRODUCT/entities/...` for sums of blocks (docs/spec/files.md#topdown-release).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spine.geocodes import digits
from spine.geography import BoolArray, IntArray
from spine.top_down import Estimates
from tasks.inputs.arrow import text
from tasks.lifecycle.staging import release_file
from tasks.top_down.gls.margins import ENTITIES, TABULATED, Margins, Z, columns_of, counted, families, load_margins
from tasks.top_down.run import TopDownRun
from tasks.top_down.run_plan import ProductName

DIGITS = {"county": 5, "tract": 11, "cbg": 12, "place": 7, "mcd": 10, "aian": 4}  # of a code
PLACES = 3  # decimal places of what is written: far below any standard error
HOLD = ("total", "race", "voting age by race", "occupied")  # counts whose coverage is near 95 % (docs/top-down.md)
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


def write_level(
    run: TopDownRun, product: ProductName, state: str, level: str, codes: Any, found: Estimates, staged: Path
) -> None:
    """Write the margins of a level of the spine; found: its released histograms."""
    margins = load_margins(run, product, state, level)
    if margins is not None:
        name = f"margins/{product}/{level}/{state}.parquet"
        _write(staged, name, product, codes, margins, counted(found, columns_of(product)))


def write_entities(run: TopDownRun, product: ProductName, state: str, blocks: Estimates, staged: Path) -> None:
    """Write the margins of tabulation geounits and entities off the spine; blocks: in the order of the spine."""
    released = counted(blocks, columns_of(product))
    for family, (code, of) in families(run, product, state).items():
        margins = load_margins(run, product, state, family)
        if margins is None or margins.entity is None:
            continue
        sums = np.zeros((len(code), released.shape[1]), np.int64)
        inside = of >= 0
        np.add.at(sums, of[inside], released[inside])
        folder = f"tabulation/{TABULATED[family]}" if family in TABULATED else f"entities/{family}"
        codes = digits(code[margins.entity], DIGITS[family])
        _write(staged, f"margins/{product}/{folder}/{state}.parquet", product, codes, margins, sums[margins.entity])


def standard_errors(run: TopDownRun, product: ProductName) -> list[dict[str, Any]]:
    """By level and family the mean standard error of every column, and how many geounits have their margin."""
    levels = run.spine(product, run.validated.states[0]).levels
    found = []
    for name in (*levels[:-1], *TABULATED, *ENTITIES):
        parts = [load_margins(run, product, state, name) for state in run.validated.states]
        there = [part for part in parts if part is not None]
        if there:
            error, cut = (np.concatenate([getattr(part, of) for part in there]) for of in ("error", "cut"))
            mean = np.round(error.mean(axis=0), PLACES).tolist()
            row = {"of": name, "geounits": len(error), "with_margin": int((cut == 0).sum())}
            found.append({**row, "mean_standard_error": dict(zip(columns_of(product).names, mean, strict=True))})
    return found


def holds(product: ProductName, cut: IntArray) -> BoolArray:
    """(n, K) whether a released count's error is told by its standard error (docs/top-down.md#margins-of-error)."""
    names = columns_of(product).names
    of_column = np.array([name.split(":")[0] in HOLD for name in names])
    found: BoolArray = (cut == 0)[:, None] & of_column[None]
    return found


def _write(staged: Path, name: str, product: ProductName, codes: Any, margins: Margins, released: IntArray) -> None:
    """Write a row a geounit and column."""
    n, width = margins.estimate.shape
    names = columns_of(product).names
    geounit, column = np.repeat(np.arange(n, dtype=np.int32), width), np.tile(np.arange(width, dtype=np.int8), n)
    error = np.round(margins.error, PLACES)
    margin = pa.array(np.round(Z * margins.error, PLACES).ravel(), mask=~holds(product, margins.cut).ravel())
    table = pa.table(
        {
            "geounit": pa.DictionaryArray.from_arrays(pa.array(geounit), text(codes)),
            "count": pa.DictionaryArray.from_arrays(pa.array(column), pa.array(names)),
            "released": pa.array(released.astype(np.int32).ravel()),
            "margin": margin,
            "estimate": pa.array(np.round(margins.estimate, PLACES).ravel() + 0.0),
            "standard_error": pa.array(error.ravel()),
        }
    )
    with release_file(staged, name) as draft:
        pq.write_table(table, draft, compression="zstd")


assert set(DIGITS) == {*TABULATED, *ENTITIES}
