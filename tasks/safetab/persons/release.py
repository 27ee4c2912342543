"""Release: the published tables as the Bureau's files and as Parquet with margins of error.

T1: REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT; T2 adds AGESTART|AGEEND|SEX before COUNT
(docs/spec/files.md#detailed-dhc-a-release).
One file a population group level, its rows sorted by region, iteration, age and sex. Estimates, where a run makes them,
are tables of the same kind in folders of their own, with ESTIMATE and MOE in place of COUNT.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path

from spine.settings import Jurisdiction
from tasks.lifecycle.staging import SEE_SPINE, SPINE, open_staging
from tasks.lifecycle.workers import Workers
from tasks.safetab.group_tables import groups_by_detail, load_final, write_table
from tasks.safetab.levels import Level
from tasks.safetab.persons.manifest import describe_release
from tasks.safetab.persons.run import DetailedRun
from tasks.safetab.persons.suppression import EstimatedGroups, PublishedGroups
from tasks.safetab.release_tables import write_tabulated


def stage_release(
    run: DetailedRun, workers: Workers, jurisdiction: Jurisdiction, out: Path, options: Mapping[str, object], spine: str
) -> None:
    """Write the whole release into its staging folder: the tables of every level, their groups, report and manifest.

    spine: the manifest's line about the spine branch; if it ends in SEE_SPINE, the branch's files are in the folder
    already. All other files there are left from an earlier try and removed.
    """
    levels = run.parameters.configuration.levels(jurisdiction)
    staged = open_staging(run, out, jurisdiction, except_for=[SPINE] if spine.endswith(SEE_SPINE) else [])
    each = list(product(levels, PublishedGroups.TABLES))
    workers.map("release", run, write_table, [(level, PublishedGroups, name, staged) for level, name in each])
    groups = workers.map("release", run, groups_by_detail, [(level, PublishedGroups) for level in levels])
    published = dict(zip(levels, groups, strict=True))
    write_tabulated(run, jurisdiction, staged)
    estimated = None
    if options.get("estimates"):
        tables = [(level, EstimatedGroups, name, staged) for level, name in each]
        workers.map("release of estimates", run, write_table, tables)
        dropped = workers.map("release of estimates", run, dropped_estimates, [(level,) for level in levels])
        estimated = dict(zip(levels, dropped, strict=True))
    describe_release(run, workers, jurisdiction, staged, published, options, spine, estimated)


def dropped_estimates(run: DetailedRun, level: Level) -> int:
    """Return how many estimates of a level the ancestor test dropped."""
    return sum(int(piece.dropped.sum()) for piece in load_final(run, level, EstimatedGroups))
