"""Blocks in water that have records in the measurements of 2020 and were moved to other blocks for tabulation.

The published tables and microdata count their records there. Source: U.S. Census Bureau, 2020 Census Privacy-Protected
Microdata File, technical documentation; pairs of a measured block and the block of the tables, both without the fourth
digit of the block that the spine's 16 digits repeat.
"""

from __future__ import annotations

import numpy as np

from spine.geography import IntArray

MOVED = """
010039900000001 010030108002009  120869900000022 120860080002011  481679901000039 481677239003135
060739901000002 060730187001280  250259901010031 250250503001006  530099901000035 530090019021025
060759902000001 060750179031031  360819901000002 360810916041000  530619900020017 530610401004007
120759900000008 120759704001101  410079900000010 410079511004030  550259917020003 550250032001000
450299901000001 450299708003004  450539901000002 450539503024009  721039900130009 721031704004006
"""


def moved_blocks() -> dict[int, int]:
    """Return the block of the tables by the block that was measured, codes of 16 digits."""
    codes = [int(f"{code[:12]}{code[11:]}") for code in MOVED.split()]
    return dict(zip(codes[::2], codes[1::2], strict=True))


def as_tabulated(public: IntArray) -> IntArray:
    """Return the blocks, codes of 16 digits, as the tables have them."""
    moved = moved_blocks()
    return np.array([moved.get(code, code) for code in public.tolist()], np.int64)
