"""The cells of a product's histogram, a column an axis, and the cells that each named count sums, as tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from spine.top_down.histogram import PERSONS, UNITS
from tasks.top_down.gls.margin_tables import columns_of
from tasks.top_down.release.tables import CELLS_FILE, COUNTS_FILE
from tasks.top_down.run_plan import ProductName


def write_cells(out: Path, product: ProductName, *, pl94: bool) -> None:
    """Write OUT/cells/PRODUCT.csv and PRODUCT-counts.csv; pl94: with the counts of the tables P1 to P5."""
    histogram = PERSONS if product == "persons" else UNITS
    axes = histogram.coordinates
    rows = np.column_stack([np.arange(histogram.cells), *axes.values()]).tolist()
    _write(out / CELLS_FILE.format(product=product), ["cell", *axes], rows)
    counts = columns_of(product, pl94)
    column, cell = np.nonzero(counts.cells.T)
    named = zip(np.array(counts.names)[column].tolist(), cell.tolist(), strict=True)
    _write(out / COUNTS_FILE.format(product=product), ["count", "cell"], map(list, named))


def _write(path: Path, columns: list[str], rows: Iterable[list[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("|".join(map(str, row)) + "\n" for row in (columns, *rows)))
