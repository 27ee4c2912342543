"""Write the histograms of the spine's geounits and of areas, the declared invariants, and the microdata."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spine.geography import IntArray
from spine.top_down import Estimates
from spine.top_down.histogram import Histograms, from_entries
from tasks.inputs.arrow import text
from tasks.lifecycle.workers import Workers
from tasks.top_down.areas import FOLDERS, areas
from tasks.top_down.estimate.descent import FIRST, load_estimates
from tasks.top_down.input.geography import codes_of, plan_of
from tasks.top_down.input.invariants_input import QUARTERS
from tasks.top_down.release.microdata import by_geocode, write_microdata
from tasks.top_down.release.tables import geounits, write_table
from tasks.top_down.run import TopDownRun, load_histograms
from tasks.top_down.run_plan import US, ProductName


def stage_histograms(run: TopDownRun, workers: Workers, staged: Path) -> None:
    """Write the histograms, invariants and microdata of every product, state by state."""
    if run.validated.nation:
        workers.map("release", run, write_nation, [(product, staged) for product in run.design.products])
    workers.map("release", run, write_state, [(*pair, staged) for pair in run.product_states])


def write_nation(run: TopDownRun, product: ProductName, staged: Path) -> None:
    """Write the histogram of the nation and its invariants."""
    nation = load_histograms(run.estimates_folder(product, US, US) / FIRST, Estimates)
    codes, name = np.zeros((1, 0), np.uint8), f"{product}/{US}/{US}.parquet"
    _write_histograms(staged, f"histograms/{name}", codes, nation)
    _write_quarters(staged, f"invariants/{name}", codes, plan_of(run, product, US).invariants.quarters[0])


def write_state(run: TopDownRun, product: ProductName, state: str, staged: Path) -> None:
    """Write the histograms, invariants and microdata of a state."""
    plan, codes = plan_of(run, product, state), codes_of(run, product, state)
    for number, level in enumerate(plan.spine.levels):
        estimates = load_estimates(run, product, state, level)
        name = f"{product}/{level}/{state}.parquet"
        _write_histograms(staged, f"histograms/{name}", codes[number], estimates)
        _write_quarters(staged, f"invariants/{name}", codes[number], plan.invariants.quarters[number])
    blocks = by_geocode(run, product, state, estimates)
    write_microdata(run, product, state, blocks, staged)
    for family in areas(run.state(state).geography, run.design.settings[product]):
        area = family.of_block[blocks.row]
        inside = area >= 0
        entries = area[inside], blocks.cell[inside], blocks.count[inside]
        sums = from_entries(Estimates, 0, 0, *entries, len(family.codes))
        name = f"histograms/{product}/{FOLDERS[family.family]}/{state}.parquet"
        _write_histograms(staged, name, family.geocodes, sums)


def _write_histograms(staged: Path, name: str, codes: NDArray[np.uint8], histograms: Histograms) -> None:
    table = pa.table(
        {
            "geounit": geounits(codes, histograms.row),
            "cell": pa.array(histograms.cell.astype(np.int16)),
            "count": pa.array(histograms.count.astype(np.int32)),
        }
    )
    write_table(staged, name, table)


def _write_quarters(staged: Path, name: str, codes: NDArray[np.uint8], quarters: IntArray) -> None:
    columns = {kind: pa.array(quarters[:, at].astype(np.int32)) for at, kind in enumerate(QUARTERS)}
    write_table(staged, name, pa.table({"geounit": text(codes), **columns}))
