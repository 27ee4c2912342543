"""Stream the rows of a part file and validate each; valid rows are yielded, invalid ones become faults."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spine.geography import BoolArray, FloatArray, IntArray
from tasks.top_down.published.nmf.inventory import DHC, Faults, PartFile
from tasks.top_down.release.nmf_layout import Codes

LEAST, MOST = 1e-20, 1e20  # variances of noise; beyond these, noise is negligible or hides everything
BATCH = 1 << 13  # rows read at once: some 2 million numbers
_DHC_WORDS = re.compile("relgq|relship|sex|age_|pl94|popSehsd")


class Rows(NamedTuple):
    """Valid rows: geocode, number of the query, values as lists, variance and plb (NaN if the file lacks it)."""

    code: Codes
    query: IntArray
    values: Any
    variance: FloatArray
    plb: FloatArray


def read_rows(part: PartFile, shapes: Mapping[str, tuple[int, ...]], faults: Faults) -> Iterator[Rows]:
    """Yield the valid rows of a part file, batch by batch.

    shapes: by query, without blanks and without `_dpq` or `_con`, the shape of its values in C order.
    """
    noisy = part.kind == "DPQuery"
    more = ["query_shape", "variance", *(["plb"] if "plb" in part.columns else [])] if noisy else []
    more += ["State"] if "State" in part.columns else []
    try:
        with pq.ParquetFile(part.path, read_dictionary=["geocode", "query_name"]) as file:
            columns = ["geocode", "query_name", "value", *more]
            for group in range(file.num_row_groups):  # separately: a reader keeps what it has read
                for batch in file.iter_batches(BATCH, row_groups=[group], columns=columns, use_threads=False):
                    batch.validate(full=True)  # the decoder checks neither UTF-8 nor dictionaries
                    yield _sound(batch, part, shapes, faults)
    except (pa.ArrowException, OSError, MemoryError) as error:
        faults.add(part.name, f"cannot be read ({type(error).__name__})")


def _sound(batch: pa.RecordBatch, part: PartFile, shapes: Mapping[str, tuple[int, ...]], faults: Faults) -> Rows:
    codes, at = _labels(batch["geocode"])
    queries, asked = _labels(batch["query_name"])
    code, bad = codes[at], np.zeros(len(at), bool)

    def drop(rule: str, wrong: BoolArray) -> None:
        faults.add(part.name, rule, code[wrong & ~bad].tolist())
        np.logical_or(bad, wrong, out=bad)

    drop("a row without a geocode", at == len(codes) - 1)
    drop("a geocode that is not digits", ~(np.char.isdigit(codes) | (codes == b""))[at])
    drop("a geocode with another state than its folder", ~np.char.startswith(codes, part.state.encode())[at])
    if "State" in part.columns:
        own = pc.cast(batch["State"], pa.string()).fill_null("").to_pylist()
        drop(
            "a column State with another state than its folder", np.array([s.zfill(3) != part.state for s in own], bool)
        )
    suffix = "_dpq" if part.kind == "DPQuery" else "_con"
    numbers = {f"{name}{suffix}": number for number, name in enumerate(shapes)}
    names = [query.decode("utf-8", "replace").replace(" ", "") for query in queries]
    query = np.array([numbers.get(name, -1) for name in names], np.int64)[asked]
    for name in sorted({names[n] for n in np.unique(asked[query < 0]).tolist()}):
        what = f"the query {name[:60]!r} is unknown" + (f"; {DHC}" if _DHC_WORDS.search(name) else "")
        drop(what, np.array([known == name for known in names])[asked])
    values = batch["value"]
    flat, missing = values.flatten(), pc.is_null(values).to_numpy(zero_copy_only=False)
    missing[pc.list_parent_indices(values).filter(pc.is_null(flat)).to_numpy()] = True
    drop("a value that is missing", missing)
    widths = np.array([prod(shape) for shape in shapes.values()] or [0], np.int64)
    lengths = pc.fill_null(pc.list_value_length(values), -1).to_numpy(zero_copy_only=False)
    drop("a value of another length than its query", lengths != widths[query])
    variance = plb = np.full(len(at), np.nan)
    if part.kind == "DPQuery":
        drop("the query_shape of another query", ~_shaped(batch["query_shape"], query, list(shapes.values()), bad))
        variance = _floats(batch["variance"])
        drop("a variance that is missing, not a number or not positive", ~((variance > 0) & np.isfinite(variance)))
        drop(f"a variance that is not {LEAST:g} to {MOST:g}", ~((variance >= LEAST) & (variance <= MOST)))
        plb = _floats(batch["plb"]) if "plb" in part.columns else plb
    keep = ~bad
    return Rows(code[keep], query[keep], values.filter(pa.array(keep)), variance[keep], plb[keep])


def _labels(column: pa.Array) -> tuple[Codes, IntArray]:
    """Return the distinct values of a text column, plus one for null, and each row's place among them."""
    column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = [value.encode() if isinstance(value, str) else value or b"" for value in column.dictionary.to_pylist()]
    null = column.indices.fill_null(len(values)).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.array([*values, b""], np.bytes_), null


def _floats(column: Any) -> FloatArray:
    """Return numbers as floats, NaN for null."""
    numbers: FloatArray = pc.fill_null(pc.cast(column, pa.float64()), float("nan")).to_numpy(zero_copy_only=False)
    return numbers


def _shaped(column: Any, query: IntArray, shapes: list[tuple[int, ...]], bad: BoolArray) -> BoolArray:
    """Return whether each row has the shape of its query; unchecked where `bad`."""
    good = bad.copy()
    dimensions = len(shapes[0])
    length = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(~bad & (length == dimensions))
    found = _floats(column.take(pa.array(rows)).flatten()).reshape(-1, dimensions)
    good[rows] = (found == np.array(shapes, float)[query[rows]]).all(axis=1)
    return good
