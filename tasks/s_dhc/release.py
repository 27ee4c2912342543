"""Release: the eleven tables as text and Parquet, estimates and averages if asked for, manifest and report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from privacy.accounting.composition import rounded_up
from privacy.tables.histogram import IntArray
from tasks.geography.names import coverage, name_of_state, states_of_nation, title_of_states
from tasks.geography.public_regions import write_regions
from tasks.geography.regions import NATION, Region
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.commit import manifest_of
from tasks.lifecycle.files import load_object
from tasks.lifecycle.reservation import Input
from tasks.lifecycle.run_directory import VALIDATED, RunDirectory
from tasks.releases.describe import write_descriptions
from tasks.releases.manifest import GUARANTEE, spend_of
from tasks.releases.pages import decimal
from tasks.releases.pages.text_table import TextTable
from tasks.releases.report import in_short, write_report
from tasks.s_dhc.budgets import TITLE, query_facts
from tasks.s_dhc.release_tables import description
from tasks.s_dhc.released_rows import count_rows, in_run, write_table
from tasks.s_dhc.run import SDhcPlan, answers_of, plan_of
from tasks.s_dhc.tables import PUBLISHED

STATEMENTS_S_DHC = {
    "guarantee": GUARANTEE,
    "relations": "What is spent depends on how two databases differ; each neighbour relation has its own figure, and "
    "none of them is the loss. All hold for databases with the same list of housing units and group quarters.",
    "margins": "A margin of error is the smallest m with P(|noise| > m) <= 0.05 (MOE90: 0.1) for the noise in the "
    "count. It covers the noise alone.",
    "truncation": "At most tau persons of a housing unit are counted. Where a unit has more, counts of persons are "
    "too low, and averages with them; no margin and no interval covers that.",
    "counts": "A negative count is noise and was not made zero. PH5_num is PH4, with the same noise; PH8_num is PH7, "
    "its tenures owned with a mortgage and owned free and clear added up.",
    "estimates": "estimates/ are least-squares estimates from all noisy counts that count the same rows: unbiased, and "
    "their sums hold. Their margins are 1.96 standard deviations: a sum of hundreds of draws is taken for normal.",
    "averages": "averages/ are ratios of the noisy counts. Each interval covers the ratio of the true, truncated "
    "counts in 95 (LOW90, HIGH90: 90) of 100 releases at least, however small the denominator; it is the hull of an "
    "exact confidence set within the possible averages.",
}


STABILITIES = {"program": "as the program of 2020 has it", "unit": "where whole housing units may change"}


def write_release(run: RunDirectory, out: Path) -> None:
    """Write the tables and the manifest into a folder."""
    plan, truth = plan_of(run), is_truth(run)
    write_tables(plan, answers_of(run), out, truth=truth)
    if plan.estimates and not truth:
        from tasks.s_dhc.averages import write_averages

        write_averages(run, out)
    states = plan.configuration.states
    regions = {Region("USA", NATION), *(Region.named("STATE", state) for state in states)}
    write_regions(run, out, regions.__contains__, states)
    mark = load_object(run / VALIDATED, Input).mark
    manifest = manifest_of(run, TITLE, mark, designed(plan, truth=truth))
    heading, described = f"Supplemental DHC, {manifest['where']}", description(manifest)
    published = (
        f"Counts of households, and of the persons in them, for {manifest['where']}. They are for the nation and "
        "states alone; no figure is published for a county, a town or a block."
    )
    changed = "Of a large unit at most tau persons are counted (below)." * plan.truncated
    short = in_short(out, described, manifest, [published], changed=changed)
    tables, covers = [] if truth else [_noise(manifest)], coverage(states_of_nation(manifest))
    write_report(None, out, manifest, spend_of(manifest), heading, short, tables=tables, covers=covers)
    write_descriptions(out, described, manifest)


def write_tables(plan: SDhcPlan, answers: Mapping[str, IntArray], out: Path, *, truth: bool) -> None:
    """Write the tables of counts and, if asked for and not for a truth, of estimates."""
    counts = in_run(plan, answers)
    for name, table in PUBLISHED.items():
        if (rows := count_rows(plan, table, counts, truth=truth)) is not None:
            write_table(out, f"{name}/{name}", rows)
    if plan.estimates and not truth:
        from tasks.s_dhc.estimates import estimate_all, write_estimates

        write_estimates(plan, out, estimate_all(plan, counts))


def _noise(manifest: dict[str, Any]) -> TextTable:
    columns = ["query", "budget", "tau", "standard deviation", "margin, 95%", "margin, 90%"]
    rows = []
    for name, query in manifest["queries"].items():
        budget, deviation = rounded_up(Fraction(query["budget"])), decimal(query["variance"] ** 0.5)
        margins = [f"± {query[level]:,}" for level in ("margin", "margin_90")]
        rows.append([name, budget, str(query["tau"] or "–"), deviation, *margins])
    by = STABILITIES[manifest["stability"]]
    notes = [
        "A query is a table for one type of region and one iteration level; its noise is added to each of its cells. "
        f"tau: persons of a unit that are counted at most. The noise is scaled by what one record can change {by}."
    ]
    return TextTable("Noise", columns, rows, notes)


def designed(plan: SDhcPlan, *, truth: bool) -> dict[str, Any]:
    """Return the statements of a release that follow from its plan."""
    configuration = plan.configuration
    states = configuration.states
    statements = ["guarantee", "relations", "margins"] * (not truth) + ["truncation"] * plan.truncated + ["counts"]
    statements += ["estimates", "averages"] * (plan.estimates and not truth)
    texts = {name: STATEMENTS_S_DHC[name] for name in statements}
    if configuration.household_rules == "warn" and "averages" in texts:
        texts["averages"] += " Households were not required to be consistent: an average above tau is not covered."
    if states != configuration.all_states:
        texts["states"] = "USA means the states of this run: " + ", ".join(name_of_state(state) for state in states)
    return {
        "spent": {} if truth else configuration.spend().as_json(),
        "configuration": configuration.described(),
        "jurisdiction": configuration.jurisdiction.upper(),
        "states": list(states),
        "where": title_of_states([name_of_state(state) for state in states]),
        "stability": configuration.stability,
        "truncation": {**configuration.tau} if plan.truncated else None,
        "household_rules": configuration.household_rules,
        "queries": {} if truth else dict(queries_in_manifest(plan)),
        "estimates": plan.estimates and not truth,
        "configuration_digest": plan.digest(),
        "statements": texts,
    }


def queries_in_manifest(plan: SDhcPlan) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each query of a run, with its facts for the manifest."""
    configuration = plan.configuration
    for each in configuration.queries():
        facts = query_facts(each.query, configuration.definition, configuration.stability)
        yield each.query.name.removeprefix("sdhc/"), facts
