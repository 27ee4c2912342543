"""The columns of a bottom-up release, which follow from its domain, for its dictionary.csv."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tasks.inputs.names import NAME_COLUMNS, NAMES_FILE
from tasks.lifecycle.dictionary import Column, Dictionary

COUNT = Column("COUNT", "records", "the published count, with noise, in multiples of the step")
MOE = Column("MOE", "records", "the margin of error at 95% of the noise in the count, before calibration and clipping")
NAMES = (
    Column(NAME_COLUMNS[0], "code", "the type of a region: the column that has its code"),
    Column(NAME_COLUMNS[1], "code", "its code"),
    Column(NAME_COLUMNS[2], "text", "its name"),
)


def dictionary(tables: Mapping[str, Sequence[str]]) -> Dictionary:
    """Return the dictionary of tables, each by its name with the names of its columns."""
    return {
        pattern: (*(Column(name, "code", "a level of the declared domain") for name in columns), *counts)
        for table, columns in tables.items()
        for pattern, counts in ((f"{table}.csv", (COUNT,)), (f"parquet/{table}.parquet", (COUNT, MOE)))
    } | {NAMES_FILE: NAMES}
