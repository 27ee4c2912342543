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
from tasks.top_down.source import Branch, BranchAnswers, Names, Source

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
    workers.map("measure", source, write_level, [(branch, level, staged) for branch, level in source.branch_levels])
    workers.map("measure", source, write_blocks, [(state, staged) for state in source.validated.states])
    if source.origin is not None:  # its spine was read
        workers.map("measure", source, write_geounits, [(branch, staged) for branch in source.branches])
    write_description(source, staged)


def write_level(source: Source, branch: Branch, level: str, staged: Path) -> None:
    """Write the measurements of a level of a part of a hierarchy."""
    measuring, (file, names) = source.answers(branch), source.released(branch, level)
    tables = _tables_of_answers(measuring, measuring.plan.spine.levels.index(level), names, source.answer_type)
    write_tables(staged, tables, f"{MEASUREMENTS}/{file}")


def _tables_of_answers(measuring: BranchAnswers, level: int, named: Names, kind: Any) -> Iterator[pa.Table]:
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
