"""What a release states, and its report.html, without exact counts of persons.

The report is one offline page for a review board, with charts. It shows the content of the manifest only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from privacy.accounting.composition import Spend
from privacy.estimation.allocation import sex_margin
from spine.settings import Jurisdiction
from tasks.geography.names import coverage, states_of_nation, title_of_states
from tasks.releases.manifest import GUARANTEE, spend_of
from tasks.releases.pages.dots import Series, dots
from tasks.releases.pages.text_table import TextTable
from tasks.releases.report import IN_WORDS, InShort, write_report
from tasks.safetab.domain import Domain, equalities, load_domain
from tasks.safetab.levels import Level, named_level
from tasks.safetab.manifest import MARGINS, names_of_states, noise_facts, notes_of_coterminous
from tasks.safetab.noise import LevelQueries, load_queries, noisy_queries
from tasks.safetab.persons.details import AGES, AGES_NAMES, BY_AGE, CELLS_OF, DETAILS, FINEST, SHAPES, query_of
from tasks.safetab.persons.estimate_tables import ancestors, critical_values, load_estimators
from tasks.safetab.persons.run import PERSONS, DetailedRun, SafeTabPConfiguration
from tasks.safetab.persons.suppression import suppression_threshold

STATEMENTS = {
    "guarantee": GUARANTEE,
    "margins": f"{MARGINS}, before suppression and clipping. It is that of all noisy counts, published or not: of "
    "small groups those with high noise are published more often.",
    "clipping": "Where negative counts are not allowed each published count is clipped after all sums, so a T1 count "
    "may differ from the sum of its T2 cells.",
}
OF_ESTIMATES = {
    "estimates": "An estimate combines the two noisy answers that the mechanism gave of a group, at no further loss. "
    "Given the detail of its table it is unbiased before clipping, whatever the true count (to .002 of the count's "
    "standard deviation; under pure differential privacy to .03), and its margin is of the law of its error before "
    "clipping; given publication it is not. Errors are independent between groups, except coterminous ones and a "
    "regional ethnicity and its parts; within a group they are correlated."
}

RELATIVE = (Fraction(1, 20), Fraction(1, 10), Fraction(1, 5))  # margins as shares of the count
DRAWN = Fraction(1, 10)  # the one of RELATIVE in the picture
MARKS = {"total": "circle", "age4": "ring", "age9": "square", "age23": "diamond"}


def statements_of(*, truth: bool, estimated: bool) -> dict[str, str]:
    """Return the statements of a release in words."""
    return {} if truth else STATEMENTS | (OF_ESTIMATES if estimated else {})


def level_facts(
    configuration: SafeTabPConfiguration, domain: Domain, queries: LevelQueries | None, groups: Sequence[int]
) -> dict[str, Any]:
    """Return the facts of a level: its domain, thresholds, noise, and number of published groups by detail."""
    return {
        "regions": len(domain.region_ids),
        "iterations": len(domain.iterations),
        "groups": domain.groups,
        "thresholds": list(configuration.thresholds[PERSONS][domain.level]),
        "suppressed_up_to": suppression_threshold(configuration, domain.level, queries),
        "groups_published": dict(zip(DETAILS, groups, strict=True)),
        **(noise_facts(queries) if queries else {}),
    }


def estimate_facts(run: DetailedRun, level: Level, dropped: int) -> dict[str, Any]:
    """Return how the estimates of a level were made, and how many of them the ancestor test dropped.

    By detail: the weight of pooling, deviations and margins far from any threshold, and the distance from a threshold
    within which the stage-1 answer is corrected for having chosen the detail.
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


def groups_published(manifest: Mapping[str, Any]) -> TextTable:
    """Return the number of published groups of each level, and of all groups of its domain."""
    rows = [
        [named_level(name).name, f"{sum(level['groups_published'].values()):,}", f"{level['groups']:,}"]
        for name, level in manifest["levels"].items()
    ]
    return TextTable("Groups published", ["population group level", "groups published", "of"], rows)


def write_report_of(run: DetailedRun, jurisdiction: Jurisdiction, out: Path, manifest: dict[str, Any]) -> None:
    """Write OUT/report.html."""
    truth, spend, states = "NOT_PRIVATE" in manifest, spend_of(manifest), names_of_states(run, jurisdiction)
    where = title_of_states(states)
    rows = [
        _row(level, manifest["levels"][str(level)], noisy_queries(run, level), spend)
        | {"estimates": manifest.get("estimates", {}).get(str(level))}
        for level in run.parameters.configuration.levels(jurisdiction)
    ]
    write_report(
        "tasks.safetab.persons",
        out,
        manifest,
        spend,
        f"Detailed DHC-A, {where}",
        _short(rows, where, manifest, truth=truth),
        covers=coverage(states_of_nation(manifest)),
        states=states,
        where=where,
        rows=rows,
        shapes=AGES_NAMES,
        by_age=BY_AGE,
        cells_of=CELLS_OF,
        noise=None if truth else noise_chart(rows),
        sizes=None if truth else size_chart(rows),
        relative=[float(share) for share in RELATIVE],
    )


def _short(rows: Sequence[Mapping[str, Any]], where: str, manifest: Mapping[str, Any], *, truth: bool) -> InShort:
    """Return what was published and, by level, a count's margin and the size from which a total is within a tenth."""
    published = [
        f"Persons of {where} by detailed race, ethnicity or tribe, and by sex and age where a group is large enough: "
        f"{sum(row['published'] for row in rows):,} groups of {sum(row['groups'] for row in rows):,} possible ones.",
        "No figure is published for a block.",
    ]
    if truth:
        return InShort(published, ["The counts are exact."])
    columns = {
        "level": "{name}",
        "groups published": "{published:,}",
        "a count, ±": "{margins[total]:,}",
        f"a total with {AGES_NAMES[FINEST]}, ±": f"{{margins[{FINEST}]:,}}",
        "left out up to": "{left_out}",
        "within 10% from": f"{{sizes[total][{RELATIVE.index(DRAWN)}]:,}}",
    }
    shown = [
        {**row, "left_out": "nothing" if row["suppressed_up_to"] is None else f"{row['suppressed_up_to']:,}"}
        for row in rows
    ]
    notes = [
        "Left out: a group of counties and smaller areas whose noisy total is no larger. Within 10%: the size from "
        "which the margin of a total that is published alone is at most a tenth of it.",
        *notes_of_coterminous(manifest),
    ]
    table = replace(TextTable.filled("In short", columns, shown), notes=notes)
    return InShort(published, [IN_WORDS, "All in persons:"], table)


def _row(level: Level, facts: Mapping[str, Any], queries: LevelQueries | None, spend: Spend | None) -> dict[str, Any]:
    """Return the row of a level: its groups, noise and published counts. Without noise, it has no margins."""
    published = facts["groups_published"]
    noise = facts.get("queries", {})
    budget = Fraction(noise["total_only"]["budget"]) if noise else Fraction(0)
    margins = (
        {name: queries.margin(query_of(SHAPES.index(name)), cells) for name, cells in CELLS_OF.items()}
        if queries
        else {}
    )
    starts = dict(zip(SHAPES, ((facts["suppressed_up_to"] or 0) + 1, *facts["thresholds"]), strict=True))
    return {
        **facts,
        "name": level.name,
        "published": sum(published.values()),
        "by_shape": {name: published[name] for name in SHAPES}
        | {"total": published["total"] + published["total_only"]},
        "total_only": published["total_only"],
        "budget": float(budget),
        "part": float(budget / spend.charged) if spend else None,
        "deviation": {query: law["variance"] ** 0.5 for query, law in noise.items()},
        "margins": margins,
        "step_1": queries.margin("stage_1") if queries else None,
        "sizes": {
            name: [max(ceil(margin / share), starts[name]) for share in RELATIVE] for name, margin in margins.items()
        },
    }


# -- pictures ---------------------------------------------------------------------------------------------------------


def noise_chart(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Draw each level's margins, the sizes at which its tables change, and its suppression threshold."""
    series = {
        "margin of a published count": Series("circle", [row["margins"]["total"] for row in rows]),
        "margin of the first answer": Series("ring", [row["step_1"] for row in rows]),
        "suppressed up to": Series("bar", [row["suppressed_up_to"] for row in rows]),
    } | {
        f"{AGES_NAMES[name]} from": Series(mark, [row["thresholds"][place] for row in rows])
        for place, (name, mark) in enumerate(zip(BY_AGE, ("triangle", "box", "cross"), strict=True))
    }
    return dots(rows, series, "persons (a step to the right is ten times as many)")


def size_chart(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Draw the size from which a group has a table and a total's margin is at most a tenth of it."""
    place = RELATIVE.index(DRAWN)
    series = {
        f"as {AGES_NAMES[name]}": Series(MARKS[name], [row["sizes"][name][place] for row in rows]) for name in SHAPES
    }
    return dots(rows, series, "persons in the group (a step to the right is ten times as many)")
