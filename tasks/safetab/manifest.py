"""The manifest of a SafeTab release: the facts that both share, and the end of the release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from spine.settings import Jurisdiction
from tasks.geography.names import name_of_state
from tasks.geography.regions import REGION_TYPES
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.commit import manifest_of
from tasks.lifecycle.staging import write_all_tidy
from tasks.lifecycle.workers import Workers
from tasks.releases.describe import write_descriptions
from tasks.releases.description import Description
from tasks.releases.manifest import noise_law
from tasks.safetab.configuration import SafeTabConfiguration
from tasks.safetab.noise import LevelQueries
from tasks.safetab.parameters import configuration_digest, planned_spend
from tasks.safetab.release_tables import write_tabulated
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


def describe_release(
    run: SafeTabRun,
    workers: Workers,
    jurisdiction: Jurisdiction,
    out: Path,
    title: str,
    options: Mapping[str, object],
    facts: Mapping[str, Any],
    description: Callable[[Mapping[str, Any]], Description],
    write_report: Callable[[Any, Jurisdiction, Path, dict[str, Any]], None],
) -> None:
    """Write into OUT, next to the tables, all that describes them: tabulated/, report.html, tables/, manifest.json.

    facts: what only its SafeTab states, by key.
    """
    write_tabulated(run, jurisdiction, out)
    parameters, validated, truth = run.parameters, run.validated, is_truth(run)
    geography = {"blocks": validated.blocks, "GRF-C": validated.geography_digest}
    stated = designed(parameters.configuration, jurisdiction, parameters.digests, options, geography, truth=truth)
    own = {**stated, **facts, "coterminous_sets": coterminous_facts(run, jurisdiction)}
    manifest = manifest_of(run, title, validated.mark, own)
    write_report(run, jurisdiction, out, manifest)
    write_descriptions(out, description(manifest), manifest, partial(write_all_tidy, run, workers, out))


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
