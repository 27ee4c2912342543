"""Facts of the census of 2020 that its measurement files lack: declared populations, and blocks moved by tabulation.

Populations: U.S. Census Bureau, 2020 Census Apportionment Results, Table 2, Resident Population for the 50 States, the
District of Columbia, and Puerto Rico: 2020 Census (April 26, 2021). Moved blocks: U.S. Census Bureau, 2020
Redistricting Data File Least Squares Estimates, README, paragraph 7; 2020 Census Privacy-Protected Microdata File,
technical documentation. Some blocks of water have records in the measurements, which the Bureau moved to other blocks
of their counties when it tabulated: noisy measurements have the first block of a pair, published tables and microdata
the second.
"""

from __future__ import annotations

import numpy as np

from privacy.accounting.states import POSTAL
from spine.geography import IntArray
from tasks.records.block_codes import long_codes

SOURCE = "2020 Census Apportionment Results, Table 2 (U.S. Census Bureau, April 26, 2021)"
_APRIL_1_2020 = """
AL 5,024,279  AK 733,391    AZ 7,151,502  AR 3,011,524  CA 39,538,223 CO 5,773,714  CT 3,605,944  DE 989,948
DC 689,545    FL 21,538,187 GA 10,711,908 HI 1,455,271  ID 1,839,106  IL 12,812,508 IN 6,785,528  IA 3,190,369
KS 2,937,880  KY 4,505,836  LA 4,657,757  ME 1,362,359  MD 6,177,224  MA 7,029,917  MI 10,077,331 MN 5,706,494
MS 2,961,279  MO 6,154,913  MT 1,084,225  NE 1,961,504  NV 3,104,614  NH 1,377,529  NJ 9,288,994  NM 2,117,522
NY 20,201,249 NC 10,439,388 ND 779,094    OH 11,799,448 OK 3,959,353  OR 4,237,256  PA 13,002,700 RI 1,097,379
SC 5,118,425  SD 886,667    TN 6,910,840  TX 29,145,505 UT 3,271,616  VT 643,077    VA 8,631,393  WA 7,705,281
WV 1,793,716  WI 5,893,718  WY 576,851    PR 3,285,874
"""


def totals_of_2020() -> dict[int, int]:
    """Return the resident population of April 1, 2020, by state code."""
    words = _APRIL_1_2020.replace(",", "").split()
    by_postal = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    return {int(state): by_postal[postal] for state, postal in POSTAL.items()}


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
