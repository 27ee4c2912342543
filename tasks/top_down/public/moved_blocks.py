"""The blocks in water that had records in the production runs of 2020, and the blocks they were moved to at tabulation.

Noisy measurements name the first, tables and microdata the second.
"""

from __future__ import annotations

import numpy as np

from spine.geography import IntArray

MOVED = {  # in water: as tabulated, 15 digits each
    10039900000001: 10030108002009,
    60739901000002: 60730187001280,
    60759902000001: 60750179031031,
    120759900000008: 120759704001101,
    120869900000022: 120860080002011,
    250259901010031: 250250503001006,
    360819901000002: 360810916041000,
    410079900000010: 410079511004030,
    450299901000001: 450299708003004,
    450539901000002: 450539503024009,
    481679901000039: 481677239003135,
    530099901000035: 530090019021025,
    530619900020017: 530610401004007,
    550259917020003: 550250032001000,
    721039900130009: 721031704004006,
}


def into_universe(blocks: IntArray, universe: IntArray) -> IntArray:
    """Return 15-digit codes of blocks, moved back to the water where only that block is in the universe.

    universe: sorted 15-digit codes of the blocks with living quarters.
    """
    found = blocks
    for water, tabulated in MOVED.items():
        if _has(universe, water) and not _has(universe, tabulated):
            found = np.where(found == tabulated, water, found)
    return found


def _has(universe: IntArray, block: int) -> bool:
    at = int(np.searchsorted(universe, block))
    return at < len(universe) and int(universe[at]) == block
