"""Release: T3 and T4 as the Bureau's files, one for each detail and level, and as Parquet with margins of error.

REGION_ID|REGION_TYPE|ITERATION_CODE|T3_DATA_CELL|COUNT (docs/spec/files.md#detailed-dhc-b-release), rows sorted by
region, iteration and cell. A detail that no group of a level has is no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privacy.noise.margins import margin_of_error
from spine.settings import Jurisdiction
from tasks.detailed_dhcb.estimates import ESTIMATED, estimate_margins, has_both, margins_of_part
from tasks.detailed_dhcb.manifest import describe_release
from tasks.detailed_dhcb.published import KINDS, load_final
from tasks.detailed_dhcb.run import HouseholdRun
from tasks.detailed_dhcb.tables import TABLES, CountTable
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.staging import open_staging
from tasks.lifecycle.workers import Workers
from tasks.population_groups.domain import Domain, load_domain
from tasks.population_groups.group_tables import GroupTables
from tasks.population_groups.levels import Level
from tasks.population_groups.queries import load_queries
from tasks.population_groups.tables import batches, group_columns, write_table
from tasks.population_groups.tabulated import write_tabulated


def stage_release(
    run: HouseholdRun, workers: Workers, jurisdiction: Jurisdiction, out: Path, options: Mapping[str, object]
) -> None:
    """Write the whole release into its staging folder: every level's tables, what is tabulated, report and manifest."""
    configuration = run.parameters.configuration
    made = [
        (level, table.name) for level in configuration.levels(jurisdiction) for table in configuration.tables(level)
    ]
    staged = open_staging(run, out, jurisdiction)
    counted = dict(zip(made, workers.map("release", run, groups_by_detail, made), strict=True))
    files = [
        (level, table, detail, staged)
        for (level, table), groups in counted.items()
        for detail, number in enumerate(groups)
        if number
    ]
    workers.map("release", run, write_detail, files)
    if options.get("estimates"):
        estimated = [(*file, True) for file in files if has_both(run, file[0])]
        workers.map("release of estimates", run, write_detail, estimated)
    write_tabulated(run, jurisdiction, staged)
    describe_release(run, jurisdiction, staged, counted, options)


def groups_by_detail(run: HouseholdRun, level: Level, table: str) -> list[int]:
    """Return the number of groups of a level that have a table of each detail, a function of the release."""
    groups = np.zeros(len(TABLES[table].details), np.int64)
    for piece in load_final(run, level, KINDS[table]):
        groups += np.bincount(piece.detail, minlength=len(groups))
    return groups.tolist()


def write_detail(run: HouseholdRun, level: Level, table: str, detail: int, out: Path, estimates: bool = False) -> None:
    """Write the tables of one detail of a level, or their estimates, as text and Parquet into OUT."""
    kind = ESTIMATED[table] if estimates else KINDS[table]
    pieces = (piece.take(np.flatnonzero(piece.detail == detail)) for piece in load_final(run, level, kind))
    clip = not run.parameters.configuration.allow_negative_counts
    margins = (estimate_margins if estimates else margins_of)(run, level, TABLES[table], detail)
    rows = rows_of(load_domain(run, level), pieces, TABLES[table], detail, margins, kind, clip=clip)
    write_table(out, f"{'estimates/' * estimates}{table}/{TABLES[table].details[detail]}", level, rows)


def rows_of(
    domain: Domain,
    pieces: Iterable[GroupTables],
    table: CountTable,
    detail: int,
    margins: NDArray[np.int64],
    kind: type[GroupTables],
    *,
    clip: bool,
) -> Iterator[pa.Table]:
    """Yield the rows of the groups' tables, all of one detail, in batches."""
    rows = table.rows(detail)
    labels = pa.array([str(cell) for cell in rows])
    of_estimates = kind is ESTIMATED[table.name]
    for part in batches(pieces, kind):
        cells = part.cells.reshape(len(part.group), int(table.widths[detail]))
        count = cells @ summed(table, detail)
        columns = group_columns(domain, np.repeat(part.group, len(rows)))
        columns[table.column] = labels.take(pa.array(np.tile(np.arange(len(rows)), len(part.group))))
        count = np.maximum(count, 0) if clip else count
        margin = margins_of_part(part, margins) if of_estimates else margins[part.noise_of]
        name = "ESTIMATE" if of_estimates else "COUNT"
        yield pa.table({**columns, name: count.reshape(-1), "MOE": margin.reshape(-1)})


def summed(table: CountTable, detail: int) -> NDArray[np.int64]:
    """Return which measured cells each row of a table sums: measured cells x rows, 0 or 1."""
    rows = table.rows(detail).values()
    return np.array([np.isin(np.arange(table.widths[detail]), places) for places in rows], np.int64).T


def margins_of(run: HouseholdRun, level: Level, table: CountTable, detail: int) -> NDArray[np.int64]:
    """Return the margins of a table's rows, by the level whose noise it has: its own, or a coterminous donor's."""
    levels, rows = run.parameters.configuration.levels(level.jurisdiction), table.rows(detail)
    margins = np.zeros((len(levels), len(rows)), np.int64)
    for place, donor in enumerate(levels):
        made = table in run.parameters.configuration.tables(donor)
        if made and donor.iteration_level == level.iteration_level and not is_truth(run):
            law = load_queries(run, donor).law(table.name)
            margins[place] = [margin_of_error(law, len(summed_cells)) for summed_cells in rows.values()]
    return margins
