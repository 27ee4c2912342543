"""The spine of every state, public: conventional, AIAN or optimized, with each geounit's share of the budget."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spine.build import aian, conventional, optimized
from spine.bypass import bypass
from spine.geocodes import geocodes, largest_counters
from spine.geography import Geography, IntArray
from spine.hierarchy import Spine
from spine.settings import SpineSettings
from spine.top_down import PRODUCTS, Invariants, invariants
from tasks.lifecycle.files import load_object, save_object, stamp, unless_done
from tasks.lifecycle.process import keep_kernels
from tasks.lifecycle.workers import Workers
from tasks.top_down.run import TopDownRun
from tasks.top_down.run_plan import ENGINE, US, Design, Kind, ProductName

if TYPE_CHECKING:
    from spine.top_down import Plan

ROWS = 1024  # geounits measured at once: 1,024 x 2,603 counts are 21 MB


@dataclass(frozen=True)
class StateSummary:
    """What a state's spine tells the whole run.

    geounits, counters: by level, how many there are and the largest counter in a geocode. digest: of the spine with its
    shares. shares, denominator: of the state's parts; quarters: (parts, 8) declared living quarters.
    """

    state: str
    geounits: tuple[int, ...]
    counters: tuple[int, ...]
    digest: str
    shares: IntArray
    denominator: int
    quarters: IntArray


def make_spine(geography: Geography, design: Design, product: ProductName) -> Spine:
    """The spine of one state's blocks below the nation: a forest of the state's parts, with shares."""
    settings, allocation = design.settings[product], design.allocations[product]
    make = {"conventional": conventional, "aian": aian, "optimized": optimized}[design.kind]
    spine = make(geography, settings)
    spine = spine.with_shares(dict(allocation.on(spine.levels).levels))
    if spine.levels[0] == US:
        spine = spine.without_root()
    return bypass(spine, settings) if design.kind == "optimized" else spine


def build_spines(run: TopDownRun, workers: Workers) -> None:
    """Build the spine of every state for every product."""
    each = [(product, state) for product in run.design.products for state in run.validated.states]
    workers.map("spine", run, build_state, each)
    for product in run.design.products:
        save_object(offsets_path(run, product), _offsets(summaries(run, product)))


def build_state(run: TopDownRun, product: ProductName, state: str) -> None:
    """Save the spine of a state, and what the run must know of it."""
    path = summary_path(run, product, state)
    unless_done(path, lambda: _build(run, product, state))


def _build(run: TopDownRun, product: ProductName, state: str) -> None:
    blocks = run.state(state)
    spine = make_spine(blocks.geography, run.design, product)
    save_object(run.spine_path(product, state), spine)
    summary = StateSummary(
        state,
        tuple(map(len, spine.starts)),
        largest_counters(spine),
        digest_spine(spine, blocks.geography),
        spine.shares[0],
        spine.denominator,
        np.add.reduceat(blocks.quarters[spine.order], spine.starts[0], axis=0),
    )
    save_object(summary_path(run, product, state), summary)


def summary_path(run: TopDownRun, product: str, state: str) -> Path:
    """Where what the run must know of a state's spine lies."""
    return run / f"prepared/spine/{product}/{state}.summary"


def offsets_path(run: TopDownRun, product: str) -> Path:
    """Where the number of each state's first geounit of each level lies."""
    return run / f"prepared/spine/{product}/offsets"


def _offsets(summaries: list[StateSummary]) -> dict[str, tuple[int, ...]]:
    """For each state the number that its first geounit of each level has among those of all states."""
    counts = np.array([summary.geounits for summary in summaries])
    before = np.cumsum(counts, axis=0) - counts
    return {summary.state: tuple(row) for summary, row in zip(summaries, before.tolist(), strict=True)}


def offsets(run: TopDownRun, product: str, state: str) -> tuple[int, ...]:
    """The numbers of a state's first geounits of each level in the whole run: the addresses of their noise."""
    of_state: tuple[int, ...] = load_object(offsets_path(run, product))[state]
    return of_state


def summaries(run: TopDownRun, product: str) -> list[StateSummary]:
    """What the run knows of every state's spine."""
    return [load_object(summary_path(run, product, state)) for state in run.validated.states]


def spine_digest(run: TopDownRun) -> str:
    """One digest of the spines of all states and products: what the addresses of the noise stand for."""
    told = {product: [summary.digest for summary in summaries(run, product)] for product in run.design.products}
    return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def digest_spine(spine: Spine, geography: Geography) -> str:
    """The digest of a state's spine: its levels, geounits, shares and blocks."""
    digest = sha256(json.dumps([spine.levels, spine.denominator]).encode())
    for array in (geography.geocode[spine.order], *spine.starts, *spine.shares):
        digest.update(len(array).to_bytes(8, "big") + np.ascontiguousarray(array, "<i8").tobytes())
    return digest.hexdigest()


def plan_of(run: TopDownRun, product: ProductName, state: str) -> Plan:
    """The plan of estimating a state, or (US) the states' parts below the nation; kept from call to call.

    The first of a process decides where compiled kernels are kept: numba, which they need, is imported with it.
    """
    return _plan_of(run, product, state, (stamp(run / "prepared/validated"), stamp(run / "prepared/design")))


@lru_cache(maxsize=4)
def _plan_of(run: TopDownRun, product: ProductName, state: str, _made: tuple[tuple[int, int], ...]) -> Plan:
    if "spine.compiled" not in sys.modules:
        keep_kernels(run.state_folder)
    from spine.top_down import Plan

    design = run.design
    if state == US:
        spine, declared = _nation(run, product)
    else:
        spine, blocks = run.spine(product, state), run.state(state)
        of_block = blocks.geography.state[spine.order]
        declared = invariants(spine, blocks.quarters[spine.order], blocks.totals, of_block)
    allocation = design.allocations[product]
    return Plan(PRODUCTS[ENGINE[product]], spine, allocation, declared, design.rounding, ROWS)


def _nation(run: TopDownRun, product: ProductName) -> tuple[Spine, Invariants]:
    """The nation over the states' parts, which stand where a spine has its blocks."""
    states = summaries(run, product)
    parts = np.concatenate([state.shares for state in states])
    codes = np.concatenate([np.full(len(state.shares), int(state.state)) for state in states])
    (denominator,) = {state.denominator for state in states}  # one allocation's
    root = np.array([int(run.design.allocations[product].levels[US] * denominator)], np.int64)
    numbers: IntArray = np.arange(len(parts))
    totals = run.state(states[0].state).totals
    spine = Spine((US, "State"), numbers, (numbers[:1], numbers), (root, parts), denominator)
    return spine, invariants(spine, np.concatenate([state.quarters for state in states]), totals, codes)


def codes_of(run: TopDownRun, product: ProductName, state: str) -> list[NDArray[np.uint8]]:
    """The production programs' geocodes of a state's geounits, for each level an array of digits."""
    design, spine = run.design, run.spine(product, state)
    settings: SpineSettings = design.settings[product]
    if design.kind == "conventional":
        settings = replace(settings, aian_split=False)
    widest = tuple(
        max(column) for column in zip(*(summary.counters for summary in summaries(run, product)), strict=True)
    )
    return list(geocodes(spine, run.state(state).geography, settings, widest))


__all__ = ["Kind", "build_spines", "codes_of", "make_spine", "offsets", "plan_of", "spine_digest", "summaries"]
