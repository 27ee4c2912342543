"""Write the noisy measurements of a release, from which others can redo the estimate.

A file for each level of a part of a hierarchy, a row for each geounit and query group
(docs/spec/files.md#topdown-release). They are drawn again here: the same numbers as in estimation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from spine.geography import IntArray
from spine.top_down.queries import query_group
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.staging import open_staging, write_tables
from tasks.lifecycle.workers import Workers
from tasks.top_down.blocks import ROWS, BlockSource
from tasks.top_down.release.design_file import MEASUREMENTS, write_blocks, write_description, write_geounits
from tasks.top_down.release.measurement_files import write_measurement_files
from tasks.top_down.run_plan import law, variance
from tasks.top_down.source import Names, Source, StateAnswers

MOST_ANSWERS = 1 << 26  # that are held

S = TypeVar("S", bound=Source)


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
    plan = measuring.plan
    width = sum(query_group(plan.product, query).width for query in plan.allocation.queries[plan.spine.levels[level]])
    rows = max(1, min(ROWS, MOST_ANSWERS // width))
    for first in range(0, len(plan.spine.starts[level]), rows):
        last = min(first + rows, len(plan.spine.starts[level]))
        shares = plan.spine.shares[level][first:last]
        measured = np.flatnonzero(shares)
        answers = measuring(level, first, last).answers
        distinct, law_of_row = np.unique(shares[measured], return_inverse=True)
        fractions = [Fraction(share, plan.spine.denominator) for share in distinct.tolist()]
        names, tables = named(first, last, measured), []
        for query, alpha in plan.allocation.queries[plan.spine.levels[level]].items():
            values: IntArray = answers[query][measured].astype(kind)
            ends = np.arange(len(measured) + 1, dtype=np.int32) * values.shape[1]
            laws = [law(plan.allocation, share, alpha) for share in fractions]
            exact = [each.parameter for each in laws]
            columns = {
                "query": _dictionary(np.zeros(len(measured), np.int8), [query]),
                "value": pa.ListArray.from_arrays(pa.array(ends), pa.array(values.ravel())),
                "share": _dictionary(law_of_row.astype(np.int8), [str(share) for share in fractions]),
                "variance_numerator": _dictionary(law_of_row.astype(np.int16), [str(each.numerator) for each in exact]),
                "variance_denominator": _dictionary(
                    law_of_row.astype(np.int16), [str(each.denominator) for each in exact]
                ),
                "variance": pa.array(np.array([variance(each) for each in laws])[law_of_row] if laws else np.zeros(0)),
            }
            tables.append(pa.table(names | columns))
        yield pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _dictionary(rows: Any, words: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(rows), pa.array(words, pa.string()))
