"""The measurements of a das-flows release as a source: read each level's file, and validate every answer.

An answer names its geounit, its query and its law. A row has all answers of a geounit to a query or, of a wide table,
one that estimation has read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import isclose
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from privacy.noise.exact import parse_exact
from privacy.noise.laws import Law
from spine.geography import IntArray
from spine.hierarchy import common_denominator
from spine.top_down import Plan, query_group
from tasks.errors import Refused
from tasks.lifecycle.files import load_object, save_arrays, save_object
from tasks.lifecycle.run_directory import VALIDATED
from tasks.lifecycle.workers import Workers
from tasks.records.arrow import text
from tasks.releases.received import path_in
from tasks.top_down.blocks import Blocks, BlockSource, build_spines, save_spine
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
from tasks.top_down.run_plan import US, law, variance
from tasks.top_down.source import PLANNED, Branch, Source

JOIN = "\x1f"  # separates the codes of a geounit that has several; no code has it
LAW = ("query", "share", "variance_numerator", "variance_denominator", "variance")  # columns
RELEASE = "prepared/release"  # the folder of the measurements


def joined_codes(codes: Sequence[pa.Array], number: int) -> pa.Array:
    """Return the joined codes of geounits; a single top geounit may have no codes."""
    texts = [each.cast(pa.large_string()) for each in codes]
    if not texts:
        return pa.array([""] * number, pa.large_string())
    return pa.compute.binary_join_element_wise(*texts, pa.scalar(JOIN, pa.large_string()))


@dataclass(frozen=True, eq=False)
class AnswerFile:
    """The file of a level's answers. level: its number in the hierarchy. columns: those that name its geounits."""

    path: Path
    plan: Plan
    level: int
    columns: Mapping[str, pa.Array]

    @classmethod
    def of(cls, source: Source, folder: Path, branch: Branch, level: str) -> AnswerFile:
        """Return the file in the folder of a release's measurements."""
        plan, (file, names) = source.plan(branch), source.released(branch, level)
        number = plan.spine.levels.index(level)
        geounits = np.arange(len(plan.spine.starts[number]))
        return cls(path_in(folder, file), plan, number, names(0, len(geounits), geounits))

    @property
    def alphas(self) -> Mapping[str, Fraction]:
        """The level's query groups with their shares."""
        return self.plan.allocation.queries[self.plan.spine.levels[self.level]]

    @property
    def shares(self) -> IntArray:
        """The (geounits,) numerators of their shares."""
        return self.plan.spine.shares[self.level]

    @cached_property
    def codes(self) -> pa.Array:
        """The (geounits,) codes, joined."""
        return joined_codes([*self.columns.values()], len(self.shares))

    @property
    def most(self) -> int:
        """The largest possible count below a root: the declared number of all records, if there is one."""
        bounds = self.plan.bounds
        if bounds.fixed:
            return int(bounds.number(0).sum())
        return LARGEST_NATION if bounds.totals[0] is None else int(bounds.totals[0].values.sum())

    def all_answers(self) -> Iterator[tuple[str, IntArray, IntArray]]:
        """Yield each query group with geounits, by number, and their (geounits, n) answers.

        Raises Refused for another file, for a missing or repeated answer, for an answer with another law than its
        geounit's share gives, and for an answer that noise cannot explain.
        """
        queries, expected = [*self.alphas], self.shares > 0
        answered = np.zeros((len(queries), len(expected)), np.int64)
        for query, geounit, own, rows in self._lawful("value"):
            answers = rows["value"].combine_chunks()
            is_list = pa.types.is_list(answers.type) or pa.types.is_large_list(answers.type)
            if not is_list or not pa.types.is_integer(answers.type.value_type):
                raise self._refused(f"the column value holds {answers.type}, not lists of whole numbers")
            if answers.null_count or answers.flatten().null_count:
                raise self._refused("an answer is missing in the column value")
            if (np.asarray(pa.compute.list_value_length(answers)) != query_group(self.plan.product, query).width).any():
                raise self._refused(f"answers to {query} of another length than it has coordinates")
            taken = answers.flatten().to_numpy().reshape(len(geounit), -1)
            self._refuse_far(query, geounit, own, taken)
            np.add.at(answered[queries.index(query)], geounit, 1)
            yield query, geounit, taken
        if (answered != expected).any():
            row, column = (int(index[0]) for index in np.nonzero(answered != expected))
            which = f"{queries[row]} of geounit {self.codes[column].as_py() or US}"
            raise self._refused(f"{answered[row, column]} answers to {which}, not {int(expected[column])}")

    def read_answers(self) -> Iterator[tuple[str, IntArray, IntArray, IntArray]]:
        """Yield the answers of a wide table that were read: query, geounits, coordinates and answers, all (n,).

        Raises Refused as `all_answers` does; a wide table has any answers, each at most once.
        """
        number = {query: at for at, query in enumerate(self.alphas)}
        addresses = [np.zeros(0, np.int64)]
        for query, geounit, own, rows in self._lawful("coordinate", "value"):
            if any(each.null_count or not pa.types.is_integer(each.type) for each in rows.columns):
                raise self._refused("an answer is missing, or is not a whole number")
            coordinate, value = (each.to_numpy().astype(np.int64) for each in rows.columns)
            width = query_group(self.plan.product, query).width
            if len(rows) and not 0 <= coordinate.min() <= coordinate.max() < width:
                raise self._refused(f"answers to {query} beyond its coordinates")
            self._refuse_far(query, geounit, own, value[:, None])
            addresses.append((geounit * len(number) + number[query]) * self.plan.product.cells + coordinate)
            yield query, geounit, coordinate, value
        every = np.sort(np.concatenate(addresses))
        if (every[1:] == every[:-1]).any():
            raise self._refused("a coordinate has two answers")

    def _lawful(self, *columns: str) -> Iterator[tuple[str, IntArray, Law, pa.Table]]:
        """Yield query, geounits, law, and these columns of their rows; refuse a law that is not of their share."""
        names = [*self.columns]
        try:
            file = pq.ParquetFile(self.path)
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=[*names, *LAW, *columns])
                place = pa.compute.index_in(joined_codes([table[name] for name in names], len(table)), self.codes)
                if place.null_count:
                    raise ValueError("an unknown geounit")
                of_row = place.to_numpy().astype(np.int64)
                for (query, *numbers), rows in _by_law(table):
                    geounit = of_row[rows]
                    yield query, geounit, self._law(query, numbers, geounit), table.select(columns).take(pa.array(rows))
        except UNREADABLE as error:
            raise self._refused(f"not the measurements of a TopDown release ({type(error).__name__})") from None

    def _law(self, query: str, numbers: Sequence[str], geounit: IntArray) -> Law:
        """Return the law of answers by the numbers that are stated of it; refuse one that is not of their share."""
        if query not in self.alphas:
            raise self._refused(f"answers to {query}, which this level does not ask")
        (share, numerator, denominator), spread = map(parse_exact, numbers[:3]), float(numbers[3])
        stated = share * self.plan.spine.denominator
        if not stated or stated.denominator != 1 or (self.shares[geounit] != stated.numerator).any():
            raise self._refused(f"answers to {query} with another share than the spine gives")
        own = law(self.plan.allocation, share, self.alphas[query])
        if numerator / denominator != own.parameter or not isclose(spread, variance(own)):
            raise self._refused(f"answers to {query} with another variance than their share gives")
        return own

    def _refuse_far(self, query: str, geounit: IntArray, own: Law, answers: IntArray) -> None:
        """Refuse (geounits, n) answers that noise of this law cannot explain."""
        far = is_far(answers, variance(own), self.most)
        if far.any():
            code = self.codes[int(geounit[far.argmax()])].as_py() or US
            raise self._refused(f"answers to {query} with {TOO_FAR.format(self.most)}: geounit {code}")

    def _refused(self, fault: str) -> Refused:
        return Refused(f"{self.path}: {fault}")


def _by_law(table: pa.Table) -> Iterator[tuple[list[str], IntArray]]:
    """Yield each combination of the columns LAW once, with its rows."""
    laws = pa.table({name: table[name].cast(pa.string()) for name in LAW})
    if any(column.null_count for column in laws.columns):
        raise ValueError("a row without its query or law")
    numbered = laws.append_column("row", pa.array(np.arange(len(table))))
    for found in numbered.group_by(list(LAW), use_threads=False).aggregate([("row", "list")]).to_batches():
        for number, rows in enumerate(found["row_list"]):
            yield [found[name][number].as_py() for name in LAW], rows.values.to_numpy()


@dataclass(frozen=True)
class ReleaseSource(PublishedSource):
    """The measurements of a release of das-flows."""

    def fill(self, branch: Branch, level: str, folder: Path) -> Read:
        """Map and validate the answers of a level."""
        file = AnswerFile.of(self, load_object(self / RELEASE, Path), branch, level)
        columns = self.columns(file.plan, level)
        new_answers(folder, len(file.shares), columns.values())
        for query, geounit, answers in file.all_answers():
            put_answers(folder, geounit, columns[query], answers, file.path)
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
        workers.map("spine", source, read_spine, [(branch, widths[branch.product]) for branch in source.branches])
    else:
        build_spines(source, workers)
    if digest is not None and source.spine_digest() != digest:
        raise Refused(f"{described.folder}: the blocks and settings do not give the measured spine")
    workers.map("read answers", source, read_level, source.branch_levels)


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


def read_spine(source: BlockRelease, branch: Branch, widths: tuple[int, ...]) -> None:
    """Save the spine of imported measurements, which is read from them, with its shares.

    widths: digits of geocodes by level.
    """
    folder = load_object(source / RELEASE, Path)
    path = path_in(folder, f"{GEOUNITS_FOLDER}/{branch}.parquet")
    allocation = source.design.allocations[branch.product]
    try:
        table = pq.read_table(path, columns=["block", "geocode"])
        number, blocks = table["block"].to_numpy(), np.array(table["geocode"].to_pylist(), f"S{widths[-1]}")
        if not np.array_equal(np.sort(number), np.arange(len(source.state(branch.name).geography))):
            raise ValueError("blocks that are missing or repeated")
        codes = tuple(digits_above(blocks.view(np.uint8).reshape(len(blocks), -1), width) for width in widths)
        bare = spine_of(codes, number)
        _, denominator = common_denominator(list(allocation.levels.values()))
        shares = tuple(
            _shares(path_in(folder, f"{branch.product}/{level}/{branch.name}.parquet"), text(digits), denominator)
            for level, digits in zip(bare.levels, codes, strict=True)
        )
    except UNREADABLE as error:
        raise Refused(f"{path}: not the geounits of imported measurements ({type(error).__name__})") from None
    save_arrays(source.codes_folder(branch), {str(level): digits for level, digits in enumerate(codes)})
    save_spine(source, branch, replace(bare, shares=shares, denominator=denominator))


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
