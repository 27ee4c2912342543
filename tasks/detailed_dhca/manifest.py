"""manifest.json: what a release is and how it was made, with nothing exact about persons."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from privacy.estimation.allocation import sex_margin
from spine.settings import Jurisdiction
from tasks.detailed_dhca.description import description
from tasks.detailed_dhca.details import AGES, DETAILS, query_of
from tasks.detailed_dhca.estimate_tables import ancestors, critical_values, load_estimators
from tasks.detailed_dhca.level_budgets import TITLE
from tasks.detailed_dhca.report import write_report
from tasks.detailed_dhca.run import PERSONS, DetailedRun
from tasks.detailed_dhca.suppression import suppression_threshold
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.datapackage import write_descriptions
from tasks.lifecycle.manifest import GUARANTEE
from tasks.population_groups.domain import equalities, load_domain
from tasks.population_groups.levels import Level
from tasks.population_groups.manifest import noise_facts, release_facts
from tasks.population_groups.noise import load_queries

STATEMENTS = {
    "guarantee": GUARANTEE,
    "margins": "Beside each count of the Parquet files stands its margin of error, the smallest m with "
    "P(|noise| > m) <= 0.05 for the noise that was added to the published count, before suppression and clipping. It "
    "is that of all noisy counts, published or not: of small groups those with high noise are published more often.",
    "clipping": "Where negative counts are not allowed each published count is clipped after all sums, so a T1 count "
    "may differ from the sum of its T2 cells.",
}
OF_ESTIMATES = {
    "estimates": "An estimate combines the two noisy answers that the mechanism gave of a group, at no further loss. "
    "Given the detail of its table it is unbiased before clipping, whatever the true count (to .002 of the count's "
    "standard deviation), and its margin is of the law of its error before clipping; given publication it is not. "
    "Errors are independent between groups, except coterminous ones and a "
    "regional ethnicity and its parts; within a group they are correlated."
}


def describe_release(
    run: DetailedRun,
    jurisdiction: Jurisdiction,
    out: Path,
    published: Mapping[Level, Mapping[str, int]],
    options: Mapping[str, object],
    spine: str,
    estimated: Mapping[Level, int] | None = None,
) -> None:
    """Write OUT/report.html and, over all files in OUT, OUT/manifest.json.

    `published` holds the number of groups per published detail, `spine` one line about the spine branch, `estimated`,
    where estimates were made, the number of groups that the ancestor test left out of them.
    """
    by_level = {str(level): _estimates(run, level, dropped) for level, dropped in (estimated or {}).items()}
    manifest = release_facts(
        run,
        jurisdiction,
        TITLE,
        options,
        levels={str(level): _level(run, level, published[level]) for level in published},
        **({"estimates": by_level} if estimated else {}),
        statements={} if is_truth(run) else STATEMENTS | (OF_ESTIMATES if estimated else {}),
        spine=spine,
    )
    write_report(run, out, manifest)
    write_descriptions(out, description(manifest), manifest)


def _level(run: DetailedRun, level: Level, published: Mapping[str, int]) -> dict[str, Any]:
    domain = load_domain(run, level)
    configuration = run.parameters.configuration
    facts: dict[str, Any] = {
        "regions": len(domain.region_ids),
        "iterations": len(domain.iterations),
        "groups": domain.groups,
        "thresholds": configuration.thresholds[PERSONS][level],
        "suppressed_up_to": suppression_threshold(run, level),
        "groups_published": dict(published),
    }
    if not is_truth(run):
        facts |= noise_facts(load_queries(run, level))
    return facts


def _estimates(run: DetailedRun, level: Level, dropped: int) -> dict[str, Any]:
    """Return how the estimates of a level were made.

    By detail: the weight of pooling, deviations and margins far from any threshold, and how close to one the stage-1
    answer is corrected for having chosen the detail.
    """
    queries, codes = load_queries(run, level), load_domain(run, level).iteration_codes
    details = {}
    for detail, estimator in load_estimators(run, level).items():
        facts = {"total": {"deviation": estimator.deviation, "margin": estimator.margin}}
        if detail in AGES:
            measured = queries.margin(query_of(detail), estimator.answers.cells)
            sex = int(sex_margin(np.array([estimator.margin]), measured)[0])
            facts["sex"] = {"deviation": estimator.sex_variance**0.5, "margin": sex}
            facts["cell"] = {"deviation": estimator.cell_variance**0.5, "margin": queries.margin(query_of(detail))}
        details[DETAILS[detail]] = {"weight": estimator.weight, "corrected_within": estimator.reach, **facts}
    sums = equalities(run, level)
    parts = load_domain(run, Level(level.region_type, 2)).iteration_codes if sums else ()
    return {
        "details": details,
        "sums": {codes[whole]: [parts[part] for part in summands] for whole, summands in sums.items()},
        "critical_values": {
            str(ancestor): {DETAILS[detail]: value for detail, value in critical_values(run, level, ancestor).items()}
            for ancestor in ancestors(run, level)
        },
        "groups_dropped": dropped,
    }
