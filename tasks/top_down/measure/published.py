"""Read and validate published noisy measurements as input to an estimate. Needs no secret, no records and no budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from spine.geography import Geography, IntArray
from spine.noise import parameter
from spine.top_down import NoisyAnswers, query_group
from tasks.inputs.arrow import text
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import load_object, save_object, stamp
from tasks.lifecycle.manifest import parse_exact
from tasks.lifecycle.received import NotOfRelease, path_in
from tasks.lifecycle.workers import Workers
from tasks.top_down.input.geography import codes_of, plan_of, spine_digest
from tasks.top_down.measure.description import (
    FOLDER,
    GEOGRAPHY,
    SETTINGS_FILE,
    UNREADABLE,
    read_blocks,
    read_description,
)
from tasks.top_down.measure.imported import IMPORTED
from tasks.top_down.published.nmf.answers import TOO_FAR, is_far, is_from_files, largest_count
from tasks.top_down.published.nmf.read_files import SOURCE
from tasks.top_down.run import Blocks, TopDownRun, save_blocks
from tasks.top_down.run_plan import US, ProductName, law, variance

if TYPE_CHECKING:
    from spine.top_down import Plan

LAW = ("query", "share", "variance_numerator", "variance_denominator")  # columns that name the law of an answer
PUBLISHED = "prepared/published"  # of a run on published measurements: their folder, and the digest of their spine


def open_published(run: TopDownRun, folder: Path, changes: Mapping[str, Any], only: Sequence[str] = ()) -> str:
    """Prepare a run's directory for an estimate of published measurements; return the id of the run that made them.

    changes: fields of the design to replace, such as the estimator. only: states to be estimated by themselves, without
    the US level, if any are named.

    Raises
    ------
    Refused
        where the folder is none of such measurements.
    """
    try:
        if not (folder / SETTINGS_FILE).exists() and is_own_release(folder):
            folder = path_in(folder, f"{FOLDER}/{SETTINGS_FILE}").parent
        description = read_description(folder)
        digest: str | None = description.spine_digest
        if only:
            digest = digest if set(only) == set(description.validated.states) else None  # it is of all spines together
            alone = replace(description.validated, states=tuple(only), nation=False)
            description = replace(description, validated=alone)
        parts = [read_blocks(folder, state) for state in description.validated.states]
    except NotOfRelease as fault:
        raise Refused(f"{folder}: {fault}; give the folder measurements/ of a TopDown release") from None
    except UNREADABLE as error:
        raise Refused(
            f"{folder}: no measurements of a TopDown release ({type(error).__name__} in {SETTINGS_FILE})"
        ) from None
    totals, states = description.totals, description.validated.states
    if not parts or any(
        totals.get(int(state), -1) < quarters[:, 1:].sum() for state, (_, quarters) in zip(states, parts, strict=True)
    ):
        raise Refused(
            f"{folder / SETTINGS_FILE}: no state, or a state without a declared total of a person in each facility"
        )
    geography, quarters = zip(*parts, strict=True)
    save_object(run / "prepared/design", replace(description.design, measurements="none", **changes))
    save_blocks(run, Blocks(_joined(geography), np.concatenate(quarters), totals))
    save_object(run / PUBLISHED, (folder.resolve(), digest))
    if description.widths:
        save_object(run / IMPORTED, (folder.resolve(), description.widths))
        save_object(run / SOURCE, description.source)
    save_object(run / "prepared/validated", description.validated)
    return description.run


def is_own_release(folder: Path) -> bool:
    """Return whether a folder has measurements in das-flows' own layout, as a release has."""
    return (folder / FOLDER / SETTINGS_FILE).exists()


def _joined(parts: Sequence[Geography]) -> Geography:
    names = [name for name in GEOGRAPHY if getattr(parts[0], name) is not None]
    return Geography(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def is_published(run: TopDownRun) -> bool:
    """Return whether a run estimates from published measurements."""
    return (run / PUBLISHED).exists() or is_from_files(run)


@dataclass(frozen=True)
class PublishedAnswers:
    """The published measurements of a state, or (US) of the nation: what `Measuring` would answer, read from files.

    codes: of the geounits, by level. parts: of the nation, its states, whose parts are the second level.
    """

    folder: Path
    product: ProductName
    state: str
    plan: Plan
    codes: tuple[pa.Array, ...]
    parts: tuple[PublishedAnswers, ...] = ()

    def path(self, level: int) -> Path:
        """Return the file of a level. Raises NotOfRelease."""
        return path_in(self.folder, f"{self.product}/{self.plan.spine.levels[level]}/{self.state}.parquet")

    def __call__(self, level: int, first: int, last: int) -> NoisyAnswers:
        """Read the noisy answers of the geounits first ... last - 1 of a level; rows with the share 0 are void."""
        queries = self.plan.allocation.queries[self.plan.spine.levels[level]]
        if self.parts and level:
            of_parts = [part(0, 0, len(part.codes[0])).answers for part in self.parts]
            joined = {query: np.concatenate([answers[query] for answers in of_parts]) for query in queries}
            return NoisyAnswers(first, last, {query: values[first:last] for query, values in joined.items()})
        answers = {
            query: np.zeros((last - first, query_group(self.plan.product, query).width), np.int64) for query in queries
        }
        file, bounds = open_answers(self.path(level), self.codes[level])
        for group in np.flatnonzero((bounds[:, 0] < last) & (bounds[:, 1] >= first)).tolist():
            table = file.read_row_group(group, columns=["geounit", "query", "value"])
            geounit = geounit_numbers(table["geounit"], self.codes[level])
            query_of_row = table["query"].cast(pa.string()).to_numpy()
            inside = (geounit >= first) & (geounit < last)
            for query, values in answers.items():
                rows = np.flatnonzero(inside & (query_of_row == query))
                found = table["value"].combine_chunks().take(pa.array(rows))
                values[geounit[rows] - first] = found.flatten().to_numpy().reshape(-1, values.shape[1])
        return NoisyAnswers(first, last, answers)


_OPEN: dict[Path, tuple[tuple[int, int], pq.ParquetFile, IntArray]] = {}  # of this process; a run has few files


def open_answers(path: Path, codes: pa.Array) -> tuple[pq.ParquetFile, IntArray]:
    """Open a file of noisy answers; also return the first and last geounit of each row group. Cached."""
    now = stamp(path)
    if path not in _OPEN or _OPEN[path][0] != now:
        file, bounds = pq.ParquetFile(path), []
        for group in range(file.num_row_groups):
            rows = geounit_numbers(file.read_row_group(group, columns=["geounit"])["geounit"], codes)
            bounds.append((rows.min(initial=len(codes)), rows.max(initial=-1)))
        _OPEN[path] = now, file, np.array(bounds, np.int64).reshape(-1, 2)
    return _OPEN[path][1:]


def geounit_numbers(geounit: pa.ChunkedArray, codes: pa.Array) -> IntArray:
    """Return the number of each geounit in the spine's order. Raises ValueError for one that is not on the spine."""
    found = pa.compute.index_in(geounit.cast(pa.large_string()), value_set=codes)
    if found.null_count:
        raise ValueError("a geounit that is not on the spine")
    rows: IntArray = found.to_numpy().astype(np.int64)
    return rows


def published_answers(run: TopDownRun, product: ProductName, state: str) -> PublishedAnswers:
    """Return the measurements of a state or of the nation that a release of das-flows has."""
    folder, _ = load_object(run / PUBLISHED)
    plan = plan_of(run, product, state)
    if state != US:
        return PublishedAnswers(folder, product, state, plan, tuple(map(text, codes_of(run, product, state))))
    parts = tuple(published_answers(run, product, name) for name in run.validated.states)
    return PublishedAnswers(folder, product, state, plan, (text(np.zeros((1, 0), np.uint8)),), parts)


def validate_measurements(run: TopDownRun, workers: Workers) -> None:
    """Refuse measurements of another spine than their geography and settings give, and files with faults."""
    folder, digest = load_object(run / PUBLISHED)
    if digest is not None and spine_digest(run) != digest:
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
        for query, geounit in _answers(published, number, largest_count(run, product, state)):
            np.add.at(answered[queries.index(query)], geounit, 1)
    except UNREADABLE as error:
        raise Refused(f"{path}: no measurements of a TopDown release ({type(error).__name__})") from None
    if (answered != expected).any():
        row, column = (int(index[0]) for index in np.nonzero(answered != expected))
        which = f"{queries[row]} of geounit {published.codes[number][column].as_py() or US}"
        raise Refused(f"{path}: {answered[row, column]} answers to {which}, not {int(expected[column])}")


def _answers(published: PublishedAnswers, level: int, most: int) -> Iterator[tuple[str, IntArray]]:
    """Validate the answers in a file; yield each query group with the geounits it covers. most: what a count can be."""
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
            taken = answers.take(pa.array(rows)).flatten().to_numpy().reshape(len(rows), -1)
            far = is_far(taken, variance(law(plan.allocation, share, alphas[query])), most)
            if far.any():
                code = published.codes[level][int(geounit[rows][far.argmax()])].as_py() or US
                raise Refused(f"{path}: answers to {query} with {TOO_FAR.format(most)}: geounit {code}")
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
