"""Write the noisy measurements of a release in the layout in which the Census Bureau published its own.

Programs made for the Bureau's files read them (docs/spec/files.md#the-bureaus-noisy-measurement-files). A folder has
one part file, or none where no geounit has an answer. Rows are sorted by geocode; a geounit's are in the order of its
queries. The answers are those of the folder `measurements/`: noise has an address, and is the same wherever it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spine.geography import FloatArray, IntArray
from spine.redistricting import HOUSEHOLD
from spine.top_down.histogram import Product
from spine.top_down.queries import DETAILED
from tasks.lifecycle.staging import release_file
from tasks.lifecycle.workers import Workers
from tasks.records.arrow import text
from tasks.top_down.blocks import ROWS, BlockSource
from tasks.top_down.release.nmf_layout import (
    CONSTRAINTS,
    FOOTER,
    LEVELS,
    LOWER,
    NO_MINORS,
    ORDER,
    QUERIES,
    TOTAL,
    UNITS_OF_BOUND,
    UPPER,
    Footer,
    as_codes,
    data_set_name,
    shapes,
    written_order,
)
from tasks.top_down.run_plan import US, law, variance
from tasks.top_down.source import Branch, BranchAnswers

BUREAU_FOLDER = "nmf"
PART = "part-00000.snappy.parquet"
CONSTRAINT_COLUMNS = {  # sign and axes of persons; units are summed over their axis
    LOWER: (">=", ("hhgq", "*", "*", "*")),
    UPPER: ("<=", ("hhgq", "*", "*", "*")),
    NO_MINORS: ("=", ("gqNursingTotal", "nonvoting", "*", "*")),
    TOTAL: ("=", ("*", "*", "*", "*")),
}


class QueryColumns(NamedTuple):
    """The columns that are the same in all rows of a query. axes: a word for each, * where it is summed over."""

    query_name: str
    axes: tuple[str, ...]
    query_shape: tuple[int, ...]
    sign: str


class Batch(NamedTuple):
    """Rows of some geounits: digits of their geocodes; the values of all queries side by side; the noise by query."""

    codes: NDArray[np.uint8]
    values: IntArray
    variance: FloatArray
    plb: FloatArray


def answer_rows(axes: Sequence[str], queries: Sequence[QueryColumns], batch: Batch, numbers: pa.DataType) -> pa.Table:
    """Return a row for each geounit and query; numbers: the type in its lists. Answers have no column of signs."""
    rows = len(batch.codes)
    query_of, geounit = np.tile(np.arange(len(queries)), rows), pa.array(np.repeat(np.arange(rows), len(queries)))
    widths = [prod(query.query_shape) for query in queries]
    ends = pa.array(np.concatenate([[0], np.cumsum(np.tile(widths, rows))]).astype(np.int32))

    def of_query(values: list[Any], kind: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, kind or pa.string()).take(pa.array(query_of))

    columns = {
        "geocode": text(batch.codes).cast(pa.string()).take(geounit),
        "query_name": of_query([query.query_name for query in queries]),
        "sign": of_query([query.sign for query in queries]),
        **{axis: of_query([query.axes[at] for query in queries]) for at, axis in enumerate(axes)},
        "query_shape": of_query([list(query.query_shape) for query in queries], pa.list_(numbers)),
        "value": pa.ListArray.from_arrays(ends, pa.array(batch.values.ravel()).cast(numbers)),
        "variance": pa.array(batch.variance.ravel(), pa.float32()),
        "plb": pa.array(batch.plb.ravel()),
    }
    if not any(query.sign for query in queries):
        del columns["sign"]
    return pa.table(columns)


@dataclass(frozen=True)
class Geounits:
    """The geounits of a level in one folder, in the order of their geocodes. rows: their numbers in the spine."""

    source: BlockSource
    product: str
    level: str
    measuring: BranchAnswers
    codes: NDArray[np.uint8]
    rows: IntArray

    @property
    def number(self) -> int:
        """Return the number of the level."""
        return self.measuring.plan.spine.levels.index(self.level)

    @property
    def axes(self) -> tuple[str, ...]:
        """Return the axes of the product's histogram."""
        return tuple(axis.name for axis in self.measuring.plan.product.axes)

    def take(self, at: IntArray) -> Geounits:
        """Return some of the geounits."""
        return replace(self, codes=self.codes[at], rows=self.rows[at])


def write_measurement_files(source: BlockSource, workers: Workers, staged: Path) -> None:
    """Write every level of every product and state into a staging folder."""
    workers.map("measure", source, write_folders, [(branch, level, staged) for branch, level in source.branch_levels])


def write_folders(source: BlockSource, branch: Branch, level: str, staged: Path) -> None:
    """Write the answers and the declared numbers of a level of a state and its AIAN part, or of the US."""
    measuring = source.answers(branch)
    number = measuring.plan.spine.levels.index(level)
    codes = source.codes(branch)[number]
    place = staged / BUREAU_FOLDER / data_set_name(source.design.jurisdiction, branch.product) / f"{level}.parquet"
    for below, rows in _folders(codes, branch.name).items():
        rank = np.argsort(as_codes(codes[rows]))
        geounits = Geounits(source, branch.product, level, measuring, codes[rows[rank]], rows[rank])
        _write_answers(geounits, staged, place / "DPQuery" / below)
        order = {ORDER: written_order(rank)} if level == LEVELS[-1] else {}
        _write_declared(geounits, order, staged, place / "Constraint" / below)


def _folders(codes: NDArray[np.uint8], state: str) -> dict[str, IntArray]:
    """Return the numbers of a level's geounits by the folder of their part of the state."""
    if state == US:
        return {"": np.arange(1)}
    flags = np.unique(codes[:, 0]).tolist()
    return {f"State={chr(flag)}{state}": np.flatnonzero(codes[:, 0] == flag) for flag in flags}


def _write_answers(geounits: Geounits, staged: Path, folder: Path) -> None:
    """Write the answers of the geounits that have any."""
    plan, product = geounits.measuring.plan, geounits.product
    measured = np.flatnonzero(plan.spine.shares[geounits.number][geounits.rows])
    if not len(measured):
        folder.mkdir(parents=True, exist_ok=True)
        return
    names = [name for name in QUERIES[product] if name in plan.allocation.queries[geounits.level]]
    shape_of, schema = shapes(product), geounits.measuring.plan.product
    queries = [
        QueryColumns(name.replace("*", " * ") + "_dpq", _words(schema, name), shape_of[name], sign="") for name in names
    ]
    batches = _answers(geounits.take(measured), names)
    tables = (answer_rows(geounits.axes, queries, batch, pa.int32()) for batch in batches)
    _write(tables, _footer(geounits.source), staged, folder)


def _words(schema: Product, query: str) -> tuple[str, ...]:
    """Return what the column of each axis holds in the rows of a query."""
    asked = schema.asked(query)
    return tuple(DETAILED if query == DETAILED else asked.get(axis.name, "*") for axis in schema.axes)


def _answers(geounits: Geounits, queries: list[str]) -> Iterator[Batch]:
    """Yield the noisy answers of geounits, some at a time."""
    plan, level = geounits.measuring.plan, geounits.number
    alphas = plan.allocation.queries[geounits.level]
    for begin in range(0, len(geounits.rows), ROWS):
        batch = geounits.take(np.arange(begin, min(begin + ROWS, len(geounits.rows))))
        first, last = int(batch.rows.min()), int(batch.rows.max()) + 1  # only siblings change places: few lie between
        found = geounits.measuring(level, first, last).answers
        distinct, at = np.unique(plan.spine.shares[level][batch.rows], return_inverse=True)
        shares = [Fraction(share, plan.spine.denominator) for share in distinct.tolist()]
        laws = [[law(plan.allocation, share, alphas[query]) for query in queries] for share in shares]
        yield Batch(
            batch.codes,
            np.hstack([found[query][batch.rows - first] for query in queries]),
            np.array([[variance(each) for each in row] for row in laws])[at],
            np.array([[float(1 / each.parameter) for each in row] for row in laws])[at],
        )


def _write_declared(geounits: Geounits, order: dict[str, str], staged: Path, folder: Path) -> None:
    """Write the declared figures of geounits: bounds by their living quarters, and totals."""
    declared, product, jurisdiction = (
        geounits.measuring.plan.bounds,
        geounits.product,
        geounits.source.design.jurisdiction,
    )
    quarters = declared.counts[geounits.number][geounits.rows]
    facilities, total = quarters.copy(), quarters[:, [HOUSEHOLD]]
    facilities[:, HOUSEHOLD] = 0
    names = list(CONSTRAINTS[product])
    if product == "persons":  # the root's population is declared, not that of the states' parts
        total = np.full((len(quarters), 1), declared.lowest_totals.values.sum())
        if geounits.level != (US if jurisdiction == "us" else LEVELS[0]):
            names.remove(TOTAL)
    values = {LOWER: facilities, UPPER: UNITS_OF_BOUND * quarters, NO_MINORS: 0 * total, TOTAL: total}
    axes = geounits.axes
    queries = [
        QueryColumns(f"{name}_con", words[-len(axes) :], (values[name].shape[1], *[1] * (len(axes) - 1)), sign)
        for name in names
        for sign, words in [CONSTRAINT_COLUMNS[name]]
    ]
    footer = _footer(geounits.source) | order
    no_noise = np.zeros((len(quarters), len(names)))
    batch = Batch(geounits.codes, np.hstack([values[name] for name in names]), no_noise, no_noise)
    _write(iter([answer_rows(axes, queries, batch, pa.int64())]), footer, staged, folder)


def _write(tables: Iterator[pa.Table], footer: dict[str, str], staged: Path, folder: Path) -> None:
    """Write the part file of a folder, of one table at least."""
    first = next(tables)
    with (
        release_file(staged, str((folder / PART).relative_to(staged))) as draft,
        pq.ParquetWriter(draft, first.schema, compression="snappy", store_schema=False) as writer,
    ):
        for table in chain([first], tables):
            writer.write_table(table)
        writer.add_key_value_metadata(footer)


def _footer(source: BlockSource) -> dict[str, str]:
    """Return what the footer of every file says about the run: as public as its manifest."""
    states, declared = source.validated.states, source.state(source.validated.states[0]).totals
    totals = {int(state): declared[int(state)] for state in states}
    return {FOOTER: Footer(source.id, source.validated.mark, totals).written()}
