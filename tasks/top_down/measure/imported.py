"""Measurements that were imported from the Census Bureau's files into das-flows' own layout: their spine is read.

Beside what measurements of das-flows have, `design.json` holds `widths` (digits of each level's geocodes, by product)
and `source`; `geounits/PRODUCT/SS.parquet` has the blocks of a spine in its order: number in the geography, geocode.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from spine.geography import IntArray
from spine.hierarchy import common_denominator
from tasks.inputs.arrow import text
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import load_object, save_arrays
from tasks.lifecycle.manifest import parse_exact
from tasks.lifecycle.received import path_in
from tasks.lifecycle.staging import write_table
from tasks.lifecycle.workers import Workers
from tasks.top_down.input.geography import build_spines, codes_folder, codes_of, save_spine
from tasks.top_down.measure.description import FOLDER, UNREADABLE
from tasks.top_down.published.nmf.geounits import digits_above, spine_of
from tasks.top_down.published.nmf.inventory import LEVELS
from tasks.top_down.run import TopDownRun
from tasks.top_down.run_plan import ProductName

GEOUNITS = "geounits"
IMPORTED = "prepared/imported"  # of a run on imported measurements: their folder, and the widths


def write_geounits(run: TopDownRun, product: ProductName, state: str, staged: Path) -> None:
    """Write the blocks of a spine."""
    order, codes = run.spine(product, state).order, codes_of(run, product, state)[-1]
    table = pa.table({"block": pa.array(order.astype(np.int32)), "geocode": text(codes)})
    write_table(staged, f"{FOLDER}/{GEOUNITS}/{product}/{state}.parquet", table)


def make_spines(run: TopDownRun, workers: Workers) -> None:
    """Make the spines of a run on published measurements: read those that were imported, else build them."""
    if (run / IMPORTED).exists():
        workers.map("spine", run, read_spine, run.product_states)
    else:
        build_spines(run, workers)


def read_spine(run: TopDownRun, product: ProductName, state: str) -> None:
    """Save the spine of a state with the shares that its measurements have."""
    folder, all_widths = load_object(run / IMPORTED)
    widths, path = all_widths[product], path_in(folder, f"{GEOUNITS}/{product}/{state}.parquet")
    try:
        table = pq.read_table(path, columns=["block", "geocode"])
        number, blocks = table["block"].to_numpy(), np.array(table["geocode"].to_pylist(), f"S{widths[-1]}")
        if not np.array_equal(np.sort(number), np.arange(len(run.state(state).geography))):
            raise ValueError("not every block once")
        codes = tuple(digits_above(blocks.view(np.uint8).reshape(len(blocks), -1), width) for width in widths)
        _, denominator = common_denominator(list(run.design.allocations[product].levels.values()))
        shares = tuple(
            _shares(path_in(folder, f"{product}/{level}/{state}.parquet"), text(digits), denominator)
            for level, digits in zip(LEVELS, codes, strict=True)
        )
    except UNREADABLE as error:
        raise Refused(f"{path}: no geounits of imported measurements ({type(error).__name__})") from None
    save_arrays(codes_folder(run, product, state), {str(level): digits for level, digits in enumerate(codes)})
    save_spine(run, product, state, replace(spine_of(codes, number), shares=shares, denominator=denominator))


def _shares(path: Path, codes: pa.Array, denominator: int) -> IntArray:
    """Return the numerators of the shares of a level's geounits; 0 for one that was not measured."""
    table = pq.read_table(path, columns=["geounit", "share"])
    place = pa.compute.index_in(table["geounit"].cast(pa.large_string()), value_set=codes)
    share = table["share"].cast(pa.string()).combine_chunks().dictionary_encode()
    words = [parse_exact(str(word)) * denominator for word in share.dictionary.to_pylist()]
    if any(word.denominator != 1 for word in words):
        raise ValueError("a share that is none of the design")
    found = np.zeros(len(codes), np.int64)
    found[place.to_numpy()] = np.array([word.numerator for word in words], np.int64)[share.indices.to_numpy()]
    return found
