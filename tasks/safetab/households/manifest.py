"""What a release states, and its report.html, without exact counts of households."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spine.settings import Jurisdiction
from tasks.geography.names import coverage, states_of_nation, title_of_states
from tasks.releases.manifest import GUARANTEE, spend_of
from tasks.releases.pages.text_table import TextTable
from tasks.releases.report import in_short, write_report
from tasks.safetab.domain import Domain, load_domain
from tasks.safetab.households.run import HouseholdRun, SafeTabHConfiguration
from tasks.safetab.households.tables import TABLES, description
from tasks.safetab.levels import Level, named_level
from tasks.safetab.manifest import MARGINS, names_of_states, noise_facts, notes_of_coterminous
from tasks.safetab.noise import LevelQueries, noisy_queries
from tasks.safetab.parameters import stability_parts

DECLARED = "declared by the curator"
STATEMENTS = {
    "guarantee": GUARANTEE,
    "unit of privacy": "The unit of privacy is a household: one row of the household records. The groups and the "
    "details of their tables follow from published totals, so they say nothing about households.",
    "persons": "A person is in a household, so this release adds to what the release of the totals says about persons: "
    "docs/privacy.md has the figures of both together, and `das ledger show --together` computes them.",
    "margins": f"{MARGINS}, before clipping.",
    "clipping": "Where negative counts are not allowed each published count is clipped after all sums, so a count may "
    "differ from the sum of its parts.",
}
OF_ESTIMATES = {
    "estimates": "T3 and T4 of a group count the same households: an estimate pools both totals, at no further loss. "
    "A Regional ethnicity whose Detailed parts all have tables is estimated from their sums too, and coterminous "
    "regions, where they are equated, from the counts of all. Given the totals that chose the tables an estimate is "
    "unbiased before clipping, whatever the true count. Its margin is of the exact law of its error before clipping; "
    "where parts or coterminous regions count too, by the normal law. Within a group estimates are correlated; between "
    "groups they are independent, except coterminous ones and a Regional ethnicity and its parts."
}


def statements_of(*, truth: bool, estimated: bool) -> dict[str, str]:
    """Return the statements of a release in words."""
    return {} if truth else STATEMENTS | (OF_ESTIMATES if estimated else {})


def level_of_run(run: HouseholdRun, level: Level, groups: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return the facts of a level of a run; groups: those of each table by detail."""
    configuration, queries = run.parameters.configuration, noisy_queries(run, level)
    races, ethnicities = stability_parts(configuration, run.parameters.iterations, level)
    parts = {"stability_parts": {"race": races, "ethnicity": ethnicities}} if queries else {}
    return level_facts(configuration, load_domain(run, level), queries, groups) | parts


def level_facts(
    configuration: SafeTabHConfiguration,
    domain: Domain,
    queries: LevelQueries | None,
    groups: Mapping[str, Sequence[int]],
) -> dict[str, Any]:
    """Return the facts of a level: its domain, thresholds and noise, and the groups of each table by detail."""
    tables = configuration.tables(domain.level)
    return {
        "regions": len(domain.region_ids),
        "iterations": len(domain.iterations),
        "thresholds": {table.name: list(configuration.thresholds[table.key][domain.level]) for table in tables},
        "groups_published": {table.name: dict(zip(table.details, groups[table.name], strict=True)) for table in tables},
        **(noise_facts(queries) if queries else {}),
    }


def write_report_of(run: HouseholdRun, jurisdiction: Jurisdiction, out: Path, manifest: dict[str, Any]) -> None:
    """Write OUT/report.html."""
    where, spend = title_of_states(names_of_states(run, jurisdiction)), spend_of(manifest)
    published = (
        f"Households of {where} by type (T3) and tenure (T4), by detailed race, ethnicity or tribe of the householder. "
        "No figure is published for a block."
    )
    levels = {named_level(name).name: facts for name, facts in manifest["levels"].items()}
    write_report(
        "tasks.safetab.households",
        out,
        manifest,
        spend,
        f"Detailed DHC-B, {where}: households",
        in_short(out, description(manifest), manifest, [published], notes=notes_of_coterminous(manifest)),
        count_tables=TABLES,
        levels=levels,
        covers=coverage(states_of_nation(manifest)),
    )


def groups_published(manifest: Mapping[str, Any]) -> TextTable:
    """Return the number of groups that a release has in each table of each level."""
    rows = [
        [f"{named_level(name).name}: {table}", f"{sum(details.values()):,}"]
        for name, level in manifest["levels"].items()
        for table, details in level["groups_published"].items()
    ]
    return TextTable("Groups published", ["population group level, table", "groups published"], rows)
