"""A household's record, as SafeTab-H reads and counts it (docs/spec/files.md#household-recordstxt)."""

from __future__ import annotations

from tasks.records.marks import GRF_FILE, DataFiles
from tasks.records.record_fields import BLOCK_FIELDS, listed
from tasks.safetab.record_kind import CELL, RACE_FIELDS, RecordKind

TOTALS_FILE, TOTALS_PARQUET = "pop-group-totals.txt", "pop-group-totals.parquet"
DATA_FILES = DataFiles(
    ("household-records.txt", "household-records.parquet"), (GRF_FILE,), (TOTALS_FILE, TOTALS_PARQUET)
)
TYPES, TENURES = 5, 3  # cell = TENURES (HOUSEHOLD_TYPE - 1) + tenure; the third is rented, with or without rent
CELLS = TYPES * TENURES

HOUSEHOLD = RecordKind(
    product="Detailed DHC-B",
    noun="households",
    files=DATA_FILES,
    fields={
        **BLOCK_FIELDS,
        "HHRACE": listed((0,) * 63, width=2, place=CELL),  # checked only
        **RACE_FIELDS,
        "HOUSEHOLD_TYPE": listed(range(0, CELLS, TENURES), place=CELL),
        "TEN": listed((0, 1, 2, 2), place=CELL),
    },
    cells=CELLS,
)
