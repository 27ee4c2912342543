"""A person's record, as SafeTab-P reads and counts it (docs/spec/files.md#person-recordstxt)."""

from __future__ import annotations

import numpy as np

from tasks.records.marks import GRF_FILE, DataFiles
from tasks.records.record_fields import BLOCK_FIELDS, boolean, digits, listed, whole
from tasks.safetab.record_kind import CELL, RACE_FIELDS, RecordKind

AGE23_BINS = (0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85)  # first ages
LAST_AGE = 115
DATA_FILES = DataFiles(("person-records.txt", "person-records.parquet"), (GRF_FILE,))
CELLS = 2 * len(AGE23_BINS)  # sex (male, female) x age23: cell = 23 (QSEX - 1) + age bin

PERSON = RecordKind(
    product="Detailed DHC-A",
    noun="persons",
    files=DATA_FILES,
    fields={
        "QAGE": whole((np.searchsorted(AGE23_BINS, np.arange(LAST_AGE + 1), "right") - 1).tolist(), place=CELL),
        "QSEX": listed((0, CELLS // 2), place=CELL),
        "HOUSEHOLDER": boolean(),
        **BLOCK_FIELDS,
        "CENRACE": digits(2, factor=0),
        **RACE_FIELDS,
    },
    cells=CELLS,
)
