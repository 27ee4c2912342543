"""Release: T3 and T4 as the Bureau's files, one for each detail and level, and as Parquet with margins of error.

REGION_ID|REGION_TYPE|ITERATION_CODE|T3_DATA_CELL|COUNT (docs/spec/files.md#detailed-dhc-b-release), rows sorted by
region, iteration and cell. A detail that no group of a level has is no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privacy.tables.published import Published
from spine.settings import Jurisdiction
from tasks.lifecycle.staging import open_staging
from tasks.lifecycle.workers import Workers
from tasks.releases.published import rows_of
from tasks.safetab.description import write_tabulated
from tasks.safetab.domain import load_domain
from tasks.safetab.group_tables import (
    batches,
    group_columns,
    groups_by_detail,
    load_final,
    margins_by_level,
    write_table,
)
from tasks.safetab.households.estimates import ESTIMATED, EstimatedTables, has_both
from tasks.safetab.households.manifest import describe_release
from tasks.safetab.households.run import HouseholdRun
from tasks.safetab.households.tables import KINDS, CountTable, HouseholdTables
from tasks.safetab.levels import Level


def stage_release(
    run: HouseholdRun, workers: Workers, jurisdiction: Jurisdiction, out: Path, options: Mapping[str, object]
) -> None:
    """Write the whole release into its staging folder: every level's tables, what is tabulated, report and manifest."""
    configuration = run.parameters.configuration
    levels = configuration.levels(jurisdiction)
    made = [(level, KINDS[table.name]) for level in levels for table in configuration.tables(level)]
    staged, counts = open_staging(run, out, jurisdiction), len(made)
    if options.get("estimates"):
        made += [(level, kind) for level in levels if has_both(run, level) for kind in ESTIMATED.values()]
    groups = workers.map("release", run, groups_by_detail, made)
    files = [
        (*each, detail, staged)
        for each, numbers in zip(made, groups, strict=True)
        for detail, number in enumerate(numbers)
        if number
    ]
    workers.map("release", run, write_detail, files)
    write_tabulated(run, jurisdiction, staged)
    published = {(level, kind.TABLE.name): each for (level, kind), each in zip(made[:counts], groups, strict=False)}
    describe_release(run, jurisdiction, staged, published, options)


def write_detail(run: HouseholdRun, level: Level, kind: type[HouseholdTables], detail: int, out: Path) -> None:
    """Write the tables of one detail of a level, or their estimates, as text and Parquet into OUT."""
    write_table(out, kind, kind.TABLE.published[detail].measured, level, _rows(run, level, kind, detail))


def _rows(run: HouseholdRun, level: Level, kind: type[HouseholdTables], detail: int) -> Iterator[pa.Table]:
    """Yield the rows of the groups' tables of one detail, in batches."""
    table, domain = kind.TABLE.published[detail], load_domain(run, level)
    pieces = (piece.take(np.flatnonzero(piece.detail == detail)) for piece in load_final(run, level, kind))
    margins = margins_of(run, level, kind.TABLE, detail)
    for part in batches(pieces, kind):
        count, margin = published_rows(run, part, table, margins)
        yield rows_of(table, group_columns(domain, part.group), {kind.COLUMN: count, "MOE": margin})


def published_rows(
    run: HouseholdRun, part: HouseholdTables, table: Published, margins: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of tables of one detail as they are published, and their margins: groups x rows each.

    margins: of counts, by the level whose noise they have. Sums come before clipping.
    """
    cells = part.cells.reshape(len(part.group), -1)
    if isinstance(part, EstimatedTables):
        numbers, margin = cells, part.margins.reshape(cells.shape)
    else:
        numbers, margin = table.counts(cells), margins[part.noise_of]
    return numbers if run.parameters.configuration.allow_negative_counts else np.maximum(numbers, 0), margin


def margins_of(run: HouseholdRun, level: Level, table: CountTable, detail: int) -> NDArray[np.int64]:
    """Return the margins of a table's rows, by the level whose noise it has: its own, or a coterminous donor's."""
    sums = [(table.name, cells) for cells in table.published[detail].draws.tolist()]
    return margins_by_level(run, level, KINDS[table.name], sums)
