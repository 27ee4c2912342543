"""The noisy measurements as they are released: what others need to redo the estimate.

One file per product, level and state; one row per geounit and query group (docs/spec/files.md#topdown-release).
They are drawn again here: the same numbers that estimation draws.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privacy.noise.laws import Law
from spine.geography import IntArray
from tasks.inputs.arrow import text
from tasks.lifecycle.staging import clear_staging, release_file
from tasks.lifecycle.workers import Workers
from tasks.top_down.input.geography import ROWS, codes_of
from tasks.top_down.measure.description import FOLDER, write_blocks, write_description
from tasks.top_down.measure.measuring import Measuring, open_measuring
from tasks.top_down.measure.published import PublishedAnswers
from tasks.top_down.run import TopDownRun
from tasks.top_down.run_plan import US, ProductName, law

SCHEMA = pa.schema(
    [
        ("geounit", pa.dictionary(pa.int32(), pa.large_string())),
        ("query", pa.dictionary(pa.int8(), pa.string())),
        ("value", pa.list_(pa.int32())),
        ("share", pa.dictionary(pa.int8(), pa.string())),
        ("variance_numerator", pa.dictionary(pa.int16(), pa.string())),
        ("variance_denominator", pa.dictionary(pa.int16(), pa.string())),
        ("variance", pa.float64()),
    ]
)


def write_measurements(run: TopDownRun, workers: Workers, out: Path, folder: str, staged: Path) -> None:
    """Write the noisy measurements of every level, state by state, into a staging folder that holds nothing else."""
    design, validated = run.design, run.validated
    clear_staging(run, out, folder)
    if not design.measurements:
        return
    pieces: list[tuple[ProductName, str, str, Path]] = []
    for product in design.products:
        levels = run.spine(product, validated.states[0]).levels
        pieces += [(product, state, level, staged) for state in validated.states for level in levels]
        pieces += [(product, US, US, staged)] * validated.nation
    pieces.sort(key=lambda piece: (piece[2] != "Block", piece[0]))  # the longest first
    workers.map("measure", run, write_level, pieces)
    workers.map("measure", run, write_blocks, [(state, staged) for state in validated.states])
    write_description(run, staged)


def write_level(run: TopDownRun, product: ProductName, state: str, level: str, staged: Path) -> None:
    """Write the measurements of a level of a state."""
    name = f"{FOLDER}/{product}/{level}/{state}.parquet"
    measuring = open_measuring(run, product, state)
    spine = measuring.plan.spine
    number = spine.levels.index(level)
    codes = np.zeros((1, 0), np.uint8) if state == US else codes_of(run, product, state)[number]
    with release_file(staged, name) as draft, pq.ParquetWriter(draft, SCHEMA, compression="zstd") as writer:
        for first in range(0, len(spine.starts[number]), ROWS):
            last = min(first + ROWS, len(spine.starts[number]))
            writer.write_table(_table(measuring, number, first, last, codes[first:last]))


def _table(measuring: Measuring | PublishedAnswers, level: int, first: int, last: int, codes: Any) -> pa.Table:
    """The rows of geounits first ... last - 1, query group by query group; none for a geounit with the share 0."""
    plan = measuring.plan
    shares = plan.spine.shares[level][first:last]
    measured = np.flatnonzero(shares)
    geounits, name = text(codes), plan.spine.levels[level]
    answers = measuring(level, first, last).answers
    tables = []
    for query, alpha in plan.allocation.queries[name].items():
        values: IntArray = answers[query][measured].astype(np.int32)
        offsets = np.arange(len(measured) + 1, dtype=np.int32) * values.shape[1]
        distinct, kind = np.unique(shares[measured], return_inverse=True)
        fractions = [Fraction(share, plan.spine.denominator) for share in distinct.tolist()]
        laws = [law(plan.allocation, share, alpha) for share in fractions]
        exact = [_variance(each) for each in laws]
        tables.append(
            pa.table(
                [
                    pa.DictionaryArray.from_arrays(pa.array(measured.astype(np.int32)), geounits),
                    _repeated(np.zeros(len(measured), np.int8), [query]),
                    pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.ravel())),
                    _repeated(kind.astype(np.int8), [str(share) for share in fractions]),
                    _repeated(kind.astype(np.int16), [numerator for numerator, _ in exact]),
                    _repeated(kind.astype(np.int16), [denominator for _, denominator in exact]),
                    pa.array(np.array([variance(each) for each in laws])[kind] if len(laws) else np.zeros(0)),
                ],
                schema=SCHEMA,
            )
        )
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _repeated(kind: Any, words: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(kind), pa.array(words, pa.string()))


def _variance(noise: Law) -> tuple[str, str]:
    """The exact parameter as numerator and denominator: sigma^2 of a discrete Gaussian, else the scale b."""
    exact = noise.parameter
    return str(exact.numerator), str(exact.denominator)


@lru_cache(maxsize=512)
def variance(noise: Law) -> float:
    """The variance of a law, kept: a level has few."""
    return noise.variance()
