"""The confidential directory of a TopDown run: where each stage writes, and what later stages read of it.

```
prepared/   design, tables, validated
prepared/codes      all blocks of the geography                                                 public
prepared/blocks/SS  the state's blocks of the universe and what is declared of them             public
prepared/spine/PRODUCT/SS    the spine of a state, with its shares                              public
persons/PRODUCT/NUMBER       records of a chunk, counted by block and cell                      confidential
counts/PRODUCT/SS/blocks     exact histograms of a state's blocks, by geocode                   confidential
counts/PRODUCT/SS/LEVEL      exact histograms of a level, in spine order; SS is US above the states   confidential
noisy/PRODUCT/SS/LEVEL/FIRST estimates of a run of geounits, and solves/, how they were found
noisy/PRODUCT/SS/up/LEVEL/FIRST   what a run of geounits says with all below it (estimator gls)
```
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from spine.geography import Geography, IntArray
from spine.hierarchy import Spine
from spine.top_down.histogram import Histograms
from tasks.lifecycle.errors import Failed
from tasks.lifecycle.files import (
    atomic_path,
    complete,
    load_object,
    open_array,
    read_object,
    save_arrays,
    save_object,
    stamp,
)
from tasks.lifecycle.run_directory import RunDirectory
from tasks.top_down.input.tables import Tables
from tasks.top_down.run_plan import Design

H = TypeVar("H", bound=Histograms)


@dataclass(frozen=True)
class Validated:
    """What later stages need to know of a valid input.

    `input_digest` and `records_digest` (of the files of persons and of units, as far as asked for) are
    confidential: they go to the ledger, the first into key derivation too, and nowhere else. The rest is public:
    states are two-digit codes, digests those of public files by name.
    """

    input_digest: str
    records_digest: str
    synthetic: bool
    states: tuple[str, ...]
    nation: bool
    digests: dict[str, str]


@dataclass(frozen=True)
class Blocks:
    """Blocks of a run's universe, sorted by geocode, and what is declared of them; public.

    quarters: (blocks, 8) housing units, then facilities of the types 1..7. totals: declared population by state code.
    first: the number of the first block in the whole universe.
    """

    geography: Geography
    quarters: IntArray
    totals: dict[int, int]
    first: int = 0

    @property
    def states(self) -> tuple[str, ...]:
        """The states that have a block, as two-digit codes."""
        return tuple(f"{state:02d}" for state in np.unique(self.geography.state).tolist())

    def only(self, state: str) -> Blocks:
        """The blocks of one state."""
        low, high = int(state) * 10**14, (int(state) + 1) * 10**14
        first, last = np.searchsorted(self.geography.geocode, (low, high)).tolist()
        rows = np.arange(first, last)
        return Blocks(self.geography.take(rows), self.quarters[rows], self.totals, self.first + first)


@dataclass(frozen=True)
class TopDownRun(RunDirectory):
    """A handle on a TopDown run: only the path of its directory, so that it may be shown and stored."""

    @property
    def design(self) -> Design:
        """What the run is to do."""
        design: Design = self._load("prepared/design")
        return design

    @property
    def tables(self) -> Tables:
        """Where its inputs lie."""
        tables: Tables = self._load("prepared/tables")
        return tables

    @property
    def validated(self) -> Validated:
        """What validation says of the input, last of all."""
        validated: Validated = self._load("prepared/validated")
        return validated

    def _load(self, name: str) -> Any:
        try:
            return load_object(self / name)
        except FileNotFoundError:
            raise Failed("validate: the run was not validated") from None

    def state(self, name: str) -> Blocks:
        """The blocks of one state."""
        path = self / f"prepared/blocks/{name}"
        return blocks_at(path, stamp(path))

    def spine_path(self, product: str, state: str) -> Path:
        """Where the spine of a state lies."""
        return self / f"prepared/spine/{product}/{state}"

    def spine(self, product: str, state: str) -> Spine:
        """The spine of a state."""
        return spine_at(self.spine_path(product, state), stamp(self.spine_path(product, state)))

    def chunk_folder(self, product: str, number: int) -> Path:
        """Where the counted records of a chunk lie; their report lies beside it, with the suffix .json."""
        return self / f"persons/{product}/{number:05d}"

    def counts_folder(self, product: str, state: str, level: str) -> Path:
        """Where exact histograms lie."""
        return self / f"counts/{product}/{state}/{level}"

    def estimates_folder(self, product: str, state: str, level: str) -> Path:
        """Where the estimates of a level lie, in runs of geounits by their first."""
        return self / f"noisy/{product}/{state}/{level}"

    def information_folder(self, product: str, state: str, level: str) -> Path:
        """Where the information of a level's geounits lies, in runs by their first."""
        return self / f"noisy/{product}/{state}/up/{level}"

    def estimated(self, product: str, state: str, level: str) -> list[Path]:
        """The runs of a level's geounits that are estimated, in order."""
        return complete(self.estimates_folder(product, state, level))


def save_blocks(run: TopDownRun, blocks: Blocks) -> None:
    """Save the universe, state by state: no worker needs the nation's at once."""
    with atomic_path(run / "prepared/blocks") as folder:
        for state in blocks.states:
            save_object(folder / state, blocks.only(state))


@lru_cache(maxsize=2)
def blocks_at(path: Path, _stamp: tuple[int, int]) -> Blocks:
    """The blocks of a state that were saved."""
    blocks: Blocks = read_object(path)
    return blocks


@lru_cache(maxsize=8)
def spine_at(path: Path, _stamp: tuple[int, int]) -> Spine:
    """A spine that was saved; its derived arrays are kept with it."""
    spine: Spine = read_object(path)
    return spine


def save_histograms(folder: Path, histograms: Histograms) -> None:
    """Write histograms of a run of geounits, narrow: counts are below 2^31, cells below 2^16."""
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
    """Read what `save_histograms` wrote, or the geounits first ... last - 1 of it, counted from its own first."""
    level, begin = open_array(folder, "at").tolist()
    starts = open_array(folder, "starts")
    last = len(starts) - 1 if last is None else last
    within = slice(int(starts[first]), int(starts[last]))
    return kind(
        level,
        begin + first,
        np.asarray(starts[first : last + 1]) - within.start,
        open_array(folder, "cell")[within].astype(np.int64),
        open_array(folder, "count")[within].astype(np.int64),
    )
