"""Release: the published tables as the Bureau's files and as Parquet with margins of error.

T1: REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT; T2 adds AGESTART|AGEEND|SEX before COUNT
(docs/spec/files.md#detailed-dhc-a-release).
One file a population group level, its rows sorted by region, iteration, age and sex. Estimates, where a run makes them,
are tables of the same kind in folders of their own, with ESTIMATE and MOE in place of COUNT.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from spine.settings import Jurisdiction
from tasks.detailed_dhca.details import DETAILS, WIDTHS
from tasks.detailed_dhca.manifest import describe_release
from tasks.detailed_dhca.published import EstimatedGroups, PublishedGroups
from tasks.detailed_dhca.run import DetailedRun
from tasks.detailed_dhca.tables import load_margins, t1_tables, t2_tables
from tasks.lifecycle.staging import SEE_SPINE, SPINE, open_staging
from tasks.lifecycle.workers import Workers
from tasks.population_groups.domain import load_domain
from tasks.population_groups.group_tables import load_final
from tasks.population_groups.levels import Level
from tasks.population_groups.tables import write_table
from tasks.population_groups.tabulated import write_tabulated

TABLES = {"t1": t1_tables, "t2": t2_tables}


def stage_release(
    run: DetailedRun, workers: Workers, jurisdiction: Jurisdiction, out: Path, options: Mapping[str, object], spine: str
) -> None:
    """Write the whole release into its staging folder: every level's tables, what is tabulated, report and manifest.

    `spine` is the line that the manifest says of the spine branch; where it ends in SEE_SPINE, the branch's files lie
    in the folder already. Everything else there is of an earlier try and goes.
    """
    levels = run.parameters.configuration.levels(jurisdiction)
    staged = open_staging(run, out, jurisdiction, except_for=[SPINE] if spine.endswith(SEE_SPINE) else [])
    each = [(level, table, staged) for level in levels for table in TABLES]
    workers.map("release", run, write_tables, each)
    published = workers.map("release", run, published_details, [(level,) for level in levels])
    write_tabulated(run, jurisdiction, staged)
    estimated = None
    if options.get("estimates"):
        workers.map("release of estimates", run, write_tables, [(*one, EstimatedGroups) for one in each])
        dropped = workers.map("release of estimates", run, dropped_estimates, [(level,) for level in levels])
        estimated = dict(zip(levels, dropped, strict=True))
    describe_release(run, jurisdiction, staged, dict(zip(levels, published, strict=True)), options, spine, estimated)


def write_tables(
    run: DetailedRun, level: Level, table: str, out: Path, kind: type[PublishedGroups] = PublishedGroups
) -> None:
    """Write t1 or t2 of a level, of its counts or its estimates, as text and Parquet, into OUT."""
    clip = not run.parameters.configuration.allow_negative_counts
    pieces = (piece.released() for piece in load_final(run, level, kind))
    parts = TABLES[table](load_domain(run, level), pieces, load_margins(run, level), clip=clip, column=kind.COLUMN)
    write_table(out, kind.FOLDER + table, level, parts)


def published_details(run: DetailedRun, level: Level) -> dict[str, int]:
    """Return the number of groups of a level published at each detail, a function of the release."""
    details = np.zeros(len(WIDTHS), np.int64)
    for piece in load_final(run, level, PublishedGroups):
        details += np.bincount(piece.detail, minlength=len(WIDTHS))
    return dict(zip(DETAILS, details.tolist(), strict=True))


def dropped_estimates(run: DetailedRun, level: Level) -> int:
    """Return how many estimates of a level the ancestor test left out."""
    return sum(int(piece.dropped.sum()) for piece in load_final(run, level, EstimatedGroups))
