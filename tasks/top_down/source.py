"""A source of measurements: a spine, a plan, answers, and where they come from.

A run is its own source (measure.py); measurements that were published are another (published/source.py).
Estimates, margins of error and areas are made of either, from what lies in its directory:

```
prepared/   design, regions, validated
prepared/blocks/SS           the state's blocks of the universe with their declared invariants
prepared/spine/PRODUCT/SS    the spine of a state, with its shares
noisy/PRODUCT/SS/LEVEL/FIRST estimates of a batch of geounits, and solves/, how they were found
```
All of it is public. SS is a state, or US for the nation and the states' parts below it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from spine.geography import Geography, IntArray
from spine.hierarchy import Spine
from spine.top_down.histogram import Histograms
from tasks.errors import Failed
from tasks.lifecycle.files import (
    atomic_path,
    load_object,
    narrowest,
    open_array,
    read_object,
    save_arrays,
    save_object,
    stamp,
)
from tasks.lifecycle.reservation import Input
from tasks.lifecycle.run_directory import VALIDATED, RunDirectory
from tasks.records.counted_records import load_counted
from tasks.records.records import FileReport, RecordFile, join_reports
from tasks.top_down.run_plan import US, Design, Estimator, ProductName, Tables

if TYPE_CHECKING:
    from spine.top_down import NoisyAnswers, Plan
    from tasks.lifecycle.workers import Workers

FIRST = "0000000"  # the name of a batch that starts at the first geounit
RECORDS = "prepared/{}"  # by product
T = TypeVar("T")
H = TypeVar("H", bound=Histograms)


@dataclass(frozen=True)
class Validated(Input):
    """The facts about a valid input that later stages need; published measurements have no digests of records.

    states: two-digit codes. digests: of public files, by name.
    """

    states: tuple[str, ...]
    nation: bool
    digests: dict[str, str]


@dataclass(frozen=True)
class Blocks:
    """Blocks of a universe, sorted by geocode, with their declared invariants; public.

    quarters: (blocks, 8) housing units, then facilities of the types 1..7. totals: declared population by state code.
    first: the number of the first block in the whole universe.
    """

    geography: Geography
    quarters: IntArray
    totals: dict[int, int]
    first: int = 0

    @property
    def states(self) -> tuple[str, ...]:
        """Return the states that have a block, as two-digit codes."""
        return tuple(f"{state:02d}" for state in np.unique(self.geography.state).tolist())

    def only(self, state: str) -> Blocks:
        """Return the blocks of one state."""
        low, high = int(state) * 10**14, (int(state) + 1) * 10**14
        first, last = np.searchsorted(self.geography.geocode, (low, high)).tolist()
        rows = np.arange(first, last)
        return Blocks(self.geography.take(rows), self.quarters[rows], self.totals, self.first + first)


@dataclass(frozen=True)
class Origin:
    """Who published measurements.

    run: the run of das-flows that measured, None for the Census Bureau. facts: of files in the Bureau's layout, how
    they were read, for a manifest.
    """

    run: str | None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return what the measurements are, in a sentence's words."""
        if self.run is None:
            return "the noisy measurements of the redistricting data that the Census Bureau published"
        return f"the noisy measurements of run {self.run} of das-flows"

    @property
    def statement(self) -> str:
        """Return what an estimate of them is."""
        if self.run is None:
            return (
                "Estimated from noisy measurements that the U.S. Census Bureau published: nothing was measured, and "
                "nothing spent. This is not a Census Bureau product."
            )
        return "Estimated from published measurements: nothing was measured, and nothing spent."


class Descent(NamedTuple):
    """A stage of an estimate: the levels below `level` down to `lowest`, in batches of about `size` geounits of it."""

    title: str
    level: str
    lowest: str
    size: int


class StateAnswers(Protocol):
    """The noisy answers of a state, or (US) of the nation and the states' parts: `spine.top_down.Measure`."""

    @property
    def plan(self) -> Plan:
        """The plan of estimating the state."""

    def __call__(self, level: int, first: int, last: int) -> NoisyAnswers:
        """Return the noisy answers of the geounits first ... last - 1 of a level; rows with the share 0 are void."""


@dataclass(frozen=True)
class Source(RunDirectory):
    """A handle on a source of measurements: only the path of its directory, so that it may be shown and sent."""

    has_areas: ClassVar[bool] = True  # whether sums of blocks have margins, as those of places

    @property
    def design(self) -> Design:
        """Load the design: products, spine, budgets, and what is made of the measurements."""
        return self._load("prepared/design", Design)

    @property
    def estimator(self) -> Estimator:
        """Return what the histograms are estimated by."""
        return self.design.estimator

    @property
    def validated(self) -> Validated:
        """Load the facts about the input, which are written last."""
        return self._load(VALIDATED, Validated)

    @property
    def product_states(self) -> list[tuple[ProductName, str]]:
        """Return every product with every state."""
        return [(product, state) for product in self.design.products for state in self.validated.states]

    @property
    def product_levels(self) -> list[tuple[ProductName, str, str]]:
        """Return every product with every state and level, the longest first; the nation as state and level US."""
        levels = [(*pair, level) for pair in self.product_states for level in self.spine(*pair).levels]
        if self.validated.nation:
            levels += [(product, US, US) for product in self.design.products]
        return sorted(levels, key=lambda each: (each[2] != "Block", each[0]))

    def _load(self, name: str, kind: type[T]) -> T:
        try:
            return load_object(self / name, kind)
        except FileNotFoundError:
            raise Failed("validate: the run was not validated") from None

    def state(self, name: str) -> Blocks:
        """Load the blocks of one state."""
        path = self / f"prepared/blocks/{name}"
        blocks: Blocks = _read_blocks(path, Blocks, stamp(path))
        return blocks

    def spine_path(self, product: str, state: str) -> Path:
        """Return the path of a state's spine."""
        return self / f"prepared/spine/{product}/{state}"

    def spine(self, product: str, state: str) -> Spine:
        """Load the spine of a state."""
        path = self.spine_path(product, state)
        spine: Spine = _read_spine(path, Spine, stamp(path))
        return spine

    def estimates_folder(self, product: str, state: str, level: str) -> Path:
        """Return the folder of a level's estimates, in batches by their first geounit."""
        return self / f"noisy/{product}/{state}/{level}"

    @property
    def folder(self) -> str:
        """Return the folder of OUT that a release goes to."""
        return self.design.jurisdiction

    @property
    def origin(self) -> Origin | None:
        """Return who published the measurements; None of a run, which makes them."""
        return None

    @property
    def descents(self) -> tuple[Descent, ...]:
        """Return the stages of an estimate; the first is that of the top level and the one below it."""
        return (
            Descent("estimate states", "State", "County", 1),
            Descent("estimate tracts", "County", "Tract", 150),
            Descent("estimate blocks", "Tract", "Block", 4096),
        )

    def batches(self, descent: Descent) -> list[tuple[ProductName, str, int, int]]:
        """Cut the level that a stage starts from into batches: product, state, first geounit, last + 1.

        Each has about `size` geounits of the lowest level, one of its own at the least.
        """
        found = []
        for product, state in self.product_states:
            spine = self.spine(product, state)
            first, below = (spine.starts[spine.levels.index(name)] for name in (descent.level, descent.lowest))
            begins = np.append(np.searchsorted(below, first), len(below))
            cuts = [0]
            for geounit in range(1, len(first)):
                if begins[geounit + 1] - begins[cuts[-1]] > descent.size:
                    cuts.append(geounit)
            found += [(product, state, *ends) for ends in pairwise([*cuts, len(first)])]
        return found

    def answers(self, product: ProductName, state: str) -> StateAnswers:
        """Return the noisy answers of a state, or (US) of the nation. Raises Failed where the run may not draw."""
        raise NotImplementedError


@dataclass(frozen=True)
class TopDownRun(Source):
    """A run, which measures itself; stages write beyond what a source has

    ```
    prepared/tables              the paths of the input
    prepared/PRODUCT             the file of a product's records
    prepared/codes               all blocks of the geography                                        public
    persons/PRODUCT/NUMBER       records of a chunk, counted by leaf * cells + cell                 confidential
    counts/PRODUCT/SS/blocks     exact histograms of a state's blocks, by geocode                   confidential
    counts/PRODUCT/SS/LEVEL      exact histograms of a level, in spine order                        confidential
    ```
    """

    @property
    def tables(self) -> Tables:
        """Load the paths of the run's inputs."""
        return self._load("prepared/tables", Tables)

    def records(self, product: str) -> RecordFile:
        """Load what was opened as the records of a product."""
        return load_object(self / RECORDS.format(product), RecordFile)

    def counted_folder(self, product: str) -> Path:
        """Return the folder of the counted records of a product."""
        return self / f"persons/{product}"

    def count_records(
        self, workers: Workers, stage: str, product: str, file: RecordFile, count_chunk: Callable[..., None]
    ) -> FileReport:
        """Count a file on the workers: `count_chunk` counts a chunk of a product, by number, into `counted_folder`."""
        save_object(self / RECORDS.format(product), file)
        workers.map(stage, self, count_chunk, [(product, number) for number in range(file.chunks)])
        return join_reports(self, workers, file, self.counted_folder(product))

    def counted(self, product: str, cells: int, first: int, last: int) -> tuple[IntArray, IntArray, IntArray]:
        """Return leaf, cell and count of the leaves first ... last - 1 from all chunks; a pair may occur in several."""
        none = np.zeros(0, np.int64)
        found = [(none, none), *load_counted(self.counted_folder(product), first * cells, last * cells)]
        key, count = (np.concatenate(each) for each in zip(*found, strict=True))
        return *np.divmod(key - first * cells, cells), count

    def counts_folder(self, product: str, state: str, level: str) -> Path:
        """Return the folder of the exact histograms of a level."""
        return self / f"counts/{product}/{state}/{level}"


def save_blocks(source: Source, blocks: Blocks) -> None:
    """Save the universe by state: no worker needs the nation's at once."""
    with atomic_path(source / "prepared/blocks") as folder:
        for state in blocks.states:
            save_object(folder / state, blocks.only(state))


def _read(path: Path, kind: Any, _stamp: tuple[int, int]) -> Any:
    """Read blocks or a spine, whose derived arrays are cached with it."""
    return read_object(path, kind)


_read_blocks, _read_spine = lru_cache(maxsize=2)(_read), lru_cache(maxsize=8)(_read)


def save_histograms(folder: Path, histograms: Histograms) -> None:
    """Write histograms of neighbouring geounits in narrow types: counts are below 2^31."""
    save_arrays(
        folder,
        {
            "at": np.array([histograms.level, histograms.first]),
            "starts": histograms.starts,
            "cell": narrowest(histograms.cell),
            "count": histograms.count.astype(np.int32),
        },
    )


def load_histograms(folder: Path, kind: type[H], first: int = 0, last: int | None = None) -> H:
    """Read what `save_histograms` wrote, or its geounits first ... last - 1, counted from its own first."""
    level, start = open_array(folder, "at").tolist()
    starts = open_array(folder, "starts")
    last = len(starts) - 1 if last is None else last
    within = slice(int(starts[first]), int(starts[last]))
    return kind(
        level,
        start + first,
        np.asarray(starts[first : last + 1]) - within.start,
        open_array(folder, "cell")[within].astype(np.int64),
        open_array(folder, "count")[within].astype(np.int64),
    )
