"""Read replicates: runs by somebody else on the same public truth, and keep their counts next to those of our own runs.

```
accuracy/counts/PRODUCT/SS/LEVEL/truth         (entities, columns) counts of the truth
accuracy/counts/PRODUCT/SS/LEVEL/ours-NUMBER   of our own runs
accuracy/counts/PRODUCT/SS/LEVEL/theirs-NUMBER of the replicates; NaN where they have none
```

A replicate is microdata (tasks/top_down/published/microdata/read_microdata.py), its counts by block and cell (`das tda
public --histograms`), or rows of a CSV of counts with the columns PRODUCT_TABLE, QUERY, GEO, ITERATION, COUNT.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from spine.geography import FloatArray, IntArray
from spine.redistricting import HOUSEHOLD
from spine.top_down import TrueHistograms
from spine.top_down.histogram import Histograms, from_entries
from tasks.inputs.block_codes import find_blocks, short_codes
from tasks.inputs.files import is_passed_over, open_file, why
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import complete, read_object, remove, save_object
from tasks.lifecycle.workers import Workers
from tasks.top_down.accuracy.errors import WIDTHS, entities
from tasks.top_down.estimate.topdown import load_estimates
from tasks.top_down.input.histograms import BLOCKS
from tasks.top_down.published.microdata.make_inputs import COUNTS, ENTRIES
from tasks.top_down.published.microdata.read_microdata import CELLS as CELLS_OF
from tasks.top_down.published.microdata.read_microdata import VACANT, read_microdata
from tasks.top_down.published.moved_blocks import into_universe
from tasks.top_down.published.source import LARGEST_NATION
from tasks.top_down.release.microdata import by_geocode
from tasks.top_down.run_plan import SCHEMAS, ProductName
from tasks.top_down.source import TopDownRun, load_histograms

TRUTH, OURS, THEIRS = "truth", "ours-{:04d}", "theirs-{:04d}"
NUMBER = re.compile(r"(\d{1,4})(?:\.[A-Za-z]+)*$")
COUNTS_FILE: dict[str, type | str] = {
    "PRODUCT_TABLE": str,
    "QUERY": str,
    "GEO": str,
    "ITERATION": "int64",
    "COUNT": "int64",
}
CELLS: dict[str, tuple[ProductName, int]] = {  # the table cells that are columns of the error report
    cell: (product, column)
    for product, schema in SCHEMAS.items()
    for column, count in enumerate(schema.estimated)
    for cell in schema.cells_like(count)
}


def find_replicates(folder: Path) -> dict[int, list[str]]:
    """Return the files and folders of each replicate, by the number that their names end in.

    Raises Refused where there are none.
    """
    found: dict[int, list[str]] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if not is_passed_over(path.name) and (number := NUMBER.search(path.name)):
            found.setdefault(int(number[1]), []).append(str(path))
    if not found:
        raise Refused(
            f"{folder} has no replicates: folders or files whose names end in a number, as ppmf7 or ppmf_7.csv"
        )
    return found


def keep_runs(run: TopDownRun, workers: Workers, number: int) -> None:
    """Keep the counts of one of our runs, in every state."""
    workers.map("keep counts", run, keep_ours, [(*pair, number) for pair in run.product_states])


def keep_truth(run: TopDownRun, product: ProductName, state: str) -> None:
    """Keep the counts of the truth."""
    _keep(run, product, state, TRUTH, load_histograms(run.counts_folder(product, state, BLOCKS), TrueHistograms))


def keep_ours(run: TopDownRun, product: ProductName, state: str, number: int) -> None:
    """Keep the counts of a run whose blocks are estimated."""
    released = by_geocode(run, product, state, load_estimates(run, product, state, "Block"))
    _keep(run, product, state, OURS.format(number), released)


def _keep(run: TopDownRun, product: ProductName, state: str, name: str, histograms: Histograms) -> None:
    counts = histograms.sums(SCHEMAS[product].matrix(SCHEMAS[product].estimated))
    for found in entities(run, product, state):
        save_object(_folder(run, product, state, found.level) / name, found.sums(counts).astype(float))


def _folder(run: TopDownRun, product: str, state: str, level: str) -> Path:
    return run / f"accuracy/counts/{product}/{state}/{level}"


def load_counts(run: TopDownRun, product: str, state: str, level: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return counts of the truth, (entities, columns), and of our runs and replicates, (runs, entities, columns)."""
    folder = _folder(run, product, state, level)

    def runs(whose: str) -> FloatArray:
        return np.stack([read_object(path, FloatArray) for path in complete(folder) if path.name.startswith(whose)])

    return read_object(folder / TRUTH, FloatArray), runs("ours"), runs("theirs")


def read_replicates(run: TopDownRun, workers: Workers, source: Path) -> tuple[int, ...]:
    """Keep the counts of every replicate of a folder or CSV of counts; return their numbers.

    Replicate 0 is the truth, and is compared with it.

    Raises Refused where there are fewer than two, one cannot be read, lacks the run's states or has blocks of another
    universe, or 0 is not the truth.
    """
    workers.map("keep counts", run, keep_truth, run.product_states)
    if source.is_dir():
        found = find_replicates(source)
        workers.map("replicates", run, read_replicate, list(found.items()))
        numbers = sorted(found)
    else:
        numbers = _read_counts(run, source)
    if 0 in numbers:
        _check_truth(run)
    if len(numbers := [number for number in numbers if number]) < 2:
        raise Refused(f"{source} has {len(numbers)} replicates besides the truth: two are needed")
    return tuple(numbers)


def read_replicate(run: TopDownRun, number: int, sources: Sequence[str]) -> None:
    """Keep the counts of one replicate."""
    try:
        _read_replicate(run, number, sources)
    except Refused as refused:
        raise Refused(f"replicate {number}: {refused}") from None


def _read_replicate(run: TopDownRun, number: int, sources: Sequence[str]) -> None:
    folder = Path(sources[0])
    converted = len(sources) == 1 and all((folder / name).is_file() for name in COUNTS.values())
    scratch = run / f"accuracy/replicate-{number}"
    microdata = None if converted else read_microdata(sources, scratch, [int(s) for s in run.validated.states])
    for product, state in run.product_states:
        block, cell, count = (
            _read_converted(folder / COUNTS[product], product, int(state))
            if microdata is None
            else microdata.counts(product, int(state))
        )
        blocks = run.state(state)
        if not len(block):
            raise Refused(f"it has no {product} in state {state}")
        if product == "units":  # without the facilities
            block, count = block[cell <= VACANT], count[cell <= VACANT]
            cell = 1 - cell[cell <= VACANT]  # vacant is the first cell of H1, occupied the second
        codes = short_codes(blocks.geography.geocode)
        block = into_universe(block, codes)
        row, there = find_blocks(codes, block)
        if len(other := np.unique(block[~there])):
            raise Refused(f"{len(other)} of its blocks are not in the truth, the first {other[0]:015d}")
        declared = blocks.totals[int(state)] if product == "persons" else int(blocks.quarters[:, HOUSEHOLD].sum())
        if (held := int(count.sum())) != declared:
            raise Refused(
                f"it has {held:,} {product} in state {state}, and the truth {declared:,}, which no run changes: is a "
                "file there twice, or of another truth?"
            )
        histograms = from_entries(TrueHistograms, -1, 0, row, cell, count, len(codes))
        _keep(run, product, state, THEIRS.format(number), histograms)
    remove(scratch)


def _read_converted(path: Path, product: ProductName, state: int) -> tuple[IntArray, IntArray, IntArray]:
    """Read a state's counts of `das tda public --histograms`."""
    damaged = Refused(f"{path} cannot be read: it is damaged, or not of das tda public --histograms")
    try:
        if pq.read_schema(path) != ENTRIES:
            raise damaged
        table = pq.read_table(path, filters=[("block", ">=", state * 10**13), ("block", "<", (state + 1) * 10**13)])
    except (OSError, pa.ArrowException):
        raise damaged from None
    if any(column.null_count for column in table.columns):
        raise damaged
    block, cell, count = (table[name].to_numpy().astype(np.int64) for name in ENTRIES.names)
    if (cell < 0).any() or (cell >= CELLS_OF[product]).any() or (count < 0).any():
        raise damaged
    return block, cell, count


def _read_counts(run: TopDownRun, source: Path) -> list[int]:
    """Keep the counts of a CSV of counts; return the numbers of its replicates."""
    try:
        with open_file(str(source), compression="infer") as stream:
            table = pd.read_csv(stream, dtype=COUNTS_FILE, usecols=lambda name: name.partition(".")[0] in COUNTS_FILE)
            if sorted(table.columns) != sorted(COUNTS_FILE):  # pandas numbers what is there twice
                raise ValueError
    except (OSError, ValueError, OverflowError) as error:
        of_table = f"it needs the columns {', '.join(COUNTS_FILE)} once each, the last two of whole numbers"
        raise Refused(f"{source} cannot be read: {why(error) if isinstance(error, OSError) else of_table}") from None
    table = table[table["QUERY"].isin(list(CELLS))].drop_duplicates()
    if (wrong := ~table["ITERATION"].between(0, 9999)).any():
        raise Refused(f"{source}: ITERATION {table.loc[wrong, 'ITERATION'].iloc[0]} is not 0 to 9999")
    if (wrong := ~table["COUNT"].between(0, LARGEST_NATION)).any():
        raise Refused(f"{source}: COUNT {table.loc[wrong, 'COUNT'].iloc[0]} is not 0 to {LARGEST_NATION:,}")
    if (wrong := table.duplicated(["QUERY", "GEO", "ITERATION"])).any():
        query, geo, number = table.loc[wrong, ["QUERY", "GEO", "ITERATION"]].iloc[0]
        raise Refused(f"{source}: {query} of {geo} is there with two counts in iteration {number}")
    table["GEO"] = table["GEO"].fillna("").str.rpartition("US")[2]
    numbers = sorted(set(table["ITERATION"].tolist()))
    common, found_in = 0, dict.fromkeys(numbers, 0)
    for product, state in run.product_states:
        columns = {cell: column for cell, (of, column) in CELLS.items() if of == product}
        mine, width = table.assign(column=table["QUERY"].map(columns)), len(SCHEMAS[product].estimated)
        for found in entities(run, product, state):
            row = {code: at for at, code in enumerate(found.names())} if found.level in WIDTHS else {}
            rows = mine.assign(row=mine["GEO"].map(row)).dropna(subset=["row", "column"])
            in_all = np.ones((len(found.codes), width), bool)
            for number in numbers:
                counts = np.full((len(found.codes), width), np.nan)
                own = rows[rows["ITERATION"] == number]
                counts[own["row"].astype(int), own["column"].astype(int)] = own["COUNT"]
                save_object(_folder(run, product, state, found.level) / THEIRS.format(number), counts)
                found_in[number] += len(own)
                in_all &= ~np.isnan(counts)
            common += int(in_all.sum())
    states = ", ".join(run.validated.states)
    if strange := [number for number, counts in found_in.items() if not counts]:
        raise Refused(f"{source}: iteration {strange[0]} has no count of an area in state {states}")
    if not common:
        raise Refused(f"{source}: no count of an area in state {states} is in every iteration")
    return numbers


def _check_truth(run: TopDownRun) -> None:
    """Compare replicate 0 with the truth, and take it away."""
    for product, state in run.product_states:
        for found in entities(run, product, state):
            folder = _folder(run, product, state, found.level)
            truth, zero = (read_object(folder / name, FloatArray) for name in (TRUTH, THEIRS.format(0)))
            if not np.array_equal(np.where(np.isnan(zero), truth, zero), truth):
                raise Refused(f"replicate 0 is not the truth: counts of {product} differ in state {state}")
            remove(folder / THEIRS.format(0))
