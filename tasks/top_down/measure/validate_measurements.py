"""Validate published measurements against their own design: every answer there once, complete, and of its law."""

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
from tasks.lifecycle.workers import Workers
from tasks.top_down.input.geography import spine_digest
from tasks.top_down.measure.description import UNREADABLE
from tasks.top_down.measure.published import (
    PUBLISHED,
    PublishedAnswers,
    geounit_numbers,
    open_answers,
    published_answers,
)
from tasks.top_down.run import TopDownRun
from tasks.top_down.run_plan import US, ProductName

LAW = ("query", "share", "variance_numerator", "variance_denominator")  # columns that name the law of an answer


def validate_measurements(run: TopDownRun, workers: Workers) -> None:
    """Refuse measurements of another spine than their geography and settings give, and files with faults."""
    folder, digest = load_object(run / PUBLISHED)
    if spine_digest(run) != digest:
        raise Refused(f"{folder}: the blocks and settings give another spine than the one that was measured")
    files = [(*pair, level) for pair in run.product_states for level in run.spine(*pair).levels]
    files += [(product, US, US) for product in run.design.products] * run.validated.nation
    workers.map("read measurements", run, validate_file, files)


def validate_file(run: TopDownRun, product: ProductName, state: str, level: str) -> None:
    """Refuse a file that lacks an answer of a geounit that was measured, or has one of another law."""
    published = published_answers(run, product, state)
    number = published.plan.spine.levels.index(level)
    path, queries = published.path(number), list(published.plan.allocation.queries[level])
    expected = published.plan.spine.shares[number] > 0
    answered = np.zeros((len(queries), len(expected)), np.int64)
    try:
        for query, geounit in _answers(published, number):
            np.add.at(answered[queries.index(query)], geounit, 1)
    except FileNotFoundError:
        raise Refused(f"{path} is not there") from None
    except UNREADABLE as error:
        raise Refused(f"{path}: no measurements of a TopDown release ({type(error).__name__})") from None
    if (answered != expected).any():
        row, column = (int(index[0]) for index in np.nonzero(answered != expected))
        which = f"{queries[row]} of geounit {published.codes[number][column].as_py() or US}"
        raise Refused(f"{path}: {answered[row, column]} answers to {which}, not {int(expected[column])}")


def _answers(published: PublishedAnswers, level: int) -> Iterator[tuple[str, IntArray]]:
    """Validate the answers in a file; yield each query group with the geounits it covers."""
    plan, path = published.plan, published.path(level)
    alphas = plan.allocation.queries[plan.spine.levels[level]]
    file, _ = open_answers(path, published.codes[level])
    value = file.schema_arrow.field("value").type
    if not (pa.types.is_list(value) or pa.types.is_large_list(value)) or not pa.types.is_integer(value.value_type):
        raise Refused(f"{path}: the column value holds {value}, not lists of whole numbers")
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=["geounit", "value", *LAW])
        geounit, answers = geounit_numbers(table["geounit"], published.codes[level]), table["value"].combine_chunks()
        if answers.null_count or answers.flatten().null_count:
            raise Refused(f"{path}: an answer is missing in the column value")
        shares, width = plan.spine.shares[level][geounit], np.asarray(pa.compute.list_value_length(answers))
        for (query, *numbers), rows in _by_law(table):
            if query not in alphas:
                raise Refused(f"{path}: answers to {query}, which is not asked in this level")
            share, numerator, denominator = map(parse_exact, numbers)
            stated = share * plan.spine.denominator
            if not stated or stated.denominator != 1 or (shares[rows] != stated.numerator).any():
                raise Refused(f"{path}: answers to {query} with another share than the spine gives")
            if numerator / denominator != parameter(plan.allocation, share, alphas[query]):
                raise Refused(f"{path}: answers to {query} with another variance than their share gives")
            if (width[rows] != query_group(plan.product, query).width).any():
                raise Refused(f"{path}: answers to {query} of another length than it has coordinates")
            yield query, geounit[rows]


def _by_law(table: pa.Table) -> Iterator[tuple[list[str], IntArray]]:
    """Yield each combination of the columns LAW once, with its rows."""
    columns = [table[name].cast(pa.string()).combine_chunks().dictionary_encode() for name in LAW]
    if any(column.null_count for column in columns):
        raise ValueError("a row without its query or law")
    laws: list[list[str]] = [[]]
    law = np.zeros(len(table), np.int64)
    for column in columns:
        words = column.dictionary.to_pylist()
        law = law * len(words) + column.indices.to_numpy()
        laws = [[*before, word] for before in laws for word in words]
    for number in np.unique(law).tolist():
        yield laws[number], np.flatnonzero(law == number)
