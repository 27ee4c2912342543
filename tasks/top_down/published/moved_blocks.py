"""Blocks of water with records in the measurements of 2020, and the blocks that count these records in the tables.

The Census Bureau moved the records when it tabulated: noisy measurements have the first block of a pair, published
tables and microdata the second; both are in one county. Source: U.S. Census Bureau, 2020 Redistricting Data File Least
Squares Estimates, README, paragraph 7; 2020 Census Privacy-Protected Microdata File, technical documentation.
"""

from __future__ import annotations

import numpy as np

from spine.geography import IntArray
from tasks.records.block_codes import long_codes

MOVED = {  # as measured: as tabulated, 15 digits each
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


def as_tabulated(public: IntArray) -> IntArray:
    """Return the tables' codes of blocks, all codes of 16 digits."""
    measured, tabulated = (long_codes(np.array(codes)).tolist() for codes in (list(MOVED), list(MOVED.values())))
    moved = dict(zip(measured, tabulated, strict=True))
    return np.array([moved.get(code, code) for code in public.tolist()], np.int64)
