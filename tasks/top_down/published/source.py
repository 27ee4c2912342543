"""Published noisy measurements as a source: their answers mapped into memory, in the order of the spine.

A release of das-flows (release_source.py) or the Census Bureau's files (nmf/) fill its directory:

```
prepared/origin                             who published them
noisy/PRODUCT/SS/published/LEVEL/values     (geounits, coordinates of all queries)
```
Needs no secret, no records and no budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from spine.geography import BoolArray, FloatArray, IntArray
from spine.redistricting import HOUSEHOLD
from spine.top_down import NoisyAnswers, query_group
from tasks.inputs.findings import Finding, has_errors
from tasks.lifecycle.errors import Failed
from tasks.lifecycle.files import atomic_path, load_object, open_array, remove, save_object
from tasks.lifecycle.workers import Workers
from tasks.top_down.input.geography import plan_of
from tasks.top_down.run_plan import SCHEMAS, US, ProductName
from tasks.top_down.source import Origin, Source

if TYPE_CHECKING:
    from spine.top_down import Plan
    from spine.top_down.histogram import Product

FAR = 40  # standard deviations: no noise is so large
TOO_FAR = f"a value more than {FAR} standard deviations below 0, or above the {{:,}} there can be"
LARGEST_NATION = 10**9
BLOCKS_AT_HAND = 400_000  # of a nation, whose answers are mapped at once: of persons 2 GB
ORIGIN = "prepared/origin"
Level: TypeAlias = tuple[ProductName, str, str]  # product, state, level
Read: TypeAlias = tuple[list[Finding], Any]


class TooWide(Exception):
    """A number does not fit the array."""


@dataclass(frozen=True)
class PublishedSource(Source):
    """A handle on published measurements that are read: only the path of their directory."""

    @property
    def origin(self) -> Origin:
        """Load who published the measurements."""
        return load_object(self / ORIGIN, Origin)

    def schema(self, product: ProductName) -> Product:
        """Return the histogram of a product."""
        return SCHEMAS[product]

    def plan(self, product: ProductName, state: str) -> Plan:
        """Return the plan of estimating a state, or (US) the states' parts below the nation."""
        return plan_of(self, product, state)

    def largest_count(self, product: ProductName, state: str) -> int:
        """Return what no count in a state can exceed: its declared population, or its housing units."""
        if state == US:
            return LARGEST_NATION
        blocks = self.state(state)
        return blocks.totals[int(state)] if product == "persons" else int(blocks.quarters[:, HOUSEHOLD].sum())

    def queries(self, product: ProductName, level: str) -> tuple[str, ...]:
        """Return the queries whose values are side by side in the array of a level."""
        raise NotImplementedError

    def fill(self, product: ProductName, state: str, level: str, folder: Path, kind: np.dtype[Any]) -> Read:
        """Validate the answers of a level of a state, and write them to a folder as numbers of this type.

        Returns findings, and what else a reader needs. Raises TooWide; Refused.
        """
        raise NotImplementedError

    def answers_folder(self, product: str, state: str, level: str) -> Path:
        """Return the folder of the answers of a level of a state; US: of the nation."""
        return self / f"noisy/{product}/{state}/published/{level}"

    def columns(self, product: ProductName, level: str) -> dict[str, slice]:
        """Return the columns of each query in the array of a level."""
        queries, histogram = self.queries(product, level), self.schema(product)
        widths = [query_group(histogram, query).width for query in queries]
        ends = accumulate(widths)
        return {query: slice(end - width, end) for query, width, end in zip(queries, widths, ends, strict=True)}

    def answers(self, product: ProductName, state: str) -> MappedAnswers:
        """Return the published answers of a state or of the nation."""
        return MappedAnswers(self, product, state, self.plan(product, state))

    def read_answers(self, workers: Workers, calls: Sequence[Level], blocks: int) -> list[Read]:
        """Validate the answers of levels; return what `fill` returned of each.

        blocks: of all states together. The answers of many states are dropped below their parts: `at_hand` maps them
        again.
        """
        keep = blocks <= BLOCKS_AT_HAND or len({state for _, state, _ in calls} - {US}) == 1
        top = (US, "State")
        return workers.map("read answers", self, read_level, [(*call, keep or call[2] in top) for call in calls])

    def at_hand(self, workers: Workers) -> Iterator[tuple[str, ...]]:
        """Yield the states in groups: of a nation about a large state at a time, so that the scratch is a part of its.

        Raises Failed where a file changed meanwhile.
        """
        dropped = [
            (product, state, level)
            for product, state in self.product_states
            for level in self.spine(product, state).levels
            if not _values(self, product, state, level).exists()
        ]
        groups: list[list[str]] = [[]]
        blocks = 0
        for state in self.validated.states:
            own = len(self.spine(self.design.products[0], state).starts[-1]) if dropped else 0
            if groups[-1] and blocks + own > BLOCKS_AT_HAND:
                groups, blocks = [*groups, []], 0
            groups[-1].append(state)
            blocks += own
        for states in groups:
            calls = [call for call in dropped if call[1] in states]
            for call in calls:
                remove(self.answers_folder(*call))
            read = workers.map("read answers", self, read_level, [(*call, True) for call in calls]) if calls else []
            if has_errors(finding for found, _ in read for finding in found):
                raise Failed("estimate: the published files changed while they were read")
            yield tuple(states)
            for call in calls:
                _values(self, *call).unlink()


@dataclass(frozen=True)
class MappedAnswers:
    """The answers of a state, or (US) of the nation and the states' parts."""

    source: PublishedSource
    product: ProductName
    state: str
    plan: Plan

    def __call__(self, level: int, first: int, last: int) -> NoisyAnswers:
        """Read the noisy answers of the geounits first ... last - 1 of a level; rows with the share 0 are void."""
        name = self.plan.spine.levels[level]
        states = self.source.validated.states if self.state == US and level else (self.state,)
        folders = [self.source.answers_folder(self.product, state, name) for state in states]
        arrays = [open_array(folder, "values") for folder in folders]
        values = arrays[0][first:last] if len(arrays) == 1 else np.concatenate(arrays)[first:last]
        at = self.source.columns(self.product, name)
        queries = self.plan.allocation.queries[name]
        return NoisyAnswers(first, last, {query: values[:, at[query]].astype(np.int64) for query in queries})


def save_origin(source: Source, origin: Origin) -> None:
    """Save who published the measurements."""
    save_object(source / ORIGIN, origin)


def _values(source: PublishedSource, product: str, state: str, level: str) -> Path:
    return source.answers_folder(product, state, level) / "values.npy"


def read_level(source: PublishedSource, product: ProductName, state: str, level: str, keep: bool) -> Read:
    """Validate the answers of a level of a state, and map them; return what `fill` returned.

    keep: False to drop the values, to be mapped again by `at_hand`.
    """
    found = _map(source, product, state, level)
    if not keep:
        _values(source, product, state, level).unlink(missing_ok=True)  # gone where this piece is run again
    return found


def _map(source: PublishedSource, product: ProductName, state: str, level: str) -> Read:
    for kind in (np.int16, np.int32, np.int64):  # most levels fit the first
        try:
            with atomic_path(source.answers_folder(product, state, level)) as folder:
                folder.mkdir()
                return source.fill(product, state, level, folder, np.dtype(kind))
        except TooWide:
            continue
    raise AssertionError("64-bit numbers fit 64 bits")


class Values(NamedTuple):
    """The array of a level's answers while it is filled.

    It is mapped once for each batch of rows: pages of a file that stays mapped count as memory in use.
    """

    path: Path

    @staticmethod
    def new(folder: Path, rows: int, columns: Iterable[slice], kind: np.dtype[Any]) -> Values:
        """Return an array of zeros in a folder."""
        path = folder / "values.npy"
        np.lib.format.open_memmap(path, "w+", kind, (rows, max(column.stop for column in columns)))
        return Values(path)

    def put(self, rows: IntArray, columns: slice, answers: IntArray) -> None:
        """Write the answers of some geounits to a query. Raises TooWide."""
        values = np.load(self.path, mmap_mode="r+")
        bounds = np.iinfo(values.dtype)
        if answers.size and (answers.min() < bounds.min or answers.max() > bounds.max):
            raise TooWide
        values[rows, columns] = answers

    def flush(self) -> None:
        """Write what is still in memory."""
        np.load(self.path, mmap_mode="r+").flush()


def is_far(answers: IntArray, variance: FloatArray | float, most: int) -> BoolArray:
    """Return which rows of answers no counts of 0 to `most` and noise of this variance explain."""
    noise = FAR * np.sqrt(variance)
    far: BoolArray = (answers.min(axis=1) < -noise) | (answers.max(axis=1) > most + noise)
    return far
