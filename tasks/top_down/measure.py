"""Measure: add exact noise to the exact answers of query groups, on demand and always with the same result.

The noise of a query group is the stream `tda/PRODUCT/LEVEL/QUERY`; its row is the number of the geounit in the whole
run, in spine order. A row is drawn under one law, that of its geounit's share. So estimation and the release of the
measurements draw the same numbers, and nothing stores them in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from privacy.accounting.composition import Spend
from privacy.noise.query_noise import QueryNoise
from spine.geography import IntArray
from spine.noise import distinct_shares, replacement_cost
from spine.top_down import NoisyAnswers, TrueHistograms, exact_answers, query_group
from spine.top_down.queries import QueryGroup
from tasks.errors import Failed, Refused
from tasks.lifecycle.authorization import NoiseSource, read_drawing
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.reservation import Charging, Claim
from tasks.lifecycle.workers import Workers
from tasks.records.findings import Finding
from tasks.records.records import RecordFile
from tasks.top_down.run_plan import Tables, law, undrawable
from tasks.top_down.source import PLANNED, Branch, Source, load_range

if TYPE_CHECKING:
    from spine.top_down import Plan

TABLES, RECORDS = "prepared/tables", "prepared/{}"  # the second by histogram
FEW = 1 << 16  # sums of geounits that are all made, to read some


@dataclass(frozen=True)
class Measuring:
    """The measurements of a state, of the nation and the states' parts (US), or of a declaration's hierarchy.

    Called, it draws all answers of geounits; `at` draws those at addresses, which are the same.

    product: its name in the noise's address. exact: returns the exact histograms of the geounits first ... last - 1 of
    a level: confidential. offsets: geounits that are before the first in the run, by level. drawing: None for a truth,
    which may not draw and whose answers are exact. every: whether to draw also the answers about parts that a geounit
    declares empty, which no estimate reads; if not, a query's answers after the last one about another part are 0.
    """

    plan: Plan
    product: str
    exact: Callable[[int, int, int], TrueHistograms]
    offsets: tuple[int, ...]
    drawing: NoiseSource | None
    every: bool = True
    _made: dict[tuple[int, str, int], QueryNoise | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __call__(self, level: int, first: int, last: int) -> NoisyAnswers:
        """Draw the noisy answers of the geounits first ... last - 1 of a level.

        A row is drawn by its number on the level: it has the same noise whichever range asks for it. Where its share is
        0 it is not measured, and its answer is 0.
        """
        plan, exact, answers = self.plan, self.exact(level, first, last), {}
        name, shares = plan.spine.levels[level], plan.spine.shares[level][first:last]
        rows = _rows_by_share(shares)
        for query in plan.allocation.queries[name]:
            group = query_group(plan.product, query)
            answers[query] = answer = exact_answers(exact, group, first, last)
            ends = self._ends(level, group, first, last)
            for share, of_share in rows:
                if (noise := self._noise(level, query, share)) is None:
                    continue
                for end in np.unique(ends[of_share]).tolist():
                    at = of_share[ends[of_share] == end]
                    noise.add_to(answer, at, first + self.offsets[level] + at, group.width, end)
                    answer[at, end:] = 0
            answer[shares == 0] = 0
        return NoisyAnswers(first, last, answers)

    def at(self, level: str, query: str, geounits: IntArray, coordinates: IntArray) -> IntArray:
        """Draw noisy answers at addresses, both (n,): numbers of geounits of a level, coordinates of a query.

        These are `spine.wide.ReadAt`. An answer is the same whenever and with whichever others it is asked.
        """
        number, group = self.plan.spine.levels.index(level), query_group(self.plan.product, query)
        answers, shares = self._exact_at(number, group, geounits, coordinates), self.plan.spine.shares[number][geounits]
        for share, at in _rows_by_share(shares):
            if (noise := self._noise(number, query, share)) is not None:
                rows = geounits[at] + self.offsets[number]
                answers[at] += noise.draw_at(rows, coordinates[at], group.width)
        answers[shares == 0] = 0
        return answers

    def _exact_at(self, level: int, group: QueryGroup, geounits: IntArray, coordinates: IntArray) -> IntArray:
        """Return exact answers at addresses, from the sums of the geounits' cells that are not 0: confidential."""
        if not len(geounits):
            return np.zeros(0, np.int64)
        first, last = int(geounits.min()), int(geounits.max()) + 1
        own, asked = self.exact(level, first, last), (geounits - first) * group.width + coordinates
        of_entry = own.row * group.width + group.coordinate[own.cell]
        if (last - first) * group.width <= FEW:
            every: IntArray = np.bincount(of_entry, own.count, (last - first) * group.width).astype(np.int64)
            return np.asarray(every[asked])
        sums, entry = np.unique(of_entry, return_inverse=True)
        number = np.bincount(entry, own.count, len(sums) + 1).astype(np.int64)  # the last is of no address
        place = np.searchsorted(sums, asked)
        return np.where(np.append(sums, -1)[place] == asked, number[place], 0)

    def _ends(self, level: int, group: QueryGroup, first: int, last: int) -> IntArray:
        """Return (last - first,) how many answers of a query group are drawn for each geounit."""
        if self.every or (ends := self._ends_by_part[group.name]).min() == group.width:
            return np.full(last - first, group.width)
        own = (self.plan.bounds.allowed(level, slice(first, last)) * ends).max(axis=1)
        return np.where(own > 0, own, group.width)

    @cached_property
    def _ends_by_part(self) -> dict[str, IntArray]:
        """By query group, the number after its last answer about each declared part, (parts,)."""
        product, ends = self.plan.product, dict[str, IntArray]()
        for query in {query for asked in self.plan.allocation.queries.values() for query in asked}:
            ends[query] = np.zeros(len(self.plan.bounds.least), np.int64)
            np.maximum.at(ends[query], product.types, query_group(product, query).coordinate + 1)
        return ends

    def _noise(self, level: int, query: str, share: int) -> QueryNoise | None:
        """Return the noise of the geounits with a share, which is not 0; None for a truth."""
        plan, name = self.plan, self.plan.spine.levels[level]
        if (key := (level, query, share)) not in self._made:
            of_share = law(
                plan.allocation, Fraction(share, plan.spine.denominator), plan.allocation.queries[name][query]
            )
            self._made[key] = self.drawing and self.drawing.noise(of_share, f"tda/{self.product}/{name}/{query}")
        return self._made[key]


def _rows_by_share(shares: IntArray) -> list[tuple[int, IntArray]]:
    """Return each share that is not 0 with its rows; shares: (n,) of geounits."""
    return [(share, np.flatnonzero(shares == share)) for share in np.unique(shares[shares > 0]).tolist()]


class Asked(NamedTuple):
    """What a run asks to be charged to states of its account.

    costs: each histogram's noise below the nation. configuration_digest: what noise and reservation are bound to.
    """

    spend: Spend
    states: tuple[str, ...]
    costs: Mapping[str, Fraction]
    configuration_digest: str


@dataclass(frozen=True)
class MeasuredRun(Source):
    """A run as the source of its own measurements, which it draws under its secret; stages write besides

    ```
    prepared/tables              the paths of the input
    prepared/PRODUCT             the file of a histogram's records
    persons/PRODUCT/NUMBER       records of a chunk, counted by leaf * keys + cell       confidential
    counts/PRODUCT/SS.findings/FIRST   declared figures that the records contradict      confidential
    counts/PRODUCT/SS/LEVEL/FIRST      exact histograms of a level, in spine order       confidential
    ```
    record_kind: the kind of a histogram's records in their digests.
    """

    record_kind: ClassVar[str]

    def asked(self) -> Asked:
        """Return what the run asks to be charged."""
        raise NotImplementedError

    def offsets(self, branch: Branch) -> tuple[int, ...]:
        """Return the number of a branch's first geounit among those of the run, by level: the address of its noise."""
        raise NotImplementedError

    @property
    def tables(self) -> Tables:
        """Load the paths of the run's input."""
        return self._load(TABLES, Tables)

    def keep_design(self, design: Any) -> None:
        """Write the design into the run directory."""
        save_object(self / PLANNED, design)

    def read_public(self, workers: Workers, charging: Charging | None) -> list[Finding]:
        """Read the public files into the run directory; return their faults. charging: the account, to refuse early."""
        return []

    def open(self, product: str) -> tuple[RecordFile | None, list[Finding]]:
        """Open the records of a histogram; return None and findings for a file without its columns."""
        raise NotImplementedError

    def counting(self, product: str) -> tuple[Any, ...]:
        """Return how a chunk of records is counted: the last arguments of `counted_records.count_chunk`."""
        raise NotImplementedError

    def keys(self, product: str) -> tuple[int, int]:
        """Return how many keys a leaf has in the counted records, and how many, the first, are cells that count."""
        raise NotImplementedError

    def pieces(self, branch: Branch) -> list[tuple[int, int]]:
        """Return the ranges of a branch's leaves (first, last + 1) whose records are compared at once: here all."""
        return [(0, self.spine(branch).blocks)]

    def contradictions(
        self, branch: Branch, first: int, last: int, leaf: IntArray, cell: IntArray, count: IntArray
    ) -> Iterable[Finding]:
        """Return the declared figures that are not true of the records of the leaves first ... last - 1 of a branch.

        leaf: counted from `first`, with cell and count.
        """
        raise NotImplementedError

    def records(self, product: str) -> RecordFile:
        """Load what was opened as the records of a histogram."""
        return load_object(self / RECORDS.format(product), RecordFile)

    def counted_folder(self, product: str) -> Path:
        """Return the folder of the counted records of a histogram."""
        return self / f"persons/{product}"

    def counts_folder(self, branch: Branch, level: str) -> Path:
        """Return the folder of the exact histograms of a level, in batches by their first geounit."""
        return self / f"counts/{branch}/{level}"

    def exact(self, branch: Branch, level: str, first: int = 0, last: int | None = None) -> TrueHistograms:
        """Return the exact histograms of the geounits first ... last - 1 of a level, or of all: confidential."""
        spine = self.spine(branch)
        number = len(spine.starts[spine.levels.index(level)])
        return load_range(self.counts_folder(branch, level), TrueHistograms, number, first, last)

    def answers(self, branch: Branch) -> Measuring:
        """Return the noisy answers of a branch or of the nation. Raises Failed where the run may not draw."""
        drawing, plan = read_drawing(self), self.plan(branch)

        def exact(level: int, first: int, last: int) -> TrueHistograms:
            return self.exact(branch, plan.spine.levels[level], first, last)

        return Measuring(plan, branch.product, exact, self.offsets(branch), drawing)

    def needed_answers(self, branch: Branch) -> Measuring:
        """Return the noisy answers that an estimate of a branch or of the nation reads."""
        return replace(self.answers(branch), every=False)


def claim(run: MeasuredRun, workers: Workers) -> Claim:
    """Return what a run asks to be charged. Raises Refused, Failed as `check_costs` does."""
    asked = check_costs(run, workers)
    return Claim(run, asked.states, asked.spend, asked.configuration_digest, run.validated)


def check_costs(run: MeasuredRun, workers: Workers) -> Asked:
    """Compare the cost of the noise on every spine, from its laws, with what is asked to be charged; return that.

    Raises Failed where they differ; Refused where a law is too wide or too narrow for the sampler, which would stop the
    run after its charge.
    """
    asked = run.asked()
    calls = [(branch, asked.costs[branch.product]) for branch in run.branches]
    nations = [(nation, None) for nation in run.nations]  # on no path below it
    workers.map("reserve budget", run, check_cost, [*calls, *nations])
    return asked


def check_cost(run: MeasuredRun, branch: Branch, cost: Fraction | None) -> None:
    """Compare the cost of the noise on a spine with another, if one is given; check that its laws can be drawn."""
    plan = run.plan(branch)
    spine, allocation = plan.spine, plan.allocation
    if cost is not None and replacement_cost(spine, allocation) != cost:
        raise Failed(
            f"reserve budget: the noise on the spine of {branch.product}, {branch.name} does not cost what is charged"
        )
    for level, query, error in undrawable(allocation, distinct_shares(spine)):
        raise Refused(f"the noise of {query} in level {level} cannot be drawn: {error}")
