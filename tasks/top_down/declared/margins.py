"""Write the unbiased estimates of every sum that a declaration's query groups ask, with their standard errors.

Made of noisy answers and declared figures alone, so they cost no budget. They follow from the information that was
passed up for an estimate, from the top down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spine.geography import FloatArray, IntArray
from spine.gls.columns import query_errors
from spine.gls.grid import Blue, grid, to_cells
from spine.top_down.queries import QueryGroup, group_sums, query_group
from tasks.lifecycle.staging import write_tables
from tasks.top_down.declared.description import MARGINS
from tasks.top_down.estimate.gls.margin_tables import PLACES
from tasks.top_down.estimate.gls.pass_up import load_information
from tasks.top_down.estimate.topdown import load_estimates

if TYPE_CHECKING:
    from spine.top_down import Estimates, Plan
    from tasks.top_down.source import Source, StateAnswers

Named = Callable[[str, IntArray], dict[str, pa.Array]]  # of a level and its geounits: the columns that name them


def write_margins(source: Source, staged: Path, named: Named) -> None:
    """Write a row for each geounit and sum that its level's query groups ask, if a record may be in it."""
    ((product, state),) = source.product_states
    answers = source.answers(product, state)
    plan = answers.plan
    above: Blue | None = None
    for level in plan.spine.levels:
        parts: list[Blue] = []

        def tables(level: str = level, above: Blue | None = above, parts: list[Blue] = parts) -> Iterator[pa.Table]:
            for found in _blues(source, answers, level, above):
                released = load_estimates(source, product, state, level, found.first, found.first + len(found))
                parts += [] if plan.is_leaf(found.level) else [found]
                yield _table(plan, level, found, released, named)

        write_tables(staged, tables(), f"{MARGINS}/{level}.parquet")
        if parts:
            x, variance = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "variance"))
            above = Blue(parts[0].level, 0, x, variance)


def _blues(source: Source, answers: StateAnswers, level: str, above: Blue | None) -> Iterator[Blue]:
    """Yield the estimates of the geounits of a level, some at a time; above: those of the level above."""
    plan, ((product, state),) = answers.plan, source.product_states
    from spine.gls.blue import blue_level  # imports numba
    from spine.gls.upward import measured

    if above is None:
        yield blue_level(plan, load_information(source, product, state, level, 0, len(plan.spine.starts[0])))
        return
    number = above.level + 1
    for batch in plan.batches(above.level, 0, len(above)):
        children = plan.children_of(above.level, *batch)
        if plan.is_leaf(number):
            information = measured(plan, answers, number, *children)
        else:
            information = load_information(source, product, state, level, *children)
        yield blue_level(plan, information, above.only(*batch))


def _table(plan: Plan, level: str, found: Blue, released: Estimates, named: Named) -> pa.Table:
    """Return the rows of some geounits of a level."""
    geounits, tables = np.arange(found.first, found.first + len(found)), []
    if plan.closed_form:  # the second of two cells is estimated, and their sum declared
        x = found.x.reshape(-1)
        cells = np.stack([plan.bounds.number(found.level)[geounits] - x, x], axis=1)
    else:
        cells = to_cells(found.x, grid(plan))
    for query in plan.allocation.queries[level]:
        group = query_group(plan.product, query)
        part = np.flatnonzero(np.bincount(group.coordinate, plan.product.possible, group.width))
        counts = group_sums(group, len(found), released.row, released.cell, released.count)
        if plan.closed_form:
            errors = np.sqrt(found.variance.reshape(-1, 1)) * np.full(group.width, group.width > 1)
        else:
            errors = query_errors(grid(plan), query, found.variance)
        columns = {
            "query": pa.array(np.full(len(found) * len(part), query)).dictionary_encode(),
            "part": pa.array(np.tile(part, len(found))),
            "released": pa.array(counts[:, part].ravel()),
            "estimate": pa.array(np.round(_sums(group, cells)[:, part], PLACES).ravel() + 0.0),
            "standard_error": pa.array(np.round(errors[:, part], PLACES).ravel()),
        }
        tables.append(pa.table(named(level, np.repeat(geounits, len(part))) | columns))
    return pa.concat_tables(tables).unify_dictionaries()


def _sums(group: QueryGroup, cells: FloatArray) -> FloatArray:
    sums = np.zeros((group.width, len(cells)))
    np.add.at(sums, group.coordinate, cells.T)
    return sums.T
