"""Write the Parquet tables of a release."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spine.geography import IntArray
from tasks.inputs.arrow import text
from tasks.lifecycle.staging import release_file


def write_table(staged: Path, name: str, table: pa.Table) -> None:
    """Write a table as one file of the release."""
    with release_file(staged, name) as draft:
        pq.write_table(table, draft, compression="zstd")


def geounits(codes: NDArray[np.uint8], rows: IntArray) -> pa.DictionaryArray:
    """Return the geounit of each row; codes: the digits of all geounits."""
    return pa.DictionaryArray.from_arrays(pa.array(rows.astype(np.int32)), text(codes))
