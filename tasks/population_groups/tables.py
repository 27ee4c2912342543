"""The tables of a release: their columns of groups, in batches, as the Bureau's text and as Parquet with margins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tasks.lifecycle.staging import PIPES, release_file
from tasks.population_groups.domain import Domain
from tasks.population_groups.group_tables import Tables
from tasks.population_groups.levels import Level

GROUPS_AT_ONCE = 100_000


def group_columns(domain: Domain, group: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Return REGION_ID, REGION_TYPE and ITERATION_CODE of these groups."""
    region, position = np.divmod(group, len(domain.iteration_codes))
    region_type = pa.array([domain.level.region_type]).take(pa.array(np.zeros(len(group), np.int32)))
    return {
        "REGION_ID": pa.array(domain.region_ids, pa.string()).take(pa.array(region)),
        "REGION_TYPE": region_type,
        "ITERATION_CODE": pa.array(domain.iteration_codes, pa.string()).take(pa.array(position)),
    }


def batches(pieces: Iterable[Tables], kind: type[Tables]) -> Iterator[Tables]:
    """Yield parts of GROUPS_AT_ONCE groups, wherever the pieces are cut, and the rest; at least one, if empty."""
    held, given = kind.load([]), False
    for piece in pieces:
        held = type(piece).join([held, piece]) if len(held.group) else piece
        whole = len(held.group) // GROUPS_AT_ONCE * GROUPS_AT_ONCE
        for start in range(0, whole, GROUPS_AT_ONCE):
            yield held.take(np.arange(start, start + GROUPS_AT_ONCE))
            given = True
        held = held.take(np.arange(whole, len(held.group)))
    if len(held.group) or not given:  # an empty table still has a header
        yield held


def write_table(out: Path, table: str, level: Level, parts: Iterator[pa.Table]) -> None:
    """Write a table of a level into OUT as text and as Parquet; text has no margins, except those of estimates."""
    first = next(parts)
    in_text = [name for name in first.column_names if name != "MOE" or "ESTIMATE" in first.column_names]
    with (
        release_file(out, f"{table}/{level.slug}.csv") as text,
        release_file(out, f"parquet/{table}/{level.slug}.parquet") as columns,
        pa.csv.CSVWriter(text, first.select(in_text).schema, write_options=PIPES) as as_text,
        pq.ParquetWriter(columns, first.schema, compression="zstd") as as_parquet,
    ):
        while True:
            as_text.write_table(first.select(in_text))
            as_parquet.write_table(first)
            if (following := next(parts, None)) is None:
                break
            first = following
