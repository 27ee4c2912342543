"""Release: T3 and T4 as the Bureau's files, one for each detail and level, and as Parquet with margins of error.

REGION_ID|REGION_TYPE|ITERATION_CODE|T3_DATA_CELL|COUNT (docs/spec/files.md#detailed-dhc-b-release), rows sorted by
region, iteration and cell. No file is written for a detail that no group of the level has.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spine.settings import Jurisdiction
from tasks.lifecycle.staging import open_staging
from tasks.lifecycle.workers import Workers
from tasks.safetab.group_tables import groups_by_detail, write_table
from tasks.safetab.households.estimates import ESTIMATED, has_both
from tasks.safetab.households.manifest import describe_release
from tasks.safetab.households.run import HouseholdRun
from tasks.safetab.households.tables import KINDS, HouseholdTables
from tasks.safetab.levels import Level
from tasks.safetab.release_tables import write_tabulated


def stage_release(
    run: HouseholdRun, workers: Workers, jurisdiction: Jurisdiction, out: Path, options: Mapping[str, object]
) -> None:
    """Write the whole release into its staging folder: the tables of every level, their groups, report and manifest."""
    configuration = run.parameters.configuration
    levels = configuration.levels(jurisdiction)
    made: list[tuple[Level, type[HouseholdTables]]] = [
        (level, KINDS[table.name]) for level in levels for table in configuration.tables(level)
    ]
    staged, counts = open_staging(run, out, jurisdiction), len(made)
    if options.get("estimates"):
        made += [(level, kind) for level in levels if has_both(run, level) for kind in ESTIMATED.values()]
    groups = workers.map("release", run, groups_by_detail, made)
    files = [
        (level, kind, name, staged)
        for (level, kind), numbers in zip(made, groups, strict=True)
        for name, tables in kind.TABLES.items()
        if any(numbers[detail] for detail in tables)
    ]
    workers.map("release", run, write_table, files)
    write_tabulated(run, jurisdiction, staged)
    published = {(level, kind.TABLE.name): each for (level, kind), each in zip(made[:counts], groups, strict=False)}
    describe_release(run, workers, jurisdiction, staged, published, options)
