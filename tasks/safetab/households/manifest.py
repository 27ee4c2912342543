"""manifest.json and report.html of a release: what it is and how it was made, with nothing exact about households."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from privacy.noise.margins import margin_of_error
from spine.settings import Jurisdiction
from tasks.geography.names import coverage, title_of_states
from tasks.lifecycle.authorization import is_truth
from tasks.releases.datapackage import write_descriptions
from tasks.releases.manifest import GUARANTEE, spend_of
from tasks.releases.pages.text_table import TextTable
from tasks.releases.report import IN_WORDS, InShort, write_report
from tasks.safetab.description import states_of_nation
from tasks.safetab.domain import Domain, load_domain
from tasks.safetab.households.description import description
from tasks.safetab.households.run import Configuration, HouseholdRun
from tasks.safetab.households.tables import TABLES
from tasks.safetab.levels import Level, named_level
from tasks.safetab.manifest import names_of_states, noise_facts, notes_of_coterminous, release_facts
from tasks.safetab.noise import LevelQueries, load_queries, noisy_queries
from tasks.safetab.parameters import stability_parts

DECLARED = "declared by the curator"
STATEMENTS = {
    "guarantee": GUARANTEE,
    "unit of privacy": "The unit of privacy is a household: one row of the household records. The groups and the "
    "details of their tables follow from published totals, so they say nothing about households.",
    "persons": "A person is in a household, so this release adds to what the release of the totals says about persons: "
    "docs/privacy.md has the figures of both together, and `das ledger show --together` computes them.",
    "margins": "Beside each count of the Parquet files stands its margin of error, the smallest m with "
    "P(|noise| > m) <= 0.05 for the noise that was added to the published count, before clipping.",
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
GroupsByDetail = Mapping[tuple[Level, str], Sequence[int]]


def describe_release(
    run: HouseholdRun,
    jurisdiction: Jurisdiction,
    out: Path,
    groups: GroupsByDetail,
    options: Mapping[str, object],
) -> None:
    """Write OUT/report.html and, over all files in OUT, OUT/manifest.json.

    groups: by level and table, the number of groups of each detail.
    """
    totals, levels = run.totals_read, dict.fromkeys(level for level, _ in groups)
    manifest = release_facts(
        run,
        jurisdiction,
        "Detailed DHC-B by SafeTab-H",
        options,
        totals={"digest": options["totals"], "from": totals.run or DECLARED, "left_out": dict(totals.left_out)},
        levels={str(level): _level(run, level, groups) for level in levels},
        statements=statements_of(truth=is_truth(run), estimated=bool(options.get("estimates"))),
    )
    _write_report(run, jurisdiction, out, manifest)
    write_descriptions(out, description(manifest), manifest)


def statements_of(*, truth: bool, estimated: bool) -> dict[str, str]:
    """Return what a release says in words."""
    return {} if truth else STATEMENTS | (OF_ESTIMATES if estimated else {})


def _level(run: HouseholdRun, level: Level, groups: GroupsByDetail) -> dict[str, Any]:
    configuration, queries = run.parameters.configuration, noisy_queries(run, level)
    of_level = {table.name: groups[level, table.name] for table in configuration.tables(level)}
    races, ethnicities = stability_parts(configuration, run.parameters.iterations, level)
    parts = {"stability_parts": {"race": races, "ethnicity": ethnicities}} if queries else {}
    return level_facts(configuration, load_domain(run, level), queries, of_level) | parts


def level_facts(
    configuration: Configuration, domain: Domain, queries: LevelQueries | None, groups: Mapping[str, Sequence[int]]
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


def _write_report(run: HouseholdRun, jurisdiction: Jurisdiction, out: Path, manifest: dict[str, Any]) -> None:
    where, spend = title_of_states(names_of_states(run, jurisdiction)), spend_of(manifest)
    levels = {named_level(name).name: facts for name, facts in manifest["levels"].items()}
    write_report(
        "tasks.safetab.households",
        out,
        manifest,
        spend,
        f"Detailed DHC-B, {where}: households",
        _short(run, levels, where, manifest, truth=spend is None),
        count_tables=TABLES,
        levels=levels,
        covers=coverage(states_of_nation(manifest)),
    )


def groups_published(manifest: Mapping[str, Any]) -> TextTable:
    """Return the number of groups that a release has in each table of each level."""
    rows = [
        [f"{name} {table}", f"{sum(details.values()):,}"]
        for name, level in manifest["levels"].items()
        for table, details in level["groups_published"].items()
    ]
    return TextTable("Groups published", ["population group level, table", "groups published"], rows)


def _short(
    run: HouseholdRun, levels: Mapping[str, Mapping[str, Any]], where: str, manifest: dict[str, Any], *, truth: bool
) -> InShort:
    """Return what was published, and by level and table the margins of a cell and of the finest table's total."""
    published = [
        f"Households of {where} by type (T3) and tenure (T4), by detailed race, ethnicity or tribe of the householder: "
        + ", ".join(
            f"{sum(sum(facts['groups_published'].get(name, {}).values()) for facts in levels.values()):,} groups in "
            f"{name.upper()}"
            for name in TABLES
        )
        + ". No figure is published for a block."
    ]
    if truth:
        return InShort(published, ["The counts are exact."])
    rows = []
    for name, facts in levels.items():
        queries = load_queries(run, named_level(name))
        for table in (table for table in TABLES.values() if table.name in facts["groups_published"]):
            cells = int(table.widths[-1])
            margins = [margin_of_error(queries.law(table.name), number) for number in (1, cells)]
            groups = sum(facts["groups_published"][table.name].values())
            rows.append([f"{name}: {table.words}", f"{groups:,}", f"{margins[0]:,}", f"{cells}", f"{margins[1]:,}"])
    columns = ["level, table", "groups published", "a count, ±", "cells at most", "their sum, ±"]
    margins_of_levels = TextTable("In short", columns, rows, notes_of_coterminous(manifest))
    return InShort(published, [IN_WORDS, "All in households:"], margins_of_levels)
