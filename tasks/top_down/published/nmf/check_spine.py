"""Compare the geocodes of published files with those of the spine that das-flows makes of the same blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spine.geocodes import geocodes, largest_numbers
from spine.production import allocation_for
from tasks.lifecycle.workers import Workers
from tasks.top_down.input.geography import make_spine
from tasks.top_down.published.nmf.source import NmfSource, level_codes
from tasks.top_down.release.nmf_layout import LEVELS, as_codes
from tasks.top_down.run_plan import ProductName

Compared = dict[str, tuple[int, int]]  # by county: blocks with the same geocode, and all


def check_spine(source: NmfSource, workers: Workers) -> dict[ProductName, Compared]:
    """Return by product and county how many blocks have the geocode that das-flows gives them, and of how many."""
    inventory = source.opened.inventory
    pairs = [(product, state) for product in inventory.products for state in inventory.states]
    found: dict[ProductName, Compared] = {product: {} for product in inventory.products}
    for (product, _), compared in zip(pairs, workers.map("check spine", source, compare_geocodes, pairs), strict=True):
        found[product] |= compared
    return found


def compare_geocodes(source: NmfSource, product: ProductName, state: str) -> Compared:
    """Return the comparison of a state, whose spine is read."""
    geography, settings = source.state(state).geography, source.design.settings[product]
    design = replace(source.design, allocations={product: allocation_for(settings)})
    spine = make_spine(geography, design, product)
    largest = largest_numbers(spine, geography, settings)
    made = geocodes(spine, geography, settings, design.kind, largest)[-1]
    read = level_codes(source, product, state, LEVELS[-1])[np.argsort(source.spine(product, state).order)]
    own = as_codes(made)[np.argsort(spine.order)]
    same = read == own
    county, at = np.unique(geography.county, return_inverse=True)
    equal, blocks = np.bincount(at, same).astype(int).tolist(), np.bincount(at).tolist()
    return {f"{code:05d}": pair for code, pair in zip(county.tolist(), zip(equal, blocks, strict=True), strict=True)}
