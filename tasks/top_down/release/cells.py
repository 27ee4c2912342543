"""The cells of a product's histogram, a column an axis, and the cells that each count sums, as tables of a release."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from spine.counts import cell_table, mask
from tasks.top_down.estimate.gls.margin_tables import counts_of
from tasks.top_down.release.tables import CELLS_FILE, COUNTS_FILE
from tasks.top_down.run_plan import SCHEMAS, ProductName


def write_cells(out: Path, product: ProductName, *, pl94: bool) -> None:
    """Write OUT/cells/PRODUCT.csv and PRODUCT-counts.csv; pl94: with the cells of the tables P1 to P5."""
    axes = SCHEMAS[product].axes
    cells = cell_table(axes)
    _write(out / CELLS_FILE.format(product=product), [*cells], zip(*cells.values(), strict=True))
    sums = ((count.name, cell) for count in counts_of(product, pl94) for cell in mask(axes, count.where).nonzero()[0])
    _write(out / COUNTS_FILE.format(product=product), ["count", "cell"], sums)


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("|".join(map(str, row)) + "\n" for row in (columns, *rows)))
