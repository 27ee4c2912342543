"""Release: T3 and T4 as the Bureau's files, one for each detail and level, and as Parquet with margins of error.

REGION_ID|REGION_TYPE|ITERATION_CODE|T3_DATA_CELL|COUNT (docs/spec/files.md#detailed-dhc-b-release), rows sorted by
region, iteration and cell. No file is written for a detail that no group of the level has.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spine.settings import Jurisdiction
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.staging import open_staging
from tasks.lifecycle.workers import Workers
from tasks.safetab.group_tables import groups_by_detail, write_table
from tasks.safetab.households.estimates import ESTIMATED, has_both
from tasks.safetab.households.manifest import DECLARED, level_of_run, statements_of, write_report_of
from tasks.safetab.households.run import HouseholdRun
from tasks.safetab.households.tables import KINDS, TITLE, description
from tasks.safetab.levels import Level
from tasks.safetab.manifest import describe_release


def stage_release(
    run: HouseholdRun, workers: Workers, jurisdiction: Jurisdiction, out: Path, options: Mapping[str, object]
) -> None:
    """Write the whole release into its staging folder: the tables of every level, their groups, report and manifest."""
    configuration, totals = run.parameters.configuration, run.totals_read
    levels, estimated = configuration.levels(jurisdiction), bool(options.get("estimates"))
    made = [(level, KINDS[table.name]) for level in levels for table in configuration.tables(level)]
    staged = open_staging(run, out, jurisdiction)
    if estimated:
        made += [(level, kind) for level in levels if has_both(run, level) for kind in ESTIMATED.values()]
    groups = dict(zip(made, workers.map("release", run, groups_by_detail, made), strict=True))
    files = [
        (level, kind, name, staged)
        for (level, kind), numbers in groups.items()
        for name, tables in kind.TABLES.items()
        if any(numbers[detail] for detail in tables)
    ]
    workers.map("release", run, write_table, files)

    def facts_of(level: Level) -> dict[str, Any]:
        of_tables = {table.name: groups[level, KINDS[table.name]] for table in configuration.tables(level)}
        return level_of_run(run, level, of_tables)

    facts = {
        "totals": {"digest": options["totals"], "from": totals.run or DECLARED, "left_out": dict(totals.left_out)},
        "levels": {str(level): facts_of(level) for level in levels},
        "statements": statements_of(truth=is_truth(run), estimated=estimated),
    }
    describe_release(run, workers, jurisdiction, staged, TITLE, options, facts, description, write_report_of)
