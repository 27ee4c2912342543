"""manifest.json: what a release is and how it was made, with nothing exact about persons."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.detailed_dhca.budget_check import region_spend
from tasks.detailed_dhca.domain import Queries, load_domain, load_queries
from tasks.detailed_dhca.report import write_report
from tasks.detailed_dhca.run import DetailedRun, Validated
from tasks.detailed_dhca.suppression import suppression_threshold
from tasks.inputs.configuration import REGION_TYPES, Level, Region
from tasks.inputs.parameters import configuration_digest
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.files import load_object
from tasks.lifecycle.manifest import GUARANTEE, NOT_PRIVATE, SYNTHETIC, made_by, noise_law, spent, write_manifest

STATEMENTS = {
    "guarantee": GUARANTEE,
    "margins": "Beside each count of the Parquet files stands its margin of error, the smallest m with "
    "P(|noise| > m) <= 0.05 for the noise that was added to the published count, before suppression and clipping. It "
    "is not conditional on publication: suppression biases the small counts that remain upwards.",
    "clipping": "Where negative counts are not allowed each published count is clipped after all sums, so a T1 count "
    "may differ from the sum of its T2 cells.",
}


def describe_release(
    run: DetailedRun,
    region: Region,
    out: Path,
    published: Mapping[Level, Mapping[str, int]],
    options: Mapping[str, object],
    spine: str,
) -> None:
    """Write OUT/report.html and, over all files that lie in OUT, OUT/manifest.json.

    `published` holds the number of groups per published detail, `spine` one line about the spine branch.
    """
    parameters = run.parameters
    validated: Validated = run.validated
    truth = is_truth(run)
    manifest: dict[str, Any] = {
        "release": "Detailed DHC-A by SafeTab-P",
        "region": region.upper(),
        "run": run.id,
        **({"NOT_PRIVATE": NOT_PRIVATE} if truth else {}),
        **({"SYNTHETIC": SYNTHETIC} if validated.synthetic else {}),
        "spent": None if truth else spent(region_spend(parameters.configuration, region)),
        "levels": {str(level): _level(run, level, published[level]) for level in published},
        "statements": {} if truth else STATEMENTS,
        "options": dict(options),
        "spine": spine,
        "configuration": parameters.configuration.model_dump(mode="json", exclude={"budgets", "thresholds"}),
        "geography": _geography(run, region, validated),
        "coterminous_sets": _coterminous(run, region),
        "parameter_files": parameters.digests,
        "configuration_digest": configuration_digest(parameters.digests, options),
        **made_by(),
    }
    write_report(run, out, manifest)
    write_manifest(out, manifest)


def _level(run: DetailedRun, level: Level, published: Mapping[str, int]) -> dict[str, Any]:
    domain = load_domain(run, level)
    configuration = run.parameters.configuration
    told: dict[str, Any] = {
        "regions": len(domain.region_ids),
        "iterations": len(domain.iterations),
        "groups": domain.groups,
        "thresholds": configuration.thresholds[level],
        "suppressed_up_to": suppression_threshold(run, level),
        "groups_published": dict(published),
    }
    if not is_truth(run):
        told |= _noise(load_queries(run, level))
    return told


def _noise(queries: Queries) -> dict[str, Any]:
    return {
        "stability": queries.stability,
        "queries": {
            name: {"budget": str(getattr(queries.budgets, name)), **noise_law(queries.law(name))}
            for name in ("total_only", "stage_1", "stage_2")
        },
    }


def _geography(run: DetailedRun, region: Region, validated: Validated) -> dict[str, Any]:
    return {
        "states": run.parameters.configuration.states(region),
        "blocks": validated.blocks,
        "GRF-C": validated.geography_digest,
    }


def _coterminous(run: DetailedRun, region: Region) -> list[list[str]]:
    """The sets of coterminous regions; where a group of a set was published, the first of its
    regions that published it is the donor."""
    ids = run.geography.region_ids
    members: dict[int, list[str]] = {}
    sets = load_object(run.coterminous_path)
    for region_type in REGION_TYPES[region]:
        for number, of in enumerate(sets.get(region_type, ())):
            if of >= 0:
                members.setdefault(int(of), []).append(f"{region_type} {ids[region_type][number]}")
    return [members[number] for number in sorted(members)]
