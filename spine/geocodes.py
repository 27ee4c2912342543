"""Geocodes of the geounits of a spine, as the production programs write them (docs/spec/spine.md#geocodes).

AIAN flag and state; '10' and the county, or '0' and the AIANNH code; one zero-padded counter a level below; for a block
its 16-digit geocode at the end. Counters are as wide as the run's largest needs. Where pure DP splits a state or a
county, its pieces get a counter as well.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spine.build import county_codes
from spine.entities import in_aian
from spine.geography import Geography, IntArray
from spine.hierarchy import Spine
from spine.settings import SpineSettings

Digits = NDArray[np.uint8]


def largest_counters(spine: Spine) -> tuple[int, ...]:
    """Return for each level above the blocks, the largest counter that a geounit of it could get among its siblings."""
    return tuple(int(_counter(spine, level).max()) for level in range(len(spine.levels) - 1))


def geocodes(spine: Spine, geography: Geography, settings: SpineSettings, counters: tuple[int, ...]) -> list[Digits]:
    """Return for each level the (geounits, width) ASCII digits of the geocodes; a root has none (width 0).

    counters: the largest counters of the run, from which the widths follow.
    """
    part = in_aian(geography, settings) if settings.aian_split else np.zeros(len(geography), bool)
    split = settings.split if settings.definition == "puredp" else ()
    prefixes: list[Digits] = []
    prefix: Digits = np.zeros((len(spine.starts[0]), 0), np.uint8)
    for level, name in enumerate(spine.levels):
        first = spine.order[spine.starts[level]]
        prefix = prefix[spine.parents[level]]
        if name == "Block":
            pieces = [digits(geography.geocode[spine.order], 16)]
        else:
            pieces = []
            if name == "State":
                pieces = [digits(part[first].astype(np.int64), 1), digits(geography.state[first], 2)]
            elif name == "County":
                pieces = [digits(county_codes(geography, part, settings)[first], 5)]
            if (level or pieces) and (not pieces or name in split):
                pieces.append(digits(_counter(spine, level), len(str(counters[level]))))
        prefix = np.hstack([prefix, *pieces])
        prefixes.append(prefix)
    return prefixes


def digits(number: IntArray, width: int) -> Digits:
    """Return the (n, width) ASCII digits of integers, zero-padded."""
    powers = 10 ** np.arange(width - 1, -1, -1, dtype=np.int64)
    return (number[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def _counter(spine: Spine, level: int) -> IntArray:
    """Return the position of each geounit among its siblings, from 0."""
    parents = spine.parents[level]
    return np.arange(len(parents)) - np.searchsorted(parents, parents)
