"""The stages "measure" and "release": noisy measurements, from which others can redo the estimate, and a release.

Measurements: a file for each level of a part of a hierarchy, a row for each geounit and query group
(docs/spec/files.md#topdown-release). They are drawn again here: the same numbers as in estimation.
A release: histograms with margins of error, invariants, microdata, report and manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from privacy.tables.histogram import cell_table, mask
from spine.geography import IntArray
from spine.redistricting import OCCUPIED, VACANT
from spine.top_down import Estimates
from spine.top_down.histogram import Histograms, from_entries
from spine.top_down.queries import query_group
from tasks.geography.public_regions import write_regions
from tasks.geography.regions import Region
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.staging import PIPES, open_staging, release_file, write_table, write_tables
from tasks.lifecycle.workers import Workers
from tasks.records.arrow import text
from tasks.top_down.areas import FOLDERS, areas, geocodes_of
from tasks.top_down.blocks import ROWS, BlockSource, geounits
from tasks.top_down.estimate.gls.margin_tables import write_margins
from tasks.top_down.estimate.topdown import load_estimates
from tasks.top_down.input.block_files import QUARTERS
from tasks.top_down.release.design_file import MEASUREMENTS, write_blocks, write_description, write_geounits
from tasks.top_down.release.manifest import describe_release
from tasks.top_down.release.measurement_files import BUREAU_FOLDER, write_measurement_files
from tasks.top_down.release.microdata import by_geocode, write_microdata
from tasks.top_down.release.tables import CELLS_FILE, COUNTS_FILE
from tasks.top_down.run_plan import SCHEMAS, US, ProductName, counts_of, law, variance
from tasks.top_down.source import Names, Source, StateAnswers

MOST_ANSWERS = 1 << 26  # that are held

S = TypeVar("S", bound=Source)
assert (VACANT, OCCUPIED) == (0, 1)


def write_measurements(run: S, workers: Workers, out: Path, write: Callable[[S, Workers, Path], None]) -> None:
    """Write the noisy measurements of a run into a staging folder that holds nothing else; nothing for a truth."""
    staged = open_staging(run, out, run.folder)
    if not is_truth(run):
        write(run, workers, staged)


def write_layout(run: BlockSource, workers: Workers, staged: Path) -> None:
    """Write the noisy measurements of every level, state by state, in the layout of the design."""
    if (layout := run.design.measurements) != "none":
        write = write_own_layout if layout == "parquet" else write_measurement_files
        write(run, workers, staged)


def write_own_layout(source: BlockSource, workers: Workers, staged: Path) -> None:
    """Write the folder `measurements/` into a staging folder."""
    workers.map("measure", source, write_level, [(*each, staged) for each in source.product_levels])
    workers.map("measure", source, write_blocks, [(state, staged) for state in source.validated.states])
    if source.origin is not None:  # its spine was read
        workers.map("measure", source, write_geounits, [(*pair, staged) for pair in source.product_states])
    write_description(source, staged)


def write_level(source: Source, product: str, state: str, level: str, staged: Path) -> None:
    """Write the measurements of a level of a part of a hierarchy."""
    measuring, (file, names) = source.answers(product, state), source.released(product, state, level)
    tables = _tables_of_answers(measuring, measuring.plan.spine.levels.index(level), names, source.answer_type)
    write_tables(staged, tables, f"{MEASUREMENTS}/{file}")


def _tables_of_answers(measuring: StateAnswers, level: int, named: Names, kind: Any) -> Iterator[pa.Table]:
    """Yield the rows of a level's geounits by query group, some at a time; a geounit with the share 0 has no row.

    kind: the answers' type.
    """
    plan, alphas = measuring.plan, measuring.plan.allocation.queries[measuring.plan.spine.levels[level]]
    widths = [query_group(plan.product, query).width for query in alphas]
    rows = max(1, min(ROWS, MOST_ANSWERS // sum(widths)))
    for first in range(0, len(plan.spine.starts[level]), rows):
        last = min(first + rows, len(plan.spine.starts[level]))
        shares = plan.spine.shares[level][first:last]
        measured = np.flatnonzero(shares)
        answers = measuring(level, first, last).answers
        at = slice(None) if len(measured) == last - first else measured
        values = np.concatenate([answers[query][at].ravel() for query in alphas], dtype=kind, casting="same_kind")
        ends = np.append(0, np.repeat(widths, len(measured)).cumsum()).astype(np.int32)
        distinct, share_of_row = np.unique(shares[measured], return_inverse=True)
        fractions = [Fraction(share, plan.spine.denominator) for share in distinct.tolist()]
        laws = [law(plan.allocation, share, alpha) for alpha in alphas.values() for share in fractions]
        exact, queries = [each.parameter for each in laws], np.repeat(np.arange(len(alphas)), len(measured))
        shares_of = np.tile(share_of_row, len(alphas))
        law_of = queries * len(fractions) + shares_of
        columns = {
            "query": _dictionary(queries, [*alphas], np.int8),
            "value": pa.ListArray.from_arrays(pa.array(ends), pa.array(values)),
            "share": _dictionary(shares_of, [str(share) for share in fractions], np.int8),
            "variance_numerator": _dictionary(law_of, [str(each.numerator) for each in exact], np.int16),
            "variance_denominator": _dictionary(law_of, [str(each.denominator) for each in exact], np.int16),
            "variance": pa.array(np.array([variance(each) for each in laws])[law_of] if laws else np.zeros(0)),
        }
        names = named(first, last, measured)
        yield pa.table({name: pa.concat_arrays([of_each] * len(alphas)) for name, of_each in names.items()} | columns)


def _dictionary(rows: IntArray, words: list[str], kind: Any) -> pa.DictionaryArray:
    """Return the words of rows, numbered in `words`, which may repeat. kind: the type of the numbers in a file."""
    distinct = {word: at for at, word in enumerate(dict.fromkeys(words))}
    numbers = np.array([distinct[word] for word in words], kind)
    return pa.DictionaryArray.from_arrays(pa.array(numbers[rows]), pa.array([*distinct], pa.string()))


def stage_release(run: S, workers: Workers, out: Path, write: Callable[[S, Workers, Path], None]) -> None:
    """Write the whole release of a run's estimates into its staging folder, next to the measurements."""
    write(run, workers, open_staging(run, out, run.folder, except_for=(MEASUREMENTS, BUREAU_FOLDER)))


def write_release(run: BlockSource, workers: Workers, staged: Path) -> None:
    """Write histograms, invariants, margins and microdata of estimates, then names, report and manifest."""
    products = run.design.products
    if run.validated.nation:
        workers.map("release", run, write_nation, [(product, staged) for product in products])
    workers.map("release", run, write_state, [(*pair, staged) for pair in run.product_states])

    def is_named(region: Region) -> bool:
        return region.type == "AIANNH" or region.id[:2] in run.validated.states

    write_regions(run, staged, is_named)
    for product in products:
        for file, table in cell_files(product, pl94=run.design.pl94).items():
            with release_file(staged, file) as draft:
                pa.csv.write_csv(table, draft, PIPES)
    describe_release(run, workers, staged)


def write_nation(run: BlockSource, product: ProductName, staged: Path) -> None:
    """Write the histogram of the nation, its margins and invariants."""
    _write_levels(run, product, US, staged)


def _write_levels(run: BlockSource, product: ProductName, state: str, staged: Path) -> Estimates:
    """Write the histograms, margins and invariants of the nation (US) or of a state; return those of the last level."""
    plan = run.plan(product, state)
    for number, codes in enumerate(run.codes(product, state)):
        level = plan.spine.levels[number]
        estimates, name = load_estimates(run, product, state, level), f"{product}/{level}/{state}.parquet"
        _write_histograms(staged, name, codes, estimates)
        write_margins(run, product, state, level, staged, name, codes, estimates)
        _write_quarters(staged, name, codes, plan.bounds.counts[number])
    return estimates


def write_state(run: BlockSource, product: ProductName, state: str, staged: Path) -> None:
    """Write the histograms, invariants, margins and microdata of a state."""
    estimates = _write_levels(run, product, state, staged)
    blocks = by_geocode(run, product, state, estimates)
    write_microdata(run, product, state, blocks, staged)
    design = run.design
    for family in areas(run.state(state).geography, design.settings[product], whole_state=design.pl94):
        area = family.of_block[blocks.row]
        inside = area >= 0
        entries = area[inside], blocks.cell[inside], blocks.count[inside]
        sums = from_entries(Estimates, 0, 0, *entries, len(family.codes))
        name, codes = f"{product}/{FOLDERS[family.name]}/{state}.parquet", geocodes_of(family)
        _write_histograms(staged, name, codes, sums)
        write_margins(run, product, state, family.name, staged, name, codes, sums)


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


def cell_files(product: ProductName, *, pl94: bool) -> dict[str, pa.Table]:
    """Return cells/PRODUCT.csv and PRODUCT-counts.csv by name; pl94: with the cells of the tables P1 to P5."""
    axes, counts = SCHEMAS[product].axes, counts_of(product, pl94)
    count, cell = np.nonzero([mask(axes, each.where) for each in counts])
    sums = {"count": [counts[at].name for at in count], "cell": cell}
    tables = ((CELLS_FILE, cell_table(axes)), (COUNTS_FILE, sums))
    return {file.format(product=product): pa.table(columns) for file, columns in tables}
