"""The facts that the manifests of all SafeTabs share: noise, geography, coterminous regions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spine.settings import Jurisdiction
from tasks.geography.names import name_of_state
from tasks.geography.regions import REGION_TYPES
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.commit import manifest_of
from tasks.releases.manifest import noise_law
from tasks.safetab.configuration import SafeTabConfiguration
from tasks.safetab.noise import LevelQueries
from tasks.safetab.parameters import configuration_digest, planned_spend
from tasks.safetab.run import SafeTabRun

MARGINS = (
    "Each count has in tables/ and parquet/ its margin of error, the smallest m with P(|noise| > m) <= 0.05 for the "
    "noise that was added to the published count"
)


def noise_facts(queries: LevelQueries) -> dict[str, Any]:
    """Return the stability of a level, and the law of each of its queries."""
    return {
        "stability": queries.stability,
        "queries": {
            name: {"budget": str(budget), **noise_law(queries.law(name))} for name, budget in queries.budgets.items()
        },
    }


def release_facts(
    run: SafeTabRun, jurisdiction: Jurisdiction, release: str, options: Mapping[str, object], **own: Any
) -> dict[str, Any]:
    """Return the facts of a release's manifest. own: further facts of its SafeTab, by key."""
    parameters, validated, truth = run.parameters, run.validated, is_truth(run)
    geography = {"blocks": validated.blocks, "GRF-C": validated.geography_digest}
    stated = designed(parameters.configuration, jurisdiction, parameters.digests, options, geography, truth=truth)
    own = stated | own | {"coterminous_sets": coterminous_facts(run, jurisdiction)}
    return manifest_of(run, release, validated.mark, own)


def designed(
    configuration: SafeTabConfiguration,
    jurisdiction: Jurisdiction,
    digests: Mapping[str, str],
    options: Mapping[str, object],
    geography: Mapping[str, Any],
    *,
    truth: bool,
) -> dict[str, Any]:
    """Return the statements of a release that follow from its configuration and options.

    digests: those of the parameter files. geography: facts about the file of blocks.
    """
    return {
        "region": jurisdiction.upper(),
        "spent": None if truth else planned_spend(configuration, jurisdiction).as_json(),
        "options": dict(options),
        "configuration": configuration.described(jurisdiction),
        "geography": {"states": list(configuration.states(jurisdiction)), **geography},
        "parameter_files": dict(digests),
        "configuration_digest": configuration_digest(digests, options),
    }


def names_of_states(run: SafeTabRun, jurisdiction: Jurisdiction) -> list[str]:
    """Return the names of the states of a run, perhaps fewer than in the configuration."""
    return [*map(name_of_state, run.geography.region_ids["PR-STATE" if jurisdiction == "pr" else "STATE"])]


def coterminous_facts(run: SafeTabRun, jurisdiction: Jurisdiction) -> list[list[str]]:
    """Return the sets of coterminous regions; the donor of a group is the first region that published it."""
    ids = run.geography.region_ids
    members: dict[int, list[str]] = {}
    sets = run.coterminous_sets
    for region_type in REGION_TYPES[jurisdiction]:
        for number, set_number in enumerate(sets.get(region_type, ())):
            if set_number >= 0:
                members.setdefault(int(set_number), []).append(f"{region_type} {ids[region_type][number]}")
    return [members[number] for number in sorted(members)]


def notes_of_coterminous(manifest: Mapping[str, Any]) -> list[str]:
    """Return the note on coterminous regions that a table of margins by level needs."""
    if not (manifest["options"]["coterminous"] and manifest["coterminous_sets"]):
        return []
    return ["A region that takes the counts of a coterminous one has their margin: that of the other’s level."]
