"""Blocks of water in which the measurements of 2020 have residents, and the blocks in which the tables count them.

The Census Bureau moved their records when it tabulated (2020 Redistricting Data File Least Squares Estimates, README,
paragraph 7). Codes of 15 digits; both blocks of a pair are in one county.
"""

from __future__ import annotations

MOVED_BLOCKS = (
    ("010039900000001", "010030108002009"),
    ("060739901000002", "060730187001280"),
    ("060759902000001", "060750179031031"),
    ("120759900000008", "120759704001101"),
    ("120869900000022", "120860080002011"),
    ("250259901010031", "250250503001006"),
    ("360819901000002", "360810916041000"),
    ("410079900000010", "410079511004030"),
    ("450299901000001", "450299708003004"),
    ("450539901000002", "450539503024009"),
    ("481679901000039", "481677239003135"),
    ("530099901000035", "530090019021025"),
    ("530619900020017", "530610401004007"),
    ("550259917020003", "550250032001000"),
    ("721039900130009", "721031704004006"),
)
