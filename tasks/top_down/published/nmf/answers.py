"""The published answers of a state's geounits, mapped into memory in spine order.

```
noisy/PRODUCT/SS/published/LEVEL/values     (geounits, coordinates of all queries)
noisy/PRODUCT/SS/published/LEVEL/variances  (kinds, queries) distinct rows of variances, 0 for a query without answer
noisy/PRODUCT/SS/published/LEVEL/kind       (geounits,) which of them each geounit has; -1: no answer
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spine.geography import BoolArray, IntArray
from spine.production import allocation
from spine.redistricting import HOUSEHOLD
from spine.top_down import NoisyAnswers, query_group
from spine.top_down.queries import TOTAL
from spine.workload import FloatArray
from tasks.inputs.findings import Finding, has_errors
from tasks.lifecycle.errors import Failed
from tasks.lifecycle.files import atomic_path, load_object, open_array, remove
from tasks.lifecycle.workers import Workers
from tasks.top_down.input.geography import codes_of, plan_of
from tasks.top_down.published.nmf.faults import Faults
from tasks.top_down.published.nmf.inventory import LEVELS, Inventory, Part
from tasks.top_down.published.nmf.rows import Codes, Rows, as_codes, read_rows
from tasks.top_down.run import TopDownRun
from tasks.top_down.run_plan import PRODUCTS, SCHEMAS, US, ProductName

if TYPE_CHECKING:
    from spine.top_down import Plan

Variances = tuple[float, ...]  # by query, 0 for none
FAR = 40  # standard deviations: no noise is so large
TOO_FAR = f"a value more than {FAR} standard deviations below 0, or above the {{:,}} there can be"
LARGEST_NATION = 10**9
BLOCKS_AT_HAND = 400_000  # of a nation, whose answers are mapped at once: of persons 2 GB
INVENTORY = "prepared/published_files"  # of a run that estimates from such files
QUERIES: dict[ProductName, tuple[str, ...]] = {
    name: tuple(allocation(SCHEMAS[name].name, "us").queries["Block"]) for name in PRODUCTS
}


def shapes(product: ProductName) -> dict[str, tuple[int, ...]]:
    """Return the shape of each query's values: 1 for an axis that is summed over."""
    workload = SCHEMAS[product].workload
    found = {}
    for query in QUERIES[product]:
        kept, grouping = workload.keeps(query)
        sizes = {axis: size if axis in kept else 1 for axis, size in workload.axes.items()}
        if grouping and workload.grouped:
            sizes[workload.grouped] = len(workload.groups)
        found[query] = tuple(sizes.values())
    return found


def columns(product: ProductName) -> dict[str, slice]:
    """Return the columns of each query in the array of values."""
    widths = [query_group(SCHEMAS[product], query).width for query in QUERIES[product]]
    ends = list(accumulate(widths))
    return {query: slice(end - width, end) for query, width, end in zip(QUERIES[product], widths, ends, strict=True)}


def answers_folder(run: TopDownRun, product: str, state: str, level: str) -> Path:
    """Return the folder of the answers of a level of a state; US: of the nation."""
    return run / f"noisy/{product}/{state}/published/{level}"


class Kind(NamedTuple):
    """Geounits with the same variances. geocode: of the first."""

    variances: Variances
    geounits: int
    geocode: str


class _TooWide(Exception):
    """A number does not fit the array."""


def map_answers(
    run: TopDownRun, product: ProductName, state: str, level: str, keep: bool
) -> tuple[list[Finding], list[Kind]]:
    """Save the answers of a level of a state; return the findings, and the distinct rows of variances.

    keep: False to validate the answers and drop them, to be mapped again by `states_at_hand`.
    """
    found = _map_answers(run, product, state, level)
    if not keep:
        _values(run, product, state, level).unlink(missing_ok=True)  # gone where this piece is run again
    return found


def _values(run: TopDownRun, product: str, state: str, level: str) -> Path:
    return answers_folder(run, product, state, level) / "values.npy"


def _map_answers(run: TopDownRun, product: ProductName, state: str, level: str) -> tuple[list[Finding], list[Kind]]:
    inventory: Inventory = load_object(run / INVENTORY)
    parts = inventory.of(product, level, "DPQuery", state)
    codes, most = level_codes(run, product, state, level), largest_count(run, product, state)
    for kind in (np.int16, np.int32, np.int64):  # most levels fit the first
        faults = Faults()
        try:
            with atomic_path(answers_folder(run, product, state, level)) as folder:
                folder.mkdir()
                kinds = _map(folder, parts, product, codes, np.dtype(kind), most, faults)
                return faults.findings(), kinds
        except _TooWide:
            continue
    raise AssertionError("64-bit numbers fit 64 bits")


def largest_count(run: TopDownRun, product: ProductName, state: str) -> int:
    """Return what no count in a state can exceed: its declared population, or its housing units."""
    if state == US:
        return LARGEST_NATION
    blocks = run.state(state)
    return blocks.totals[int(state)] if product == "persons" else int(blocks.quarters[:, HOUSEHOLD].sum())


def is_far(answers: IntArray, variance: FloatArray | float, most: int) -> BoolArray:
    """Return which rows of answers no counts of 0 to `most` and noise of this variance explain."""
    noise = FAR * np.sqrt(variance)
    far: BoolArray = (answers.min(axis=1) < -noise) | (answers.max(axis=1) > most + noise)
    return far


def level_codes(run: TopDownRun, product: ProductName, state: str, level: str) -> Codes:
    """Return the geocodes of a level, in the order of the spine."""
    if state == US:
        return np.array([b""], "S1")
    return as_codes(codes_of(run, product, state)[LEVELS.index(level)])


def _map(
    folder: Path, parts: list[Part], product: ProductName, codes: Codes, kind: np.dtype[Any], most: int, faults: Faults
) -> list[Kind]:
    at = columns(product)
    width = max(column.stop for column in at.values())
    path = folder / "values.npy"
    np.lib.format.open_memmap(path, "w+", kind, (len(codes), width))
    variances = np.zeros((len(codes), len(at)), np.float32)
    order = np.argsort(codes)
    for part in parts:
        for rows in read_rows(part, shapes(product), faults):
            values = np.load(path, mmap_mode="r+")  # once for each batch: what stays mapped counts as memory in use
            _scatter(rows, part.name, codes, order, list(at.values()), values, variances, most, faults)
    np.load(path, mmap_mode="r+").flush()
    distinct, first, row, number = np.unique(
        variances, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    none = ~distinct.any(axis=1)
    np.save(folder / "variances.npy", distinct[~none].astype(float))
    np.save(folder / "kind.npy", np.where(none, -1, np.cumsum(~none) - 1)[row.ravel()].astype(np.int32))
    return [
        Kind(tuple(distinct[k].astype(float).tolist()), int(number[k]), codes[first[k]].decode())
        for k in np.flatnonzero(~none).tolist()
    ]


def _scatter(
    rows: Rows,
    file: str,
    codes: Codes,
    order: IntArray,
    at: list[slice],
    values: NDArray[Any],
    variances: FloatArray,
    most: int,
    faults: Faults,
) -> None:
    """Write a batch of rows to their places among the codes, which `order` sorts."""
    place = order[np.minimum(np.searchsorted(codes, rows.code, sorter=order), len(codes) - 1)]
    there = codes[place] == rows.code
    faults.add(file, "a geounit that has no Constraint row", rows.code[~there].tolist())
    key = place * len(at) + rows.query
    first = np.zeros(len(key), bool)
    first[np.unique(key, return_index=True)[1]] = True
    twice = there & (~first | (variances[place, rows.query] > 0))
    faults.add(file, "a row twice", rows.code[twice].tolist())
    off = np.abs(rows.plb * rows.variance - 1) > 1e-5  # False where there is no plb
    if (off & (rows.variance > 1.2)).any():  # below, the variance is not the parameter of the law
        faults.note("", "some plb are not 1 / variance: they are not used")
    keep = there & ~twice
    bounds = np.iinfo(values.dtype)
    for query in np.unique(rows.query[keep]).tolist():
        own = np.flatnonzero(keep & (rows.query == query))
        own = own[np.argsort(place[own], kind="stable")]
        columns = at[query]
        taken = rows.values.take(own).flatten().to_numpy(zero_copy_only=False).reshape(len(own), -1)
        far = is_far(taken, rows.variance[own], most)
        faults.add(file, TOO_FAR.format(most), rows.code[own[far]].tolist())
        own, taken = own[~far], taken[~far]
        if not len(own):
            continue
        if taken.min() < bounds.min or taken.max() > bounds.max:
            raise _TooWide
        values[place[own], columns] = taken
        variances[place[own], query] = rows.variance[own]


def states_at_hand(run: TopDownRun, workers: Workers) -> Iterator[tuple[str, ...]]:
    """Yield the states of a run in groups whose answers can be read until the next group is asked for.

    One group, unless the published files of a nation were read: then about a large state at a time, so that the scratch
    is a part of the nation's. Raises Failed where a file changed meanwhile.
    """
    dropped = [
        (product, state, level)
        for product, state in (run.product_states if is_from_files(run) else ())
        for level in LEVELS
        if not _values(run, product, state, level).exists()
    ]
    groups: list[list[str]] = [[]]
    blocks = 0
    for state in run.validated.states:
        own = len(run.spine(run.design.products[0], state).starts[-1]) if dropped else 0
        if groups[-1] and blocks + own > BLOCKS_AT_HAND:
            groups, blocks = [*groups, []], 0
        groups[-1].append(state)
        blocks += own
    for states in groups:
        calls = [call for call in dropped if call[1] in states]
        for call in calls:
            remove(answers_folder(run, *call))
        read = workers.map("read answers", run, map_answers, [(*call, True) for call in calls]) if calls else []
        if has_errors(finding for found, _ in read for finding in found):
            raise Failed("estimate: the published files changed while they were read")
        yield tuple(states)
        for call in calls:
            _values(run, *call).unlink()


@dataclass(frozen=True)
class FileAnswers:
    """The answers of a state, or (US) of the nation, as `Measuring` would answer."""

    run: TopDownRun
    product: ProductName
    state: str
    plan: Plan

    def __call__(self, level: int, first: int, last: int) -> NoisyAnswers:
        """Read the noisy answers of the geounits first ... last - 1 of a level; rows with the share 0 are void."""
        name = self.plan.spine.levels[level]
        states = self.run.validated.states if self.state == US and level else (self.state,)
        arrays = [open_array(answers_folder(self.run, self.product, state, name), "values") for state in states]
        values = arrays[0][first:last] if len(arrays) == 1 else np.concatenate(arrays)[first:last]
        at = columns(self.product)
        queries = self.plan.allocation.queries[name]
        return NoisyAnswers(first, last, {query: values[:, at[query]].astype(np.int64) for query in queries})


def is_from_files(run: TopDownRun) -> bool:
    """Return whether a run estimates from published files."""
    return (run / INVENTORY).exists()


def file_answers(run: TopDownRun, product: ProductName, state: str) -> FileAnswers:
    """Return the answers of a state or of the nation."""
    return FileAnswers(run, product, state, plan_of(run, product, state))


def shares_of(run: TopDownRun, product: str, state: str, level: str, numerators: Mapping[Variances, int]) -> IntArray:
    """Return the share of each geounit of a level by its variances; 0 for one without an answer."""
    folder = answers_folder(run, product, state, level)
    distinct = [numerators[tuple(row)] for row in open_array(folder, "variances").tolist()]
    shares: IntArray = np.array([*distinct, 0], np.int64)[open_array(folder, "kind")]
    return shares


def measured_total(run: TopDownRun, state: str) -> tuple[int, float] | None:
    """Return the population of a state by the noisy totals of its parts, and its variance; None where one has none."""
    folder = answers_folder(run, "persons", state, LEVELS[0])
    query = QUERIES["persons"].index(TOTAL)
    variance = open_array(folder, "variances").reshape(-1, len(QUERIES["persons"]))[open_array(folder, "kind"), query]
    if not variance.all():
        return None
    return int(open_array(folder, "values")[:, columns("persons")[TOTAL]].sum()), float(variance.sum())
