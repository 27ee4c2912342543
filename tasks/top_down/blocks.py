"""The redistricting data as a source: persons and units of blocks, state by state, on the spine of a run's design.

```
prepared/design              products, spine, budgets, and what is made of the measurements
prepared/blocks/SS           the state's blocks of the universe with their declared invariants
prepared/spine/PRODUCT/SS    the spine of a state, with its shares; its summary; its geocodes, where they were read
```
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spine.build import measured_spine
from spine.geocodes import geocodes, largest_numbers
from spine.geography import Geography, IntArray
from spine.hierarchy import Spine
from spine.redistricting import redistricting_bounds, redistricting_passes
from spine.top_down import Bounds
from tasks.lifecycle.files import atomic_path, complete, load_object, open_array, read_object, save_object, stamp
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.run_directory import VALIDATED
from tasks.records.arrow import text
from tasks.top_down.run_plan import SCHEMAS, US, Design
from tasks.top_down.source import PLANNED, Branch, Descent, Names, Source

if TYPE_CHECKING:
    from spine.top_down import Plan
    from tasks.lifecycle.workers import Workers

OFFSETS = "prepared/spine/{}/offsets"
ROWS = 1024  # geounits measured at once: 1,024 x 2,603 counts are 21 MB


@dataclass(frozen=True)
class Blocks:
    """Blocks of a universe, sorted by geocode, with their declared invariants; public.

    quarters: (blocks, 8) housing units, then facilities of the types 1..7. totals: declared population by state code.
    """

    geography: Geography
    quarters: IntArray
    totals: dict[int, int]

    @property
    def states(self) -> tuple[str, ...]:
        """Return the states that have a block, as two-digit codes."""
        return tuple(f"{state:02d}" for state in np.unique(self.geography.state).tolist())

    def only(self, state: str) -> Blocks:
        """Return the blocks of one state."""
        low, high = int(state) * 10**14, (int(state) + 1) * 10**14
        first, last = np.searchsorted(self.geography.geocode, (low, high)).tolist()
        rows = np.arange(first, last)
        return Blocks(self.geography.take(rows), self.quarters[rows], self.totals)


@dataclass(frozen=True)
class StateSummary:
    """What the whole run needs of a state's spine.

    geounits: how many there are, by level. numbers: the largest in a geocode, by level; () where geocodes were read.
    digest: the spine's with its shares. shares, denominator: those of the state's parts. quarters: (parts, 8) declared.
    """

    geounits: tuple[int, ...]
    numbers: tuple[int, ...]
    digest: str
    shares: IntArray
    denominator: int
    quarters: IntArray


@dataclass(frozen=True)
class BlockSource(Source):
    """A source of the redistricting data."""

    answer_type: ClassVar[Any] = np.int32

    @property
    def design(self) -> Design:
        """Load the design: products, spine, budgets, and what is made of the measurements."""
        return self._load(PLANNED, Design)

    @property
    def folder(self) -> str:
        """Return the folder of OUT that a release goes to."""
        return self.design.jurisdiction

    @property
    def states(self) -> list[str]:
        """Return every state that has a block."""
        return [path.name for path in complete(self / "prepared/blocks")]

    @property
    def branches(self) -> Sequence[Branch]:
        """Return every state that has a block, for every product."""
        return [Branch(product, state) for product in self.design.products for state in self.states]

    @property
    def descents(self) -> tuple[Descent, ...]:
        """Return the stages of an estimate; the first is that of the top level and the one below it."""
        return (
            Descent("estimate states", "State", "County", 1),
            Descent("estimate tracts", "County", "Tract", 150),
            Descent("estimate blocks", "Tract", "Block", 4096),
        )

    def state(self, name: str) -> Blocks:
        """Load the blocks of one state."""
        path = self / f"prepared/blocks/{name}"
        blocks: Blocks = _read_blocks(path, Blocks, stamp(path))
        return blocks

    def spine_path(self, branch: Branch) -> Path:
        """Return the path of a state's spine."""
        return self / f"prepared/spine/{branch}"

    def spine(self, branch: Branch) -> Spine:
        """Load the spine of a state, or return that of the nation (US)."""
        if branch.name == US:
            return self.plan(branch).spine
        path = self.spine_path(branch)
        spine: Spine = _read_spine(path, Spine, stamp(path))
        return spine

    def plan(self, branch: Branch) -> Plan:
        """Return the plan of estimating a state, or (US) the states' parts below the nation; cached.

        The first call in a process decides where compiled kernels are cached: it imports numba.
        """
        return _plan_of(self.path, branch, (stamp(self / VALIDATED), stamp(self / PLANNED)))

    def offsets(self, branch: Branch) -> tuple[int, ...]:
        """Return the number of a state's first geounit among those of the run, by level: the address of its noise."""
        if branch.name == US:
            return 0, 0
        return load_object(self / OFFSETS.format(branch.product), dict[str, tuple[int, ...]])[branch.name]

    def summaries(self, product: str) -> list[StateSummary]:
        """Return the summary of every state's spine."""
        return [load_object(self.summary_path(branch), StateSummary) for branch in self.branches_of(product)]

    def summary_path(self, branch: Branch) -> Path:
        """Return the path of the summary of a state's spine."""
        return self / f"prepared/spine/{branch}.summary"

    def spine_digest(self) -> str:
        """Return one digest of the spines of all states and products, which the addresses of the noise refer to."""
        digests = {product: [state.digest for state in self.summaries(product)] for product in self.design.products}
        return sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()

    def codes(self, branch: Branch) -> list[NDArray[np.uint8]]:
        """Return the geocodes of a state's geounits, digits for each level: as read, else as production's.

        US: the nation's, without digits.
        """
        if branch.name == US:
            return [np.zeros((1, 0), np.uint8)]
        if (folder := self.codes_folder(branch)).exists():
            return [open_array(folder, path.stem) for path in complete(folder)]
        design, spine = self.design, self.spine(branch)
        numbers = [summary.numbers for summary in self.summaries(branch.product)]
        largest = tuple(max(column) for column in zip(*numbers, strict=True))
        return geocodes(spine, self.state(branch.name).geography, design.settings[branch.product], design.kind, largest)

    def codes_folder(self, branch: Branch) -> Path:
        """Return where the geocodes of a spine that was read are kept, by the number of the level."""
        return self / f"prepared/spine/{branch}.geocodes"

    def released(self, branch: Branch, level: str) -> tuple[str, Names]:
        """Return the file of a level's answers in a release's measurements, and the geocodes of its geounits."""
        codes = self.codes(branch)[self.plan(branch).spine.levels.index(level)]
        names: Names = lambda first, last, rows: {"geounit": geounits(codes[first:last], rows)}  # noqa: E731
        return f"{branch.product}/{level}/{branch.name}.parquet", names


def save_blocks(source: Source, blocks: Blocks) -> None:
    """Save the universe by state: no worker needs the nation's at once."""
    with atomic_path(source / "prepared/blocks") as folder:
        for state in blocks.states:
            save_object(folder / state, blocks.only(state))


def _read(path: Path, kind: Any, _stamp: tuple[int, int]) -> Any:
    """Read blocks or a spine, whose derived arrays are cached with it."""
    return read_object(path, kind)


_read_blocks, _read_spine = lru_cache(maxsize=2)(_read), lru_cache(maxsize=8)(_read)


@lru_cache(maxsize=4)
def _plan_of(path: Path, branch: Branch, _made: tuple[tuple[int, int], ...]) -> Plan:
    source = BlockSource(path)
    use_kernels(source.runs_folder)
    from spine.top_down import Plan

    design = source.design
    if branch.name == US:
        spine, declared = _nation(source, branch.product)
    else:
        spine, blocks = source.spine(branch), source.state(branch.name)
        quarters, of_block = blocks.quarters[spine.order], blocks.geography.state[spine.order]
        declared = redistricting_bounds(SCHEMAS[branch.product], spine, quarters, blocks.totals, of_block)
    allocation = design.allocations[branch.product]
    passes = redistricting_passes(SCHEMAS[branch.product])
    return Plan(SCHEMAS[branch.product], spine, allocation, declared, passes, ROWS)


def _nation(source: BlockSource, product: str) -> tuple[Spine, Bounds]:
    """Return the nation over the states' parts, which take the place of a spine's blocks."""
    states = source.summaries(product)
    parts = np.concatenate([state.shares for state in states])
    names = source.validated.states
    totals = source.state(names[0]).totals
    of_part = np.repeat([int(name) for name in names], [len(state.shares) for state in states])
    (denominator,) = {state.denominator for state in states}  # one allocation's
    root = np.array([int(source.design.allocations[product].levels[US] * denominator)], np.int64)
    numbers: IntArray = np.arange(len(parts))
    spine = Spine((US, "State"), numbers, (numbers[:1], numbers), (root, parts), denominator)
    quarters = np.concatenate([state.quarters for state in states])
    return spine, redistricting_bounds(SCHEMAS[product], spine, quarters, totals, of_part)


def geounits(codes: NDArray[np.uint8], rows: IntArray) -> pa.DictionaryArray:
    """Return the geounit of each row of a table; codes: the digits of all geounits."""
    return pa.DictionaryArray.from_arrays(pa.array(rows.astype(np.int32)), text(codes))


def make_spine(geography: Geography, design: Design, product: str) -> Spine:
    """Return the spine of one state's blocks below the nation, with shares: a forest of the state's parts."""
    settings, allocation = design.settings[product], design.allocations[product]
    return measured_spine(design.kind, geography, settings, allocation, root=settings.jurisdiction == "pr")


def build_spines(source: BlockSource, workers: Workers) -> None:
    """Build the spine of every state for every product."""
    workers.map("spine", source, build_state, [(branch,) for branch in source.branches])
    for product in source.design.products:
        counts = np.array([summary.geounits for summary in source.summaries(product)])
        before = map(tuple, (np.cumsum(counts, axis=0) - counts).tolist())
        save_object(source / OFFSETS.format(product), dict(zip(source.states, before, strict=True)))


def build_state(source: BlockSource, branch: Branch) -> None:
    """Save the spine of a state and its summary."""
    if source.summary_path(branch).exists():
        return
    geography, design = source.state(branch.name).geography, source.design
    spine = make_spine(geography, design, branch.product)
    save_spine(source, branch, spine, largest_numbers(spine, geography, design.settings[branch.product]))


def save_spine(source: BlockSource, branch: Branch, spine: Spine, numbers: tuple[int, ...] = ()) -> None:
    """Save the spine of a state, and its summary last; numbers: as in `StateSummary`."""
    blocks = source.state(branch.name)
    save_object(source.spine_path(branch), spine)
    summary = StateSummary(
        tuple(map(len, spine.starts)),
        numbers,
        digest_spine(spine, blocks.geography),
        spine.shares[0],
        spine.denominator,
        np.add.reduceat(blocks.quarters[spine.order], spine.starts[0], axis=0),
    )
    save_object(source.summary_path(branch), summary)


def digest_spine(spine: Spine, geography: Geography) -> str:
    """Return the digest of a state's spine: its levels, geounits, shares and blocks."""
    digest = sha256(json.dumps([spine.levels, spine.denominator]).encode())
    for array in (geography.geocode[spine.order], *spine.starts, *spine.shares):
        digest.update(len(array).to_bytes(8, "big") + np.ascontiguousarray(array, "<i8").tobytes())
    return digest.hexdigest()
