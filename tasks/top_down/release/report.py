"""report.html: the manifest as a page for a review board, with released counts and pictures of the noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from privacy.noise.margins import Z95
from spine.production import allocation as production
from spine.redistricting import PERSON_COUNTS, UNIT_COUNTS
from tasks.geography.names import coverage, name_of_state, title_of_states
from tasks.releases.manifest import spend_of
from tasks.releases.pages import margin
from tasks.releases.pages.text_table import TextTable
from tasks.releases.pages.words import PRODUCTS, count_title, level_title, query_title
from tasks.releases.report import InShort
from tasks.releases.report import write_report as write_page
from tasks.top_down.blocks import BlockSource
from tasks.top_down.estimate.topdown import load_estimates
from tasks.top_down.release.tables import states_of_nation
from tasks.top_down.run_plan import SCHEMAS
from tasks.top_down.source import Branch

OF_STATES = ("total", "voting age", "Hispanic", "race", "occupied")  # the counts of each state, by quantity
AREAS = ("County", "Tract", "Place", "County subdivision (MCD)", "Block")
# Mean absolute errors of `topdown`, population / voting age by seven races: benchmarks/results/top-down.md
MEASURED = {
    kind: dict(zip(AREAS, errors, strict=True))
    for kind, errors in {
        "conventional": ((1.33, 8.47), (1.99, 3.23), (20.1, 7.21), (4.95, 7.13), (6.39, 1.25)),
        "aian": ((1.6, 7.18), (2.04, 3.22), (22.7, 7.3), (5.69, 7.15), (6.38, 1.25)),
        "optimized": ((1.87, 7.87), (1.95, 3.33), (20, 7.21), (3.66, 7.27), (6.2, 1.23)),
    }.items()
}
COUNTED = len(PERSON_COUNTS)  # in a table, the first; with the cells of P1 to P5 there are hundreds


def write_report(run: BlockSource, staged: Path, manifest: dict[str, Any]) -> None:
    """Write report.html from the manifest's content and the released histograms and margins."""
    spend = spend_of(manifest)
    states = [*map(name_of_state, run.validated.states)]
    sections = [_section(product, manifest["products"][product]) for product in run.design.products]
    margins = next((row["margins"] for row in manifest["products"].values() if "margins" in row), None)
    where = title_of_states(states)
    write_page(
        "tasks.top_down.release",
        staged,
        manifest,
        spend,
        f"Redistricting data by the TopDown Algorithm, {where}",
        _short(run, where, manifest, margins),
        states=states,
        parts=[(level_title(level), row) for level, row in parts_of_levels([*manifest["products"].values()])]
        if spend
        else [],
        sections=sections,
        covers=coverage(states_of_nation(manifest)),
        divided=any(row["geounits"]["State"] > len(states) for row in manifest["products"].values()),
        counts=_counts_of_states(run, states),
        margins=margins,
        unsaid=() if any(section["failed"] for section in sections) else ("not_solved",),
    )


def _margins_in_short(levels: Sequence[Mapping[str, Any]], kind: str) -> TextTable:
    """Return the mean margins of areas that have one: public areas, then those of the spine alone."""
    own = {count.name for count in (*PERSON_COUNTS, *UNIT_COUNTS)}  # and not cells of P1 to P5
    public = [row for row in levels if row["of"].islower()]
    cut = {*(level_title(row["of"]) for row in public), "State"}  # levels that the spine cuts by AIAN areas
    rows, number = [], 0
    for row in [*public, *(each for each in levels if each not in public and level_title(each["of"]) not in cut)]:
        errors = [error for name, error in row["mean_with_margin"].items() if name in own]
        if errors:
            numbers = (f"{row[name]:,}" for name in ("geounits", "with_margin"))
            rows.append([level_title(row["of"]), *numbers, margin(Z95 * errors[0]), margin(Z95 * max(errors))])
            number = len(errors)
    total = next(iter(levels[0]["mean_standard_error"]))
    columns = ["area", "areas", "with a margin", f"{count_title(total)}, ±", f"the least certain of {number} counts, ±"]
    notes = [
        "On average over the areas with a margin; those that cut block groups of the spine, and blocks, have none.",
        *(["Block group: of the spine, which makes its own."] if kind == "optimized" else []),
    ]
    return TextTable("In short", columns, rows, notes, words=1)


def _short(run: BlockSource, where: str, manifest: Mapping[str, Any], margins: Mapping[str, Any] | None) -> InShort:
    """Return what was published, and how sure a count is: by margins, or as the allocation was measured."""
    kinds = " and ".join({"persons": "persons", "units": "housing units"}[product] for product in run.design.products)
    published = [
        f"Counts of {kinds} of {where} for redistricting, down to every block. Blocks add up to tracts, counties and "
        "states."
    ]
    if manifest.get("NOT_PRIVATE"):
        return InShort(published, ["The counts are exact."])
    allocation, used = run.design.allocations.get("persons"), production("pl94-persons", "us")
    is_production = allocation and (allocation.source, allocation.budget) == (used.source, used.budget)
    measured = MEASURED.get(run.design.kind)
    sure, table = ["A block’s count is not meant to be used alone: add blocks up."], None
    if margins:
        sure += ["By the normal law, in 95 of 100 runs the estimate is within its margin (±) of the count in records."]
        table = _margins_in_short(margins["mean_standard_error"], run.design.kind)
    elif run.design.estimator == "topdown" and measured and is_production:
        rows = [[area, f"{total:g}", f"{race:g}"] for area, (total, race) in measured.items()]
        columns = ["area", "its population, off by", "persons of voting age of one race, off by"]
        notes = [
            "Mean absolute errors of this allocation, in persons, on made-up persons in the public blocks of Rhode "
            "Island and three draws of the noise. Single errors are larger or smaller; other states differ."
        ]
        sure += [
            "No formula gives the error of this estimator, so no count has a margin of its own; das tda areas gives "
            "intervals for any area from the same noisy answers. In trials on Rhode Island, not on this release:"
        ]
        table = TextTable("In short", columns, rows, notes)
    else:
        sure += ["No formula gives the error of a count. das tda accuracy measures it on marked data of the same kind."]
    return InShort(published, sure, table)


def parts_of_levels(products: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[tuple[float, float]]]]:
    """Return by level what each product allocates to it: budget, and its part of what the product spends."""
    shares = [{level: Fraction(share) for level, share in facts["shares"].items()} for facts in products]
    budgets = [Fraction(facts["budget"]) for facts in products]
    return [
        (
            level,
            [
                (float(budget * of[level]), float(of[level] / sum(of.values())))
                for budget, of in zip(budgets, shares, strict=True)
            ],
        )
        for level in shares[0]
    ]


def _section(product: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a product's geounits, noise and margins by level."""

    def titled(query: str) -> str:
        return "occupied and vacant" if (product, query) == ("units", "detailed") else query_title(query)

    section = describe_section(PRODUCTS[product], product, facts, level_title, titled)
    return section | {
        "errors": _standard_errors(facts["margins"]["mean_standard_error"]) if "margins" in facts else None
    }


def describe_section(
    title: str,
    unit: str,
    facts: Mapping[str, Any],
    level_words: Callable[[str], str],
    query_words: Callable[[str], str],
) -> dict[str, Any]:
    """Return what the page shows of one histogram: geounits, noise, and how parents were solved, by level.

    facts: the manifest's.
    """
    deviations: dict[str, dict[str, float]] = {}
    for row in facts.get("noise", ()):  # shares ascend within a level: that of the largest stays
        deviations.setdefault(row["query"], {})[level_words(row["level"])] = row["variance"] ** 0.5
    levels = [level_words(level) for level in facts["geounits"]]
    return {
        "title": title,
        "unit": unit,
        "levels": levels,
        "deviations": {query_words(query): of_level for query, of_level in deviations.items()},
        "geounits": [*facts["geounits"].values()],
        "solved": {level_words(level): solved for level, solved in facts["solved"].items()},
        "failed": facts["failed"],
    }


def _standard_errors(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the mean standard errors, a row for each count, a column for each level or kind of area."""
    counts = [*rows[0]["mean_standard_error"]][:COUNTED]
    return {
        "levels": rows,
        "spine": sum(1 for row in rows if row["of"][0].isupper()),  # these come first
        "counts": [(count, [row["mean_standard_error"][count] for row in rows]) for count in counts],
    }


def _counts_of_states(run: BlockSource, states: Sequence[str]) -> dict[str, Any]:
    """Return the released counts of each state and, of several, their sum."""
    shown = {
        product: [count for count in SCHEMAS[product].counts if count.quantity in OF_STATES]
        for product in run.design.products
    }
    rows = []
    for state in run.validated.states:
        counts: list[int] = []
        for product, of_product in shown.items():
            roots = load_estimates(run, Branch(product, state), "State")  # several where AIAN areas are apart
            counts += roots.sums(SCHEMAS[product].matrix(of_product)).sum(axis=0).tolist()
        rows.append(counts)
    together = [("all states", np.sum(rows, axis=0).tolist())] if len(rows) > 1 else []
    names = [count.words for of_product in shown.values() for count in of_product]
    return {"names": names, "rows": [*zip(states, rows, strict=True), *together]}
