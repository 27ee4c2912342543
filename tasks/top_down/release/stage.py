"""Release: microdata, histograms of the three kinds of geounit, declared invariants, manifest, report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spine.entities import entities
from spine.geocodes import digits
from spine.geography import IntArray
from spine.top_down import Estimates
from spine.top_down.histogram import from_entries
from tasks.inputs.arrow import text
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.staging import clear_staging, drafts, release_file
from tasks.lifecycle.workers import Workers
from tasks.top_down.estimate.descent import FIRST, load_estimates
from tasks.top_down.gls.margins_release import write_entities, write_level
from tasks.top_down.input.geography import codes_of, plan_of
from tasks.top_down.input.invariants_input import QUARTERS
from tasks.top_down.measure.published import FOLDER
from tasks.top_down.release.manifest import describe_release
from tasks.top_down.release.microdata import by_geocode, write_microdata
from tasks.top_down.run import TopDownRun, load_histograms
from tasks.top_down.run_plan import US, ProductName

TABULATED = {"County": 5, "Tract": 11, "Block_Group": 12}  # digits of the 16 that name a tabulation geounit
# families of off-spine entities (spine.entities), and the digits of their public codes
OFF_SPINE = {"place": 7, "mcd": 10, "aian": 4}
Row = tuple[Any, IntArray, IntArray, IntArray]  # codes of the geounits as digits; geounit, cell and count of entries


def stage_release(run: TopDownRun, workers: Workers, out: Path, folder: str, staged: Path) -> None:
    """Write the whole release into its staging folder, beside the measurements; manifest last."""
    clear_staging(run, out, folder, but=FOLDER)
    if is_truth(run):  # exact counts: their owner's only, as the release will be that the folder becomes
        for path in (staged, drafts(staged)):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
    each = [(product, state, staged) for product in run.design.products for state in run.validated.states]
    if run.validated.nation:
        workers.map("release", run, write_nation, [(product, staged) for product in run.design.products])
    workers.map("release", run, write_state, each)
    describe_release(run, staged)


def write_nation(run: TopDownRun, product: ProductName, staged: Path) -> None:
    """Write the histogram of the nation and its invariants."""
    nation = load_histograms(run.estimates_folder(product, US, US) / FIRST, Estimates)
    codes = np.zeros((1, 0), np.uint8)
    _write_histograms(staged, f"histograms/{product}/{US}/{US}.parquet", (codes, nation.row, nation.cell, nation.count))
    _write_quarters(
        staged, f"invariants/{product}/{US}/{US}.parquet", codes, plan_of(run, product, US).invariants.quarters[0]
    )


def write_state(run: TopDownRun, product: ProductName, state: str, staged: Path) -> None:
    """Write the microdata and histograms of a state."""
    plan, codes = plan_of(run, product, state), codes_of(run, product, state)
    for number, level in enumerate(plan.spine.levels):
        estimates = load_estimates(run, product, state, level)
        name = f"{level}/{state}.parquet"
        _write_histograms(
            staged, f"histograms/{product}/{name}", (codes[number], estimates.row, estimates.cell, estimates.count)
        )
        _write_quarters(staged, f"invariants/{product}/{name}", codes[number], plan.invariants.quarters[number])
        write_level(run, product, state, level, codes[number], estimates, staged)
    write_entities(run, product, state, estimates, staged)
    blocks = by_geocode(run, product, state, estimates)
    write_microdata(run, product, state, blocks, staged)
    for level, row in _tabulated(run, state, blocks):
        _write_histograms(staged, f"histograms/{product}/tabulation/{level}/{state}.parquet", row)
    for family, row in _off_spine(run, product, state, blocks):
        _write_histograms(staged, f"histograms/{product}/entities/{family}/{state}.parquet", row)


def _tabulated(run: TopDownRun, state: str, blocks: Estimates) -> Iterator[tuple[str, Row]]:
    """The histograms of tabulation geounits, sums of blocks, by their public codes."""
    geocode = run.state(state).geography.geocode
    for level, width in TABULATED.items():
        code, at = np.unique(geocode // 10 ** (16 - width), return_inverse=True)
        found = from_entries(Estimates, 0, 0, at[blocks.row], blocks.cell, blocks.count, len(code))
        yield level, (digits(code, width), found.row, found.cell, found.count)


def _off_spine(run: TopDownRun, product: ProductName, state: str, blocks: Estimates) -> Iterator[tuple[str, Row]]:
    """The histograms of the off-spine entities that the state has, of an AIAN area its part there, by their codes."""
    geography = run.state(state).geography
    for family, width in OFF_SPINE.items():
        found = entities(geography, family, run.design.settings[product])
        if found is None or found.outside.all():
            continue
        of_block = (np.cumsum(~found.outside) - 1)[found.of_block]
        inside = ~found.outside[found.of_block[blocks.row]]
        codes = found.codes[~found.outside]
        row, cell, count = of_block[blocks.row[inside]], blocks.cell[inside], blocks.count[inside]
        sums = from_entries(Estimates, 0, 0, row, cell, count, len(codes))
        yield family, (digits(codes, width), sums.row, sums.cell, sums.count)


def _write_histograms(staged: Path, name: str, row: Row) -> None:
    codes, geounit, cell, count = row
    table = pa.table(
        {
            "geounit": pa.DictionaryArray.from_arrays(pa.array(geounit.astype(np.int32)), text(codes)),
            "cell": pa.array(cell.astype(np.int16)),
            "count": pa.array(count.astype(np.int32)),
        }
    )
    with release_file(staged, name) as draft:
        pq.write_table(table, draft, compression="zstd")


def _write_quarters(staged: Path, name: str, codes: Any, quarters: IntArray) -> None:
    columns = {kind: pa.array(quarters[:, at].astype(np.int32)) for at, kind in enumerate(QUARTERS)}
    with release_file(staged, name) as draft:
        pq.write_table(pa.table({"geounit": text(codes), **columns}), draft, compression="zstd")
