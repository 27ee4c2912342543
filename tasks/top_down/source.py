"""A source of measurements: histograms with their hierarchies, plans and answers, and who measured.

The hierarchy of a histogram is worked on by branches: those of the redistricting data are states, a
declaration has one.

```
prepared/design                   what was asked to be measured, and what is made of the measurements
prepared/validated                the facts about the input
noisy/PRODUCT/BRANCH/LEVEL/FIRST  estimates of a batch of geounits, and solves/, how they were found
```
All of it is public.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from spine.geography import IntArray
from spine.hierarchy import Spine
from spine.top_down.histogram import Histograms, joined
from tasks.errors import Failed
from tasks.lifecycle.files import complete, load_object, narrowest, read_object, save_object, stamp
from tasks.lifecycle.reservation import Input
from tasks.lifecycle.run_directory import VALIDATED, RunDirectory
from tasks.top_down.run_plan import US, Estimator

if TYPE_CHECKING:
    from spine.top_down import NoisyAnswers, Plan

PLANNED = "prepared/design"
FIRST = "0000000"  # the name of a batch that starts at the first geounit
Names: TypeAlias = Callable[[int, int, IntArray], dict[str, pa.Array]]  # first, last, places among these: the columns
T = TypeVar("T")
H = TypeVar("H", bound=Histograms)


@dataclass(frozen=True)
class Validated(Input):
    """The facts about a valid input that later stages need; published measurements have no digests of records.

    states: two-digit codes; ALL for a declaration. digests: those of public files, by name.
    """

    states: tuple[str, ...]
    nation: bool
    digests: dict[str, str]


@dataclass(frozen=True)
class Origin:
    """Who published measurements.

    run: the run of das-flows that measured, None for the Census Bureau. facts: how files in the Bureau's layout were
        read, for a manifest.
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


@dataclass(frozen=True, order=True)
class Branch:
    """A branch of a histogram's hierarchy, which is worked on by itself.

    product: the name of the histogram. name: of a state, two digits; US for the nation and the states' parts below it;
        ALL for a hierarchy of one branch.
    """

    product: str
    name: str

    def __str__(self) -> str:
        """Return its folder, PRODUCT/BRANCH."""
        return f"{self.product}/{self.name}"


class Descent(NamedTuple):
    """A stage of an estimate: the levels below `level` down to `lowest`, in batches of about `size` geounits of it."""

    title: str
    level: str
    lowest: str
    size: int


class BranchAnswers(Protocol):
    """The noisy answers of a state, or (US) of the nation and the states' parts: `spine.top_down.Measure`."""

    @property
    def plan(self) -> Plan:
        """The plan of estimating the state."""

    def __call__(self, level: int, first: int, last: int) -> NoisyAnswers:
        """Return the noisy answers of the geounits first ... last - 1 of a level; rows with the share 0 are void."""


@dataclass(frozen=True)
class Source(RunDirectory):
    """A handle on a source of measurements: only the path of its directory, so that it may be shown and sent.

    Answers are a run's (measure.py) or published (published/source.py). They are of blocks (blocks.py) or of the leaves
    of a declaration (declared/source.py).
    """

    answer_type: ClassVar[Any] = np.int64  # type of the answers in a release

    @property
    def design(self) -> Any:
        """Load the design: what was asked to be measured, and what is made of the measurements."""
        raise NotImplementedError

    @property
    def estimator(self) -> Estimator:
        """Return what the histograms are estimated by."""
        estimator: Estimator = self.design.estimator
        return estimator

    @property
    def folder(self) -> str:
        """Return the folder of OUT that a release goes to."""
        raise NotImplementedError

    @property
    def branches(self) -> Sequence[Branch]:
        """Return the branches of every histogram; the nation is none of them."""
        raise NotImplementedError

    def branches_of(self, product: str) -> list[Branch]:
        """Return the branches of a histogram."""
        return [branch for branch in self.branches if branch.product == product]

    @property
    def nations(self) -> list[Branch]:
        """Return the nation of every histogram, where it is measured."""
        products = dict.fromkeys(branch.product for branch in self.branches)
        return [Branch(product, US) for product in products if self.validated.nation]

    @property
    def descents(self) -> tuple[Descent, ...]:
        """Return the stages of an estimate; the first is that of the top level and the one below it."""
        raise NotImplementedError

    @property
    def limits(self) -> Sequence[tuple[int, int]]:
        """Return further limits of a batch: the geounits of a level, by its number, that it has at most, about."""
        return ()

    def plan(self, branch: Branch) -> Plan:
        """Return the plan of estimating a branch, or (US) the states' parts below the nation."""
        raise NotImplementedError

    def released(self, branch: Branch, level: str) -> tuple[str, Names]:
        """Return the file of a level's answers in a release's measurements, and what names its geounits there."""
        raise NotImplementedError

    def answers(self, branch: Branch) -> BranchAnswers:
        """Return the noisy answers of a state, or (US) of the nation. Raises Failed where the run may not draw."""
        raise NotImplementedError

    def needed_answers(self, branch: Branch) -> BranchAnswers:
        """Return the noisy answers that an estimate reads; those about parts that a geounit declares empty are void."""
        return self.answers(branch)

    @property
    def validated(self) -> Validated:
        """Load the facts about the input, which are written last."""
        return self._load(VALIDATED, Validated)

    @property
    def branch_levels(self) -> list[tuple[Branch, str]]:
        """Return every branch with each of its levels, the longest first; of the nation only its own level."""
        levels = [(branch, level) for branch in self.branches for level in reversed(self.spine(branch).levels)]
        levels += [(nation, US) for nation in self.nations]
        return sorted(levels, key=lambda each: (each[1] != levels[0][1], each[0].product))

    def _load(self, name: str, kind: type[T]) -> T:
        try:
            return load_object(self / name, kind)
        except FileNotFoundError:
            raise Failed("validate: the run was not validated") from None

    def spine(self, branch: Branch) -> Spine:
        """Return the spine of a branch."""
        return self.plan(branch).spine

    def estimates_folder(self, branch: Branch, level: str) -> Path:
        """Return the folder of a level's estimates, in batches by their first geounit."""
        return self / f"noisy/{branch}/{level}"

    @property
    def origin(self) -> Origin | None:
        """Return who published the measurements; None of a run, which makes them."""
        return None

    def batches(self, descent: Descent) -> list[tuple[Branch, int, int]]:
        """Cut the level that a stage starts from into batches: branch, first geounit, last + 1.

        Each has about `size` geounits of the lowest level, one of its own at the least.
        """
        found = []
        for branch in self.branches:
            spine = self.spine(branch)
            level, lowest = map(spine.levels.index, (descent.level, descent.lowest))
            found += [(branch, *ends) for ends in spine.pieces(level, (lowest, descent.size), *self.limits)]
        return found


def save_histograms(path: Path, histograms: Histograms) -> None:
    """Write histograms of neighbouring geounits in narrow types: counts are below 2^31."""
    narrow = replace(histograms, cell=narrowest(histograms.cell), count=histograms.count.astype(np.int32))
    save_object(path, narrow)


def load_histograms(path: Path, kind: type[H], first: int = 0, last: int | None = None) -> H:
    """Read what `save_histograms` wrote, or its geounits first ... last - 1, counted from its own first."""
    saved = read_object(path, kind)
    own = saved.only(saved.first + first, saved.last if last is None else saved.first + last)
    return replace(own, cell=own.cell.astype(np.int64), count=own.count.astype(np.int64))


def load_range(folder: Path, kind: type[H], number: int, first: int = 0, last: int | None = None) -> H:
    """Read the geounits first ... last - 1 of a level, or all `number`, from the folder of its batches."""
    last, starts = number if last is None else last, _starts_of_batches(folder, stamp(folder))
    begin = bisect_right(starts, first) - 1
    own = starts[begin : max(bisect_left(starts, last), begin + 1)]
    parts = [
        load_histograms(folder / f"{start:07d}", kind, max(first - start, 0), min(last, end) - start)
        for start, end in pairwise([*own, last])
    ]
    return joined(parts) if len(parts) > 1 else parts[0]


@lru_cache(maxsize=64)  # levels are read in many small ranges
def _starts_of_batches(folder: Path, _stamp: tuple[int, int]) -> tuple[int, ...]:
    return tuple(int(path.name) for path in complete(folder))
