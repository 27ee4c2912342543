"""The confidential directory of a TopDown run: where each stage writes, and later stages read.

```
prepared/   design, tables, names, points, validated
prepared/codes      all blocks of the geography                                                 public
prepared/blocks/SS  the state's blocks of the universe with their declared invariants           public
prepared/spine/PRODUCT/SS    the spine of a state, with its shares                              public
persons/PRODUCT/NUMBER       records of a chunk, counted by block and cell                      confidential
counts/PRODUCT/SS/blocks     exact histograms of a state's blocks, by geocode                   confidential
counts/PRODUCT/SS/LEVEL      exact histograms of a level, in spine order; SS is US above the states   confidential
noisy/PRODUCT/SS/LEVEL/FIRST estimates of a batch of geounits, and solves/, how they were found
```
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from privacy.accounting.journal import MarkName
from spine.geography import Geography, IntArray
from spine.hierarchy import Spine
from spine.top_down.histogram import Histograms
from tasks.lifecycle.errors import Failed
from tasks.lifecycle.files import atomic_path, load_object, open_array, read_object, save_arrays, save_object, stamp
from tasks.lifecycle.run_directory import RunDirectory
from tasks.top_down.run_plan import Design, ProductName, Tables

H = TypeVar("H", bound=Histograms)


@dataclass(frozen=True)
class Validated:
    """The facts about a valid input that later stages need.

    `input_digest` and `records_digests` (of each product's file and states) are confidential: both go to the ledger,
    the first also into key derivation, and neither anywhere else. The rest is public. states: two-digit codes.
    digests: of public files, by name.
    """

    input_digest: str
    records_digests: tuple[str, ...]
    mark: MarkName | None
    states: tuple[str, ...]
    nation: bool
    digests: dict[str, str]


@dataclass(frozen=True)
class Blocks:
    """Blocks of a run's universe, sorted by geocode, with their declared invariants; public.

    quarters: (blocks, 8) housing units, then facilities of the types 1..7. totals: declared population by state code.
    first: the number of the first block in the whole universe. part_totals: of one state, the populations of its parts
    in the order of the persons' spine; () where only the state's is declared.
    """

    geography: Geography
    quarters: IntArray
    totals: dict[int, int]
    first: int = 0
    part_totals: tuple[int, ...] = ()

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
class TopDownRun(RunDirectory):
    """A handle on a TopDown run: only the path of its directory, so that it may be shown and stored."""

    @property
    def design(self) -> Design:
        """Load the run's design."""
        design: Design = self._load("prepared/design")
        return design

    @property
    def tables(self) -> Tables:
        """Load the paths of the run's inputs."""
        tables: Tables = self._load("prepared/tables")
        return tables

    @property
    def validated(self) -> Validated:
        """Load the result of validation, which is written last."""
        validated: Validated = self._load("prepared/validated")
        return validated

    @property
    def product_states(self) -> list[tuple[ProductName, str]]:
        """Return every product of the run with every state."""
        return [(product, state) for product in self.design.products for state in self.validated.states]

    def _load(self, name: str) -> Any:
        try:
            return load_object(self / name)
        except FileNotFoundError:
            raise Failed("validate: the run was not validated") from None

    def state(self, name: str) -> Blocks:
        """Load the blocks of one state."""
        path = self / f"prepared/blocks/{name}"
        return blocks_at(path, stamp(path))

    def spine_path(self, product: str, state: str) -> Path:
        """Return the path of a state's spine."""
        return self / f"prepared/spine/{product}/{state}"

    def spine(self, product: str, state: str) -> Spine:
        """Load the spine of a state."""
        path = self.spine_path(product, state)
        return spine_at(path, stamp(path))

    def chunk_folder(self, product: str, number: int) -> Path:
        """Return the folder of a chunk's counted records; its report is beside it, with the suffix .json."""
        return self / f"persons/{product}/{number:05d}"

    def counts_folder(self, product: str, state: str, level: str) -> Path:
        """Return the folder of the exact histograms of a level."""
        return self / f"counts/{product}/{state}/{level}"

    def estimates_folder(self, product: str, state: str, level: str) -> Path:
        """Return the folder of a level's estimates, in batches by their first geounit."""
        return self / f"noisy/{product}/{state}/{level}"


def save_blocks(run: TopDownRun, blocks: Blocks) -> None:
    """Save the universe by state: no worker needs the nation's at once."""
    with atomic_path(run / "prepared/blocks") as folder:
        for state in blocks.states:
            save_object(folder / state, blocks.only(state))


@lru_cache(maxsize=2)
def blocks_at(path: Path, _stamp: tuple[int, int]) -> Blocks:
    """Read the blocks of a state."""
    blocks: Blocks = read_object(path)
    return blocks


@lru_cache(maxsize=8)
def spine_at(path: Path, _stamp: tuple[int, int]) -> Spine:
    """Read a spine; its derived arrays are cached with it."""
    spine: Spine = read_object(path)
    return spine


def save_histograms(folder: Path, histograms: Histograms) -> None:
    """Write histograms of neighbouring geounits in narrow types: counts are below 2^31, cells below 2^16."""
    save_arrays(
        folder,
        {
            "at": np.array([histograms.level, histograms.first]),
            "starts": histograms.starts,
            "cell": histograms.cell.astype(np.uint16),
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
