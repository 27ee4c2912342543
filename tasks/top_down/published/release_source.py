"""The measurements of a das-flows release as a source: read `measurements/`, and validate every answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isclose
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from privacy.noise.exact import parse_exact
from spine.geography import IntArray
from spine.hierarchy import common_denominator
from spine.top_down import Bounds, Plan, query_group
from tasks.errors import Refused
from tasks.lifecycle.files import load_object, save_arrays, save_object
from tasks.lifecycle.run_directory import VALIDATED
from tasks.lifecycle.workers import Workers
from tasks.records.arrow import text
from tasks.releases.received import path_in
from tasks.top_down.blocks import Blocks, BlockSource
from tasks.top_down.published.nmf.geounits import digits_above, spine_of
from tasks.top_down.published.source import (
    LARGEST_NATION,
    ORIGIN,
    TOO_FAR,
    Changes,
    PublishedSource,
    Read,
    is_far,
    new_answers,
    put_answers,
    read_level,
)
from tasks.top_down.release.design_file import (
    GEOUNITS_FOLDER,
    SETTINGS_FILE,
    UNREADABLE,
    DesignFile,
    read_blocks,
    reading,
)
from tasks.top_down.run_plan import US, ProductName, law, variance
from tasks.top_down.source import PLANNED, Names
from tasks.top_down.spines import build_spines, save_spine

JOIN = "\x1f"  # separates the codes of a geounit that has several
LAW = (
    "query",
    "share",
    "variance_numerator",
    "variance_denominator",
    "variance",
)  # columns that name the law of an answer
RELEASE = "prepared/release"  # the folder of the measurements


@dataclass(frozen=True)
class ReleaseSource(PublishedSource):
    """The measurements of a release of das-flows."""

    def fill(self, product: str, state: str, level: str, folder: Path) -> Read:
        """Map and validate the answers of a level (`read_answers`)."""
        plan, (file, names) = self.plan(product, state), self.released(product, state, level)
        number, columns = plan.spine.levels.index(level), self.columns(plan, level)
        path = path_in(load_object(self / RELEASE, Path), file)
        new_answers(folder, len(plan.spine.starts[number]), columns.values())
        for query, geounit, answers in read_answers(plan, number, path, names):
            put_answers(folder, geounit, columns[query], answers, path)
        return [], None


@dataclass(frozen=True)
class BlockRelease(BlockSource, ReleaseSource):
    """The measurements of a release of the redistricting data."""


def read_into(
    source: BlockRelease, workers: Workers, described: DesignFile, changes: Changes, only: Sequence[str]
) -> None:
    """Read the measurements of a release into a directory: blocks, spines, then the validated answers.

    only: states to estimate separately, without the US level; empty for all. Raises Refused for faults.
    """
    digest = save_description(source, described, changes, only)
    if widths := described.widths:
        workers.map("spine", source, read_spine, [(*pair, widths[pair[0]]) for pair in source.product_states])
    else:
        build_spines(source, workers)
    if digest is not None and source.spine_digest() != digest:
        raise Refused(f"{described.folder}: the blocks and settings do not give the measured spine")
    workers.map("read answers", source, read_level, source.product_levels)


def save_description(source: BlockRelease, described: DesignFile, changes: Changes, only: Sequence[str]) -> str | None:
    """Save design and blocks; return the digest of the measured spines, if all of them are made."""
    folder, totals, validated = described.folder, described.totals, described.validated
    digest: str | None = described.spine_digest
    if only:
        digest = digest if set(only) == set(validated.states) else None  # it covers all spines together
        validated = replace(validated, states=tuple(only), nation=False)
    with reading(folder):
        parts = {state: read_blocks(folder, state) for state in validated.states}
    if not parts or any(totals.get(int(state), -1) < quarters[:, 1:].sum() for state, (_, quarters) in parts.items()):
        raise Refused(
            f"{folder / SETTINGS_FILE}: a state without a declared total of at least its facilities, or no state"
        )
    for state, (geography, quarters) in parts.items():
        save_object(source / f"prepared/blocks/{state}", Blocks(geography, quarters, totals))
    save_object(source / PLANNED, replace(described.design, measurements="none", **changes))
    save_object(source / RELEASE, folder.resolve())
    save_object(source / ORIGIN, described.origin)
    save_object(source / VALIDATED, validated)
    return digest


def read_spine(source: BlockRelease, product: ProductName, state: str, widths: tuple[int, ...]) -> None:
    """Save the spine of imported measurements, which is read from them, with its shares.

    widths: digits of geocodes by level.
    """
    folder = load_object(source / RELEASE, Path)
    path = path_in(folder, f"{GEOUNITS_FOLDER}/{product}/{state}.parquet")
    allocation = source.design.allocations[product]
    try:
        table = pq.read_table(path, columns=["block", "geocode"])
        number, blocks = table["block"].to_numpy(), np.array(table["geocode"].to_pylist(), f"S{widths[-1]}")
        if not np.array_equal(np.sort(number), np.arange(len(source.state(state).geography))):
            raise ValueError("blocks that are missing or repeated")
        codes = tuple(digits_above(blocks.view(np.uint8).reshape(len(blocks), -1), width) for width in widths)
        bare = spine_of(codes, number)
        _, denominator = common_denominator(list(allocation.levels.values()))
        shares = tuple(
            _shares(path_in(folder, f"{product}/{level}/{state}.parquet"), text(digits), denominator)
            for level, digits in zip(bare.levels, codes, strict=True)
        )
    except UNREADABLE as error:
        raise Refused(f"{path}: not the geounits of imported measurements ({type(error).__name__})") from None
    save_arrays(source.codes_folder(product, state), {str(level): digits for level, digits in enumerate(codes)})
    save_spine(source, product, state, replace(bare, shares=shares, denominator=denominator))


def _shares(path: Path, codes: pa.Array, denominator: int) -> IntArray:
    """Return the numerators of the shares of a level's geounits; 0 for unmeasured ones."""
    table = pq.read_table(path, columns=["geounit", "share"])
    place = pa.compute.index_in(table["geounit"].cast(pa.large_string()), value_set=codes)
    share = table["share"].cast(pa.string()).combine_chunks().dictionary_encode()
    words = [parse_exact(str(word)) * denominator for word in share.dictionary.to_pylist()]
    if any(word.denominator != 1 for word in words):
        raise ValueError("a share outside the design")
    found = np.zeros(len(codes), np.int64)
    found[place.to_numpy()] = np.array([word.numerator for word in words], np.int64)[share.indices.to_numpy()]
    return found


def read_answers(plan: Plan, level: int, path: Path, names: Names) -> Iterator[tuple[str, IntArray, IntArray]]:
    """Validate the answers in a file; yield each query group with geounits, by number, and their (geounits, n) answers.

    Raises Refused for another file, for a missing or repeated answer, for an answer with another law than its geounit's
    share gives, and for an answer that noise cannot explain.
    """
    queries, expected = [*plan.allocation.queries[plan.spine.levels[level]]], plan.spine.shares[level] > 0
    own = names(0, len(expected), np.arange(len(expected)))
    codes = joined_codes([*own.values()], len(expected))
    answered = np.zeros((len(queries), len(expected)), np.int64)
    try:
        for query, geounit, answers in _answers(plan, level, path, [*own], codes):
            np.add.at(answered[queries.index(query)], geounit, 1)
            yield query, geounit, answers
    except UNREADABLE as error:
        raise Refused(f"{path}: not the measurements of a TopDown release ({type(error).__name__})") from None
    if (answered != expected).any():
        row, column = (int(index[0]) for index in np.nonzero(answered != expected))
        which = f"{queries[row]} of geounit {codes[column].as_py() or US}"
        raise Refused(f"{path}: {answered[row, column]} answers to {which}, not {int(expected[column])}")


def joined_codes(codes: Sequence[pa.Array], number: int) -> pa.Array:
    """Return the joined codes of geounits; a single top geounit may have no codes."""
    texts = [each.cast(pa.large_string()) for each in codes]
    if not texts:
        return pa.array([""] * number, pa.large_string())
    return pa.compute.binary_join_element_wise(*texts, pa.scalar(JOIN, pa.large_string()))


def _largest_count(bounds: Bounds) -> int:
    """Return the largest possible count below a root: the declared number of all records, if there is one."""
    if bounds.fixed:
        return int(bounds.number(0).sum())
    totals = bounds.totals[0]
    return LARGEST_NATION if totals is None else int(totals.values.sum())


def read_addresses(
    plan: Plan, level: int, path: Path, names: Names
) -> Iterator[tuple[str, IntArray, IntArray, IntArray]]:
    """Validate the answers of a wide table that were read; yield query, geounits, coordinates and answers, all (n,).

    Raises Refused as `read_answers` does; a wide table has any answers, each at most once.
    """
    own = names(0, len(plan.spine.starts[level]), np.arange(len(plan.spine.starts[level])))
    codes, queries = joined_codes([*own.values()], len(plan.spine.starts[level])), plan.allocation.queries
    number = {query: at for at, query in enumerate(queries[plan.spine.levels[level]])}
    addresses = [np.zeros(0, np.int64)]
    try:
        file = pq.ParquetFile(path)
        for query, geounit, table, rows in _lawful(plan, level, path, file, [*own], codes, ["coordinate", "value"]):
            picked, width = table.take(pa.array(rows)), query_group(plan.product, query).width
            columns = [picked[name] for name in ("coordinate", "value")]
            if any(each.null_count or not pa.types.is_integer(each.type) for each in columns):
                raise Refused(f"{path}: an answer is missing, or no whole number")
            coordinate, value = (each.to_numpy().astype(np.int64) for each in columns)
            if len(rows) and not 0 <= coordinate.min() <= coordinate.max() < width:
                raise Refused(f"{path}: answers to {query} beyond its coordinates")
            _refuse_far(plan, level, path, query, geounit, value[:, None], codes)
            addresses.append((geounit * len(number) + number[query]) * plan.product.cells + coordinate)
            yield query, geounit, coordinate, value
    except UNREADABLE as error:
        raise Refused(f"{path}: not the measurements of a TopDown release ({type(error).__name__})") from None
    every = np.sort(np.concatenate(addresses))
    if (every[1:] == every[:-1]).any():
        raise Refused(f"{path}: a coordinate has two answers")


def _answers(
    plan: Plan, level: int, path: Path, named: Sequence[str], codes: pa.Array
) -> Iterator[tuple[str, IntArray, IntArray]]:
    """Validate the answers in a file; yield each query group with the geounits that it covers, and their answers."""
    file = pq.ParquetFile(path)
    value = file.schema_arrow.field("value").type
    if not (pa.types.is_list(value) or pa.types.is_large_list(value)) or not pa.types.is_integer(value.value_type):
        raise Refused(f"{path}: the column value holds {value}, not lists of whole numbers")
    for query, geounit, table, rows in _lawful(plan, level, path, file, named, codes, ["value"]):
        answers = table["value"].combine_chunks().take(pa.array(rows))
        if answers.null_count or answers.flatten().null_count:
            raise Refused(f"{path}: an answer is missing in the column value")
        if (np.asarray(pa.compute.list_value_length(answers)) != query_group(plan.product, query).width).any():
            raise Refused(f"{path}: answers to {query} of another length than it has coordinates")
        taken = answers.flatten().to_numpy().reshape(len(rows), -1)
        _refuse_far(plan, level, path, query, geounit, taken, codes)
        yield query, geounit, taken


def _lawful(
    plan: Plan,
    level: int,
    path: Path,
    file: pq.ParquetFile,
    named: Sequence[str],
    codes: pa.Array,
    columns: Sequence[str],
) -> Iterator[tuple[str, IntArray, pa.Table, IntArray]]:
    """Yield query, geounits, and the rows of a table with their answers; refuse a law that is not of their share."""
    alphas = plan.allocation.queries[plan.spine.levels[level]]
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=[*named, *LAW, *columns])
        place = pa.compute.index_in(joined_codes([table[name] for name in named], len(table)), codes)
        if place.null_count:
            raise ValueError("an unknown geounit")
        geounit = place.to_numpy().astype(np.int64)
        shares = plan.spine.shares[level][geounit]
        for (query, *numbers), rows in _by_law(table):
            if query not in alphas:
                raise Refused(f"{path}: answers to {query}, which this level does not ask")
            (share, numerator, denominator), stated_variance = map(parse_exact, numbers[:3]), float(numbers[3])
            stated = share * plan.spine.denominator
            if not stated or stated.denominator != 1 or (shares[rows] != stated.numerator).any():
                raise Refused(f"{path}: answers to {query} with another share than the spine gives")
            own = law(plan.allocation, share, alphas[query])
            if numerator / denominator != own.parameter or not isclose(stated_variance, variance(own)):
                raise Refused(f"{path}: answers to {query} with another variance than their share gives")
            yield query, geounit[rows], table, rows


def _refuse_far(
    plan: Plan, level: int, path: Path, query: str, geounit: IntArray, answers: IntArray, codes: pa.Array
) -> None:
    """Refuse (geounits, n) answers, of one share, that noise cannot explain."""
    if not len(geounit):
        return
    share = Fraction(int(plan.spine.shares[level][geounit[0]]), plan.spine.denominator)
    own, most = (
        law(plan.allocation, share, plan.allocation.queries[plan.spine.levels[level]][query]),
        _largest_count(plan.bounds),
    )
    far = is_far(answers, variance(own), most)
    if far.any():
        code = codes[int(geounit[far.argmax()])].as_py() or US
        raise Refused(f"{path}: answers to {query} with {TOO_FAR.format(most)}: geounit {code}")


def _by_law(table: pa.Table) -> Iterator[tuple[list[str], IntArray]]:
    """Yield each combination of the columns LAW once, with its rows."""
    laws = pa.table({name: table[name].cast(pa.string()) for name in LAW})
    if any(column.null_count for column in laws.columns):
        raise ValueError("a row without its query or law")
    numbered = laws.append_column("row", pa.array(np.arange(len(table))))
    for found in numbered.group_by(list(LAW), use_threads=False).aggregate([("row", "list")]).to_batches():
        for number, rows in enumerate(found["row_list"]):
            yield [found[name][number].as_py() for name in LAW], rows.values.to_numpy()
