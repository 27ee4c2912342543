"""The stage `spine`: the spine of every state's blocks, with its shares, and a summary of it for the whole run."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from spine.build import measured_spine
from spine.geocodes import largest_numbers
from spine.geography import Geography
from spine.hierarchy import Spine
from tasks.lifecycle.files import save_object
from tasks.top_down.blocks import OFFSETS, BlockSource, StateSummary
from tasks.top_down.run_plan import Design, ProductName

if TYPE_CHECKING:
    from tasks.lifecycle.workers import Workers


def make_spine(geography: Geography, design: Design, product: ProductName) -> Spine:
    """Return the spine of one state's blocks below the nation, with shares: a forest of the state's parts."""
    settings, allocation = design.settings[product], design.allocations[product]
    return measured_spine(design.kind, geography, settings, allocation, root=settings.jurisdiction == "pr")


def build_spines(source: BlockSource, workers: Workers) -> None:
    """Build the spine of every state for every product."""
    workers.map("spine", source, build_state, source.product_states)
    for product in source.design.products:
        states = source.summaries(product)
        counts = np.array([state.geounits for state in states])
        before = map(tuple, (np.cumsum(counts, axis=0) - counts).tolist())
        save_object(source / OFFSETS.format(product), dict(zip(source.validated.states, before, strict=True)))


def build_state(source: BlockSource, product: ProductName, state: str) -> None:
    """Save the spine of a state and its summary."""
    if source.summary_path(product, state).exists():
        return
    geography, design = source.state(state).geography, source.design
    spine = make_spine(geography, design, product)
    save_spine(source, product, state, spine, largest_numbers(spine, geography, design.settings[product]))


def save_spine(
    source: BlockSource, product: ProductName, state: str, spine: Spine, numbers: tuple[int, ...] = ()
) -> None:
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
    save_object(source.summary_path(product, state), summary)


def digest_spine(spine: Spine, geography: Geography) -> str:
    """Return the digest of a state's spine: its levels, geounits, shares and blocks."""
    digest = sha256(json.dumps([spine.levels, spine.denominator]).encode())
    for array in (geography.geocode[spine.order], *spine.starts, *spine.shares):
        digest.update(len(array).to_bytes(8, "big") + np.ascontiguousarray(array, "<i8").tobytes())
    return digest.hexdigest()
