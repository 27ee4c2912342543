"""The spine of every state, public: conventional, AIAN or optimized, with each geounit's share of the budget."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spine.build import measured_spine
from spine.geocodes import geocodes, largest_numbers
from spine.geography import Geography, IntArray
from spine.hierarchy import Spine
from spine.redistricting import redistricting_bounds, redistricting_passes
from spine.top_down import Bounds
from tasks.lifecycle.files import complete, load_object, open_array, save_object, stamp
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.run_directory import VALIDATED
from tasks.records.arrow import text
from tasks.top_down.run_plan import SCHEMAS, US, Design, ProductName
from tasks.top_down.source import Source

if TYPE_CHECKING:
    from spine.top_down import Plan
    from tasks.lifecycle.workers import Workers

OFFSETS = "prepared/spine/{}/offsets"
ROWS = 1024  # geounits measured at once: 1,024 x 2,603 counts are 21 MB


@dataclass(frozen=True)
class StateSummary:
    """What the whole run needs of a state's spine.

    geounits: how many there are, by level. numbers: the largest in a geocode, by level; () where geocodes were read.
    digest: of the spine with its shares. shares, denominator: of the state's parts. quarters: (parts, 8) declared.
    """

    geounits: tuple[int, ...]
    numbers: tuple[int, ...]
    digest: str
    shares: IntArray
    denominator: int
    quarters: IntArray


def make_spine(geography: Geography, design: Design, product: ProductName) -> Spine:
    """Return the spine of one state's blocks below the nation, with shares: a forest of the state's parts."""
    settings, allocation = design.settings[product], design.allocations[product]
    return measured_spine(design.kind, geography, settings, allocation, root=settings.jurisdiction == "pr")


def build_spines(source: Source, workers: Workers) -> None:
    """Build the spine of every state for every product."""
    workers.map("spine", source, build_state, source.product_states)
    for product in source.design.products:
        states = summaries(source, product)
        counts = np.array([state.geounits for state in states])
        before = map(tuple, (np.cumsum(counts, axis=0) - counts).tolist())
        save_object(source / OFFSETS.format(product), dict(zip(source.validated.states, before, strict=True)))


def build_state(source: Source, product: ProductName, state: str) -> None:
    """Save the spine of a state and its summary."""
    if _summary_path(source, product, state).exists():
        return
    geography, design = source.state(state).geography, source.design
    spine = make_spine(geography, design, product)
    save_spine(source, product, state, spine, largest_numbers(spine, geography, design.settings[product]))


def save_spine(source: Source, product: ProductName, state: str, spine: Spine, numbers: tuple[int, ...] = ()) -> None:
    """Save the spine of a state, and its summary last; numbers: as in `StateSummary`."""
    blocks = source.state(state)
    save_object(source.spine_path(product, state), spine)
    summary = StateSummary(
        tuple(map(len, spine.starts)),
        numbers,
        digest_spine(spine, blocks.geography),
        spine.shares[0],
        spine.denominator,
        np.add.reduceat(blocks.quarters[spine.order], spine.starts[0], axis=0),
    )
    save_object(_summary_path(source, product, state), summary)


def _summary_path(source: Source, product: str, state: str) -> Path:
    return source / f"prepared/spine/{product}/{state}.summary"


def offsets(source: Source, product: str, state: str) -> tuple[int, ...]:
    """Return the number of a state's first geounit among those of the run, by level: the address of its noise."""
    return load_object(source / OFFSETS.format(product), dict[str, tuple[int, ...]])[state]


def summaries(source: Source, product: str) -> list[StateSummary]:
    """Return the summary of every state's spine."""
    return [load_object(_summary_path(source, product, state), StateSummary) for state in source.validated.states]


def spine_digest(source: Source) -> str:
    """Return one digest of the spines of all states and products, which the addresses of the noise refer to."""
    digests = {product: [state.digest for state in summaries(source, product)] for product in source.design.products}
    return sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def digest_spine(spine: Spine, geography: Geography) -> str:
    """Return the digest of a state's spine: its levels, geounits, shares and blocks."""
    digest = sha256(json.dumps([spine.levels, spine.denominator]).encode())
    for array in (geography.geocode[spine.order], *spine.starts, *spine.shares):
        digest.update(len(array).to_bytes(8, "big") + np.ascontiguousarray(array, "<i8").tobytes())
    return digest.hexdigest()


def plan_of(source: Source, product: ProductName, state: str) -> Plan:
    """Return the plan of estimating a state, or (US) the states' parts below the nation; cached.

    The first call in a process decides where compiled kernels are cached: it imports numba.
    """
    return _plan_of(source.path, product, state, (stamp(source / VALIDATED), stamp(source / "prepared/design")))


@lru_cache(maxsize=4)
def _plan_of(path: Path, product: ProductName, state: str, _made: tuple[tuple[int, int], ...]) -> Plan:
    source = Source(path)
    use_kernels(source.runs_folder)
    from spine.top_down import Plan

    design = source.design
    if state == US:
        spine, declared = _nation(source, product)
    else:
        spine, blocks = source.spine(product, state), source.state(state)
        quarters, of_block = blocks.quarters[spine.order], blocks.geography.state[spine.order]
        declared = redistricting_bounds(SCHEMAS[product], spine, quarters, blocks.totals, of_block)
    allocation = design.allocations[product]
    passes = redistricting_passes(SCHEMAS[product])
    return Plan(SCHEMAS[product], spine, allocation, declared, passes, ROWS)


def _nation(source: Source, product: ProductName) -> tuple[Spine, Bounds]:
    """Return the nation over the states' parts, which take the place of a spine's blocks."""
    states = summaries(source, product)
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


def codes_of(source: Source, product: ProductName, state: str) -> list[NDArray[np.uint8]]:
    """Return the geocodes of a state's geounits, an array of digits for each level: as read, else as production's.

    US: of the nation, which has no digits.
    """
    if state == US:
        return [np.zeros((1, 0), np.uint8)]
    if (folder := codes_folder(source, product, state)).exists():
        return [open_array(folder, path.stem) for path in complete(folder)]
    design, spine = source.design, source.spine(product, state)
    numbers = [summary.numbers for summary in summaries(source, product)]
    largest = tuple(max(column) for column in zip(*numbers, strict=True))
    return geocodes(spine, source.state(state).geography, design.settings[product], design.kind, largest)


def codes_folder(source: Source, product: str, state: str) -> Path:
    """Return where the geocodes of a spine that was read are kept, by the number of the level."""
    return source / f"prepared/spine/{product}/{state}.geocodes"


def geounits(codes: NDArray[np.uint8], rows: IntArray) -> pa.DictionaryArray:
    """Return the geounit of each row of a table; codes: the digits of all geounits."""
    return pa.DictionaryArray.from_arrays(pa.array(rows.astype(np.int32)), text(codes))
