"""Parquet tables: read row groups as columns of text, and report damage as findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.inputs.findings import Finding

NOT_PARQUET = "is not a Parquet file, or it is damaged"


def read_row_group(
    file: pq.ParquetFile, number: int, name: str, columns: Sequence[str]
) -> tuple[pa.Table | None, list[Finding]]:
    """Read columns of a row group as text, dictionary-encoded; no table where a column is damaged or is no text."""
    rows = file.metadata.row_group(number).num_rows
    try:
        table = file.read_row_group(number, columns=list(columns))
    except (pa.ArrowException, OSError, MemoryError) as error:
        if getattr(error, "errno", None):  # the file system's, which says nothing of the file
            raise
        return None, [Finding(name, f"row group {number + 1} is damaged and cannot be read", rows=rows)]
    try:
        return pa.table({column: _text(table[column]) for column in columns}), []
    except pa.ArrowException:
        return None, [Finding(name, "a column holds neither text nor numbers", rows=rows)]


def _text(column: pa.ChunkedArray) -> Any:
    text = column.cast(pa.string()).fill_null("")
    text.validate(full=True)  # Parquet promises UTF-8 and does not check it
    return text.dictionary_encode()
