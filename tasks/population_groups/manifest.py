"""What the manifests of all SafeTabs say alike: noise, geography, coterminous regions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spine.settings import Jurisdiction
from tasks.inputs.regions import REGION_TYPES
from tasks.lifecycle.manifest import noise_law
from tasks.population_groups.queries import LevelQueries
from tasks.population_groups.run import SafeTabRun


def noise_facts(queries: LevelQueries) -> dict[str, Any]:
    """Return the stability of a level, and the law of each of its queries."""
    return {
        "stability": queries.stability,
        "queries": {
            name: {"budget": str(budget), **noise_law(queries.law(name))} for name, budget in queries.budgets.items()
        },
    }


def geography_facts(run: SafeTabRun, jurisdiction: Jurisdiction) -> dict[str, Any]:
    """Return the states and blocks of a run."""
    validated = run.validated
    return {
        "states": run.parameters.configuration.states(jurisdiction),
        "blocks": validated.blocks,
        "GRF-C": validated.geography_digest,
    }


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
    """Return what a table of margins by level does not say of a release that equates coterminous regions."""
    if not (manifest["options"]["coterminous"] and manifest["coterminous_sets"]):
        return []
    return ["A region that takes the counts of a coterminous one has their margin: that of the other’s level."]
