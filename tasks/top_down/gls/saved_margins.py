"""The margins of error of a run: which counts have one, and how they are saved and read.

```
noisy/PRODUCT/SS/margins/LEVEL/FIRST    estimates and standard errors of a batch of geounits
noisy/PRODUCT/SS/margins/FAMILY/all     the same of a family's areas
```
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spine.geography import IntArray
from spine.top_down.histogram import Histograms
from spine.workload import FloatArray
from tasks.lifecycle.files import complete, open_array, save_arrays
from tasks.top_down.run import TopDownRun
from tasks.top_down.run_plan import ProductName

if TYPE_CHECKING:
    from spine.gls.blue import Blue
    from spine.gls.columns import Columns

RACES = ("white", "black", "AIAN", "Asian", "NHPI", "some other race", "two or more races")
AREAS = "all"  # the file of a family's areas
MARGINS = "margins"
Z = 1.96  # standard errors on either side of a 95% interval


@lru_cache(maxsize=2)
def columns_of(product: ProductName) -> Columns:
    """Return the totals and table cells that get a margin."""
    from spine.gls.columns import occupied_column, person_columns

    if product == "units":
        return occupied_column("occupied")
    types, both, races = range(8), (0, 1), range(63)
    cells_of_race = [range(at, at + 1) for at in range(6)] + [range(6, 63)]
    by_race = list(zip(RACES, cells_of_race, strict=True))
    return person_columns(
        [
            ("total", types, both, both, races),
            ("voting age", types, (1,), both, races),
            ("Hispanic", types, both, (1,), races),
            *((f"race: {name}", types, both, both, cells) for name, cells in by_race),
            *((f"voting age by race: {name}", types, (1,), both, cells) for name, cells in by_race),
            *((f"group quarters: type {t}", (t,), both, both, races) for t in types[1:]),
        ]
    )


def count_columns(histograms: Histograms, columns: Columns) -> IntArray:
    """Return the columns of histograms, (geounits, columns)."""
    sums = np.zeros((len(histograms), len(columns)), np.int64)
    np.add.at(sums, histograms.row, columns.cells[histograms.cell] * histograms.count[:, None])
    return sums


def margins_folder(run: TopDownRun, product: ProductName, state: str, name: str) -> Path:
    """Return the folder of the margins of a level or family."""
    return run / f"noisy/{product}/{state}/{MARGINS}/{name}"


def save_level(
    run: TopDownRun, product: ProductName, state: str, level: str, found: Blue, batch: int | None = None
) -> None:
    """Save the margins of a batch of geounits, under its first geounit or the number of the batch."""
    columns = columns_of(product)
    arrays = {"estimate": columns.sums(found.x), "error": np.sqrt(columns.variances(found.variance))}
    number = found.first if batch is None else batch
    save_arrays(margins_folder(run, product, state, level) / f"{number:07d}", arrays)


@dataclass(frozen=True)
class Margins:
    """Unbiased estimates and standard errors of a level's geounits, or of a family's areas.

    area: (n,) which of a family's areas; None for all geounits of a level. estimate, error: (n, columns). cut: (n,)
    whether an area holds block groups of the spine in part; 0 for a geounit.
    """

    area: IntArray | None
    estimate: FloatArray
    error: FloatArray
    cut: IntArray

    def only(self, rows: IntArray) -> Margins:
        """Return some rows."""
        area = None if self.area is None else self.area[rows]
        return Margins(area, self.estimate[rows], self.error[rows], self.cut[rows])


def load_margins(run: TopDownRun, product: ProductName, state: str, name: str) -> Margins | None:
    """Read the margins of a level or family; None where there are none."""
    folder = margins_folder(run, product, state, name)
    if not folder.exists():
        return None
    paths = complete(folder)
    estimate, error = (np.concatenate([open_array(path, array) for path in paths]) for array in ("estimate", "error"))
    if paths[0].name != AREAS:
        return Margins(None, estimate, error, np.zeros(len(error), np.int64))
    area, groups_cut = (np.array(open_array(paths[0], array)) for array in ("area", "cut"))
    return Margins(area, estimate, error, (groups_cut > 0).astype(np.int64))
