"""The passes of the redistricting run's least squares and rounding, by the level of the children.

Strategy1b_ST_CTY_TR_BG_isoTot_Ordering_dsepJune3 of the production program: on all levels but the blocks the children's
totals are estimated first (pass 0), and the other query groups within a band around them (last pass).
"""

from __future__ import annotations

BAND = 0.1  # how far a child's total may lie from pass 0's in the last pass, in persons

# Nested sums whose rounded values the rounding keeps close to, coarse to fine; the cells themselves come last.
ROUNDED = ("hhgq", "hhgq*hispanic", "hhgq*hispanic*cenrace")


def total_first(level: str) -> bool:
    """Whether the children's totals have a pass of their own: everywhere but at the blocks."""
    return level != "Block"
