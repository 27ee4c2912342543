"""Whether published measurements are those of their own design: every answer there once, whole, and of its law."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute

from spine.geography import IntArray
from spine.noise import parameter
from spine.top_down import query_group
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import load_object
from tasks.lifecycle.manifest import parse_exact
from tasks.top_down.input.geography import spine_digest
from tasks.top_down.measure.published import MARK, UNREADABLE, Published, numbers, opened, published
from tasks.top_down.run import TopDownRun
from tasks.top_down.run_plan import US, ProductName

STATED = ("query", "share", "variance_numerator", "variance_denominator")  # what a row says of its answer


def check_published(run: TopDownRun) -> None:
    """Refuse measurements of another spine than the one that their geography and settings give."""
    folder, digest = load_object(run / MARK)
    if spine_digest(run) != digest:
        raise Refused(f"{folder}: the blocks and settings give another spine than the one that was measured")


def measured_levels(run: TopDownRun) -> list[tuple[ProductName, str, str]]:
    """The files of noisy answers that there must be: product, state (or US) and level."""
    design, validated = run.design, run.validated
    found: list[tuple[ProductName, str, str]] = []
    for product in design.products:
        found += [(product, state, level) for state in validated.states for level in run.spine(product, state).levels]
        found += [(product, US, US)] * validated.nation
    return found


def check_file(run: TopDownRun, product: ProductName, state: str, level: str) -> None:
    """Refuse a file that lacks an answer of a geounit that was measured, or has one of another law."""
    given = published(run, product, state)
    number = given.plan.spine.levels.index(level)
    path, asked = given.path(number), list(given.plan.allocation.queries[level])
    measured = given.plan.spine.shares[number] > 0
    there = np.zeros((len(asked), len(measured)), np.int64)
    try:
        for query, geounit in _answers(given, number):
            np.add.at(there[asked.index(query)], geounit, 1)
    except FileNotFoundError:
        raise Refused(f"{path} is not there") from None
    except UNREADABLE as error:
        raise Refused(f"{path}: no measurements of a TopDown release ({type(error).__name__})") from None
    if (there != measured).any():
        row, column = (int(index[0]) for index in np.nonzero(there != measured))
        which = f"{asked[row]} of geounit {given.codes[number][column].as_py() or US}"
        raise Refused(f"{path}: {there[row, column]} answers to {which}, not {int(measured[column])}")


def _answers(given: Published, level: int) -> Iterator[tuple[str, IntArray]]:
    """The geounits that a file answers for, query group by query group, once their answers were looked at."""
    plan, path = given.plan, given.path(level)
    asked = plan.allocation.queries[plan.spine.levels[level]]
    file, _ = opened(path, given.codes[level])
    value = file.schema_arrow.field("value").type
    if not (pa.types.is_list(value) or pa.types.is_large_list(value)) or not pa.types.is_integer(value.value_type):
        raise Refused(f"{path}: the column value holds {value}, not lists of whole numbers")
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=["geounit", "value", *STATED])
        geounit, answers = numbers(table["geounit"], given.codes[level]), table["value"].combine_chunks()
        if answers.null_count or answers.flatten().null_count:
            raise Refused(f"{path}: an answer is missing in the column value")
        shares, width = plan.spine.shares[level][geounit], np.asarray(pa.compute.list_value_length(answers))
        for (query, *of), rows in _kinds(table):
            if query not in asked:
                raise Refused(f"{path}: answers to {query}, which is not asked in this level")
            share, numerator, denominator = map(parse_exact, of)
            stated = share * plan.spine.denominator
            if not stated or stated.denominator != 1 or (shares[rows] != stated.numerator).any():
                raise Refused(f"{path}: answers to {query} with another share than the spine gives")
            if numerator / denominator != parameter(plan.allocation, share, asked[query]):
                raise Refused(f"{path}: answers to {query} with another variance than their share gives")
            if (width[rows] != query_group(plan.product, query).width).any():
                raise Refused(f"{path}: answers to {query} of another length than it has coordinates")
            yield query, geounit[rows]


def _kinds(table: pa.Table) -> Iterator[tuple[list[str], IntArray]]:
    """What rows say of their answers, each kind once with the rows that say it."""
    columns = [table[name].cast(pa.string()).combine_chunks().dictionary_encode() for name in STATED]
    if any(column.null_count for column in columns):
        raise ValueError("a row that does not say what it answers")
    kinds: list[list[str]] = [[]]
    kind = np.zeros(len(table), np.int64)
    for column in columns:
        words = column.dictionary.to_pylist()
        kind = kind * len(words) + column.indices.to_numpy()
        kinds = [[*before, word] for before in kinds for word in words]
    for each in np.unique(kind).tolist():
        yield kinds[each], np.flatnonzero(kind == each)
