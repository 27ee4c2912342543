"""The stage "release": histograms with margins of error, invariants, microdata, report and manifest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from privacy.tables.histogram import cell_table, mask
from spine.geography import IntArray
from spine.redistricting import OCCUPIED, VACANT
from spine.top_down import Estimates
from spine.top_down.histogram import Histograms, from_entries
from tasks.geography.public_regions import write_regions
from tasks.geography.regions import Region
from tasks.lifecycle.staging import PIPES, open_staging, release_file, write_table
from tasks.lifecycle.workers import Workers
from tasks.records.arrow import text
from tasks.top_down.areas import FOLDERS, areas, geocodes_of
from tasks.top_down.blocks import BlockSource, geounits
from tasks.top_down.estimate.gls.margin_tables import write_margins
from tasks.top_down.estimate.topdown import load_estimates
from tasks.top_down.input.public_input import QUARTERS
from tasks.top_down.release.design_file import MEASUREMENTS
from tasks.top_down.release.manifest import describe_release
from tasks.top_down.release.measurement_files import BUREAU_FOLDER
from tasks.top_down.release.measurements import S
from tasks.top_down.release.microdata import by_geocode, write_microdata
from tasks.top_down.release.tables import CELLS_FILE, COUNTS_FILE
from tasks.top_down.run_plan import SCHEMAS, counts_of
from tasks.top_down.source import Branch

assert (VACANT, OCCUPIED) == (0, 1)


def stage_release(run: S, workers: Workers, out: Path, write: Callable[[S, Workers, Path], None]) -> None:
    """Write the whole release of a run's estimates into its staging folder, next to the measurements."""
    write(run, workers, open_staging(run, out, run.folder, except_for=(MEASUREMENTS, BUREAU_FOLDER)))


def write_release(run: BlockSource, workers: Workers, staged: Path) -> None:
    """Write histograms, invariants, margins and microdata of estimates, then names, report and manifest."""
    products = run.design.products
    if run.nations:
        workers.map("release", run, write_levels, [(nation, staged) for nation in run.nations])
    workers.map("release", run, write_state, [(branch, staged) for branch in run.branches])

    def is_named(region: Region) -> bool:
        return region.type == "AIANNH" or region.id[:2] in run.validated.states

    write_regions(run, staged, is_named)
    for product in products:
        for file, table in cell_files(product, pl94=run.design.pl94).items():
            with release_file(staged, file) as draft:
                pa.csv.write_csv(table, draft, PIPES)
    describe_release(run, workers, staged)


def write_levels(run: BlockSource, branch: Branch, staged: Path) -> Estimates:
    """Write the histograms, margins and invariants of the nation (US) or of a state; return those of the last level."""
    plan = run.plan(branch)
    for number, codes in enumerate(run.codes(branch)):
        level = plan.spine.levels[number]
        estimates, name = load_estimates(run, branch, level), f"{branch.product}/{level}/{branch.name}.parquet"
        _write_histograms(staged, name, codes, estimates)
        write_margins(run, branch, level, staged, name, codes, estimates)
        _write_quarters(staged, name, codes, plan.bounds.counts[number])
    return estimates


def write_state(run: BlockSource, branch: Branch, staged: Path) -> None:
    """Write the histograms, invariants, margins and microdata of a state."""
    estimates = write_levels(run, branch, staged)
    blocks = by_geocode(run, branch, estimates)
    write_microdata(run, branch, blocks, staged)
    design = run.design
    for family in areas(run.state(branch.name).geography, design.settings[branch.product], whole_state=design.pl94):
        area = family.of_block[blocks.row]
        inside = area >= 0
        entries = area[inside], blocks.cell[inside], blocks.count[inside]
        sums = from_entries(Estimates, 0, 0, *entries, len(family.codes))
        name, codes = f"{branch.product}/{FOLDERS[family.name]}/{branch.name}.parquet", geocodes_of(family)
        _write_histograms(staged, name, codes, sums)
        write_margins(run, branch, family.name, staged, name, codes, sums)


def _write_histograms(staged: Path, name: str, codes: NDArray[np.uint8], histograms: Histograms) -> None:
    table = pa.table(
        {
            "geounit": geounits(codes, histograms.row),
            "cell": pa.array(histograms.cell.astype(np.int16)),
            "count": pa.array(histograms.count.astype(np.int32)),
        }
    )
    write_table(staged, f"histograms/{name}", table)


def _write_quarters(staged: Path, name: str, codes: NDArray[np.uint8], quarters: IntArray) -> None:
    columns = {kind: pa.array(quarters[:, at].astype(np.int32)) for at, kind in enumerate(QUARTERS)}
    write_table(staged, f"invariants/{name}", pa.table({"geounit": text(codes), **columns}))


def cell_files(product: str, *, pl94: bool) -> dict[str, pa.Table]:
    """Return cells/PRODUCT.csv and PRODUCT-counts.csv by name; pl94: with the cells of the tables P1 to P5."""
    axes, counts = SCHEMAS[product].axes, counts_of(product, pl94)
    count, cell = np.nonzero([mask(axes, each.where) for each in counts])
    sums = {"count": [counts[at].name for at in count], "cell": cell}
    tables = ((CELLS_FILE, cell_table(axes)), (COUNTS_FILE, sums))
    return {file.format(product=product): pa.table(columns) for file, columns in tables}
