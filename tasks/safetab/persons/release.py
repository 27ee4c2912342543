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
from typing import Any

from spine.settings import Jurisdiction
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.staging import SEE_SPINE, SPINE, open_staging
from tasks.lifecycle.workers import Workers
from tasks.safetab.domain import load_domain
from tasks.safetab.group_tables import groups_by_detail, load_final, write_table
from tasks.safetab.levels import Level
from tasks.safetab.manifest import describe_release
from tasks.safetab.noise import noisy_queries
from tasks.safetab.persons.level_budgets import TITLE
from tasks.safetab.persons.manifest import estimate_facts, level_facts, statements_of, write_report_of
from tasks.safetab.persons.run import DetailedRun
from tasks.safetab.persons.suppression import EstimatedGroups, PublishedGroups
from tasks.safetab.persons.tables import description


def stage_release(
    run: DetailedRun, workers: Workers, jurisdiction: Jurisdiction, out: Path, options: Mapping[str, object], spine: str
) -> None:
    """Write the whole release into its staging folder: the tables of every level, their groups, report and manifest.

    spine: the manifest's line about the spine branch; if it ends in SEE_SPINE, the branch's files are in the folder
    already. All other files there are left from an earlier try and removed.
    """
    configuration, estimated = run.parameters.configuration, bool(options.get("estimates"))
    levels = configuration.levels(jurisdiction)
    staged = open_staging(run, out, jurisdiction, except_for=[SPINE] if spine.endswith(SEE_SPINE) else [])
    kinds = (PublishedGroups, EstimatedGroups)[: 1 + estimated]
    files = [(level, kind, name, staged) for kind, level, name in product(kinds, levels, PublishedGroups.TABLES)]
    workers.map("release", run, write_table, files)
    groups = workers.map("release", run, groups_by_detail, [(level, PublishedGroups) for level in levels])
    of_levels = {
        str(level): level_facts(configuration, load_domain(run, level), noisy_queries(run, level), own)
        for level, own in zip(levels, groups, strict=True)
    }
    facts: dict[str, Any] = {"levels": of_levels}
    if estimated:
        dropped = workers.map("release", run, dropped_estimates, [(level,) for level in levels])
        facts["estimates"] = {
            str(level): estimate_facts(run, level, number) for level, number in zip(levels, dropped, strict=True)
        }
    facts |= {"statements": statements_of(truth=is_truth(run), estimated=estimated), "spine": spine}
    describe_release(run, workers, jurisdiction, staged, TITLE, options, facts, description, write_report_of)


def dropped_estimates(run: DetailedRun, level: Level) -> int:
    """Return how many estimates of a level the ancestor test dropped."""
    return sum(int(piece.dropped.sum()) for piece in load_final(run, level, EstimatedGroups))
