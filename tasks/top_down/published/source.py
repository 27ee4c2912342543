"""Published noisy measurements as a source: their answers mapped into memory, in the order of the spine.

Its directory is filled from a das-flows release (release_source.py) or from the Census Bureau's files (nmf/):

```
prepared/origin                             the publisher
noisy/PRODUCT/SS/published/LEVEL/values     (geounits, coordinates of all queries)
```
Needs no secret, no records and no budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from spine.geography import BoolArray, FloatArray, IntArray
from spine.top_down import NoisyAnswers, query_group
from tasks.errors import Refused
from tasks.lifecycle.files import atomic_path, load_object, open_array
from tasks.records.findings import Finding
from tasks.top_down.run_plan import US
from tasks.top_down.source import Branch, Origin, Source

if TYPE_CHECKING:
    from spine.top_down import Plan
    from spine.top_down.histogram import Product

FAR = 40  # standard deviations; noise is never so large
TOO_FAR = f"a value more than {FAR} standard deviations below 0, or above the {{:,}} there can be"
LARGEST_NATION = 10**9
ORIGIN, VALUES = "prepared/origin", "values.npy"
Read: TypeAlias = tuple[list[Finding], Any]
Changes: TypeAlias = Mapping[str, Any]  # to the fields of a design


@dataclass(frozen=True)
class PublishedSource(Source):
    """A handle on published measurements that are read: only the path of their directory."""

    @property
    def origin(self) -> Origin:
        """The publisher of the measurements."""
        return load_object(self / ORIGIN, Origin)

    def fill(self, branch: Branch, level: str, folder: Path) -> Read:
        """Validate the answers of a level of a state, and write them to a folder (`new_answers`, `put_answers`).

        Returns findings, and whatever else the reader needs. Raises Refused.
        """
        raise NotImplementedError

    def answers_folder(self, branch: Branch, level: str) -> Path:
        """Return the folder of the answers of a level of a state, or (US) of the nation."""
        return self / f"noisy/{branch}/published/{level}"

    def columns(self, plan: Plan, level: str) -> dict[str, slice]:
        """Return the columns of each query of a level in its array."""
        return columns_of(plan.product, [*plan.allocation.queries[level]])

    def answers(self, branch: Branch) -> MappedAnswers:
        """Return the published answers of a state or of the nation."""
        return MappedAnswers(self, branch, self.plan(branch))


@dataclass(frozen=True)
class MappedAnswers:
    """The answers of a state, or (US) of the nation and the states' parts."""

    source: PublishedSource
    branch: Branch
    plan: Plan

    def __call__(self, level: int, first: int, last: int) -> NoisyAnswers:
        """Read the noisy answers of the geounits first ... last - 1 of a level; rows with the share 0 are undefined."""
        name = self.plan.spine.levels[level]
        of_states = self.branch.name == US and level > 0
        branches = self.source.branches_of(self.branch.product) if of_states else [self.branch]
        arrays = [open_array(self.source.answers_folder(branch, name), "values") for branch in branches]
        values = arrays[0][first:last] if len(arrays) == 1 else np.concatenate(arrays)[first:last]
        at = self.source.columns(self.plan, name)
        queries = self.plan.allocation.queries[name]
        return NoisyAnswers(first, last, {query: values[:, at[query]].astype(np.int64) for query in queries})


def columns_of(product: Product, queries: Sequence[str]) -> dict[str, slice]:
    """Return the columns of queries whose values are adjacent in an array."""
    widths = [query_group(product, query).width for query in queries]
    ends = accumulate(widths)
    return {query: slice(end - width, end) for query, width, end in zip(queries, widths, ends, strict=True)}


def read_level(source: PublishedSource, branch: Branch, level: str) -> Read:
    """Validate and map the answers of a level of a state; return the result of `fill`."""
    with atomic_path(source.answers_folder(branch, level)) as folder:
        folder.mkdir()
        return source.fill(branch, level, folder)


def new_answers(folder: Path, rows: int, columns: Iterable[slice]) -> None:
    """Create the array of a level's answers in a folder, filled with zeros."""
    shape = rows, max(column.stop for column in columns)
    np.lib.format.open_memmap(folder / VALUES, "w+", np.int32, shape)


def put_answers(folder: Path, rows: IntArray, columns: slice, answers: IntArray, file: str | Path) -> None:
    """Write the answers of some geounits to a query; file: their source, for messages.

    The array is mapped for each call: pages of a file that stays mapped count as memory in use. Raises Refused for a
    number that does not fit: its noise is larger than any nation.
    """
    values = np.load(folder / VALUES, mmap_mode="r+")
    bounds = np.iinfo(values.dtype)
    if answers.size and (answers.min() < bounds.min or answers.max() > bounds.max):
        raise Refused(f"{file}: an answer beyond ±{bounds.max:,}: its noise is larger than any nation")
    values[rows, columns] = answers


def is_far(answers: IntArray, variance: FloatArray | float, most: int) -> BoolArray:
    """Return which rows of answers counts of 0 to `most` and noise of this variance cannot explain."""
    noise = FAR * np.sqrt(variance)
    far: BoolArray = (answers.min(axis=1) < -noise) | (answers.max(axis=1) > most + noise)
    return far
